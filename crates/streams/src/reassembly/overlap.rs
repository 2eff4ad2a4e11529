//! Which data count where fragments overlap (Ptacek and Newsham, 1998; Shankar and Paxson, "Active
//! Mapping", 2003; Novak, "Target-Based Fragmentation Reassembly", 2005).

/// The policy for overlapping fragments. All but the first are for passive listeners that need the
/// receiver's view. With all but Linux, a fragment that disagrees on where the datagram ends is
/// ignored alone, and congestion marks are not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// They discard their datagram (RFC 5722).
    #[default]
    Refuse,
    /// The fragment that came first counts.
    First,
    /// The one that came last.
    Last,
    /// The one that starts first; of two that start together, the one that came first.
    Bsd,
    /// Both discard their datagram and what came of it, unless all of the one came before in one
    /// piece: it is left out then.
    Linux,
    /// The one that came first, unless the other starts before it and ends after it.
    Windows,
    /// The one that came first, unless the other starts before it and ends no earlier.
    Solaris,
}

/// From where to where a fragment goes, in units of eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u16,
    pub(super) end: u16,
}

impl Overlap {
    /// The policy of that name: one of the above or a system that has it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "refuse" => Self::Refuse,
            "first" => Self::First,
            "last" => Self::Last,
            "bsd" => Self::Bsd,
            "linux" => Self::Linux,
            "windows" => Self::Windows,
            "solaris" => Self::Solaris,
            _ => return None,
        })
    }

    /// Whether the fragment `last` takes what `first`, which came before, has of the same bytes.
    pub(super) fn is_for_last(self, first: Span, last: Span) -> bool {
        match self {
            Self::Refuse | Self::Linux | Self::First => false,
            Self::Last => true,
            Self::Bsd => last.start < first.start,
            Self::Windows => last.start < first.start && last.end > first.end,
            Self::Solaris => last.start < first.start && last.end >= first.end,
        }
    }
}
