//! The packet that an ICMP error quotes.

use warpline_packet::Packet;
use warpline_packet::wire::{Ipv4, Ipv6, icmpv4, icmpv6, ip_protocol, ipv6_ext};

use super::flow_key::FlowKey;

/// The key of the connection that an ICMP error is about. The error must go to the sender of the
/// quoted packet, and the quoted packet must be one that this host sends in the connection. In an
/// echo, the requester sends requests and its peer sends replies. A quoted later fragment has no
/// ports to look up.
pub(super) fn quoted_key(packet: &Packet<'_>) -> Option<FlowKey> {
    let quoted = packet.payload();
    let version = packet.version();
    let (protocol, src, dst, body) =
        if version == 4 { quoted_v4(quoted)? } else { quoted_v6(quoted)? };
    if src != packet.addresses().1 {
        return None;
    }
    let [request, reply] = match (version, protocol) {
        (_, ip_protocol::TCP | ip_protocol::UDP) => {
            let ports = [be16(body, 0)?, be16(body, 2)?];
            return Some(FlowKey::of(version, protocol, (src, ports[0]), (dst, ports[1])).0);
        }
        (4, ip_protocol::ICMP) => [icmpv4::message::ECHO_REQUEST, icmpv4::message::ECHO_REPLY],
        (6, ip_protocol::ICMPV6) => [icmpv6::message::ECHO_REQUEST, icmpv6::message::ECHO_REPLY],
        _ => return Some(FlowKey::of(version, protocol, (src, 0), (dst, 0)).0),
    };
    let (kind, ident) = (*body.first()?, be16(body, 4)?);
    let (asks, answers) = if kind == request { (src, dst) } else { (dst, src) };
    let is_echo = kind == request || kind == reply;
    is_echo.then(|| FlowKey::of_echo(version, protocol, asks, answers, ident).0)
}

type Quoted<'a> = (u8, u128, u128, &'a [u8]);

fn quoted_v4(quoted: &[u8]) -> Option<Quoted<'_>> {
    let ip = Ipv4::new_unchecked(quoted);
    ip.check_start().ok()?;
    let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|address| address.to_bits().into());
    let body = quoted.get(ip.header_len()..)?;
    (ip.fragment_offset() == 0).then(|| (ip.protocol(), src, dst, body))
}

fn quoted_v6(quoted: &[u8]) -> Option<Quoted<'_>> {
    let ip = Ipv6::new_unchecked(quoted);
    ip.check_start().ok()?;
    let chain = ipv6_ext::of_quote(ip.next_header(), quoted)?;
    if chain.is_later_fragment() {
        return None;
    }
    let [src, dst] = [ip.src_addr(), ip.dst_addr()].map(|address| address.to_bits());
    Some((chain.protocol, src, dst, quoted.get(chain.offset..)?))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
