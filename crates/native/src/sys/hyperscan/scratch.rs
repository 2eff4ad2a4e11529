//! Scratch memory: one prototype that fits every database, and a copy for each thread.
//!
//! Compiling a database grows the prototype, and the database notes its generation. A thread whose
//! copy is older than a database that it scans with makes a new copy. When a database goes and the
//! others need less, the prototype is made anew for them, and threads copy that at their next scan.
//! Only these operations lock.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Library, SUCCESS};

static SHARED: Mutex<Shared> =
    Mutex::new(Shared { live: Vec::new(), prototype: None, generation: 0 });

/// The generation of the prototype that last became smaller. An older copy still fits, but is too
/// long.
static SHRUNK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

struct Shared {
    /// Every database.
    live: Vec<Live>,
    /// Fits all of them; none where there are none.
    prototype: Option<Scratch>,
    /// How often the prototype changed.
    generation: u64,
}

/// A database that is whole for as long as it is in the list.
struct Live(NonNull<c_void>);

// SAFETY: the library does not change a database, and this one is only looked at.
unsafe impl Send for Live {}

/// Memory of the library's that one scan at a time uses.
struct Scratch {
    library: &'static Library,
    memory: NonNull<c_void>,
    /// It fits the databases that there were at this generation and that there still are.
    generation: u64,
}

// SAFETY: the memory is plain; the library only requires that no two threads use it at once, which
// ownership ensures.
unsafe impl Send for Scratch {}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: it came from the library and is freed once. No scan runs, as one would borrow it.
        unsafe { (self.library.free_scratch)(self.memory.as_ptr()) };
    }
}

/// Makes the prototype fit `database` as well, and returns the generation since when it does.
/// Returns `None` without memory; the prototype is then unchanged.
///
/// # Safety
///
/// `database` is a database of `library`, and intact until it is passed to [`forget`].
pub(super) unsafe fn fit(library: &'static Library, database: NonNull<c_void>) -> Option<u64> {
    let mut shared = lock();
    let generation = shared.generation + 1;
    let last = match &shared.prototype {
        Some(prototype) => Some(prototype.copy()?),
        None => None,
    };
    // SAFETY: the database is whole.
    let grown = unsafe { Scratch::fitting(library, last, database, generation)? };
    shared.prototype = Some(grown);
    shared.generation = generation;
    shared.live.push(Live(database));
    Some(generation)
}

/// Shrinks the prototype to the databases besides `database`, which was fitted before and may be
/// freed then.
pub(super) fn forget(library: &'static Library, database: NonNull<c_void>) {
    let mut shared = lock();
    shared.live.retain(|live| live.0 != database);
    let generation = shared.generation + 1;
    let fit = |last, live: &Live| {
        // SAFETY: it is whole while it is in the list, which is locked.
        unsafe { Scratch::fitting(library, last, live.0, generation) }.map(Some)
    };
    // Without memory it stays as long as it is.
    let Some(rest) = shared.live.iter().try_fold(None, fit) else { return };
    let len = |scratch: &Option<Scratch>| scratch.as_ref().map_or(0, Scratch::len);
    if len(&rest) < len(&shared.prototype) {
        shared.prototype = rest;
        shared.generation = generation;
        SHRUNK.store(generation, Ordering::Relaxed);
    }
}

/// Runs `scan` with this thread's scratch, which fits the live database that was fitted at
/// `generation`. `None` if a scan of this thread runs already or there is no memory.
#[inline]
pub(super) fn with<R>(generation: u64, scan: impl FnOnce(NonNull<c_void>) -> R) -> Option<R> {
    OWN.with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        let least = generation.max(SHRUNK.load(Ordering::Relaxed));
        if own.as_ref().is_none_or(|scratch| scratch.generation < least) {
            renew(&mut own, generation);
        }
        own.as_ref().map(|scratch| scan(scratch.memory))
    })
}

/// Makes a new copy. Without memory the old one is kept if it fits the databases of `generation`.
#[cold]
fn renew(own: &mut Option<Scratch>, generation: u64) {
    let copied = lock().prototype.as_ref().and_then(Scratch::copy);
    if copied.is_some() {
        *own = copied;
    } else if own.as_ref().is_some_and(|scratch| scratch.generation < generation) {
        *own = None;
    }
}

/// Bytes of the prototype, and of this thread's copy.
pub(super) fn lens() -> [usize; 2] {
    let prototype = lock().prototype.as_ref().map_or(0, Scratch::len);
    let own = OWN.with(|own| Some(own.try_borrow().ok()?.as_ref()?.len()));
    [prototype, own.unwrap_or(0)]
}

fn lock() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scratch {
    /// Scratch memory that fits `last` and `database`; `None` without memory.
    ///
    /// # Safety
    ///
    /// `database` is a database of `library`, and whole.
    unsafe fn fitting(
        library: &'static Library,
        last: Option<Self>,
        database: NonNull<c_void>,
        generation: u64,
    ) -> Option<Self> {
        let mut memory = last.map_or(null_mut(), Self::into_memory);
        // SAFETY: as this function's; the memory is null or scratch that is not shared. Scratch
        // that can't be extended is freed and replaced by null.
        let status = unsafe { (library.alloc_scratch)(database.as_ptr(), &mut memory) };
        let made = Self { library, memory: NonNull::new(memory)?, generation };
        (status == SUCCESS).then_some(made)
    }

    fn copy(&self) -> Option<Self> {
        let mut copied = null_mut();
        // SAFETY: this is scratch of the library, which only its owner uses and which is borrowed
        // here.
        let status = unsafe { (self.library.clone_scratch)(self.memory.as_ptr(), &mut copied) };
        let memory = NonNull::new(copied).filter(|_| status == SUCCESS)?;
        Some(Self { memory, ..*self })
    }

    fn len(&self) -> usize {
        let mut len = 0;
        // SAFETY: this is scratch of the library, borrowed here; the length is written to a local.
        match unsafe { (self.library.scratch_size)(self.memory.as_ptr(), &mut len) } {
            SUCCESS => len,
            _ => 0,
        }
    }

    fn into_memory(self) -> *mut c_void {
        let memory = self.memory.as_ptr();
        core::mem::forget(self);
        memory
    }
}
