//! The writing end of a pipe: poll(2), fcntl(2).

use core::ffi::c_int;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Waits until `bell` is readable or all readers of `pipe` have left, at most `limit`. Returns
/// whether they have left.
pub(crate) fn wait_for_pipe(bell: &impl AsRawFd, pipe: Option<&File>, limit: Duration) -> bool {
    // The system skips a negative descriptor. Of a pipe it reports errors alone: a device that is
    // always readable would end each wait.
    let pipe = pipe.map_or(-1, AsRawFd::as_raw_fd);
    let mut polled = [
        libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: pipe, events: 0, revents: 0 },
    ];
    let limit = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: the system may write to the two entries.
    let found = unsafe { libc::poll(polled.as_mut_ptr(), 2, limit) };
    found > 0 && polled[1].revents != 0
}

/// Makes writes to `pipe` wait for room.
pub(crate) fn set_waiting(pipe: &File) -> io::Result<()> {
    let fd = pipe.as_raw_fd();
    // SAFETY: the call takes no pointer.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
