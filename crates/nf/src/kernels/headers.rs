//! The texts before a function's own.

use std::borrow::Cow;

use warpline_packet::LinkType;
use warpline_packet::wire::{ethertype, sll};

/// The name and the text of a header.
pub type Text = (&'static str, &'static str);

/// Text that stands before a function's own.
#[derive(Clone, Debug)]
pub struct KernelHeader {
    /// The name by which compilers call it in their logs.
    pub name: &'static str,
    /// The text.
    pub text: Cow<'static, str>,
}

/// The declarations for every kernel that works on packets.
pub(super) const PACKET: Text = ("packet.h", include_str!("../../kernels/packet.h"));

/// The declarations for kernels that read and write bytes of frames.
pub const BYTES: Text = ("bytes.h", include_str!("../../kernels/bytes.h"));

/// The declarations for kernels that keep findings.
pub const FINDINGS: Text = ("findings.h", include_str!("../../kernels/findings.h"));

/// The declarations for kernels that write Ethernet addresses.
pub const MAC: Text = ("mac.h", include_str!("../../kernels/mac.h"));

/// The declarations for kernels that are given an address and a port with each packet.
pub const ENDPOINT: Text = ("endpoint.h", include_str!("../../kernels/endpoint.h"));

/// The declarations for kernels that put packets into others, or take them out; it asks for
/// [`TUNNEL_NUMBERS`].
pub const TUNNEL: Text = ("tunnel.h", include_str!("../../kernels/tunnel.h"));

/// Links, and the values by which they name the IP version that follows.
pub const TUNNEL_NUMBERS: [(&str, u64); 13] = [
    ("ETHERTYPE_IPV4", ethertype::IPV4 as u64),
    ("ETHERTYPE_IPV6", ethertype::IPV6 as u64),
    ("LINKTYPE_NULL", LinkType::NULL.0 as u64),
    ("LINKTYPE_LOOP", LinkType::LOOP.0 as u64),
    ("LOOPBACK_FAMILY_IPV4", LinkType::NULL.family(4) as u64),
    ("NULL_FAMILY_IPV6", LinkType::NULL.family(6) as u64),
    ("LOOP_FAMILY_IPV6", LinkType::LOOP.family(6) as u64),
    ("LINKTYPE_IPV4", LinkType::IPV4.0 as u64),
    ("LINKTYPE_IPV6", LinkType::IPV6.0 as u64),
    ("LINKTYPE_LINUX_SLL", LinkType::LINUX_SLL.0 as u64),
    ("LINKTYPE_LINUX_SLL2", LinkType::LINUX_SLL2.0 as u64),
    ("SLL_KIND", sll::field::ETHERTYPE.start as u64),
    ("SLL2_KIND", sll::field_v2::ETHERTYPE.start as u64),
];

/// An Ethernet address as [`MAC`] asks for it.
pub fn own_mac([a, b, c, d, e, f]: [u8; 6]) -> [(&'static str, u64); 2] {
    [
        ("OWN_MAC_START", u16::from_le_bytes([a, b]).into()),
        ("OWN_MAC_REST", u32::from_le_bytes([c, d, e, f]).into()),
    ]
}
