//! The key of a fragmented packet, which all its fragments have.

use core::ops::Deref;

use crate::wire::{Ipv4, Ipv6, ip_protocol, ipv4, ipv6, ipv6_ext};
use crate::{Batch, Flags, Headers, PacketView};

/// The key that all fragments of a packet share (RFC 791, 3.2; RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// The source address; IPv4 fills the low 32 bits.
    pub src: u128,
    /// The destination address.
    pub dst: u128,
    /// The identification.
    pub ident: u32,
    /// The IP version.
    pub version: u8,
    /// The protocol; 0 for IPv6, which does not tell packets apart by it (RFC 8200, 4.5).
    pub protocol: u8,
}

impl FragmentKey {
    /// The key of a packet of a batch that is a fragment.
    pub fn of_packet<B: Deref<Target = Batch>>(packet: &PacketView<B>) -> Option<Self> {
        let (version, (src, dst)) = (packet.version(), packet.addresses());
        let (ident, protocol) = match version {
            4 => (u32::from(packet.ip_ident()), packet.protocol()),
            _ => (ident_v6(packet.ip_protocol(), packet.ip_options())?, 0),
        };
        Some(Self { src, dst, ident, version, protocol })
    }

    /// The key of a frame with these headers, if it is a fragment with headers that can be
    /// believed.
    pub fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        if !headers.flags.has(Flags::FRAGMENT) || headers.malformed().is_some() {
            return None;
        }
        let packet = frame.get(usize::from(headers.l3)..)?;
        match headers.version {
            4 => {
                let ip = Ipv4::new_unchecked(packet.get(..ipv4::HEADER_LEN)?);
                Some(Self {
                    src: ip.src_addr().to_bits().into(),
                    dst: ip.dst_addr().to_bits().into(),
                    ident: ip.ident().into(),
                    version: 4,
                    protocol: ip.protocol(),
                })
            }
            6 => {
                let ip = Ipv6::new_unchecked(packet.get(..ipv6::HEADER_LEN)?);
                Some(Self {
                    src: ip.src_addr().to_bits(),
                    dst: ip.dst_addr().to_bits(),
                    ident: ident_v6(ip.next_header(), packet.get(ipv6::HEADER_LEN..)?)?,
                    version: 6,
                    protocol: 0,
                })
            }
            _ => None,
        }
    }
}

/// The identification in the fragment header of IPv6. `headers` starts with the extension headers,
/// of which `next` names the first.
fn ident_v6(mut next: u8, mut headers: &[u8]) -> Option<u32> {
    while next != ip_protocol::FRAGMENT {
        let header = headers.get(..ipv6_ext::HEADER_LEN)?;
        if !ip_protocol::is_extension(next) && next != ip_protocol::AH {
            return None;
        }
        let units = usize::from(header[ipv6_ext::field::LEN.start]);
        let len = if next == ip_protocol::AH { (units + 2) * 4 } else { (units + 1) * 8 };
        next = header[ipv6_ext::field::NEXT_HEADER.start];
        headers = headers.get(len..)?;
    }
    let ident = headers.get(ipv6_ext::field::IDENT)?;
    Some(u32::from_be_bytes(ident.try_into().ok()?))
}
