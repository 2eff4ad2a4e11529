//! A thread's place behind those that move packets.

/// Puts the calling thread behind all others when cores are short: for work that may take its time beside
/// lanes, such as building tables. Says whether the system agreed.
pub fn stand_back() -> bool {
    const LEAST: i32 = 19;
    // SAFETY: a system call with numbers alone; on Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) == 0 }
}
