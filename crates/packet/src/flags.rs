//! Facts that ingress found about a packet, one bit each.

/// A set of findings.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub(crate) u16);

impl Flags {
    /// Part of a fragmented IP packet.
    pub const FRAGMENT: u16 = 1 << 0;
    /// A fragment that is not the first, so without a transport header.
    pub const LATER_FRAGMENT: u16 = 1 << 1;
    /// The capture cut the frame: it was longer on the wire.
    pub const SNAPPED: u16 = 1 << 2;
    /// One or more VLAN tags.
    pub const VLAN: u16 = 1 << 3;
    /// IPv4 options or IPv6 extension headers.
    pub const IP_OPTIONS: u16 = 1 << 4;
    /// The transport header (TCP, UDP, ICMP, ICMPv6, ESP) is there and whole.
    pub const TRANSPORT: u16 = 1 << 5;
    /// Made by a function of the chain.
    pub const GENERATED: u16 = 1 << 6;
    /// The capture cut the frame before the end of its IP header, or before the type of that
    /// header.
    pub const IP_CUT: u16 = 1 << 7;
    /// Made by a function of the chain for the sender of another packet.
    pub const ANSWER: u16 = 1 << 8;
    /// A function of the chain put an outer IP header before the packet's own.
    pub const WRAPPED: u16 = 1 << 9;
    /// A function of the chain took a cipher off it, and none put one on since.
    pub const OPENED: u16 = 1 << 10;
    /// Flags of the chain's own work on a packet. They stay when its headers are found anew.
    pub const KEPT: u16 = Self::GENERATED | Self::ANSWER | Self::WRAPPED | Self::OPENED;

    /// Whether any of `bits` is in the set.
    #[inline(always)]
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// Adds `bits`.
    #[inline(always)]
    pub const fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }

    /// Takes `bits` away.
    #[inline(always)]
    pub const fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }
}
