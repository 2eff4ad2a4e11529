//! Packets written by hand, valid and malformed.

use super::super::*;

/// An IPv4 header with room but nothing else after it: 115 bytes of UDP from 192.168.0.1 to .199.
const IPV4: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192,
    168, 0, 199,
];

fn ipv4(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = [&IPV4[..], &[0; 95]].concat();
    change(&mut bytes);
    bytes
}

fn reason(bytes: &[u8]) -> Option<Malformed> {
    Ipv4::new_checked(bytes).err()
}

#[test]
fn ipv4_header() {
    let bytes = ipv4(|_| ());
    let packet = Ipv4::new_checked(&bytes).unwrap();
    assert_eq!((packet.version(), packet.header_len(), packet.total_len()), (4, 20, 115));
    assert_eq!((packet.ttl(), packet.protocol()), (64, ip_protocol::UDP));
    assert_eq!(packet.src_addr().octets(), [192, 168, 0, 1]);
    assert_eq!(packet.dst_addr().octets(), [192, 168, 0, 199]);
    assert!(packet.dont_fragment() && !packet.is_fragment());
    assert!(packet.verify_checksum());

    let mut copy = bytes.clone();
    let mut packet = Ipv4::new_checked(&mut copy).unwrap();
    packet.set_ttl(63);
    assert!(!packet.verify_checksum());
    packet.set_checksum(checksum::update16(packet.checksum(), 0x4011, 0x3f11));
    assert!(packet.verify_checksum());
    let updated = packet.checksum();
    packet.fill_checksum();
    assert_eq!(packet.checksum(), updated);
}

#[test]
fn ipv4_reasons() {
    assert_eq!(reason(&IPV4[..19]), Some(Malformed::Ipv4Truncated));
    assert_eq!(reason(&ipv4(|b| b[0] = 0x65)), Some(Malformed::Ipv4Version));
    assert_eq!(reason(&ipv4(|b| b[0] = 0x44)), Some(Malformed::Ipv4HeaderLen));
    assert_eq!(reason(&ipv4(|b| b[0] = 0x46)[..20]), Some(Malformed::Ipv4TotalLen));
    assert_eq!(reason(&ipv4(|b| b[3] = 19)), Some(Malformed::Ipv4TotalLen));
    assert_eq!(reason(&ipv4(|b| b[3] = 116)), Some(Malformed::Ipv4TotalLen));
    assert_eq!(reason(&ipv4(|b| (b[0], b[3]) = (0x4f, 59))), Some(Malformed::Ipv4TotalLen));
    // Link padding is no fault and no payload.
    let padded = ipv4(|b| b[3] = 22);
    assert_eq!(Ipv4::new_checked(&padded).unwrap().payload().len(), 2);
}

#[test]
fn ipv4_cut_by_the_capture() {
    let bytes = ipv4(|b| b[0] = 0x46);
    let check = |kept: usize, wire: usize| Ipv4::new_unchecked(&bytes[..kept]).check_within(wire);
    assert_eq!(check(24, 115), Ok(()));
    assert_eq!(check(23, 115), Err(Malformed::Ipv4Truncated));
    assert_eq!(check(24, 114), Err(Malformed::Ipv4TotalLen));
    assert_eq!(Ipv4::new_unchecked(&bytes[..30]).payload().len(), 6);
}

#[test]
fn ipv4_fragments_end_within_65535() {
    // 8189 * 8 = 65,512 bytes before a packet of 20 + 3 bytes: just fits. One more doesn't.
    let fragment = |units: u16, len: u8| {
        ipv4(|b| {
            b[2..4].copy_from_slice(&[0, len]);
            b[6..8].copy_from_slice(&units.to_be_bytes());
        })
    };
    assert_eq!(reason(&fragment(8189, 23)), None);
    assert_eq!(reason(&fragment(8189, 24)), Some(Malformed::FragmentBounds));
    assert_eq!(reason(&fragment(8191 | ipv4::MORE_FRAGMENTS, 28)), Some(Malformed::FragmentBounds));
    let bytes = fragment(2 | ipv4::MORE_FRAGMENTS, 28);
    let packet = Ipv4::new_checked(&bytes).unwrap();
    assert!(packet.is_fragment() && packet.more_fragments() && !packet.dont_fragment());
    assert_eq!(packet.fragment_offset(), 16);
}

