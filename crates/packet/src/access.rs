//! Access: the fields that each phase of a function reads and writes, declared before any packet
//! flows.
//!
//! In a debug build a batch checks every accessor against its phase ([`crate::Batch::set_phase`]).
//! A wrong declaration fails the function's own tests and names function, phase and field.

#[cfg(debug_assertions)]
use crate::Field;
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
    /// The fields that `before` touches, on the CPU.
    pub before: ReadWrite,
    /// The fields that `run` touches, on the CPU or on a device.
    pub run: ReadWrite,
    /// The fields that `after` touches for every packet, on the CPU.
    pub after: ReadWrite,
    /// The fields that `after` touches besides for packets that `run` flagged.
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

    /// Whether both write the same fields in each phase.
    pub fn writes_as(&self, other: &Self) -> bool {
        let writes =
            |of: &Self| [of.before, of.run, of.after, of.after_flagged].map(|phase| phase.writes);
        writes(self) == writes(other)
    }

    /// The fields that `phase` of the function called `function` may touch.
    pub const fn of(&self, phase: Phase, function: &'static str) -> Allowed {
        let (all, flagged) = match phase {
            Phase::Before => (self.before, ReadWrite::NONE),
            Phase::Run => (self.run, ReadWrite::NONE),
            Phase::After => (self.after, self.after_flagged),
        };
        Allowed { function, phase, all, flagged }
    }

    /// Whether `before` reads frames: it does so shard by shard, in an order that defeats the
    /// processor's prefetcher.
    pub fn looks_before(&self) -> bool {
        !(self.before.reads & FieldSet::FRAME).is_empty()
    }
}

/// A phase of a function's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On the CPU, with the state, before `run`.
    Before,
    /// Pure; on the CPU or on a device.
    Run,
    /// On the CPU, with the state, after `run`.
    After,
}

/// The access that a phase of a function is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    function: &'static str,
    phase: Phase,
    /// Of every packet.
    all: ReadWrite,
    /// Besides, of those that are flagged.
    flagged: ReadWrite,
}

// A release build checks nothing.
#[cfg(debug_assertions)]
impl Allowed {
    /// Fails where the field of a packet is read and not declared.
    #[track_caller]
    pub(crate) fn check_read(&self, field: Field, is_flagged: bool) {
        let of_flagged = self.flagged.reads.contains(field);
        if !(self.all.reads.contains(field) || is_flagged && of_flagged) {
            self.fail("reads", field, of_flagged);
        }
    }

    /// Fails where the field of a packet is written and not declared.
    #[track_caller]
    pub(crate) fn check_write(&self, field: Field, is_flagged: bool) {
        let of_flagged = self.flagged.writes.contains(field);
        if !(self.all.writes.contains(field) || is_flagged && of_flagged) {
            self.fail("writes", field, of_flagged);
        }
    }

    #[cold]
    #[track_caller]
    fn fail(&self, does: &str, field: Field, is_of_flagged: bool) -> ! {
        let phase = match self.phase {
            Phase::Before => "before",
            Phase::Run => "run",
            Phase::After => "after",
        };
        let whose = if is_of_flagged { " of a packet that is not flagged" } else { "" };
        let (function, name) = (self.function, field.name());
        panic!("{function}: `{phase}` {does} `{name}`{whose}, which it does not declare");
    }
}

#[cfg(all(test, debug_assertions))]
#[path = "access_tests.rs"]
mod tests;
