//! Frames of a port that forwards by routes: which are the chain's, and which are the kernel's.

use core::ops::RangeInclusive;
use std::net::IpAddr;

use warpline_packet::wire::ethertype;

use super::LocalAddresses;

pub(crate) const ICMPV6: u8 = 58;
/// Types of IPv6 neighbour discovery, from router solicitation to redirect.
pub(crate) const DISCOVERY: RangeInclusive<u8> = 133..=137;

/// Whether the chain forwards a frame to the interface's own address: it has no tag, and an IP
/// packet that is neither for this machine nor of neighbour discovery, which the kernel answers for
/// addresses of the chain, too.
pub(crate) fn is_forwarded(frame: &[u8], local: &LocalAddresses) -> bool {
    destination(frame).is_some_and(|address| !local.has(address)) && !is_neighbour_discovery(frame)
}

/// The destination of an IP packet in an Ethernet frame without a tag.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let (header, packet) = frame.split_first_chunk::<14>()?;
    match u16::from_be_bytes([header[12], header[13]]) {
        ethertype::IPV4 => packet.get(16..)?.first_chunk::<4>().map(|octets| (*octets).into()),
        ethertype::IPV6 => packet.get(24..)?.first_chunk::<16>().map(|octets| (*octets).into()),
        _ => None,
    }
}

fn is_neighbour_discovery(frame: &[u8]) -> bool {
    let is_ipv6 = frame.get(12..14) == Some(&ethertype::IPV6.to_be_bytes());
    let [next_header, icmp_type] = [20, 54].map(|at| frame.get(at).copied());
    is_ipv6 && next_header == Some(ICMPV6) && icmp_type.is_some_and(|t| DISCOVERY.contains(&t))
}
