//! Several descriptors as one, which may change while others wait for it: epoll(7).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that is readable while one of its members is.
pub(crate) struct PollSet(OwnedFd);

impl PollSet {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a call without pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system just opened it, so nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a member, which leaves when it is closed.
    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (set, add) = (self.descriptor(), libc::EPOLL_CTL_ADD);
        // SAFETY: the system reads one event, which outlives the call.
        match unsafe { libc::epoll_ctl(set, add, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
