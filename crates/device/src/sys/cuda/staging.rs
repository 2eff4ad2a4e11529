//! Locked memory of the driver's own, through which a stream copies from and to memory that can't
//! be locked. Without it each such copy waits for the device.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::{ptr, slice};
use std::sync::Arc;

use super::context::Context;
use super::pages::RegisteredPages;
use super::retired::Item;
use crate::{Part, Piece, Step, Work};

/// Bytes of the smallest block, and the alignment of a copy in a block.
const BLOCK_MIN: usize = 1 << 16;
const ALIGNMENT: usize = 64;

/// Memory that the driver locked.
pub(super) struct Block {
    pub(super) base: NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY: it is its owner's alone, and no thread is special to the driver.
unsafe impl Send for Block {}

/// The blocks of a stream that no work uses.
#[derive(Default)]
pub(super) struct Staging {
    idle: Vec<Block>,
}

/// The block of a work, with the copies through it: the step, and the offset of its bytes.
pub(super) struct Staged {
    block: Block,
    copies: Vec<(usize, usize)>,
}

impl Staging {
    /// Room for all copies of `work` from and to memory that is not locked, with the bytes that go
    /// to the device. `None` if there are no such copies, or the driver has no memory.
    pub(super) fn stage(&mut self, work: &Work, context: &Arc<Context>) -> Option<Staged> {
        if work.pieces.iter().all(|piece| RegisteredPages::has_locked(piece.region())) {
            return None;
        }
        let (mut copies, mut len) = (Vec::new(), 0);
        for (number, step) in work.steps.iter().enumerate() {
            let Some(part) = host_part(step).filter(|part| is_unlocked(work, part)) else {
                continue;
            };
            if is_input(step) && is_copied_out_before(work, number, part) {
                return None;
            }
            copies.push((number, len));
            len += part.range.len().next_multiple_of(ALIGNMENT);
        }
        if copies.is_empty() {
            return None;
        }
        let staged = Staged { block: self.block(len, context)?, copies };
        staged.fill(work);
        Some(staged)
    }

    /// An idle block of `len` bytes or more, or a new one in the place of a smaller one.
    fn block(&mut self, len: usize, context: &Arc<Context>) -> Option<Block> {
        if let Some(at) = self.idle.iter().position(|block| block.bytes >= len) {
            return Some(self.idle.swap_remove(at));
        }
        if let Some(small) = self.idle.pop() {
            context.retired.push(context, Item::Block(small));
        }
        let bytes = len.max(BLOCK_MIN).checked_next_power_of_two()?;
        let mut base: *mut c_void = ptr::null_mut();
        // SAFETY: one pointer is written.
        let taken = context.call(|driver| unsafe { (driver.allocate_host)(&mut base, bytes, 0) });
        let base = NonNull::new(base.cast::<u8>()).filter(|_| taken.is_ok())?;
        // SAFETY: the driver gave so many bytes, and nothing else has them.
        unsafe { base.write_bytes(0, bytes) };
        Some(Block { base, bytes })
    }

    /// Takes the block of a work that is done, after its bytes from the device went to the pieces
    /// if it `succeeded`.
    pub(super) fn finish(&mut self, staged: Staged, work: &mut Work, succeeded: bool) {
        if succeeded {
            staged.empty(work);
        }
        self.idle.push(staged.block);
    }

    /// Gives all blocks to the thread of retired things.
    pub(super) fn retire(&mut self, context: &Arc<Context>) {
        self.idle.drain(..).for_each(|block| context.retired.push(context, Item::Block(block)));
    }
}

impl Staged {
    /// Where step `number` copies from or to in place of its piece.
    pub(super) fn host(&self, number: usize) -> Option<*mut u8> {
        let (_, offset) = self.copies.iter().find(|(step, _)| *step == number)?;
        // SAFETY: offsets are within the block.
        Some(unsafe { self.block.base.add(*offset) }.as_ptr())
    }

    fn fill(&self, work: &Work) {
        for &(number, offset) in &self.copies {
            let (Step::CopyIn { from, .. } | Step::RowsIn { from, .. }) = &work.steps[number]
            else {
                continue;
            };
            let piece = &work.pieces[from.piece][from.range.clone()];
            // SAFETY: the block has room for the part there, and no work of the driver has the
            // block yet.
            let to = unsafe {
                slice::from_raw_parts_mut(self.block.base.add(offset).as_ptr(), piece.len())
            };
            copy(&work.steps[number], piece, to);
        }
    }

    fn empty(&self, work: &mut Work) {
        let Work { pieces, steps, .. } = work;
        for &(number, offset) in &self.copies {
            let (Step::CopyOut { to, .. } | Step::RowsOut { to, .. }) = &steps[number] else {
                continue;
            };
            let piece = &mut pieces[to.piece][to.range.clone()];
            // SAFETY: as above; the driver is done with the block.
            let from =
                unsafe { slice::from_raw_parts(self.block.base.add(offset).as_ptr(), piece.len()) };
            copy(&steps[number], from, piece);
        }
    }
}

/// Copies all bytes, or the rows of a step that has rows.
fn copy(step: &Step, from: &[u8], to: &mut [u8]) {
    match step {
        Step::RowsIn { rows, .. } | Step::RowsOut { rows, .. } => {
            rows.each(from.len()).for_each(|row| to[row.clone()].copy_from_slice(&from[row]))
        }
        _ => to.copy_from_slice(from),
    }
}

fn host_part(step: &Step) -> Option<&Part> {
    match step {
        Step::CopyIn { from: part, .. }
        | Step::RowsIn { from: part, .. }
        | Step::CopyOut { to: part, .. }
        | Step::RowsOut { to: part, .. } => Some(part).filter(|part| !part.range.is_empty()),
        Step::Call(_) => None,
    }
}

fn is_input(step: &Step) -> bool {
    matches!(step, Step::CopyIn { .. } | Step::RowsIn { .. })
}

fn is_unlocked(work: &Work, part: &Part) -> bool {
    let piece: &Piece = &work.pieces[part.piece];
    !RegisteredPages::has_locked(piece.region())
}

/// Whether an earlier step writes bytes of `part`, which step `number` reads.
fn is_copied_out_before(work: &Work, number: usize, part: &Part) -> bool {
    let earlier = work.steps[..number].iter().filter(|step| !is_input(step));
    earlier.filter_map(host_part).any(|other| {
        let (one, other_range) = (&part.range, &other.range);
        let overlaps = one.start < other_range.end && other_range.start < one.end;
        other.piece == part.piece && overlaps
    })
}
