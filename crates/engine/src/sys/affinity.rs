//! The cores that threads may run on: sched_setaffinity(2).

use std::fs;
use std::io;
use std::mem::size_of;

use libc::{CPU_ISSET, CPU_SET, cpu_set_t, pid_t};

use crate::CORE_MAX;

/// Has the calling thread run on `core` and on no other.
///
/// # Errors
/// The system's: there is no such core, or the process may not use it.
pub(crate) fn pin(core: u16) -> io::Result<()> {
    set(CALLING, &[core])
}

/// The cores that the calling thread may run on, in ascending order. Empty if the system doesn't
/// report them, as with more than 1024 cores.
pub fn allowed() -> Vec<u16> {
    get(CALLING)
}

/// Keeps all threads of the process, and threads that they start later, off `cores`. Lanes that are
/// put on a core are the exception. A thread that would have no core left keeps the ones it has.
pub fn leave(cores: &[u16]) {
    if cores.is_empty() {
        return;
    }
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    // Without /proc, at least the calling one.
    for thread in threads.chain([CALLING]) {
        if let Some(rest) = rest(get(thread), cores) {
            // A thread that has ended meanwhile is on no core.
            let _ = set(thread, &rest);
        }
    }
}

/// The cores of `had` without `cores`; `None` if that is no change or nothing is left.
fn rest(had: Vec<u16>, cores: &[u16]) -> Option<Vec<u16>> {
    let count = had.len();
    let rest: Vec<u16> = had.into_iter().filter(|core| !cores.contains(core)).collect();
    (!rest.is_empty() && rest.len() < count).then_some(rest)
}

/// The calling thread, as the system calls it.
const CALLING: pid_t = 0;

fn set(thread: pid_t, cores: &[u16]) -> io::Result<()> {
    let mut mask = no_cores();
    for core in cores {
        // SAFETY: the mask is whole; one beyond its end would be a panic.
        unsafe { CPU_SET(usize::from(*core), &mut mask) };
    }
    // SAFETY: the system reads a whole mask, of the length passed with it.
    match unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), &mask) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn get(thread: pid_t) -> Vec<u16> {
    let mut mask = no_cores();
    // SAFETY: the system writes to a whole mask, not beyond the length passed with it.
    let outcome = unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &mut mask) };
    // SAFETY: the mask is whole, and holds a bit for each of these.
    let is_set = |core: &u16| unsafe { CPU_ISSET(usize::from(*core), &mask) };
    if outcome == 0 { (0..=CORE_MAX).filter(is_set).collect() } else { Vec::new() }
}

fn no_cores() -> cpu_set_t {
    // SAFETY: it is an array of bits; all zero is a mask without cores.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_cores_are_a_subset() {
        for (had, cores, left) in [
            (&[0, 1, 2, 3][..], &[1, 3][..], Some(vec![0, 2])),
            (&[0, 1], &[1, 7], Some(vec![0])),
            (&[4, 6], &[6], Some(vec![4])),
            // Nothing to change.
            (&[0, 1], &[7], None),
            (&[0], &[], None),
            // Nothing left.
            (&[0], &[0], None),
            (&[2, 3], &[1, 2, 3], None),
            (&[], &[0], None),
        ] {
            assert_eq!(rest(had.to_vec(), cores), left, "{had:?} without {cores:?}");
        }
    }

    #[test]
    fn a_pinned_thread_says_so() {
        let before = allowed();
        assert!(!before.is_empty(), "it runs somewhere");
        for core in &before {
            let core = *core;
            let pinned = std::thread::spawn(move || pin(core).map(|()| allowed()));
            assert_eq!(pinned.join().expect("a thread").expect("its core"), [core]);
        }
        assert_eq!(allowed(), before);
    }
}
