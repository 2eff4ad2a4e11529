//! Where an instance stands in its chain, and the work that it does there.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At its only place, where it opens and seals.
    Only,
    /// At the first of two, where it opens.
    First,
    /// At the second of two, where it seals.
    Second,
}

impl At {
    /// Whether inbound packets are opened there.
    pub(super) const fn opens(self) -> bool {
        !matches!(self, Self::Second)
    }

    /// Whether outbound packets are sealed there.
    pub(super) const fn seals(self) -> bool {
        !matches!(self, Self::First)
    }
}
