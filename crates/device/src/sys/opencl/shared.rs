//! Memory that host and device share, byte by byte: fine-grained buffers of OpenCL 2.0 (5.6.1).
//! Each side sees the other's writes once a command is done, and may write other bytes meanwhile.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api::{self, Api, Id, SharedApi, info};
use super::{Context, zeros};
use crate::HostMemory;

/// Boundary of the memory.
const ALIGN: usize = 64;

/// The memory that a context shares.
pub(super) struct Sharing {
    pub(super) api: SharedApi,
    /// Where each memory begins, and its bytes.
    ranges: Mutex<Vec<(usize, usize)>>,
}

impl Sharing {
    /// `None` unless all of `devices` share memory byte by byte.
    pub(super) fn of(api: &Api, devices: &[Id]) -> Option<Self> {
        let shares = devices.iter().all(|&device| is_shared_by(api, device));
        let api = shares.then(SharedApi::load)?.ok()?;
        Some(Self { api, ranges: Mutex::default() })
    }

    /// Whether all of `memory` is shared.
    pub(super) fn has(&self, memory: &dyn HostMemory) -> bool {
        let (start, len) = (memory.base().as_ptr() as usize, memory.len());
        self.ranges().iter().any(|&(own, own_len)| own <= start && start + len <= own + own_len)
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<(usize, usize)>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `device` and the host share memory byte by byte.
pub(super) fn is_shared_by(api: &Api, device: Id) -> bool {
    let kinds = api.number(device, info::SVM_CAPABILITIES);
    kinds & api::SVM_FINE_GRAIN_BUFFER != 0 && api.flag(device, info::HOST_UNIFIED_MEMORY)
}

/// A fine-grained buffer, zeroed, freed when it is dropped.
pub(super) struct SharedMemory {
    context: Arc<Context>,
    base: NonNull<u8>,
    len: usize,
}

impl SharedMemory {
    /// Takes `len` bytes; `None` where there are none.
    pub(super) fn new(context: &Arc<Context>, len: usize) -> Option<Self> {
        let (sharing, len) = (context.sharing.as_ref()?, len.max(1));
        let flags = api::MEM_READ_WRITE | api::MEM_SVM_FINE_GRAIN_BUFFER;
        // SAFETY: the context is valid, and all of its devices have such memory.
        let base = unsafe { (sharing.api.alloc)(context.context, flags, len, ALIGN as u32) };
        let base = NonNull::new(base.cast::<u8>())?;
        let own = Self { context: context.clone(), base, len };
        if !(base.as_ptr() as usize).is_multiple_of(ALIGN) {
            return None;
        }
        ask_for_huge_pages(base, len);
        // SAFETY: `len` bytes that were just allocated, and are not shared yet.
        unsafe { zeros::fill(base, len) };
        sharing.ranges().push((base.as_ptr() as usize, len));
        Some(own)
    }
}

/// Memory of at least this many bytes requests huge pages: it is zeroed sooner, and a lane misses
/// its TLB less.
const HUGE_MIN: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// A refusal costs speed only.
fn ask_for_huge_pages(base: NonNull<u8>, len: usize) {
    if len < HUGE_MIN {
        return;
    }
    let skip = base.as_ptr().align_offset(HUGE_PAGE);
    let pages = len.saturating_sub(skip) / HUGE_PAGE * HUGE_PAGE;
    let from = base.as_ptr().wrapping_add(skip);
    // SAFETY: whole pages within `len` allocated bytes; the advice leaves their content alone.
    let _ = unsafe { libc::madvise(from.cast(), pages, libc::MADV_HUGEPAGE) };
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let Some(sharing) = &self.context.sharing else { return };
        let start = self.base.as_ptr() as usize;
        sharing.ranges().retain(|&(own, _)| own != start);
        // SAFETY: allocated in `new` of this context, freed once. Work in flight keeps the memory
        // by its regions.
        unsafe { (sharing.api.free)(self.context.context, self.base.as_ptr().cast::<c_void>()) }
    }
}

// SAFETY: the memory stays at its address until it is dropped. The host may use it at any time
// (fine-grained), and it is zeroed.
unsafe impl HostMemory for SharedMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the value owns its memory; the trait's methods only return its place.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}
