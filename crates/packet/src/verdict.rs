//! Verdicts, drop reasons and shards.

use core::fmt;

/// How a packet left the functions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Continues to the next function, and is sent after the last.
    #[default]
    Forward = 0,
    /// Is sent as an answer to the sender of its cause. It skips the functions that remain, but for
    /// second places.
    Return = 1,
    /// Was dropped by a function, for a named reason.
    Dropped = 2,
    /// Went into another packet (a fragment that was reassembled).
    Absorbed = 3,
    /// Was rejected because its headers lie, by the name of the lie.
    Malformed = 4,
    /// Found no room at a named queue.
    Overload = 5,
    /// Continues to a later function: routes lead past the ones before it.
    Bypass = 6,
}

impl Verdict {
    /// Whether the packet leaves the chain on the wire.
    #[inline]
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Forward | Self::Return)
    }

    pub(crate) const fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Forward,
            1 => Self::Return,
            3 => Self::Absorbed,
            4 => Self::Malformed,
            5 => Self::Overload,
            6 => Self::Bypass,
            _ => Self::Dropped,
        }
    }
}

/// A drop reason: its place in the list of reasons of the function that dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub u8);

/// Reasons a function may name.
pub const REASONS_MAX: usize = 32;

/// How many parts the state of a chain has.
pub const SHARDS: usize = 64;

/// One fixed part of a function's state.
///
/// A chain whose functions agree on a key has 64 shards, whichever lanes hold them; one whose
/// functions don't has one shard with all of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u8,
    of: u8,
}

impl Shard {
    /// The only shard of a chain that can't be divided.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Shard `index` of the 64; taken modulo 64.
    pub const fn new(index: usize) -> Self {
        Self { index: (index % SHARDS) as u8, of: SHARDS as u8 }
    }

    /// Which part it is, from 0.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// How many parts there are: 64 or 1.
    pub const fn of(self) -> usize {
        self.of as usize
    }

    /// This shard's part of `total` things that are handed out evenly: the first shards get one
    /// more where it doesn't divide.
    pub const fn share(self, total: usize) -> usize {
        total / self.of() + ((self.index()) < total % self.of()) as usize
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for total in [0, 1, 63, 64, 65, 1000] {
            let sum: usize = (0..SHARDS).map(|i| Shard::new(i).share(total)).sum();
            assert_eq!(sum, total);
        }
        assert_eq!(Shard::WHOLE.share(1000), 1000);
    }

    #[test]
    fn verdicts_survive_their_column() {
        for verdict in [
            Verdict::Forward,
            Verdict::Return,
            Verdict::Dropped,
            Verdict::Absorbed,
            Verdict::Malformed,
            Verdict::Overload,
            Verdict::Bypass,
        ] {
            assert_eq!(Verdict::from_u8(verdict as u8), verdict);
        }
    }
}
