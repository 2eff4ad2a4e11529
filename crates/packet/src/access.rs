//! Access: the fields a function reads and writes, phase by phase, declared before any packet flows.
//!
//! In a debug build a batch checks every accessor against the phase it is in
//! ([`crate::Batch::set_phase`]), so that a wrong declaration fails the function's own tests.

use crate::FieldSet;

/// Fields read and fields written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadWrite {
    /// Fields read.
    pub reads: FieldSet,
    /// Fields written.
    pub writes: FieldSet,
}

impl ReadWrite {
    /// Touches nothing.
    pub const NONE: Self = Self { reads: FieldSet::EMPTY, writes: FieldSet::EMPTY };

    /// Reads and writes these.
    pub const fn new(reads: FieldSet, writes: FieldSet) -> Self {
        Self { reads, writes }
    }

    /// Whether the phase touches anything.
    pub const fn is_none(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// A function's access, phase by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Access {
    /// What `before` touches, on the CPU.
    pub before: ReadWrite,
    /// What `run` touches, on the CPU or on a device.
    pub run: ReadWrite,
    /// What `after` touches for every packet, on the CPU.
    pub after: ReadWrite,
    /// What `after` touches besides for packets that `run` flagged.
    pub after_flagged: ReadWrite,
    /// The expected share of flagged packets, 0 to 1.
    pub flagged_share: f32,
}

impl Access {
    /// A function that is `run` alone.
    pub const fn run_only(run: ReadWrite) -> Self {
        Self {
            before: ReadWrite::NONE,
            run,
            after: ReadWrite::NONE,
            after_flagged: ReadWrite::NONE,
            flagged_share: 0.0,
        }
    }

    /// Whether `before` looks into frames: it does so shard by shard, in no order that a processor guesses.
    pub fn looks_before(&self) -> bool {
        !(self.before.reads & FieldSet::FRAME).is_empty()
    }
}
