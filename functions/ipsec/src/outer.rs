//! Headers before ESP, and the parts that a tunnel's end takes over from them (RFC 4301, 5.1.2; RFC
//! 6040; RFC 3948).

use core::net::Ipv6Addr;

use warpline_packet::wire::{checksum, ip_protocol, ipv4, ipv6, udp};

use super::sa::DontFragment;
use super::shape::Shape;

/// The congestion bits, the lower two of the traffic class (RFC 3168, 5).
pub(super) const ECN: u8 = 0b11;
const ECN_CE: u8 = 0b11;

/// The fields of the inner packet that go into the header of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner {
    pub(super) traffic_class: u8,
    /// Whether it must not be fragmented: IPv6, or IPv4 with DF.
    pub(super) dont_fragment: bool,
}

impl Inner {
    /// From the packet of this version that begins with `header`; it is no shorter than its
    /// version's shortest.
    #[inline]
    pub(super) fn of(version: u8, header: &[u8]) -> Self {
        match (version, header.first_chunk::<{ ipv4::HEADER_LEN }>()) {
            (4, Some(header)) => {
                let ip = ipv4::Ipv4::new_unchecked(header);
                let dont_fragment = ip.dont_fragment();
                Self { traffic_class: ip.dscp() << 2 | ip.ecn(), dont_fragment }
            }
            (_, Some(header)) => {
                let traffic_class = ipv6::Ipv6::new_unchecked(header).traffic_class();
                Self { traffic_class, dont_fragment: true }
            }
            (_, None) => Self { traffic_class: 0, dont_fragment: true },
        }
    }
}

/// Writes the header of a tunnel packet of `len` bytes, header included, to the start of `out`.
pub(super) fn write(out: &mut [u8], shape: &Shape, inner: Inner, len: usize, sequence: u64) {
    match shape.outer_version() {
        4 => {
            if let Some(out) = out.first_chunk_mut() {
                *out = header_v4(shape, inner, len, shape.outer_protocol(), sequence);
            }
        }
        6 => {
            let Some(out) = out.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return };
            let mut ip = ipv6::Ipv6::new_unchecked(&mut *out);
            ip.set_class_and_flow(inner.traffic_class & shape.class_kept | shape.class_set, 0);
            ip.set_payload_len((len - ipv6::HEADER_LEN) as u16);
            ip.set_next_header(shape.outer_protocol());
            ip.set_hop_limit(shape.outer.hops);
            let addresses = ipv6::field::SRC_ADDR.start..ipv6::field::DST_ADDR.end;
            out[addresses].copy_from_slice(&shape.addresses);
        }
        _ => {}
    }
}

/// The identification of packet 0 of an SA.
#[inline(always)]
fn first_ident(spi: u32) -> u16 {
    // SPIs are often neighbours. The factor is 2^32 divided by the golden ratio.
    (spi.wrapping_mul(0x9e37_79b1) >> 16) as u16
}

/// The IPv4 header of a tunnel packet of `len` bytes, header included (RFC 791, 3.1). It is built
/// in words: summing data just written in smaller pieces would stall.
#[inline(always)]
pub(super) fn header_v4(
    shape: &Shape,
    inner: Inner,
    len: usize,
    protocol: u8,
    sequence: u64,
) -> [u8; ipv4::HEADER_LEN] {
    let class = inner.traffic_class & shape.class_kept | shape.class_set;
    let dont_fragment = match shape.outer.dont_fragment {
        DontFragment::Copy => inner.dont_fragment,
        DontFragment::Set => true,
        DontFragment::Clear => false,
    };
    // Unique within an SA as long as fragments may be on their way (RFC 6864, 4.3), and the same in
    // every run. Those of other SAs between these gateways begin elsewhere.
    let (ident, flags) = match dont_fragment {
        true => (0, ipv4::DONT_FRAGMENT),
        false => (sequence as u16 ^ first_ident(shape.spi), 0),
    };
    let hops = u32::from(shape.outer.hops);
    let mut words: [u32; 5] = [
        0x45 << 24 | u32::from(class) << 16 | len as u32 & 0xffff,
        u32::from(ident) << 16 | u32::from(flags),
        hops << 24 | u32::from(protocol) << 16,
        shape.address_word(0),
        shape.address_word(1),
    ];
    let sum: u64 = words.iter().map(|&word| u64::from(word)).sum();
    words[2] |= u32::from(!checksum::fold((sum >> 16) as u32 + (sum & 0xffff) as u32));
    let mut header = [0; ipv4::HEADER_LEN];
    let (places, _) = header.as_chunks_mut::<4>();
    places.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_be_bytes());
    header
}

/// Writes the UDP header of `len` bytes of UDP to `out`, without a checksum (RFC 3948, 2.1). IPv6
/// needs one, see [`fill_udp_checksum`].
pub(super) fn write_udp(out: &mut [u8], [src_port, dst_port]: [u16; 2], len: usize) {
    let mut header = udp::Udp::new_unchecked(out);
    header.set_src_port(src_port);
    header.set_dst_port(dst_port);
    header.set_length(len as u16);
    header.set_checksum(0);
}

/// Sums `udp`, a UDP packet, between two IPv6 addresses.
pub(super) fn fill_udp_checksum(udp: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let pseudo = checksum::pseudo_v6(src, dst, ip_protocol::UDP, udp.len() as u32);
    udp::Udp::new_unchecked(udp).fill_checksum(pseudo);
}

/// The congestion mark of a packet that leaves a tunnel, from its own and the outer header's (RFC
/// 6040, 4.2). `None` if it must be dropped: it experienced congestion and its transport doesn't
/// support marks.
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
