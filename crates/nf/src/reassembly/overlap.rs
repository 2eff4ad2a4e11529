//! Whose data count where fragments overlap (Ptacek and Newsham, 1998; Shankar and Paxson, "Active Mapping", 2003).

/// What is done with fragments that overlap. All but the first are for one who listens and wants to see what the
/// receiver sees: a fragment that disagrees on where the datagram ends is left out by itself, and congestion marks
/// are not looked at.
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
    /// The one that starts first; of two that start together, the one that came last.
    Linux,
}

impl Overlap {
    /// The policy of that name: one of the above or a system that has it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "refuse" => Self::Refuse,
            "first" | "windows" | "solaris" => Self::First,
            "last" => Self::Last,
            "bsd" => Self::Bsd,
            "linux" => Self::Linux,
            _ => return None,
        })
    }

    /// Whether a fragment that starts at `last` takes what one that came before and starts at `first` has.
    pub(super) fn is_for_last(self, first: u16, last: u16) -> bool {
        match self {
            Self::Refuse | Self::First => false,
            Self::Last => true,
            Self::Bsd => last < first,
            Self::Linux => last <= first,
        }
    }
}
