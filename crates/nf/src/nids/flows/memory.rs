//! What the streams of a shard share: memory, nodes for segments that wait, and the rules.

use super::Limits;
use super::blocks::{Blocks, UNIT};
use super::counters::Counters;
use super::held::Held;
use super::overlap::Overlap;

pub(super) struct Memory {
    pub(super) blocks: Blocks,
    pub(super) held: Held,
    pub(super) overlap: Overlap,
    /// Bytes kept before the newest.
    pub(super) window_len: usize,
    /// Bytes of a block with which a window seldom moves.
    pub(super) full_len: usize,
    /// The same with which it moves a quarter as often, where there is memory to spare.
    pub(super) long_len: usize,
    /// How far ahead of its turn data may come, in bytes.
    pub(super) hold_len: u64,
    pub(super) counters: Counters,
}

impl Memory {
    pub(super) fn new(limits: &Limits) -> Self {
        let window_len = limits.window_len.min(LEN_MAX);
        let full_len = (2 * window_len).next_power_of_two().max(UNIT);
        Self {
            blocks: Blocks::new(limits.stream_memory),
            held: Held::new(limits.held_segments),
            overlap: limits.overlap,
            window_len,
            full_len,
            long_len: 2 * full_len,
            hold_len: limits.hold_len.min(LEN_MAX) as u64,
            counters: Counters::default(),
        }
    }

    /// Whether windows may have the longer blocks: as long as half of the memory is free.
    pub(super) fn is_plenty(&self) -> bool {
        self.blocks.used_and_peak().0 <= self.blocks.bytes().len() / 2
    }

    /// Whether a window that lies in a block of `len` bytes, and nothing else, is to be given a shorter one. Longer
    /// ones stay a while after new ones are no longer given, so that none comes and goes.
    pub(super) fn is_too_long(&self, len: usize) -> bool {
        let is_tight = || self.blocks.used_and_peak().0 > self.blocks.bytes().len() / 4 * 3;
        len > self.long_len || (len > self.full_len && is_tight())
    }

    /// What was counted.
    pub(super) fn counters(&self) -> Counters {
        let (_, peak) = self.blocks.used_and_peak();
        Counters { stream_memory_peak: peak as u64, ..self.counters }
    }
}

/// The longest windows and the farthest that data may come ahead, in bytes.
const LEN_MAX: usize = 1 << 28;
