//! The unsafe parts: an arena whose memory the test reaches too, as an engine with mirrors does,
//! and the vouching of launches for kernels.

use core::ops::Range;
use core::ptr::NonNull;
use core::{ptr, slice};
use std::sync::Arc;

use warpline_device::{Header, Piece, Region, Source};
use warpline_nf::Kernels;
use warpline_packet::{
    Arena, ArenaLayout, Batch, Binding, HeapMemory, Memory, Placer, kernel_layout,
};

#[path = "../../../launch/src/sys/vouched.rs"]
#[expect(unreachable_pub, reason = "its crate makes it public")]
pub(crate) mod vouched;

/// `text` in place of that of `kernels`, whose heads it uses.
pub(crate) fn with_text(text: &'static str, kernels: &Kernels, binding: &Binding) -> Source {
    let headers = kernels.headers(binding).into_iter();
    let headers: Vec<Header> =
        headers.map(|one| Header { name: one.name, text: one.text }).collect();
    let specs = vouched::source(kernels, binding).kernels().clone();
    // SAFETY: its heads are those of the kernels, and the text does nothing when it is loaded.
    let source = unsafe { Source::vouched("test.cl", text, headers, specs) };
    let all = kernel_layout().into_iter();
    all.fold(source, |source, (name, value)| source.define(name, value))
}

/// All of a region of memory that was just made and has no other user.
pub(crate) fn whole(region: &Region, len: usize) -> Piece {
    // SAFETY: the caller made it for itself, and names it once.
    unsafe { region.piece(0..len) }.expect("it has so many bytes")
}

/// An arena, the batches over its tables, and access to its bytes while no batch or placer is
/// borrowed.
pub(crate) struct Reached {
    memory: Arc<HeapMemory>,
    batches: Vec<Batch>,
    arena: Arena,
}

struct Shared(Arc<HeapMemory>);

// SAFETY: that of `HeapMemory`; `Reached`, which keeps the other handle, touches bytes only while
// it borrows all batches and placers, so that no other code does.
unsafe impl Memory for Shared {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Fills slabs without frames, and columns that no kernel declares to read. If a kernel's results
/// depend on it, the kernel reads undeclared memory.
pub(crate) const POISON: u8 = 0xa5;

impl Reached {
    /// A batch over each table.
    pub(crate) fn new(layout: &ArenaLayout) -> Self {
        let memory = HeapMemory::new(layout.memory_len()).expect("memory for a test");
        let memory = Arc::new(memory);
        let shared = Box::new(Shared(Arc::clone(&memory)));
        let mut arena = Arena::new(shared, layout).expect("a layout that fits");
        let batches: Vec<Batch> = arena.tables.drain(..).map(Batch::new).collect();
        let slabs = batches.last().map_or(0, |last| last.table_range().end);
        // SAFETY: the range is after the last table, and no row has a room in it yet.
        unsafe { memory.base().add(slabs).write_bytes(POISON, memory.len() - slabs) };
        Self { memory, batches, arena }
    }

    /// All batches, and what places packets from outside and packets that functions make.
    pub(crate) fn parts(&mut self) -> (&mut [Batch], &mut Placer, &mut Placer) {
        (&mut self.batches, &mut self.arena.ingress, &mut self.arena.emit)
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Copies the whole arena.
    pub(crate) fn copy_to(&mut self, mirror: &mut [u8]) {
        // SAFETY: `&mut self` has the batches and the placers, the only others that reach these
        // bytes.
        let bytes = unsafe { slice::from_raw_parts(self.memory.base().as_ptr(), self.len()) };
        mirror.copy_from_slice(bytes);
    }

    /// Where in the arena a packet's frame lies.
    pub(crate) fn frame_place(&self, batch: usize, row: usize) -> Range<usize> {
        let packet = self.batches[batch].packet(row);
        let at = packet.frame().as_ptr().addr() - self.memory.base().addr().get();
        at..at + packet.frame().len()
    }

    /// Copies the rooms of a batch back.
    pub(crate) fn take_rooms(&mut self, batch: usize, mirror: &[u8]) {
        let base = self.memory.base();
        self.batches[batch].spans(|span| {
            let from = &mirror[span.clone()];
            // SAFETY: a span lies in the arena and holds rooms of this batch alone, which `&mut
            // self` has.
            unsafe {
                ptr::copy_nonoverlapping(from.as_ptr(), base.add(span.start).as_ptr(), from.len())
            }
        });
    }
}
