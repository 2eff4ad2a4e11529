//! Restores the program's signal handlers. Compilers inside OpenCL drivers replace them when they
//! start, and end the program on some signals that it uses.

use core::mem::MaybeUninit;

/// Every signal except the two that cannot be caught.
const SIGNALS: core::ops::Range<libc::c_int> = 1..32;

/// Does `work`, and puts back what is done on signals as it was before.
pub(crate) fn keeping<T>(work: impl FnOnce() -> T) -> T {
    let before: Vec<_> = SIGNALS.map(|signal| (signal, of(signal))).collect();
    let result = work();
    for (signal, action) in before {
        if let Some(action) = action {
            // SAFETY: the action is one that the system returned for this signal; the old one is
            // not requested.
            unsafe { libc::sigaction(signal, &action, core::ptr::null_mut()) };
        }
    }
    result
}

/// The action for `signal`; `None` if the system doesn't return it.
fn of(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: no new action is given; the old one is written to memory of its size.
    let answer = unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: a call that succeeded has written it.
    (answer == 0).then(|| unsafe { action.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_handlers_of_a_library_are_removed() {
        // A signal that nothing here uses.
        let signal = libc::SIGWINCH;
        let before = of(signal).expect("an action").sa_sigaction;
        keeping(|| {
            // SAFETY: to ignore a signal touches no memory.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
            assert_eq!(of(signal).expect("an action").sa_sigaction, libc::SIG_IGN);
        });
        assert_eq!(of(signal).expect("an action").sa_sigaction, before);
    }
}
