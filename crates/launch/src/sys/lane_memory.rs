//! The memory of a lane's packets, as the lane and devices see it, and the rights to parts of it
//! that a launch holds.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use warpline_device::{Device, Failure, HostMemory, Piece, Region};
use warpline_packet::{ALIGN, Batch, FieldSet, HeapMemory, LeftPackets, Memory, Returned, Stretch};

/// Memory for an arena, which devices can register. After the arena come the launches' own parts,
/// if a device works in place.
#[derive(Clone)]
pub struct LaneMemory {
    all: Arc<dyn HostMemory>,
    arena_len: usize,
    /// Whether an arena has the first bytes.
    has_arena: Arc<AtomicBool>,
    /// Where what no launch has yet begins.
    spare: Arc<AtomicUsize>,
}

/// Bytes of the smallest page.
const PAGE: usize = 4096;

/// Memory from the system.
struct Heap(HeapMemory);

// SAFETY: the heap's memory stays at its address while the value lives. It is zeroed at the start,
// so initialised.
unsafe impl HostMemory for Heap {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

impl LaneMemory {
    /// Takes `arena_len` bytes and `spare_len` after them, if 32-bit offsets reach all of them.
    /// They come from the first of `devices` that makes shared memory, or from the system. `None`
    /// without memory.
    pub fn new<'a>(
        arena_len: usize,
        spare_len: usize,
        mut devices: impl Iterator<Item = &'a dyn Device>,
    ) -> Option<Self> {
        let len = arena_len.saturating_add(spare_len);
        let len = if u32::try_from(len).is_ok() { len } else { arena_len };
        let heap = || HeapMemory::new(len).map(|memory| Arc::new(Heap(memory)) as _);
        let all = devices.find_map(|device| device.shared_memory(len)).or_else(heap)?;
        let spare = Arc::new(AtomicUsize::new(arena_len));
        Some(Self { all, arena_len, has_arena: Arc::default(), spare })
    }

    /// The bytes for the arena; `None` if an arena was given them before.
    pub fn take_arena(&self) -> Option<ArenaMemory> {
        let is_taken = self.has_arena.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| ArenaMemory { all: Arc::clone(&self.all), len: self.arena_len })
    }

    /// All of it as `device` sees it, and whether kernels there work in it in place.
    ///
    /// # Errors
    /// The device's.
    pub fn known_to(&self, device: &dyn Device) -> Result<(Region, bool), Failure> {
        let region = device.register(Arc::clone(&self.all))?;
        let shares = device.description().shares_host_memory;
        let is_in_place = shares && region.is_in_place() && self.has_spare();
        Ok((region, is_in_place))
    }

    /// The addresses of the arena.
    pub fn addresses(&self) -> Range<u64> {
        let start = self.all.base().as_ptr() as u64;
        start..start + self.arena_len as u64
    }

    /// Writes to the first `len` bytes, so that the system backs them. Does nothing once the memory
    /// is shared.
    pub fn touch(&mut self, len: usize) {
        let Some(own) = Arc::get_mut(&mut self.all) else { return };
        let base = own.base();
        for at in (0..len.min(self.arena_len)).step_by(PAGE) {
            // SAFETY: `at` is within the memory, and this is the only copy of the handle: no arena
            // is here, and no other code reads it.
            unsafe { base.add(at).write_volatile(0) };
        }
    }

    /// Whether `batch` is in its arena.
    pub(crate) fn has(&self, batch: &Batch) -> bool {
        batch.is_in(self.all.base())
    }

    /// Bytes of the arena.
    pub(crate) fn arena_len(&self) -> usize {
        self.arena_len
    }

    /// Whether there is memory after the arena.
    fn has_spare(&self) -> bool {
        self.all.len() > self.arena_len
    }

    /// The right to the next `len` unassigned bytes after the arena, in `region`, which is all of
    /// this memory. `None` if there are no more.
    pub(crate) fn spare(&self, region: &Region, len: usize) -> Option<Piece> {
        let len = len.next_multiple_of(ALIGN);
        let at = self.spare.fetch_add(len, Ordering::Relaxed);
        let end = at.checked_add(len)?;
        // SAFETY: the arena lies before it, and no range is given out twice.
        unsafe { region.piece(at..end) }
    }
}

/// The part of a lane's memory that becomes an arena.
pub struct ArenaMemory {
    all: Arc<dyn HostMemory>,
    len: usize,
}

// SAFETY: the memory stays at its address while any handle lives, on a boundary of 64 bytes. Only
// one of these is made for a lane's memory, of the first bytes. From the other handles come pieces
// only: of the bytes after the arena, and, by the function below, of rooms that the holder of a
// batch lends.
unsafe impl Memory for ArenaMemory {
    fn base(&self) -> NonNull<u8> {
        self.all.base()
    }
    fn len(&self) -> usize {
        self.len
    }
}

/// Which packets' rooms are lent, of those of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lent<'a> {
    /// Of all that are still forwarded.
    All,
    /// Of those of them that the mirror of this number does not have.
    Without(u8),
    /// Of those of which something is left to the CPU.
    Left(LeftPackets<'a>),
    /// Of all in the launch, as kernels left their frames that write these fields.
    Back(Returned<'a>, FieldSet),
}

/// The parts of rooms that are lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All.
    Rooms,
    /// Stretches from frame to frame, of which rows may be taken.
    Frames,
}

/// Lends rooms of packets of `batch`, and names their places. The batch is not touched until the
/// pieces were returned or their stream was given up. Returns whether all lie in `region`.
pub(crate) fn lend_rooms(
    region: &Region,
    batch: &Batch,
    (which, extent): (Lent<'_>, Extent),
    mut take: impl FnMut(Piece, Stretch),
) -> bool {
    let mut all = true;
    let lend = |stretch: Stretch| {
        let span = stretch.bytes.clone();
        // SAFETY: rooms are their batch's alone, spans have nothing else, and no two share a byte;
        // the caller does not access the batch. A stream that was given up may still write to
        // rooms, or read them in place. Those are used by nothing else from then on: packets are
        // moved out of them or lost, and they are never reused (`Batch::move_out`,
        // `Batch::abandon`). Only a copy, also by a kernel, may read late from rooms that are
        // reused. Any bytes are valid frames, and the copy goes to a mirror that is no longer used.
        match unsafe { region.piece(span) } {
            Some(piece) => take(piece, stretch),
            None => all = false,
        }
    };
    let is_whole = extent == Extent::Rooms;
    let plain = |lend: &mut dyn FnMut(Stretch), span| lend(Stretch::plain(span));
    let mut lend = lend;
    match which {
        Lent::All if is_whole => batch.spans(|span| plain(&mut lend, span)),
        Lent::Back(..) if is_whole => batch.spans(|span| plain(&mut lend, span)),
        Lent::Without(mirror) if is_whole => {
            batch.spans_without(mirror, |span| plain(&mut lend, span))
        }
        // Few.
        Lent::Left(left) => batch.spans_left(left, |span| plain(&mut lend, span)),
        Lent::All => batch.stretches(None, lend),
        Lent::Without(mirror) => batch.stretches(Some(mirror), lend),
        Lent::Back(returned, writes) => batch.stretches_back(&returned, writes, lend),
    }
    all
}
