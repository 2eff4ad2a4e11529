//! The link layer on which a frame was captured.

use crate::wire::{ethertype, sll};

/// A link type, as the registry of pcap link types (`LINKTYPE_*`) numbers it.
///
/// The named ones are understood; a frame of any other is carried as it is and counts as not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a 4-byte address family in the byte order of the capturing machine
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

    /// Whether its headers are read. Packets of others count as other than IP.
    pub const fn is_read(self) -> bool {
        let has_header = matches!(self, Self::ETHERNET | Self::LINUX_SLL | Self::LINUX_SLL2);
        has_header || self.is_raw_ip() || matches!(self, Self::NULL | Self::LOOP)
    }

    /// Whether the frame begins with its IP header.
    pub const fn is_raw_ip(self) -> bool {
        matches!(self, Self::RAW | Self::IPV4 | Self::IPV6)
    }

    /// The offset in the frame of the ethertype for a packet whose header is at `l3`; `None` if the
    /// link has none.
    const fn kind_at(self, l3: usize) -> Option<usize> {
        match self {
            Self::ETHERNET => l3.checked_sub(2),
            Self::LINUX_SLL => Some(sll::field::ETHERTYPE.start),
            Self::LINUX_SLL2 => Some(sll::field_v2::ETHERTYPE.start),
            _ => None,
        }
    }

    /// Changes the IP version that `header`, the link header of an IP packet, announces. On a
    /// loopback the number for IPv6 differs between systems, and an IPv4 header doesn't show which
    /// is used. It becomes macOS's, or OpenBSD's for [`Self::LOOP`]; tshark and Wireshark read
    /// both.
    pub fn announce(self, header: &mut [u8], version: u8) {
        if let Self::NULL | Self::LOOP = self {
            // The byte that isn't zero, in whatever order they stand.
            let number = header.iter_mut().take(FAMILY_LEN).find(|byte| **byte != 0);
            if let Some(number) = number {
                *number = self.family(version);
            }
        } else if let Some(kind) =
            self.kind_at(header.len()).and_then(|at| header.get_mut(at..at + 2))
        {
            let number = if version == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
            kind.copy_from_slice(&number.to_be_bytes());
        }
    }

    /// The address family that a loopback's header gets for an IP version.
    pub const fn family(self, version: u8) -> u8 {
        match (self, version) {
            (_, 4) => FAMILY_IPV4,
            (Self::LOOP, _) => FAMILY_IPV6_OPENBSD,
            _ => FAMILY_IPV6_MACOS,
        }
    }

    /// Whether a packet that becomes one of IP version `version` can have this link.
    #[inline(always)]
    pub const fn takes(self, version: u8) -> bool {
        match self {
            Self::IPV4 => version == 4,
            Self::IPV6 => version == 6,
            _ => true,
        }
    }

    /// Whether the headers after it are understood.
    pub const fn is_known(self) -> bool {
        self.is_raw_ip()
            || matches!(self, Self::ETHERNET | Self::LINUX_SLL | Self::LINUX_SLL2)
            || matches!(self, Self::NULL | Self::LOOP)
    }
}

/// Bytes of the address family on a loopback.
pub(crate) const FAMILY_LEN: usize = 4;
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6_OPENBSD: u8 = 24;
const FAMILY_IPV6_MACOS: u8 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_header_announces_the_other_version() {
        let cases: [(LinkType, &[u8], &[u8]); 7] = [
            (LinkType::NULL, &[2, 0, 0, 0], &[30, 0, 0, 0]),
            (LinkType::NULL, &[0, 0, 0, 2], &[0, 0, 0, 30]),
            (LinkType::LOOP, &[0, 0, 0, 2], &[0, 0, 0, 24]),
            (LinkType::ETHERNET, &[1; 14], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0x86, 0xdd]),
            (LinkType::LINUX_SLL2, &[8, 0, 9, 9], &[0x86, 0xdd, 9, 9]),
            (LinkType::RAW, &[], &[]),
            (LinkType::NULL, &[], &[]),
        ];
        for (link, header, expected) in cases {
            let mut header = header.to_vec();
            link.announce(&mut header, 6);
            assert_eq!(header, expected, "{link:?}");
        }
        for (link, mut header) in [(LinkType::NULL, [28, 0, 0, 0]), (LinkType::LOOP, [0, 0, 0, 24])]
        {
            let expected = header.map(|byte| if byte == 0 { 0 } else { 2 });
            link.announce(&mut header, 4);
            assert_eq!(header, expected, "{link:?}");
        }
    }
}
