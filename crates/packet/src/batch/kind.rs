//! The content of a batch.

use crate::Instant;

/// The content of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    /// Packets.
    #[default]
    Packets,
    /// The time, at the same place of the input on every lane. Timers run here, so that the packets
    /// they make do not depend on lanes and batches.
    Tick {
        /// The time that functions go by.
        now: Instant,
        /// The timestamp of the next packet, before the clock changed it.
        captured: Instant,
    },
    /// Rebuilt functions take their places here; the engine knows which.
    Reload,
    /// The end of the input.
    Finish,
}
