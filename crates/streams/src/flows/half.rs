//! One direction of a TCP connection: its stream, and the mapping of its sequence numbers.

use super::memory::Memory;
use super::side::StreamHalf;
use super::urgent::UrgentBytes;

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) side: StreamHalf,
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
    /// The widest window that the other end announced.
    pub(super) window_max: u32,
    /// Its clock, as the other end will have it (RFC 7323, 4.3: TS.Recent); 0 if unknown.
    pub(super) time: u32,
    /// Sequence numbers that were refused as too far ahead: the end of its own data, and the other
    /// end's acknowledgement.
    pub(super) ahead: [u32; 2],
    pub(super) urgent: UrgentBytes,
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
/// Its SYN stated its clock's time.
pub(super) const TIMED: u8 = 32;
/// The first of `ahead` is known, or the second.
pub(super) const AHEAD: [u8; 2] = [64, 128];

/// The window assumed when none was announced.
const WINDOW_LEAST: u32 = 0xffff;

impl Half {
    pub(super) const EMPTY: Self = Self {
        side: StreamHalf::EMPTY,
        acked: 0,
        window_end: 0,
        base: 0,
        scale: 0,
        flags: 0,
        fin: 0,
        window_max: 0,
        time: 0,
        ahead: [0; 2],
        urgent: UrgentBytes::NONE,
    };

    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// The first byte will have this sequence number.
    pub(super) fn begin(&mut self, memory: &mut Memory, base: u32) {
        self.side.release(memory);
        let flags = KNOWN | self.flags & TIMED;
        *self = Self { base, flags, scale: self.scale, time: self.time, ..Self::EMPTY };
    }

    /// The sequence numbers up to the next byte, with SYN and FIN.
    pub(super) fn sequence_len(&self) -> u64 {
        let flags = u64::from(self.has(KNOWN)) + u64::from(self.has(FINISHED));
        if self.has(KNOWN) { self.side.next() + flags } else { 0 }
    }

    /// The offset of a sequence number in the stream, nearest to the next byte; negative before the
    /// first.
    pub(super) fn offset(&self, seq: u32) -> i64 {
        let next = self.side.next();
        next as i64 + i64::from(seq.wrapping_sub(self.base.wrapping_add(next as u32)) as i32)
    }

    /// Whether the sequence number is that of the next byte, or of the one after the farthest.
    pub(super) fn is_next(&self, seq: u32) -> bool {
        let at = self.offset(seq);
        at == self.side.next() as i64
            || at == self.side.farthest() as i64
            || self.is_behind_fin(seq)
    }

    /// Whether both ends agree that the stream is far ahead of the data seen. Then the capture lost
    /// that data, and the stream continues from there. One end alone can't claim it.
    pub(super) fn catches_up(&mut self) -> bool {
        let [sent, acked] = self.ahead;
        let (end, known) = (self.offset(sent), self.side.farthest() as i64);
        let acked_end = self.offset(acked);
        let is_agreed = self.has(AHEAD[0])
            && self.has(AHEAD[1])
            && acked_end > known
            && (acked_end..=acked_end + i64::from(self.window_max.max(WINDOW_LEAST)))
                .contains(&end);
        if is_agreed {
            self.acked = self.acked.max(acked_end as u64);
            self.window_end = self.window_end.max(end as u64);
            self.flags &= !(AHEAD[0] | AHEAD[1]);
        }
        is_agreed
    }

    fn is_behind_fin(&self, seq: u32) -> bool {
        self.has(FINISHED) && seq == self.fin.wrapping_add(1)
    }
}
