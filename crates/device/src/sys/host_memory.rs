//! Host memory that devices copy from and to.
//!
//! A [`Region`] is memory that a device knows; a [`Piece`] is the right to a range of it. Only the
//! holder of the piece accesses the range: the program through `&` and `&mut`, or a stream, which
//! takes pieces with its work and returns them when it is done. So nothing is read while a device
//! writes it, and no memory is freed during a copy.

use core::any::Any;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::slice;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;

use crate::Failure;

/// Memory that a region is made of.
///
/// # Safety
/// `base()..base() + len()` must stay valid for reads and writes at a fixed address while the value
/// lives, and be initialised.
pub unsafe trait HostMemory: Send + Sync {
    /// The first byte.
    fn base(&self) -> NonNull<u8>;
    /// How many bytes.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory from the program's allocator: whole pages, zeroed.
struct HeapPages {
    block: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    len: usize,
}

const PAGE: usize = 4096;
/// Bytes from which on memory is zeroed when it is first touched.
const LAZY_MIN: usize = 1 << 20;

impl HeapPages {
    fn new(len: usize) -> Result<Self, Failure> {
        let none = || Failure::OutOfMemory { wanted: len, free: None };
        // Whole pages: a device registers no less.
        let len = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(none)?;
        // Large ones are aligned here, because the allocator would write zeroes to memory that it
        // aligns. This way pages come zeroed from the system when they are first touched. Small
        // ones keep their exact end, so that sanitizers see it.
        let (room, align) = if len < LAZY_MIN { (0, PAGE) } else { (PAGE, 1) };
        let with_room = len.checked_add(room).ok_or_else(none)?;
        let layout = Layout::from_size_align(with_room, align).map_err(|_| none())?;
        // SAFETY: the layout's size is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        let skip = block.as_ptr().align_offset(PAGE).min(PAGE);
        // SAFETY: zero if the block is aligned, otherwise less than a page, which the block has
        // beyond `len`.
        let base = unsafe { block.add(skip) };
        Ok(Self { block, layout, base, len })
    }
}

impl Drop for HeapPages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

// SAFETY: the block is this value's own until it is dropped, never moved, and zeroed at the start.
unsafe impl HostMemory for HeapPages {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the value owns its block; the trait's methods only return its place.
unsafe impl Send for HeapPages {}
// SAFETY: as above.
unsafe impl Sync for HeapPages {}

/// A device's data for memory registered with it, until the region is dropped, such as locked
/// pages.
pub(crate) trait Registration: Any + Send + Sync {
    /// Why it is less than was asked for, if it is.
    fn shortcoming(&self) -> Option<String> {
        None
    }
}

/// Host memory known to a device. Copies share it; it is freed when the last of them and of its
/// pieces is dropped.
#[derive(Clone)]
pub struct Region {
    // Before `memory`: a registration ends while the memory is still there.
    registration: Option<Arc<dyn Registration>>,
    memory: Arc<dyn HostMemory>,
    reach: Reach,
}

/// Which device's kernels reach all of a region, and how. The region is registered with that
/// device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    NoDevice,
    /// That of this number, over the bus.
    Mapped(u64),
    /// That of this number, where it lies.
    InPlace(u64),
}

impl Region {
    pub(crate) fn new(
        memory: Arc<dyn HostMemory>,
        registration: Option<Arc<dyn Registration>>,
    ) -> Self {
        Self { registration, memory, reach: Reach::NoDevice }
    }

    /// The same, in which kernels of the device of this number work where it lies.
    pub(crate) fn in_place_for(self, device: u64) -> Self {
        Self { reach: Reach::InPlace(device), ..self }
    }

    /// The same, which kernels of the device of this number reach over the bus.
    pub(crate) fn mapped_for(self, device: u64) -> Self {
        Self { reach: Reach::Mapped(device), ..self }
    }

    /// Whether kernels of its device work in it where it lies ([`crate::Argument::InPlace`]).
    pub fn is_in_place(&self) -> bool {
        matches!(self.reach, Reach::InPlace(_))
    }

    /// Whether kernels of its device reach all of it, over the bus or directly
    /// ([`crate::Argument::Mapped`]).
    pub fn is_mapped(&self) -> bool {
        self.reach != Reach::NoDevice
    }

