//! Low priority for threads that work beside lanes.

/// Gives the calling thread the lowest priority, for work beside lanes that may take its time, such
/// as building tables. Returns whether the system agreed.
pub fn stand_back() -> bool {
    const LEAST: i32 = 19;
    // SAFETY: a system call with numbers alone; on Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) == 0 }
}
