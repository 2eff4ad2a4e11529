//! The bytes by which SAs make frames longer when they seal and shorter when they open, as plans
//! expect it.

use warpline_packet::wire::{ethernet, ipv4};

use super::at::At;
use super::sa::Direction;
use super::tables::{TRAILER_LEN, Tables};

/// The SAs of a function, those of equal lengths together.
pub(super) struct Lengthening {
    kinds: Vec<(EspLengths, i64)>,
}

/// Lengths of an SA's ESP.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EspLengths {
    direction: Direction,
    /// Bytes of the IP header that stays in front, in transport mode.
    kept: usize,
    /// Bytes from the outer packet's start to the text, without `kept`.
    head: usize,
    /// Text with padding and trailer is a multiple of so many bytes.
    block: usize,
    icv: usize,
}

impl Lengthening {
    pub(super) fn of(tables: &Tables, at: At) -> Self {
        let mut kinds: Vec<(EspLengths, i64)> = Vec::new();
        let is_here = |direction| match direction {
            Direction::In => at.opens(),
            Direction::Out => at.seals(),
        };
        let sas = tables.sas.iter().zip(&tables.shapes);
        for (sa, shape) in sas.filter(|(sa, _)| is_here(sa.direction)) {
            let kind = EspLengths {
                direction: sa.direction,
                kept: if shape.outer_len() > 0 { 0 } else { ipv4::HEADER_LEN },
                head: shape.outer_len() + shape.head_len(),
                block: shape.block_len(),
                icv: shape.icv_len(),
            };
            match kinds.iter_mut().find(|(own, _)| *own == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind, 1)),
            }
        }
        Self { kinds }
    }

    /// Bytes at head and tail of an Ethernet frame of `frame_len` bytes, on average over the SAs.
    pub(super) fn bytes(&self, frame_len: usize) -> [i32; 2] {
        let len = frame_len.saturating_sub(ethernet::HEADER_LEN).max(ipv4::HEADER_LEN);
        let (mut sums, mut count) = ([0; 2], 0);
        for (kind, own) in &self.kinds {
            let (sign, tail) = match kind.direction {
                Direction::Out => (1, kind.tail_sealed(len)),
                Direction::In => (-1, kind.tail_opened(len)),
            };
            let both = [kind.head, tail];
            sums.iter_mut().zip(both).for_each(|(sum, bytes)| *sum += sign * own * bytes as i64);
            count += own;
        }
        sums.map(|sum| (sum / count.max(1)) as i32)
    }
}

impl EspLengths {
    /// Bytes that sealing adds after the payload of an IP packet of `len` bytes: the least padding
    /// (RFC 4303, 2.4), trailer, ICV.
    fn tail_sealed(&self, len: usize) -> usize {
        let payload = len.saturating_sub(self.kept);
        (payload + TRAILER_LEN).next_multiple_of(self.block) - payload + self.icv
    }

    /// Bytes that opening takes from the end of a sealed packet of `len` bytes. Its length leaves
    /// open how much of that is padding: where all lengths of payloads are equally likely, half of
    /// the most.
    fn tail_opened(&self, len: usize) -> usize {
        let rest = len.saturating_sub(self.kept + self.head);
        let text = rest.saturating_sub(self.icv) / self.block * self.block;
        rest - text.saturating_sub(TRAILER_LEN + (self.block - 1) / 2)
    }
}
