//! Answers to rejected packets.

use warpline_packet::wire::{Icmpv4, Icmpv6, Ipv4, Ipv6, Tcp, checksum};
use warpline_packet::{Headers, LinkType};

use crate::report::FRAME_LEN_MAX;
use crate::report::reject::Subject;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const FIN: u8 = 1;

/// Ethernet with a VLAN tag around `packet`.
fn framed(packet: &[u8], ethertype: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 5];
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 9, protocol, 0, 0];
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(&src);
    packet.extend_from_slice(&dst);
    packet.extend_from_slice(body);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    framed(&packet, 0x0800)
}

fn v6(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, protocol, 9];
    for end in [1, 2] {
        packet.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
    }
    packet.extend_from_slice(body);
    framed(&packet, 0x86dd)
}

fn tcp(flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x0f, 0xa0, 0, 80];
    segment.extend_from_slice(&0xffff_fff0_u32.to_be_bytes());
    segment.extend_from_slice(&7000_u32.to_be_bytes());
    // Four bytes of options.
    segment.extend_from_slice(&[0x60, flags, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0]);
    segment.extend_from_slice(data);
    segment
}

/// Both resets and the unreachable.
fn answers(frame: &[u8], wire_len: usize) -> [Option<Vec<u8>>; 3] {
    let headers = Headers::parse(frame, LinkType::ETHERNET, wire_len);
    let subject = Subject { frame, headers: &headers, link: LinkType::ETHERNET };
    let mut out = [0xee; FRAME_LEN_MAX];
    let take = |len: Option<usize>, out: &[u8]| len.map(|len| out[..len].to_vec());
    [
        take(subject.reset_to_source(&mut out), &out),
        take(subject.reset_to_destination(&mut out), &out),
        take(subject.unreachable(&mut out), &out),
    ]
}

/// Sequence number, acknowledgement and flags of a reset of IPv4, which is checked otherwise.
fn reset(frame: &[u8], is_back: bool) -> (u32, u32, u16) {
    let packet = Ipv4::new_checked(&frame[18..]).unwrap();
    assert!(packet.verify_checksum() && frame.len() == 18 + 40);
    let segment = Tcp::new_checked(packet.payload()).unwrap();
    let pseudo = checksum::pseudo_v4(packet.src_addr(), packet.dst_addr(), 6, 20);
    assert!(segment.verify_checksum(pseudo));
    let ends = (packet.src_addr().octets(), packet.dst_addr().octets());
    let ports = (segment.src_port(), segment.dst_port());
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    assert_eq!((ends, ports), if is_back { ((b, a), (80, 4000)) } else { ((a, b), (4000, 80)) });
    let mac = if is_back { 1 } else { 2 };
    assert_eq!((frame[5], frame[11], &frame[12..16]), (mac, 3 - mac, &[0x81, 0, 0, 5][..]));
    (segment.seq(), segment.ack(), segment.flags())
}

#[test]
fn resets_have_the_numbers_that_are_expected() {
    let (seq, rst, acked) = (0xffff_fff0_u32, u16::from(RST), u16::from(RST | ACK));
    for (flags, data, source, destination) in [
        (SYN, &b""[..], (0, seq + 1, acked), None),
        (SYN | ACK, b"", (7000, 0, rst), Some((seq, 7000, acked))),
        (ACK, b"0123456789abcdefgh", (7000, 0, rst), Some((seq, 7000, acked))),
        (0, b"0123456789abcdefgh", (0, 2, acked), Some((seq, 0, rst))),
        (FIN, b"0123456789abcdefgh", (0, 3, acked), Some((seq, 0, rst))),
    ] {
        let frame = v4([10, 0, 0, 1], [10, 0, 0, 2], 6, 0, &tcp(flags, data));
        let [to_source, to_destination, unreachable] = answers(&frame, frame.len());
        assert_eq!(reset(&to_source.unwrap(), true), source, "{flags}");
        assert_eq!(to_destination.map(|frame| reset(&frame, false)), destination, "{flags}");
        assert_eq!(unreachable, None);
        // Data cut off by the capture was still sent.
        let cut = &frame[..frame.len() - data.len()];
        let [to_source, ..] = answers(cut, frame.len());
        assert_eq!(reset(&to_source.unwrap(), true), source, "{flags}, cut");
    }
    let frame = v6(6, &tcp(ACK, b"data"));
    let [to_source, to_destination, _] = answers(&frame, frame.len());
    for (answer, seq) in [(to_source.unwrap(), 7000), (to_destination.unwrap(), seq)] {
        let packet = Ipv6::new_checked(&answer[18..]).unwrap();
        let segment = Tcp::new_checked(packet.payload()).unwrap();
        let pseudo = checksum::pseudo_v6(packet.src_addr(), packet.dst_addr(), 6, 20);
        assert!(segment.verify_checksum(pseudo) && segment.seq() == seq);
    }
}

