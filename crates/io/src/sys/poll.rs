//! Waiting for descriptors: ppoll(2).

use core::ptr;
use core::time::Duration;
use std::os::fd::RawFd;

/// Most descriptors that are waited for together: one for each port of a chain.
const FDS_MAX: usize = 64;

/// Waits until one of `fds` is readable or reports an error, or a signal arrives, at most `limit`.
/// Only the first 64 descriptors count. Returns whether one has an error.
pub fn wait_readable(fds: &[RawFd], limit: Duration) -> bool {
    let none = libc::pollfd { fd: -1, events: 0, revents: 0 };
    let mut polled = [none; FDS_MAX];
    for (slot, fd) in polled.iter_mut().zip(fds) {
        *slot = libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    }
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let count = fds.len().min(FDS_MAX) as libc::nfds_t;
    // SAFETY: `polled` has at least `count` entries that the system may write to, and `limit` is
    // whole. There is no mask of signals. Descriptors that are closed are reported, not used.
    let found = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const limit, ptr::null()) };
    found > 0 && polled.iter().any(|polled| polled.revents & !libc::POLLIN != 0)
}