    /// Whether kernels of the device of this number work in it where it lies.
    pub(crate) fn is_in_place_for(&self, device: u64) -> bool {
        self.reach == Reach::InPlace(device)
    }

    /// Whether kernels of the device of this number reach all of it.
    pub(crate) fn is_mapped_for(&self, device: u64) -> bool {
        self.reach == Reach::Mapped(device) || self.is_in_place_for(device)
    }

    /// Why its device can do less with it than with other memory, in words that follow the region's
    /// name, if that is so.
    pub fn shortcoming(&self) -> Option<String> {
        self.registration.as_ref()?.shortcoming()
    }

    /// Its device's data for it, if that is a `T`.
    pub(crate) fn registered_as<T: Registration>(&self) -> Option<&T> {
        let registration: &dyn Any = self.registration.as_deref()?;
        registration.downcast_ref()
    }

    /// Its first byte. Users of the pointer keep to pieces that they have.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The right to `range`; `None` if it is not within the region.
    ///
    /// # Safety
    /// Until the piece is dropped, nothing else accesses a byte of the range, by another piece or
    /// otherwise.
    pub unsafe fn piece(&self, range: Range<usize>) -> Option<Piece> {
        let fits = range.start <= range.end && range.end <= self.len();
        fits.then(|| Piece {
            region: self.clone(),
            start: range.start,
            len: range.end - range.start,
        })
    }

    /// New zeroed memory of at least `len` bytes that a device may register.
    pub(crate) fn pages(len: usize) -> Result<Arc<dyn HostMemory>, Failure> {
        Ok(Arc::new(HeapPages::new(len)?))
    }

    /// The right to all of a region that was just made from new memory.
    pub(crate) fn into_piece(self, len: usize) -> Piece {
        Piece { len: len.min(self.len()), start: 0, region: self }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The right to a range of a region: its holder alone reads and writes there.
#[derive(Debug)]
pub struct Piece {
    region: Region,
    start: usize,
    len: usize,
}

impl Piece {
    /// Cuts the piece at byte `at` of it: this one keeps what is before, the other has the rest.
    ///
    /// # Panics
    /// If `at` is greater than the length.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split at {at} of {}", self.len);
        let rest = Self { region: self.region.clone(), start: self.start + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Where its region begins, and how far on the piece does.
    pub(crate) fn place(&self) -> (NonNull<u8>, usize) {
        (self.region.base(), self.start)
    }

    /// Its region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where the piece is. The pointer may be used as long as the piece is held, by its holder.
    pub(crate) fn base(&self) -> NonNull<u8> {
        // SAFETY: `start + len` is within the region, by `Region::piece` and `split_off`.
        unsafe { self.region.memory.base().add(self.start) }
    }
}

impl Deref for Piece {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is within memory that the region keeps alive and initialised. The piece
        // is the only right to it, so no other code writes there while it is borrowed.
        unsafe { slice::from_raw_parts(self.base().as_ptr(), self.len) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the piece is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(self.base().as_ptr(), self.len) }
    }
}

/// A host device's buffer: pages of its own.
pub(crate) fn heap_buffer(len: usize) -> Result<Arc<dyn Any + Send + Sync>, Failure> {
    Ok(Arc::new(HeapPages::new(len)?))
}

/// Where the memory of a host device's buffer begins.
pub(crate) fn heap_of(buffer: &crate::Buffer) -> NonNull<u8> {
    let pages = buffer.memory.downcast_ref::<HeapPages>();
    pages.map_or(NonNull::dangling(), |pages| pages.base)
}

/// Copies into a host device's buffer, on the device's one thread.
pub(crate) fn copy_in(from: &[u8], to: &crate::Slice) {
    debug_assert_eq!(from.len(), to.len());
    // SAFETY: the slice was checked to be within the buffer and as long as `from`. Only the
    // device's one thread accesses buffers, and they never overlap pieces, which are other memory.
    unsafe {
        let to = heap_of(&to.buffer).add(to.range.start);
        core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len());
    }
}

/// Copies out of a host device's buffer, on the device's one thread.
pub(crate) fn copy_out(from: &crate::Slice, to: &mut [u8]) {
    debug_assert_eq!(from.len(), to.len());
    // SAFETY: as in `copy_in`.
    unsafe {
        let from = heap_of(&from.buffer).add(from.range.start);
        core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len());
    }
}
