//! Resources that the streams of a shard share: memory, nodes for waiting segments, and the rules.

use super::Limits;
use super::blocks::{Blocks, UNIT};
use super::counters::Counters;
use super::held::{Held, Span};
use super::overlap::Overlap;
use super::urgent::{Urgent, UrgentLimit};

pub(super) struct Memory {
    pub(super) blocks: Blocks,
    pub(super) held: Held,
    pub(super) overlap: Overlap,
    pub(super) urgent: Urgent,
    pub(super) urgent_limit: UrgentLimit,
    /// Bytes kept before the newest.
    pub(super) window_len: usize,
    /// Bytes of a block with which a window seldom moves.
    pub(super) full_len: usize,
    /// How far ahead of its turn data may come, in bytes.
    pub(super) hold_len: u64,
    pub(super) counters: Counters,
    pub(super) wrote: Wrote,
}

/// The bytes that the current packet added to its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wrote {
    #[default]
    Nothing,
    /// These bytes, which no other segment had.
    Alone(Span),
    /// Bytes that can't be removed again: they replaced others, or are far ahead so that a gap was
    /// given up for them.
    Mixed,
}

impl Memory {
    pub(super) fn new(limits: &Limits) -> Self {
        let window_len = limits.window_len.min(LEN_MAX);
        Self {
            blocks: Blocks::new(limits.stream_memory),
            held: Held::new(limits.held_segments),
            overlap: limits.overlap,
            urgent: limits.urgent,
            urgent_limit: limits.urgent_limit,
            window_len,
            full_len: (2 * window_len).next_power_of_two().max(UNIT),
            hold_len: limits.hold_len.min(LEN_MAX) as u64,
            counters: Counters::default(),
            wrote: Wrote::Nothing,
        }
    }
}

/// The longest windows and the farthest that data may come ahead, in bytes.
const LEN_MAX: usize = 1 << 28;
