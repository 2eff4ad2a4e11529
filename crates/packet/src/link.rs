//! The link layer a frame was captured on.

use crate::wire::sll;

/// A link type, as the registry of pcap link types (`LINKTYPE_*`) numbers it.
///
/// The named ones are understood; a frame of any other is carried as it is and counts as not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: 4 bytes that name an address family in the order of the machine that captured it
    /// (`LINKTYPE_NULL`).
    pub const NULL: Self = Self(0);
    /// OpenBSD loopback: the same, the most significant byte first (`LINKTYPE_LOOP`).
    pub const LOOP: Self = Self(108);
    /// Ethernet, with any number of VLAN tags.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without a link header (`LINKTYPE_RAW`).
    pub const RAW: Self = Self(101);
    /// IPv4 without a link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link header.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 1: 16 bytes.
    pub const LINUX_SLL: Self = Self(113);
    /// Linux cooked capture, version 2: 20 bytes.
    pub const LINUX_SLL2: Self = Self(276);

    /// The link type of a capture file, where some systems write their own numbers for raw IP
    /// (12 on most, 14 on OpenBSD) instead of the registry's.
    pub const fn from_file(number: u16) -> Self {
        match number {
            12 | 14 => Self::RAW,
            other => Self(other),
        }
    }

    /// Whether the frame begins with its IP header.
    pub const fn is_raw_ip(self) -> bool {
        matches!(self, Self::RAW | Self::IPV4 | Self::IPV6)
    }

    /// Where the ethertype of the packet stands whose header is at `l3`, from the frame's first byte; `None`
    /// where the link has none.
    pub const fn kind_at(self, l3: usize) -> Option<usize> {
        match self {
            Self::ETHERNET => l3.checked_sub(2),
            Self::LINUX_SLL => Some(sll::field::ETHERTYPE.start),
            Self::LINUX_SLL2 => Some(sll::field_v2::ETHERTYPE.start),
            _ => None,
        }
    }

    /// Whether a packet that becomes one of IP version `version` can have this link. Loopbacks have numbers for IPv6 that
    /// differ from system to system.
    #[inline(always)]
    pub const fn takes(self, version: u8) -> bool {
        match self {
            Self::ETHERNET => true,
            Self::IPV4 => version == 4,
            Self::IPV6 => version == 6,
            Self::NULL | Self::LOOP => false,
            _ => true,
        }
    }

    /// Whether headers behind it are understood.
    pub const fn is_known(self) -> bool {
        self.is_raw_ip()
            || matches!(self, Self::ETHERNET | Self::LINUX_SLL | Self::LINUX_SLL2)
            || matches!(self, Self::NULL | Self::LOOP)
    }
}
