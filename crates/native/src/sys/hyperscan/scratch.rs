//! Scratch memory: one prototype that fits every database there has been, and a copy for each thread.
//!
//! A database has the prototype grown when it is compiled, and notes how often that was done by then. A thread whose
//! copy is older than a database that it scans with makes a new one; that is the only time at which it locks.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

use super::{Library, SUCCESS};

static PROTOTYPE: Mutex<Option<Scratch>> = Mutex::new(None);

thread_local! {
    static OWN: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

/// Memory of the library's that one scan at a time uses.
struct Scratch {
    library: &'static Library,
    memory: NonNull<c_void>,
    /// Databases that it fits: all up to this one.
    generation: u64,
}

// SAFETY: the memory is plain; the library asks only that no two threads use it at once, which owning it forbids.
unsafe impl Send for Scratch {}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: it came from the library, is freed once, and no scan runs, as one would borrow it.
        unsafe { (self.library.free_scratch)(self.memory.as_ptr()) };
    }
}

/// Has the prototype fit `database` as well, and gives the generation since when it does; `None` without memory, and
/// then the prototype stays as it was.
///
/// # Safety
///
/// `database` is a database of `library`.
pub(super) unsafe fn fit(library: &'static Library, database: NonNull<c_void>) -> Option<u64> {
    let mut prototype = PROTOTYPE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut memory, generation) = match &*prototype {
        Some(scratch) => (scratch.copy()?.into_memory(), scratch.generation + 1),
        None => (null_mut(), 1),
    };
    // SAFETY: the database is whole; the memory is null or scratch that nobody else knows. Scratch that can't be made
    // longer is freed, and null put in its place.
    let status = unsafe { (library.alloc_scratch)(database.as_ptr(), &mut memory) };
    let grown = Scratch { library, memory: NonNull::new(memory)?, generation };
    (status == SUCCESS).then(|| prototype.insert(grown).generation)
}

/// Runs `scan` with this thread's scratch, which fits databases up to `generation`. `None` where a scan of this thread
/// runs already or there is no memory.
#[inline]
pub(super) fn with<R>(generation: u64, scan: impl FnOnce(NonNull<c_void>) -> R) -> Option<R> {
    OWN.with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        if own.as_ref().is_none_or(|scratch| scratch.generation < generation) {
            *own = Some(copy()?);
        }
        own.as_ref().map(|scratch| scan(scratch.memory))
    })
}

#[cold]
fn copy() -> Option<Scratch> {
    PROTOTYPE.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.copy()
}

impl Scratch {
    fn copy(&self) -> Option<Self> {
        let mut copied = null_mut();
        // SAFETY: this is scratch of the library, which only its owner uses and which is borrowed here.
        let status = unsafe { (self.library.clone_scratch)(self.memory.as_ptr(), &mut copied) };
        let memory = NonNull::new(copied).filter(|_| status == SUCCESS)?;
        Some(Self { memory, ..*self })
    }

    fn into_memory(self) -> *mut c_void {
        let memory = self.memory.as_ptr();
        core::mem::forget(self);
        memory
    }
}
