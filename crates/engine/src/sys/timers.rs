//! How exactly threads wake from a sleep.

/// Makes sleeps of the calling thread end on time. By default Linux may add 50 us.
pub(crate) fn wake_on_time() {
    const SLACK_NS: libc::c_ulong = 1000;
    // SAFETY: a call with numbers alone, about the calling thread. If it fails, nothing changes.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) };
}