#[test]
fn ipv4_options() {
    let bytes = ipv4(|b| {
        b[0] = 0x47;
        b[20..28].copy_from_slice(&[1, 148, 4, 0, 0, 0, 7, 99]);
    });
    let packet = Ipv4::new_checked(&bytes).unwrap();
    let mut found = packet.options();
    let alert = found.next().unwrap();
    assert_eq!(
        (alert.kind, alert.offset, alert.data),
        (ipv4::option::ROUTER_ALERT, 1, &[0, 0][..])
    );
    assert_eq!((found.next(), found.is_intact()), (None, true));
    assert_eq!(packet.payload().len(), 115 - 28);
}

#[test]
fn ipv6_header_and_reasons() {
    let mut bytes = vec![0x6b, 0x81, 0x23, 0x45, 0, 4, 17, 64];
    bytes.extend((0..32).chain([1, 2, 3, 4, 0xee]));
    let packet = Ipv6::new_checked(&bytes).unwrap();
    assert_eq!((packet.traffic_class(), packet.flow_label()), (0xb8, 0x1_2345));
    assert_eq!((packet.next_header(), packet.hop_limit()), (17, 64));
    assert_eq!(packet.src_addr().octets()[..2], [0, 1]);
    assert_eq!(packet.dst_addr().octets()[..2], [16, 17]);
    assert_eq!(packet.payload(), [1, 2, 3, 4]);

    let reason = |bytes: &[u8]| Ipv6::new_checked(bytes).err();
    assert_eq!(reason(&bytes[..39]), Some(Malformed::Ipv6Truncated));
    assert_eq!(reason(&bytes[..43]), Some(Malformed::Ipv6PayloadLen));
    bytes[0] = 0x4b;
    assert_eq!(reason(&bytes), Some(Malformed::Ipv6Version));
}

#[test]
fn tcp_segment() {
    // A SYN: 1025 -> 80, sequence 0x01020304, window 65535, MSS 1460, padding; then two bytes.
    let mut bytes = vec![4, 1, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x70, 0x02, 0xff, 0xff, 0, 0, 0, 0];
    bytes.extend([2, 4, 0x05, 0xb4, 1, 1, 0, 0, 0xaa, 0xbb]);
    let mut segment = Tcp::new_checked(&mut bytes[..]).unwrap();
    assert_eq!((segment.src_port(), segment.dst_port(), segment.seq()), (1025, 80, 0x0102_0304));
    assert_eq!((segment.header_len(), segment.flags(), segment.segment_len()), (28, 2, 3));
    assert!(segment.has(tcp::flags::SYN) && !segment.has(tcp::flags::SYN | tcp::flags::ACK));
    let mss = segment.options().next().unwrap();
    assert_eq!((mss.kind, mss.data), (tcp::option::MAX_SEGMENT_SIZE, &[0x05, 0xb4][..]));
    assert_eq!(segment.payload(), [0xaa, 0xbb]);

    // From 10.0.0.1 to 10.0.0.2: pseudo-header 0a00 0001 0a00 0002 0006 001e = 1427; segment 0401
    // 0050 0102 0304 7002 ffff 0204 05b4 0101 aabb = 22bcc, all 23ff3, folded 3ff5.
    let pseudo = checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 30);
    assert_eq!(pseudo, 0x1427);
    segment.fill_checksum(pseudo);
    assert_eq!(segment.checksum(), !0x3ff5);
    assert!(segment.verify_checksum(pseudo) && !segment.verify_checksum(pseudo + 1));
}

#[test]
fn tcp_reasons() {
    let mut bytes = [0; 24];
    let reason = |bytes: &[u8]| Tcp::new_checked(bytes).err();
    assert_eq!(reason(&bytes[..19]), Some(Malformed::TcpTruncated));
    for (offset, expected) in [
        (0x40, Some(Malformed::TcpHeaderLen)),
        (0x50, None),
        (0x60, None),
        (0x70, Some(Malformed::TcpHeaderLen)),
    ] {
        bytes[12] = offset;
        assert_eq!(reason(&bytes), expected);
    }
    assert_eq!(Tcp::new_unchecked(&bytes).check_within(28), Err(Malformed::TcpTruncated));
}

