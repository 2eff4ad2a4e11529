//! The reasons why bytes are not the packet they claim to be.

use core::fmt;

/// A reason to reject a packet as malformed. 0 is not a reason: in a packet's metadata it says that
/// none was found.
///
/// `*Truncated` means that the header itself isn't all there; where the capture kept fewer bytes
/// than were on the wire, it is the capture that cut it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// The frame ends inside its link header.
    LinkTruncated = 1,
    /// The frame ends inside a VLAN tag.
    VlanTruncated = 2,
    /// The frame ends inside the IPv4 header.
    Ipv4Truncated = 3,
    /// The version in an IPv4 header isn't 4.
    Ipv4Version = 4,
    /// The IPv4 header length is under 20 bytes.
    Ipv4HeaderLen = 5,
    /// The IPv4 total length is less than the header or more than was on the wire; 0 is neither.
    Ipv4TotalLen = 6,
    /// The frame ends inside the IPv6 header.
    Ipv6Truncated = 7,
    /// The version in an IPv6 header isn't 6.
    Ipv6Version = 8,
    /// The IPv6 payload length, or that of the jumbo payload option, is more than was on the wire.
    Ipv6PayloadLen = 9,
    /// The chain of IPv6 extension headers is too long, runs over the packet's end, repeats the
    /// fragment header, or has hop-by-hop options that are not first.
    Ipv6Extension = 10,
    /// The segment ends inside the TCP header.
    TcpTruncated = 11,
    /// The TCP data offset is under 20 bytes or more than the segment.
    TcpHeaderLen = 12,
    /// The datagram ends inside the UDP header.
    UdpTruncated = 13,
    /// The UDP length is under 8 (0 is right in a jumbogram) or more than the IP payload.
    UdpLength = 14,
    /// The message ends inside the ICMP or ICMPv6 header.
    IcmpTruncated = 15,
    /// The packet ends inside the ESP header.
    EspTruncated = 16,
    /// The fragment ends beyond the largest packet that it could be a part of, 65,535 bytes.
    FragmentBounds = 17,
}

impl Malformed {
    /// Every reason, in the order of its number, which starts at 1.
    pub const ALL: &[Self] = &[
        Self::LinkTruncated,
        Self::VlanTruncated,
        Self::Ipv4Truncated,
        Self::Ipv4Version,
        Self::Ipv4HeaderLen,
        Self::Ipv4TotalLen,
        Self::Ipv6Truncated,
        Self::Ipv6Version,
        Self::Ipv6PayloadLen,
        Self::Ipv6Extension,
        Self::TcpTruncated,
        Self::TcpHeaderLen,
        Self::UdpTruncated,
        Self::UdpLength,
        Self::IcmpTruncated,
        Self::EspTruncated,
        Self::FragmentBounds,
    ];

    /// The reason with this number; `None` for 0 and for numbers that none has.
    #[inline]
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The name under which it is counted.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinkTruncated => "link-truncated",
            Self::VlanTruncated => "vlan-truncated",
            Self::Ipv4Truncated => "ipv4-truncated",
            Self::Ipv4Version => "ipv4-version",
            Self::Ipv4HeaderLen => "ipv4-header-len",
            Self::Ipv4TotalLen => "ipv4-total-len",
            Self::Ipv6Truncated => "ipv6-truncated",
            Self::Ipv6Version => "ipv6-version",
            Self::Ipv6PayloadLen => "ipv6-payload-len",
            Self::Ipv6Extension => "ipv6-extension",
            Self::TcpTruncated => "tcp-truncated",
            Self::TcpHeaderLen => "tcp-header-len",
            Self::UdpTruncated => "udp-truncated",
            Self::UdpLength => "udp-length",
            Self::IcmpTruncated => "icmp-truncated",
            Self::EspTruncated => "esp-truncated",
            Self::FragmentBounds => "fragment-bounds",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_stable_and_distinct() {
        assert_eq!(Malformed::from_u8(0), None);
        for (index, &reason) in Malformed::ALL.iter().enumerate() {
            assert_eq!(usize::from(reason as u8), index + 1);
            assert_eq!(Malformed::from_u8(reason as u8), Some(reason));
            let same = Malformed::ALL.iter().filter(|other| other.name() == reason.name()).count();
            assert_eq!(same, 1, "{reason}");
            assert!(reason.name().bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')));
        }
        assert_eq!(Malformed::from_u8(18), None);
        assert_eq!(Malformed::from_u8(255), None);
    }
}
