//! Every setter writes only its own bytes and bits, and its getter reads them back.

use super::super::*;
use core::ops::Range;

/// Name, bytes it may change, bits of the value that count, set and get.
type Case = (&'static str, Range<usize>, u32, fn(&mut [u8], u32), fn(&[u8]) -> u32);

macro_rules! case {
    ($view:ident, $range:expr, $type:ty, $bits:expr, $set:ident, $get:ident) => {
        (
            concat!(stringify!($view), "::", stringify!($set)),
            $range,
            $bits,
            |bytes, value| $view::new_unchecked(bytes).$set(value as $type),
            |bytes| u32::from($view::new_unchecked(bytes).$get()),
        )
    };
}

const WORD: u32 = 0xffff;

fn cases() -> Vec<Case> {
    vec![
        case!(Ethernet, ethernet::field::ETHERTYPE, u16, WORD, set_ethertype, ethertype),
        case!(Vlan, vlan::field::TCI, u16, WORD, set_tci, tci),
        case!(Vlan, vlan::field::TCI, u16, 0xfff, set_vid, vid),
        case!(Vlan, vlan::field::ETHERTYPE, u16, WORD, set_ethertype, ethertype),
        case!(Sll, sll::field::ETHERTYPE, u16, WORD, set_ethertype, ethertype),
        case!(Sll2, sll::field_v2::ETHERTYPE, u16, WORD, set_ethertype, ethertype),
        case!(Ipv4, ipv4::field::TOTAL_LEN, u16, WORD, set_total_len, total_len),
        case!(Ipv4, ipv4::field::IDENT, u16, WORD, set_ident, ident),
        case!(Ipv4, ipv4::field::FLAGS_FRAGMENT, u16, WORD, set_flags_fragment, flags_fragment),
        case!(Ipv4, ipv4::field::TTL, u8, 0xff, set_ttl, ttl),
        case!(Ipv4, ipv4::field::PROTOCOL, u8, 0xff, set_protocol, protocol),
        case!(Ipv4, ipv4::field::CHECKSUM, u16, WORD, set_checksum, checksum),
        case!(Ipv4, ipv4::field::SRC_ADDR, u32, !0, set_src_bits, src_addr),
        case!(Ipv4, ipv4::field::DST_ADDR, u32, !0, set_dst_bits, dst_addr),
        case!(Ipv6, ipv6::field::PAYLOAD_LEN, u16, WORD, set_payload_len, payload_len),
        case!(Ipv6, ipv6::field::NEXT_HEADER, u8, 0xff, set_next_header, next_header),
        case!(Ipv6, ipv6::field::HOP_LIMIT, u8, 0xff, set_hop_limit, hop_limit),
        case!(Tcp, tcp::field::SRC_PORT, u16, WORD, set_src_port, src_port),
        case!(Tcp, tcp::field::DST_PORT, u16, WORD, set_dst_port, dst_port),
        case!(Tcp, tcp::field::SEQ, u32, !0, set_seq, seq),
        case!(Tcp, tcp::field::ACK, u32, !0, set_ack, ack),
        case!(Tcp, tcp::field::OFFSET_FLAGS, u16, 0x1ff, set_flags, flags),
        case!(Tcp, tcp::field::WINDOW, u16, WORD, set_window, window),
        case!(Tcp, tcp::field::CHECKSUM, u16, WORD, set_checksum, checksum),
        case!(Tcp, tcp::field::URGENT, u16, WORD, set_urgent, urgent),
        case!(Udp, udp::field::SRC_PORT, u16, WORD, set_src_port, src_port),
        case!(Udp, udp::field::DST_PORT, u16, WORD, set_dst_port, dst_port),
        case!(Udp, udp::field::LENGTH, u16, WORD, set_length, length),
        case!(Udp, udp::field::CHECKSUM, u16, WORD, set_checksum, checksum),
        case!(Icmpv4, icmpv4::field::TYPE, u8, 0xff, set_message_type, message_type),
        case!(Icmpv4, icmpv4::field::CODE, u8, 0xff, set_code, code),
        case!(Icmpv4, icmpv4::field::CHECKSUM, u16, WORD, set_checksum, checksum),
        case!(Icmpv4, icmpv4::field::IDENT, u16, WORD, set_ident, ident),
        case!(Icmpv4, icmpv4::field::SEQ, u16, WORD, set_seq, seq),
        case!(Icmpv6, icmpv6::field::TYPE, u8, 0xff, set_message_type, message_type),
        case!(Icmpv6, icmpv6::field::CODE, u8, 0xff, set_code, code),
        case!(Icmpv6, icmpv6::field::CHECKSUM, u16, WORD, set_checksum, checksum),
        case!(Icmpv6, icmpv6::field::IDENT, u16, WORD, set_ident, ident),
        case!(Icmpv6, icmpv6::field::SEQ, u16, WORD, set_seq, seq),
        case!(Esp, esp::field::SPI, u32, !0, set_spi, spi),
        case!(Esp, esp::field::SEQ, u32, !0, set_seq, seq),
    ]
}

impl Ipv4<&mut [u8]> {
    fn set_src_bits(&mut self, bits: u32) {
        self.set_src_addr(bits.into());
    }

    fn set_dst_bits(&mut self, bits: u32) {
        self.set_dst_addr(bits.into());
    }
}

#[test]
fn setters_write_their_own_field() {
    for (name, range, bits, set, get) in cases() {
        for (background, value) in [(0x00, 0x8765_4321), (0xff, 0x1234_5678), (0xa5, 0), (0x5a, !0)]
        {
            let mut bytes = [background; 64];
            set(&mut bytes, value);
            assert_eq!(get(&bytes), value & bits, "{name}");
            for (at, &byte) in bytes.iter().enumerate() {
                assert!(range.contains(&at) || byte == background, "{name} wrote byte {at}");
            }
            // Other bits of a shared word stay.
            let width = range.len() as u32 * 8;
            if bits.count_ones() < width {
                let word = u16::from_be_bytes(bytes[range.clone()].try_into().unwrap());
                let shared = u16::from_be_bytes([background; 2]) & !(bits as u16);
                assert_eq!(word & !(bits as u16), shared, "{name}");
            }
        }
    }
}

#[test]
fn setters_of_addresses_and_packed_words() {
    let mut bytes = [0xff; 64];
    let mut ethernet = Ethernet::new_unchecked(&mut bytes[..]);
    ethernet.set_dst([1, 2, 3, 4, 5, 6]);
    ethernet.set_src([7, 8, 9, 10, 11, 12]);
    assert_eq!((ethernet.dst(), ethernet.src()), ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]));
    assert_eq!(bytes[..13], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xff]);

    let mut bytes = [0xff; 64];
    let mut ipv6 = Ipv6::new_unchecked(&mut bytes[..]);
    ipv6.set_class_and_flow(0xa5, 0xfff1_2345);
    assert_eq!((ipv6.version(), ipv6.traffic_class(), ipv6.flow_label()), (6, 0xa5, 0x1_2345));
    let (src, dst) = ("2001:db8::1".parse().unwrap(), "fe80::2".parse().unwrap());
    ipv6.set_src_addr(src);
    ipv6.set_dst_addr(dst);
    assert_eq!((ipv6.src_addr(), ipv6.dst_addr()), (src, dst));
    assert_eq!(bytes[..5], [0x6a, 0x51, 0x23, 0x45, 0xff]);
    assert_eq!(bytes[40], 0xff);

    let mut bytes = [0xff; 64];
    let mut ipv4 = Ipv4::new_unchecked(&mut bytes[..]);
    ipv4.set_header_len(24);
    ipv4.set_dscp_ecn(0b1011_1001);
    assert_eq!((ipv4.version(), ipv4.header_len(), ipv4.dscp(), ipv4.ecn()), (4, 24, 46, 1));
    assert_eq!(bytes[..3], [0x46, 0xb9, 0xff]);

    let mut bytes = [0xff; 64];
    let mut tcp = Tcp::new_unchecked(&mut bytes[..]);
    tcp.set_header_len(32);
    assert_eq!((tcp.header_len(), tcp.flags()), (32, 0x1ff));
    assert_eq!(bytes[12..14], [0x8f, 0xff]);
}
