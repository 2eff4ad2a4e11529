//! Sets of a chain's ports.

/// Ports by which packets come in, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSet(u64);

impl PortSet {
    /// All ports, and packets of a chain without any.
    pub const ALL: Self = Self(u64::MAX);

    /// These. A chain has up to 64 ports.
    pub fn of(ports: &[u16]) -> Self {
        let bits = ports.iter().filter_map(|&port| 1_u64.checked_shl(port.into()));
        Self(bits.fold(0, |all, bit| all | bit))
    }

    /// Whether a port is among them.
    #[inline]
    pub fn has(self, port: u16) -> bool {
        self.is_all() || port < 64 && self.0 >> port & 1 == 1
    }

    /// Whether it is [`Self::ALL`].
    #[inline]
    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Those that are in one set or the other.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Default for PortSet {
    fn default() -> Self {
        Self::ALL
    }
}
