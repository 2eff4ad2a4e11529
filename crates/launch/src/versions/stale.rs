//! The outcome: how many fields were checked, and the earliest stale read.

use core::fmt;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Fields that were looked at: of each packet, those that each phase reads.
    pub looks: u64,
    /// The earliest stale one.
    pub stale: Option<StaleRead>,
}

impl Followed {
    /// Adds the outcome of another lane.
    pub fn add(&mut self, other: Self) {
        self.looks += other.looks;
        self.stale = match (self.stale.take(), other.stale) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        };
    }
}

/// A phase read a stale field. Of two, the smaller one affects an earlier packet, or an earlier
/// phase of the same packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleRead {
    /// The packet's number in the chain's input, from 0; for a made packet, that of its cause.
    pub packet: u64,
    /// Whether a function made the packet.
    pub is_made: bool,
    /// The position in the chain of the current function; the chain's length for the output.
    pub position: usize,
    /// Its phase.
    pub phase: Reader,
    /// The function's name in the chain; `output` for the output.
    pub function: String,
    /// The field.
    pub field: &'static str,
    /// The place in which it was read.
    pub place: String,
    /// A place that has its newest version, if there is one.
    pub newest: Option<String>,
}

/// The reader of a field, in the order of a function's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// The lane itself, to group packets by shard.
    Lane,
    /// The lane, to show the packet if the function drops it.
    Shown,
    /// `before`.
    Before,
    /// `run`, on the CPU or as kernels.
    Run,
    /// `after`.
    After,
    /// The output.
    Output,
}

impl Reader {
    /// As messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "the lane",
            Self::Shown => "the copy for dropped packets",
            Self::Before => "`before`",
            Self::Run => "`run`",
            Self::After => "`after`",
            Self::Output => "the sink",
        }
    }
}

impl fmt::Display for StaleRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, phase, function, field, place, .. } = self;
        match self.is_made {
            false => write!(f, "packet {packet}")?,
            true => write!(f, "a packet made of packet {packet}")?,
        }
        match phase {
            Reader::Output => write!(f, ": the output sends")?,
            _ => write!(f, ": {} of {function} uses", phase.name())?,
        }
        write!(f, " {field} on {place}, where it is stale; ")?;
        match &self.newest {
            Some(newest) => write!(f, "the newest version is on {newest}"),
            None => f.write_str("a stale copy replaced the newest version"),
        }
    }
}
