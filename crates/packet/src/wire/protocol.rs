//! Protocol numbers: how one header names the next.

/// EtherTypes, as the IEEE registry has them. A value under [`MIN`](ethertype::MIN) is the length
/// of an 802.3 frame.
pub mod ethertype {
    /// The least value that is a type and not a length.
    pub const MIN: u16 = 0x0600;
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// A customer's VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// A provider's VLAN tag (802.1ad, "QinQ").
    pub const QINQ: u16 = 0x88a8;
    /// The outer tag of equipment older than 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | QINQ | QINQ_OLD)
    }
}

/// IP protocol numbers, which are also IPv6 next-header values, as the IANA registry has them.
pub mod ip_protocol {
    /// IPv6 hop-by-hop options (RFC 8200).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// IGMP (RFC 3376).
    pub const IGMP: u8 = 2;
    /// IPv4 inside (RFC 2003).
    pub const IPV4: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 inside (RFC 2473).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header (RFC 8200).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200).
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: u8 = 50;
    /// Authentication header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// Nothing follows (RFC 8200).
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options (RFC 8200).
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// IP payload compression (RFC 3173).
    pub const IPCOMP: u8 = 108;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;

    /// Whether it is an IPv6 extension header that can be walked over.
    #[inline]
    pub const fn is_extension(next_header: u8) -> bool {
        matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION_OPTIONS)
    }
}
