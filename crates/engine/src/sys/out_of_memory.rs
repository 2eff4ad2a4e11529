//! The end of a program that the system gives no more memory: a message and exit status 1.
//!
//! Rust aborts where an allocation fails that nothing can be done about. The allocator notes on which thread one
//! failed last, and the handler of the signal by which the program aborts looks there: an abort of any other kind is left
//! as it is.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

const MESSAGE: &[u8] = b"error: out of memory: the system gives no more (a limit of `ulimit -v`, or of the machine)\n  \
    fewer `lanes`, smaller tables of functions and a smaller `arena_mib` take less\n";

/// The thread on which an allocation failed last; 0 before the first failure.
static FAILED_ON: AtomicI32 = AtomicI32::new(0);

/// From here on a program that runs out of memory prints a message and ends with status 1.
pub fn end_when_out_of_memory() {
    let handler: extern "C" fn(libc::c_int) = aborted;
    // SAFETY: the action is all zero but for what is set, which is an action; the handler makes calls only that signals may
    // interrupt (write, _exit, raise, gettid).
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND;
        // A refusal leaves the system's own action.
        let _ = libc::sigaction(libc::SIGABRT, &action, ptr::null_mut());
    }
}

/// Notes that an allocation failed on this thread.
#[cold]
pub(super) fn note() {
    FAILED_ON.store(this_thread(), Ordering::Relaxed);
}

fn this_thread() -> i32 {
    // SAFETY: takes nothing and can't fail.
    unsafe { libc::gettid() }
}

extern "C" fn aborted(signal: libc::c_int) {
    // SAFETY: the message is as long as that; the calls may be made in a handler.
    unsafe {
        if FAILED_ON.load(Ordering::Relaxed) == this_thread() {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(1);
        }
        // The system's own action is back already, and comes when this returns.
        libc::raise(signal);
    }
}
