//! How many packets a batch may become on its way, function by function.
//!
//! A function that gets `p` packets may make `p * per_packet` more ([`Emits::per_packet`]), and
//! each becomes a row of the batch. `p * forward_per_packet` of them continue to the next function
//! with the `p`. The others skip all remaining functions except second places, which get all. The
//! rows are thus a sum along the chain, `p + p * per_packet + ...`, where only packets that
//! continue increase `p`.
//!
//! A batch of packets starts with the packets it was filled with. The batch of a tick or of the end
//! starts with none. There each function that makes packets may make [`TICK_PACKETS`] more. These
//! continue if the function lets any continue.

use warpline_nf::{Emits, TICK_MADE_MAX, TICK_NOTES_MAX};
use warpline_packet::SHARDS;

use crate::{Chain, Instance, Place};

/// The most packets in a tick's batch that one function makes in all shards.
const TICK_PACKETS: usize = SHARDS * TICK_MADE_MAX;
/// The same of notes.
const TICK_NOTES: usize = SHARDS * TICK_NOTES_MAX;

/// A batch at a function's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) emits: Emits,
    /// Packets that it may get.
    pub(crate) packets: usize,
    /// Packets that it may make.
    pub(crate) made: usize,
    /// Notes that it may make.
    pub(crate) notes: usize,
}

/// A kind of batch on its way through a chain: its packets to begin with, and its turns.
pub(crate) struct Reach {
    first: usize,
    pub(crate) turns: Vec<Turn>,
}

impl Reach {
    /// Of a batch of `packets` packets, and of a tick's.
    pub(crate) fn of(chain: &Chain, packets: usize) -> [Self; 2] {
        [Self::from(chain, packets, 0, 0), Self::from(chain, 0, TICK_PACKETS, TICK_NOTES)]
    }

    /// The reach of a batch that begins with `first` packets. Besides packets and notes for those,
    /// each function may make `timed` packets and `timed_notes` notes.
    fn from(chain: &Chain, first: usize, timed: usize, timed_notes: usize) -> Self {
        let (mut packets, mut rows) = (first, first);
        let turn = |one: &Instance| {
            let emits = one.function.emits();
            let packets_in = if one.place == Place::Second { rows } else { packets };
            let timed = if emits.per_packet > 0 { timed } else { 0 };
            let made = |each: usize, timed| packets_in.saturating_mul(each).saturating_add(timed);
            let turn = Turn {
                emits,
                packets: packets_in,
                made: made(emits.per_packet, timed),
                notes: made(emits.notes_per_packet, timed_notes),
            };
            rows = rows.saturating_add(turn.made);
            if emits.forward_per_packet > 0 {
                packets = packets.saturating_add(made(emits.forward_per_packet, timed));
            }
            turn
        };
        Self { first, turns: chain.instances.iter().map(turn).collect() }
    }

    /// Rows that the batch may have at the end.
    pub(crate) fn rows(&self) -> usize {
        self.turns.iter().fold(self.first, |rows, turn| rows.saturating_add(turn.made))
    }
}
