//! Headers in front of ESP, and what a tunnel's end takes over from them (RFC 4301, 5.1.2; RFC 6040; RFC 3948).

use core::net::{IpAddr, Ipv6Addr};

use warpline_packet::wire::{checksum, ip_protocol, ipv4, ipv6, udp};

use super::sa::{DontFragment, Encap, Sa};

/// Congestion is told in the lower two bits of the traffic class (RFC 3168, 5).
const ECN: u8 = 0b11;
const ECN_CE: u8 = 0b11;

/// What of the inner packet goes into the header of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner {
    pub(super) traffic_class: u8,
    /// Whether it may not be fragmented: IPv6, or IPv4 that says so.
    pub(super) dont_fragment: bool,
}

/// Writes the header of a tunnel packet of `len` bytes, header included, to `out`, which is as long as it.
pub(super) fn write(out: &mut [u8], sa: &Sa, inner: Inner, len: usize, sequence: u64) {
    let outer = &sa.outer;
    let dscp = outer.dscp.map_or(inner.traffic_class & !ECN, |dscp| dscp << 2);
    // RFC 6040, 4.1: normal mode copies the mark, compatibility mode doesn't.
    let class = dscp | if outer.ecn { inner.traffic_class & ECN } else { 0 };
    let protocol = if sa.encap.is_some() { ip_protocol::UDP } else { ip_protocol::ESP };
    match (sa.src, sa.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let dont_fragment = match outer.dont_fragment {
                DontFragment::Copy => inner.dont_fragment,
                DontFragment::Set => true,
                DontFragment::Clear => false,
            };
            let mut ip = ipv4::Ipv4::new_unchecked(out);
            ip.set_header_len(ipv4::HEADER_LEN);
            ip.set_dscp_ecn(class);
            ip.set_total_len(len as u16);
            // Unique as long as fragments may be on their way (RFC 6864, 4.3), and the same in every run.
            ip.set_ident(if dont_fragment { 0 } else { sequence as u16 });
            ip.set_flags_fragment(if dont_fragment { ipv4::DONT_FRAGMENT } else { 0 });
            ip.set_ttl(outer.hops);
            ip.set_protocol(protocol);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
            ip.fill_checksum();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = ipv6::Ipv6::new_unchecked(out);
            ip.set_class_and_flow(class, 0);
            ip.set_payload_len((len - ipv6::HEADER_LEN) as u16);
            ip.set_next_header(protocol);
            ip.set_hop_limit(outer.hops);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
        }
        _ => {}
    }
}

/// Writes the UDP header of `len` bytes of UDP to `out`. Its sum is left out, as RFC 3948, 2.1 asks; IPv6 needs
/// one, see [`fill_udp_checksum`].
pub(super) fn write_udp(out: &mut [u8], encap: Encap, len: usize) {
    let mut header = udp::Udp::new_unchecked(out);
    header.set_src_port(encap.src_port);
    header.set_dst_port(encap.dst_port);
    header.set_length(len as u16);
    header.set_checksum(0);
}

/// Sums `udp`, a UDP packet, between two IPv6 addresses.
pub(super) fn fill_udp_checksum(udp: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let pseudo = checksum::pseudo_v6(src, dst, ip_protocol::UDP, udp.len() as u32);
    udp::Udp::new_unchecked(udp).fill_checksum(pseudo);
}

/// The congestion mark of a packet that leaves a tunnel, of its own and the outer header's (RFC 6040, 4.2);
/// `None` where it is to be dropped: congestion was met by a packet that can't tell.
pub(super) fn ecn_out(inner: u8, outer: u8) -> Option<u8> {
    match (inner & ECN, outer & ECN) {
        (0, ECN_CE) => None,
        (0, _) => Some(0),
        (ECN_CE, _) | (_, ECN_CE) => Some(ECN_CE),
        // ECT(1) on the way is a mild mark.
        (0b10, 0b01) => Some(0b01),
        (own, _) => Some(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040, figure 4.
    #[test]
    fn marks_leave_a_tunnel_as_the_table_says() {
        const NOT: u8 = 0b00;
        const ECT0: u8 = 0b10;
        const ECT1: u8 = 0b01;
        const CE: u8 = 0b11;
        let outers = [NOT, ECT0, ECT1, CE];
        let table = [
            (NOT, [Some(NOT), Some(NOT), Some(NOT), None]),
            (ECT0, [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)]),
            (ECT1, [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)]),
            (CE, [Some(CE), Some(CE), Some(CE), Some(CE)]),
        ];
        for (inner, row) in table {
            for (outer, expected) in outers.into_iter().zip(row) {
                assert_eq!(ecn_out(inner, outer), expected, "{inner:02b} in {outer:02b}");
            }
        }
    }
}
