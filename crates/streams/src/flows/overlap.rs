//! Which bytes count where segments overlap (Novak and Sturges, "Target-Based TCP Stream
//! Reassembly", 2007).
//!
//! The policies apply to segments that wait for a gap to close. Delivered bytes stay as they are,
//! except with [`Overlap::Last`]: a receiver hands bytes on as soon as they are in order, and takes
//! none of them back.

use super::held::Span;

/// Which of two segments that overlap has the bytes that both have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The one that came first.
    First,
    /// The one that came last; also of bytes that were delivered before.
    Last,
    /// The one that starts first; of two that start together, the one that came first.
    #[default]
    Bsd,
    /// As BSD, but of two that start together the longer; of two alike, the one that came first.
    Linux,
    /// As Linux, but of two alike the one that came last.
    OldLinux,
    /// The one that came last, if it ends after the other, or starts no later and ends together
    /// with it.
    Solaris,
}

/// The policies by the names that configurations use for them.
const NAMES: [(&str, Overlap); 14] = [
    ("first", Overlap::First),
    ("vista", Overlap::First),
    ("bsd-right", Overlap::First),
    ("last", Overlap::Last),
    ("bsd", Overlap::Bsd),
    ("windows", Overlap::Bsd),
    ("windows2k3", Overlap::Bsd),
    ("macos", Overlap::Bsd),
    ("irix", Overlap::Bsd),
    ("hpux10", Overlap::Bsd),
    ("linux", Overlap::Linux),
    ("old-linux", Overlap::OldLinux),
    ("solaris", Overlap::Solaris),
    ("hpux11", Overlap::Solaris),
];

impl Overlap {
    /// The policy of that name: one of the above or the system that has it.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|&(_, overlap)| overlap)
    }

    /// Whether the segment that came last has the bytes that both have.
    pub(super) fn is_for_last(self, first: Span, last: Span) -> bool {
        let starts_before = last.start < first.start;
        let starts_with = last.start == first.start;
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Bsd => starts_before,
            Self::Linux => starts_before || (starts_with && last.end > first.end),
            Self::OldLinux => starts_before || (starts_with && last.end >= first.end),
            Self::Solaris if starts_before || starts_with => last.end >= first.end,
            Self::Solaris => last.end > first.end,
        }
    }
}