#[test]
fn everything_else_is_unreachable() {
    let udp = [0x0f, 0xa0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    for (protocol, body) in [(17, &udp[..]), (1, &[8, 0, 0, 0, 0, 1, 0, 1]), (47, &[0; 8])] {
        let frame = v4([10, 0, 0, 1], [10, 0, 0, 2], protocol, 0, body);
        let [None, None, Some(answer)] = answers(&frame, frame.len()) else { panic!("{protocol}") };
        let packet = Ipv4::new_checked(&answer[18..]).unwrap();
        assert_eq!(packet.src_addr().octets(), [10, 0, 0, 2]);
        assert_eq!(packet.dst_addr().octets(), [10, 0, 0, 1]);
        let icmp = Icmpv4::new_unchecked(packet.payload());
        assert_eq!((icmp.message_type(), icmp.code()), (3, 13));
        assert_eq!(icmp.payload(), &frame[18..]);
    }
    let frame = v6(17, &udp);
    let [None, None, Some(answer)] = answers(&frame, frame.len()) else { panic!("an answer") };
    let packet = Ipv6::new_checked(&answer[18..]).unwrap();
    let icmp = Icmpv6::new_unchecked(packet.payload());
    assert_eq!((icmp.message_type(), icmp.code(), answer[11]), (1, 1, 2));
}

#[test]
fn no_answer_to_packets_that_forbid_it() {
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (segment, udp) = (tcp(ACK, b"data"), [0, 9, 0, 9, 0, 8, 0, 0]);
    let mut many = v4(a, b, 6, 0, &segment);
    many[0] = 1;
    let mut lies = v4(a, b, 6, 0, &segment);
    lies[18 + 20 + 12] = 0xf0;
    for (what, frame) in [
        ("a reset", v4(a, b, 6, 0, &tcp(RST | ACK, b""))),
        ("a first fragment", v4(a, b, 6, 0x2000, &segment)),
        ("a later fragment", v4(a, b, 6, 9, &segment)),
        ("a fragment of UDP", v4(a, b, 17, 0x2000, &udp)),
        ("an ICMP error", v4(a, b, 1, 0, &[3, 3, 0, 0, 0, 0, 0, 0])),
        ("an ICMPv6 error", v6(58, &[1, 4, 0, 0, 0, 0, 0, 0])),
        ("multicast", v4(a, [224, 0, 0, 1], 17, 0, &udp)),
        ("broadcast", v4(a, [255; 4], 17, 0, &udp)),
        ("TCP to many", v4(a, [239, 1, 1, 1], 6, 0, &segment)),
        ("from nobody", v4([0; 4], b, 6, 0, &segment)),
        ("from many", v4([224, 0, 0, 1], b, 17, 0, &udp)),
        ("many on the link", many),
        ("a header that lies", lies),
        ("no IP", framed(&[0; 40], 0x0806)),
        ("nothing", Vec::new()),
    ] {
        assert_eq!(answers(&frame, frame.len()), [None, None, None], "{what}");
    }
}
