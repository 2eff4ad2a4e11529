//! The user and the capabilities of the process: setresuid(2), capabilities(7), prctl(2).

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;

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

/// Whether the process runs as root.
pub fn is_root() -> bool {
    // SAFETY: it only reads.
    unsafe { libc::geteuid() == 0 }
}

/// Capabilities that a thread keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// To open interfaces: CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, as far as it has them.
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
        const BPF: u32 = 1 << (39 - 32);
        match self {
            Self::OpenInterfaces => [NET_ADMIN | NET_RAW, BPF],
            Self::ResolveNeighbours => [NET_ADMIN, 0],
            Self::None => [0, 0],
        }
    }
}

/// Makes the process that of `user` and its groups. The calling thread may still open interfaces,
/// if it could before; other threads keep no capability.
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
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("a status");
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            (dropped.is_ok(), field("NoNewPrivs:"), field("CapEff:"))
        };
        let (dropped, no_new, effective) = std::thread::spawn(of_thread).join().expect("a thread");
        assert!(dropped && no_new.as_deref() == Some("1"));
        assert!(is_root() || effective.as_deref() == Some("0000000000000000"));
    }
}
