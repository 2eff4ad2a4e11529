//! Ends a program that runs out of memory with a message and exit status 1.
//!
//! Rust aborts if an allocation fails and the code cannot handle it. The allocator records the
//! thread of the last failure. The handler of the abort signal checks that record and leaves any
//! other abort as it is.

use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

const BEGIN: &str = "error: out of memory";
const END: &str = ": the system gives no more (a limit of `ulimit -v`, or of the machine)\n  fewer \
                   `lanes`, smaller tables of functions and a smaller `arena_mib` take less\n";

thread_local! {
    /// The purpose of this thread's allocations: an address and a length in bytes.
    static PURPOSE: Cell<(*const u8, usize)> = const { Cell::new((ptr::null(), 0)) };
}

/// The message names `purpose` if memory runs out while `build` runs on this thread.
pub(crate) fn naming<R>(purpose: &str, build: impl FnOnce() -> R) -> R {
    struct Restore((*const u8, usize));
    impl Drop for Restore {
        fn drop(&mut self) {
            PURPOSE.set(self.0);
        }
    }
    let _restore = Restore(PURPOSE.replace((purpose.as_ptr(), purpose.len())));
    build()
}

/// The thread on which an allocation failed last; 0 before the first failure.
static FAILED_ON: AtomicI32 = AtomicI32::new(0);

/// From here on a program that runs out of memory prints a message and ends with status 1.
pub fn end_when_out_of_memory() {
    let handler: extern "C" fn(libc::c_int) = aborted;
    // SAFETY: the action is all zero except for the fields set here, which is a valid action. The
    // handler makes only calls that are allowed in signal handlers (write, _exit, raise, gettid).
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
    // SAFETY: the parts of the message have the given lengths, the purpose's text lives while
    // `naming` runs, and the calls are allowed in a handler.
    unsafe {
        if FAILED_ON.load(Ordering::Relaxed) == this_thread() {
            let (purpose, len) = PURPOSE.get();
            write(BEGIN.as_ptr(), BEGIN.len());
            if len > 0 {
                let between = " for ";
                write(between.as_ptr(), between.len());
                write(purpose, len);
            }
            write(END.as_ptr(), END.len());
            libc::_exit(1);
        }
        // The system's own action is back already, and comes when this returns.
        libc::raise(signal);
    }
}

/// # Safety
/// There are `len` bytes at `text`.
unsafe fn write(text: *const u8, len: usize) {
    // SAFETY: as the caller promises.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.cast(), len) };
}
