//! What one end of a TCP connection sends: its stream, and where its sequence numbers are in it.

use super::memory::Memory;
use super::side::Side;

/// What one end sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) side: Side,
    /// Where the bytes end that the other end has, by its word.
    pub(super) acked: u64,
    /// Where the window ends that the other end announced.
    pub(super) window_end: u64,
    /// The sequence number of the first byte.
    pub(super) base: u32,
    /// How many bits its own windows are shifted by.
    pub(super) scale: u8,
    pub(super) flags: u8,
    /// The sequence number of its FIN.
    pub(super) fin: u32,
}

/// The base is known.
const KNOWN: u8 = 1;
/// The end of its window is.
pub(super) const HAS_WINDOW: u8 = 2;
/// Its end was seen.
pub(super) const FINISHED: u8 = 4;
/// Its SYN had data that count if they are acknowledged (RFC 7413).
pub(super) const FAST_OPEN: u8 = 8;
/// A gap was given up for lack of room, before the other end acknowledged it.
pub(super) const LOST: u8 = 16;

impl Half {
    pub(super) const EMPTY: Self =
        Self { side: Side::EMPTY, acked: 0, window_end: 0, base: 0, scale: 0, flags: 0, fin: 0 };

    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// The first byte will have this sequence number.
    pub(super) fn begin(&mut self, memory: &mut Memory, base: u32) {
        self.side.release(memory);
        *self = Self { base, flags: KNOWN, scale: self.scale, ..Self::EMPTY };
    }

    /// Where a sequence number lies in the stream: the place nearest to the next byte; below 0 before the first.
    pub(super) fn offset(&self, seq: u32) -> i64 {
        let next = self.side.next();
        next as i64 + i64::from(seq.wrapping_sub(self.base.wrapping_add(next as u32)) as i32)
    }

    /// Whether the sequence number is that of the next byte, or of the one behind the farthest.
    pub(super) fn is_next(&self, seq: u32) -> bool {
        let at = self.offset(seq);
        at == self.side.next() as i64
            || at == self.side.farthest() as i64
            || self.is_behind_fin(seq)
    }

    fn is_behind_fin(&self, seq: u32) -> bool {
        self.has(FINISHED) && seq == self.fin.wrapping_add(1)
    }
}
