//! The user and the capabilities of the process: setresuid(2), capabilities(7), prctl(2).

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_char, gid_t, uid_t};

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: CString,
    uid: uid_t,
    gid: gid_t,
}

impl User {
    /// The user called `name`, if there is one.
    ///
    /// # Errors
    /// The system's.
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        let name = CString::new(name)?;
        let mut buffer: Vec<c_char> = vec![0; 1 << 14];
        let mut found = ptr::null_mut();
        // SAFETY: the structure is plain; all zero is a valid one.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are to values of this function, and the length is the buffer's.
        let outcome = unsafe {
            let (text, len) = (buffer.as_mut_ptr(), buffer.len());
            libc::getpwnam_r(name.as_ptr(), &mut entry, text, len, &mut found)
        };
        match outcome {
            0 if found.is_null() => Ok(None),
            0 => Ok(Some(Self { name, uid: entry.pw_uid, gid: entry.pw_gid })),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The user's and the group's number.
    pub fn ids(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// The name.
    pub fn name(&self) -> &CStr {
        &self.name
    }
}

/// Whether the process may read `path`: access(2). It opens nothing, so a pipe does not wait.
///
/// # Errors
/// The system's, as for a file without read permission.
pub fn check_readable(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the text ends with a zero.
    let outcome = unsafe { libc::access(path.as_ptr(), libc::R_OK) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the process runs as root.
pub fn is_root() -> bool {
    // SAFETY: it only reads.
    unsafe { libc::geteuid() == 0 }
}

/// Capabilities that a thread keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// To open interfaces: CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK for the memory of
    /// AF_XDP sockets, as far as it has them.
    OpenInterfaces,
    /// To make the kernel resolve neighbours: CAP_NET_ADMIN.
    ResolveNeighbours,
    /// None.
    None,
}

impl Rights {
    /// Sets with their bits (`linux/capability.h`).
    fn masks(self) -> [u32; 2] {
        const NET_ADMIN: u32 = 1 << 12;
        const NET_RAW: u32 = 1 << 13;
        const IPC_LOCK: u32 = 1 << 14;
        const BPF: u32 = 1 << (39 - 32);
        match self {
            Self::OpenInterfaces => [NET_ADMIN | NET_RAW | IPC_LOCK, BPF],
            Self::ResolveNeighbours => [NET_ADMIN, 0],
            Self::None => [0, 0],
        }
    }
}

/// Makes the process that of `user` and its groups. The calling thread may still open interfaces,
/// if it could before. For other threads see [`give_up_in_other_threads`].
///
/// # Errors
/// The process may not do that: it needs root, or CAP_SETUID and CAP_SETGID.
pub fn become_user(user: &User) -> io::Result<()> {
    set(libc::PR_SET_KEEPCAPS, 1)?;
    // The C library changes all threads.
    // SAFETY: the name is a string, and the calls change the process's identity only.
    unsafe {
        check(libc::initgroups(user.name.as_ptr(), user.gid))?;
        check(libc::setresgid(user.gid, user.gid, user.gid))?;
        check(libc::setresuid(user.uid, user.uid, user.uid))?;
    }
    set(libc::PR_SET_KEEPCAPS, 0)?;
    // Otherwise the process could not read its own folder in /proc.
    set(libc::PR_SET_DUMPABLE, 1)?;
    keep(Rights::OpenInterfaces)
}

/// Gives up all other capabilities of the calling thread, and of threads that it starts later,
/// unless it is root. No program that it starts gains any.
///
/// # Errors
/// The system's.
pub fn keep(rights: Rights) -> io::Result<()> {
    set(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    if is_root() {
        return Ok(());
    }
    // Older kernels have no ambient ones.
    let _ = set(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    let (header, mut sets) = (Header { version: CAPABILITIES_V3, thread: 0 }, [Sets::default(); 2]);
    // SAFETY: version 3 has a header and two sets.
    check(unsafe { libc::syscall(libc::SYS_capget, &header, &mut sets) } as i32)?;
    let masks = rights.masks();
    let kept: [Sets; 2] = std::array::from_fn(|at| {
        let permitted = sets[at].permitted & masks[at];
        Sets { effective: permitted, permitted, inheritable: 0 }
    });
    // SAFETY: the same.
    check(unsafe { libc::syscall(libc::SYS_capset, &header, &kept) } as i32)
}

/// How long all other threads may take to give up their capabilities.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Does for all other threads of the process as [`keep`] with [`Rights::None`] does for its own:
/// drivers of devices start some early. Returns how many did not answer, since they block all
/// signals.
///
/// # Errors
/// The system's; `/proc` must be there.
pub fn give_up_in_other_threads() -> io::Result<usize> {
    // SAFETY: it only reads.
    let own = unsafe { libc::gettid() };
    let signal = catch_free_signal()?;
    let (started, mut asked) = (Instant::now(), HashSet::new());
    loop {
        let left = with_rights(own)?;
        if left.is_empty() || started.elapsed() > PATIENCE {
            return Ok(left.len());
        }
        for thread in left {
            if asked.insert(thread) {
                // A thread may have ended.
                // SAFETY: the signal has a handler, which only gives up rights.
                let _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The other threads that may gain rights, or have some without being root.
fn with_rights(own: i32) -> io::Result<Vec<i32>> {
    let is_root = is_root();
    let mut left = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let number = task.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number != own) else { continue };
        // A thread may have ended.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let has_none = field("CapPrm:").is_some_and(|set| set.bytes().all(|digit| digit == b'0'));
        if field("NoNewPrivs:") != Some("1") || !(is_root || has_none) {
            left.push(number);
        }
    }
    Ok(left)
}

/// Gives a signal that has no handler one that gives up the rights of the thread it interrupts. It
/// stays, since a thread may be interrupted late.
fn catch_free_signal() -> io::Result<i32> {
    for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
        // SAFETY: the structure is plain; all zero is a valid one.
        let (mut was, mut new): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        // SAFETY: it only reads the handler.
        check(unsafe { libc::sigaction(signal, ptr::null(), &mut was) })?;
        let handler: extern "C" fn(i32) = give_up;
        if was.sa_sigaction != libc::SIG_DFL && was.sa_sigaction != handler as usize {
            continue;
        }
        (new.sa_sigaction, new.sa_flags) = (handler as usize, libc::SA_RESTART | libc::SA_ONSTACK);
        // SAFETY: the handler makes system calls only, and keeps the thread's error number.
        unsafe {
            libc::sigfillset(&mut new.sa_mask);
            check(libc::sigaction(signal, &new, ptr::null_mut()))?;
        }
        return Ok(signal);
    }
    Err(io::Error::other("no signal is free"))
}

extern "C" fn give_up(_: i32) {
    // SAFETY: each thread has an error number of its own.
    let number = unsafe { libc::__errno_location() };
    // SAFETY: the same.
    let before = unsafe { *number };
    // A thread that kept some is found by its status.
    let _ = keep(Rights::None);
    // SAFETY: the same.
    unsafe { *number = before };
}

const CAPABILITIES_V3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn set(option: i32, value: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: these options take numbers.
    check(unsafe { libc::prctl(option, value, zero, zero, zero) })
}

fn check(outcome: i32) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name() {
        let root = User::named("root").expect("an answer").expect("root");
        assert_eq!((root.ids(), root.name()), ((0, 0), c"root"));
        assert_eq!(User::named("no-such-user-here").expect("an answer"), None);
        assert!(User::named("a\0b").is_err());
    }

    #[test]
    fn capabilities_are_given_up() {
        // A thread of its own: others of the test go on as they are.
        let of_thread = || {
            let dropped = keep(Rights::None);
            let status = fs::read_to_string("/proc/thread-self/status").expect("a status");
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            (dropped.is_ok(), field("NoNewPrivs:"), field("CapEff:"))
        };
        let (dropped, no_new, effective) = thread::spawn(of_thread).join().expect("a thread");
        assert!(dropped && no_new.as_deref() == Some("1"));
        assert!(is_root() || effective.as_deref() == Some("0000000000000000"));
    }

    #[test]
    fn other_threads_give_up_capabilities_wherever_they_wait() {
        let own = "other_threads_give_up_capabilities_wherever_they_wait";
        // All threads change: a process of its own keeps other tests as they are.
        if std::env::var_os("OWN_PROCESS").is_none() {
            let program = std::env::current_exe().expect("a program");
            let mut test = std::process::Command::new(program);
            let ended = test.args([own, "--test-threads=2"]).env("OWN_PROCESS", "1").output();
            let ended = ended.expect("a process");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
            return;
        }
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let waits = thread::spawn(move || ends.recv().is_ok());
        // SAFETY: it only reads.
        let me = unsafe { libc::gettid() };
        assert!(!with_rights(me).expect("threads").is_empty(), "it runs beside others");
        assert_eq!(give_up_in_other_threads().expect("an answer"), 0);
        assert_eq!(give_up_in_other_threads().expect("an answer"), 0, "also once more");
        assert!(with_rights(me).expect("threads").is_empty());
        assert!(!waits.is_finished(), "it waits as before");
        drop(end);
        assert!(!waits.join().expect("a thread"));
    }
}
