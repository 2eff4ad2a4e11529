//! Host pages that the driver locked, so that copies don't wait and kernels reach them.
//!
//! A driver locks a page once, for all contexts, and refuses to do so again. So all devices with
//! the same memory share one registration, and each queries its own address of it. Copies of memory
//! that can't be locked go through memory that the driver locks (`staging.rs`). If it has none,
//! submitting waits for them.

use core::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::api;
use super::context::Context;
use super::retired::Item;
use crate::sys::host_memory::Registration;
use crate::{Failure, HostMemory, Region};

/// Memory that is locked, and for how many regions.
struct Locked {
    base: usize,
    len: usize,
    uses: usize,
    /// Its thread is about to unlock it.
    is_going: bool,
    /// By which it was locked.
    context: Arc<Context>,
    /// Kept as long as it is locked.
    memory: Arc<dyn HostMemory>,
}

static LOCKED: Mutex<Vec<Locked>> = Mutex::new(Vec::new());
/// Something was unlocked.
static UNLOCKED: Condvar = Condvar::new();

fn locked() -> MutexGuard<'static, Vec<Locked>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device's knowledge of host memory.
pub(super) struct RegisteredPages {
    base: usize,
    /// `Err`: the driver refused, for this reason.
    is_locked: Result<(), String>,
    /// The device's, and where its kernels find the memory.
    context: Arc<Context>,
    address: Option<u64>,
}

impl RegisteredPages {
    /// Locks `memory`, or takes part in its being locked. `is_mapped`: kernels of the device reach
    /// such.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) fn new(
        context: &Arc<Context>,
        memory: Arc<dyn HostMemory>,
        is_mapped: bool,
    ) -> Result<Self, Failure> {
        let base = memory.base().as_ptr() as usize;
        let mut own = Self { base, is_locked: Ok(()), context: context.clone(), address: None };
        match lock(context, memory) {
            Ok(()) if is_mapped => own.address = address_of(context, base),
            Ok(()) => {}
            Err(why @ Failure::Lost(_)) => {
                own.is_locked = Err(why.to_string());
                return Err(why);
            }
            Err(why) => own.is_locked = Err(why.to_string()),
        }
        Ok(own)
    }

    /// Where kernels in `context` find it.
    pub(super) fn address_in(&self, context: &Arc<Context>) -> Option<u64> {
        self.address.filter(|_| Arc::ptr_eq(&self.context, context))
    }

    /// Whether a driver locked the pages of `region`.
    pub(super) fn has_locked(region: &Region) -> bool {
        let pages: Option<&Self> = region.registered_as();
        pages.is_some_and(|pages| pages.is_locked.is_ok())
    }
}

impl Registration for RegisteredPages {
    fn shortcoming(&self) -> Option<String> {
        let why = self.is_locked.as_ref().err()?;
        Some(format!(
            "its pages can't be locked ({why}), so all copies of them pass through other memory"
        ))
    }
}

impl Drop for RegisteredPages {
    fn drop(&mut self) {
        if self.is_locked.is_err() {
            return;
        }
        let mut all = locked();
        let Some(own) = all.iter_mut().find(|one| one.base == self.base) else { return };
        own.uses -= 1;
        let unused = (own.uses == 0).then(|| (Arc::clone(&own.context), own.len));
        drop(all);
        if let Some((context, bytes)) = unused {
            context.retired.push(&context, Item::Pages { base: self.base, bytes });
        }
    }
}

fn lock(context: &Arc<Context>, memory: Arc<dyn HostMemory>) -> Result<(), Failure> {
    let (base, len) = (memory.base().as_ptr() as usize, memory.len());
    let mut all = locked();
    while all.iter().any(|one| one.base == base && one.is_going) {
        all = UNLOCKED.wait(all).unwrap_or_else(PoisonError::into_inner);
    }
    if let Some(own) = all.iter_mut().find(|one| (one.base, one.len) == (base, len)) {
        own.uses += 1;
        return Ok(());
    }
    // SAFETY: the list keeps the memory until it is unlocked.
    context.call(|driver| unsafe {
        (driver.register)(memory.base().as_ptr().cast(), len, api::REGISTER_PORTABLE_MAPPED)
    })?;
    let context = Arc::clone(context);
    all.push(Locked { base, len, uses: 1, is_going: false, context, memory });
    Ok(())
}

/// Where kernels of the context's device find locked memory, if they do.
fn address_of(context: &Context, base: usize) -> Option<u64> {
    let mut there = 0;
    let base = core::ptr::with_exposed_provenance_mut::<c_void>(base);
    // SAFETY: one address is written; an error for memory that is not mapped.
    let found = context.call(|driver| unsafe { (driver.device_pointer)(&mut there, base, 0) });
    found.ok().map(|()| there)
}

/// Unlocks pages if no region uses them, on the thread of retired things of `context`.
pub(super) fn unlock(context: &Context, base: usize) {
    let mut all = locked();
    let Some(own) = all.iter_mut().find(|one| one.base == base && one.uses == 0 && !one.is_going)
    else {
        return;
    };
    own.is_going = true;
    drop(all);
    let lost = || Failure::Lost("no call ends".into());
    let at = core::ptr::with_exposed_provenance_mut::<c_void>(base);
    let unlocked = match context.is_lost() {
        true => Err(lost()),
        // SAFETY: it was locked once and is unlocked once: `is_going` was false.
        false => context.call(|driver| unsafe { (driver.unregister)(at) }),
    };
    let mut all = locked();
    if let Some(at) = all.iter().position(|one| one.base == base) {
        let gone = all.swap_remove(at);
        if unlocked.is_err() {
            // The device may still write there.
            core::mem::forget(gone.memory);
        }
    }
    drop(all);
    UNLOCKED.notify_all();
}