#[test]
fn udp_datagram_and_reasons() {
    let mut bytes = [0, 53, 0x30, 0x39, 0, 10, 0, 0, 0xff, 0xff, 7];
    let mut datagram = Udp::new_checked(&mut bytes[..]).unwrap();
    assert_eq!((datagram.src_port(), datagram.dst_port()), (53, 12345));
    assert_eq!(datagram.payload(), [0xff, 0xff]);
    assert!(datagram.verify_checksum(0x1234), "no checksum is not a wrong one");
    // The words add to 3078 + ffff = 3078; a pseudo-header of cf87 makes that ffff, checksum 0.
    datagram.fill_checksum(0xcf87);
    assert_eq!(datagram.checksum(), 0xffff);
    assert!(datagram.verify_checksum(0xcf87) && !datagram.verify_checksum(0xcf88));
    let reason = |bytes: &[u8]| Udp::new_checked(bytes).err();
    assert_eq!(reason(&bytes[..7]), Some(Malformed::UdpTruncated));
    assert_eq!(reason(&bytes[..9]), Some(Malformed::UdpLength));
    bytes[5] = 7;
    assert_eq!(reason(&bytes), Some(Malformed::UdpLength));
}

#[test]
fn link_headers() {
    let mut bytes = vec![1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xa8];
    bytes.extend([0x20, 0x64, 0x81, 0x00, 0xf0, 0xc8, 0x86, 0xdd, 0x60]);
    let frame = Ethernet::new_checked(&bytes).unwrap();
    assert_eq!((frame.dst(), frame.src(), frame.ethertype()), ([1; 6], [2; 6], ethertype::QINQ));
    let outer = Vlan::new_checked(frame.payload()).unwrap();
    assert_eq!((outer.vid(), outer.pcp(), outer.dei()), (100, 1, false));
    let inner = Vlan::new_checked(outer.payload()).unwrap();
    assert_eq!((inner.vid(), inner.pcp(), inner.dei()), (200, 7, true));
    assert_eq!((inner.ethertype(), inner.payload()), (ethertype::IPV6, &[0x60][..]));

    assert_eq!(Vlan::new_checked(&bytes[14..17]).err(), Some(Malformed::VlanTruncated));
    assert_eq!(Ethernet::new_checked(&bytes[..13]).err(), Some(Malformed::LinkTruncated));
}

#[test]
fn cooked_headers() {
    let v1 = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0, 0x45];
    let frame = Sll::new_checked(&v1).unwrap();
    assert_eq!((frame.packet_type(), frame.hardware_type(), frame.ethertype()), (4, 1, 0x0800));
    assert_eq!((frame.address(), frame.payload()), (&[1, 2, 3, 4, 5, 6][..], &[0x45][..]));
    assert_eq!(Sll::new_checked(&v1[..15]).err(), Some(Malformed::LinkTruncated));

    let v2 = [0x86, 0xdd, 0, 0, 0, 0, 0, 3, 3, 4, 2, 200, 1, 2, 3, 4, 5, 6, 7, 8, 0x60];
    let frame = Sll2::new_checked(&v2).unwrap();
    assert_eq!((frame.ethertype(), frame.interface(), frame.hardware_type()), (0x86dd, 3, 0x304));
    assert_eq!((frame.packet_type(), frame.address()), (2, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert_eq!(frame.payload(), [0x60]);
    assert_eq!(Sll2::new_checked(&v2[..19]).err(), Some(Malformed::LinkTruncated));
}

#[test]
fn icmp_and_esp() {
    // An echo request: 0800 + 1234 + 0001 + 6162 = 7b97.
    let echo = [8, 0, 0x84, 0x68, 0x12, 0x34, 0, 1, b'a', b'b'];
    let message = Icmpv4::new_checked(&echo).unwrap();
    assert!(message.verify_checksum() && message.is_echo() && !message.is_error());
    assert_eq!((message.ident(), message.seq(), message.payload()), (0x1234, 1, &b"ab"[..]));
    assert_eq!(Icmpv4::new_checked(&echo[..7]).err(), Some(Malformed::IcmpTruncated));
    assert_eq!(Icmpv6::new_checked(&echo[..7]).err(), Some(Malformed::IcmpTruncated));
    let errors_v4 = (0..=255).filter(|&kind| icmpv4::message::is_error(kind));
    assert!(errors_v4.eq([3, 4, 5, 11, 12]));

    let packet = [0, 0, 1, 2, 0, 0, 0, 9, 0xaa];
    let esp = Esp::new_checked(&packet).unwrap();
    assert_eq!((esp.spi(), esp.seq(), esp.payload()), (258, 9, &[0xaa][..]));
    assert_eq!(Esp::new_checked(&packet[..7]).err(), Some(Malformed::EspTruncated));
}
