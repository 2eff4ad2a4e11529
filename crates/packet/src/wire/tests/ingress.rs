//! Ingress and views agree on every packet: a received frame is judged like one that is quoted,
//! inside another, or reassembled.

use super::super::*;
use crate::{Headers, LinkType};
use proptest::prelude::*;

/// The result of the views for an IP packet that had `wire_len` bytes on the wire, header by
/// header.
fn by_views(packet: &[u8], version: u8, wire_len: usize) -> Result<(), Malformed> {
    let (protocol, l4, end, is_fragment, is_later) = if version == 4 {
        let ip = Ipv4::new_unchecked(packet);
        ip.check_within(wire_len)?;
        let later = ip.fragment_offset() > 0;
        (ip.protocol(), ip.header_len(), ip.packet_len(wire_len), ip.is_fragment(), later)
    } else {
        let ip = Ipv6::new_unchecked(packet);
        ip.check_within(wire_len)?;
        let chain = ip.extensions_within(wire_len)?;
        let offset = chain.fragment.map_or(0, |fragment| fragment.offset);
        let is_fragment = offset > 0 || chain.fragment.is_some_and(|fragment| fragment.more);
        let packet_len = ip.packet_len(wire_len);
        let ends = chain.cut || offset > 0 || packet_len == ipv6::HEADER_LEN;
        (chain.protocol, chain.offset, packet_len, is_fragment, ends)
    };
    if is_later {
        return Ok(());
    }
    let body = &packet[l4.min(packet.len())..end.min(packet.len())];
    match (protocol, version) {
        (ip_protocol::TCP, _) => Tcp::new_unchecked(body).check_within(end - l4),
        (ip_protocol::UDP, _) => {
            Udp::new_unchecked(body).check_within(if is_fragment { 65_535 } else { end - l4 })
        }
        (ip_protocol::ICMP, 4) => Icmpv4::new_unchecked(body).check_len(),
        (ip_protocol::ICMPV6, 6) => Icmpv6::new_unchecked(body).check_len(),
        (ip_protocol::ESP, _) => Esp::new_unchecked(body).check_len(),
        _ => Ok(()),
    }
}

/// A header that the capture cut off is none that lies.
fn is_cut(what: Malformed) -> bool {
    what.name().ends_with("-truncated")
}

/// Compares both judgements of a packet, bare and in Ethernet; returns the error.
fn compare(packet: &[u8], version: u8, missing: usize) -> Option<Malformed> {
    let wire_len = packet.len() + missing;
    let views = by_views(packet, version, wire_len).err();
    let views = views.filter(|&what| missing == 0 || !is_cut(what));
    let (link, kind) = match version {
        4 => (LinkType::IPV4, ethertype::IPV4),
        _ => (LinkType::IPV6, ethertype::IPV6),
    };
    let bare = Headers::parse(packet, link, wire_len).malformed();
    assert_eq!(bare, views, "{version} {missing} {packet:02x?}");
    let frame = [&[2; 12], &kind.to_be_bytes()[..], packet].concat();
    let framed = Headers::parse(&frame, LinkType::ETHERNET, 14 + wire_len).malformed();
    assert_eq!(framed, views, "Ethernet {missing} {packet:02x?}");
    views
}

const PROTOCOLS: [u8; 7] = [
    ip_protocol::TCP,
    ip_protocol::UDP,
    ip_protocol::ICMP,
    ip_protocol::ICMPV6,
    ip_protocol::ESP,
    ip_protocol::FRAGMENT,
    ip_protocol::HOP_BY_HOP,
];

/// A right packet of 64 bytes.
fn right(version: u8, protocol: u8) -> Vec<u8> {
    let mut packet = vec![0; 64];
    let l4 = if version == 4 {
        packet[..10].copy_from_slice(&[0x45, 0, 0, 64, 0, 0, 0, 0, 64, protocol]);
        20
    } else {
        packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 24, protocol, 64]);
        40
    };
    match protocol {
        ip_protocol::TCP => packet[l4 + 12] = 0x50,
        ip_protocol::UDP => packet[l4 + 5] = 64 - l4 as u8,
        _ => packet[l4] = ip_protocol::UDP,
    }
    if (version, protocol) == (6, ip_protocol::FRAGMENT) {
        packet[l4 + 8 + 5] = 16;
    }
    packet
}

/// Sets the "more fragments" flag, if the packet has one.
fn first_fragment(mut packet: Vec<u8>) -> Vec<u8> {
    match (packet[0] >> 4, packet[6]) {
        (4, _) => packet[6] = 0x20,
        (_, ip_protocol::FRAGMENT) => packet[43] = 1,
        _ => (),
    }
    packet
}

/// Where a length, a version, an offset or a kind is, and what it may be at its edges.
fn edges(version: u8) -> impl Iterator<Item = (usize, u8)> {
    let l4 = if version == 4 { 20 } else { 40 };
    let lens = vec![
        0, 1, 2, 4, 7, 8, 9, 15, 16, 19, 20, 21, 23, 24, 25, 43, 44, 45, 63, 64, 65, 0xf8, 0xff,
    ];
    let highs = vec![0, 1, 0x1f, 0x20, 0x3f, 0xff];
    let mut edges = vec![
        (0, (0..=u8::MAX).collect()),
        (l4, PROTOCOLS.to_vec()),
        (l4 + 1, lens.clone()),
        (l4 + 2, highs.clone()),
        (l4 + 3, lens.clone()),
        (l4 + 4, highs.clone()),
        (l4 + 5, lens.clone()),
        (l4 + 12, (0..=u8::MAX).collect()),
        (l4 + 8 + 5, lens.clone()),
    ];
    if version == 4 {
        edges.extend([(2, highs.clone()), (3, lens.clone()), (6, highs), (7, lens)]);
    } else {
        edges.extend([(4, highs), (5, lens)]);
    }
    edges.into_iter().flat_map(|(at, values)| values.into_iter().map(move |value| (at, value)))
}

/// How much of a packet there is, and how much was on the wire besides.
fn cuts(whole: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=whole).flat_map(move |len| [0, 1, whole - len].map(|missing| (len, missing)))
}

#[test]
fn ingress_and_views_agree_at_every_edge() {
    let mut found = [0; Malformed::ALL.len() + 1];
    for (version, protocol) in PROTOCOLS.map(|protocol| [(4, protocol), (6, protocol)]).concat() {
        let whole = right(version, protocol);
        for whole in [whole.clone(), first_fragment(whole)] {
            for (at, value) in edges(version) {
                let mut packet = whole.clone();
                packet[at] = value;
                for (len, missing) in cuts(packet.len()) {
                    let what = compare(&packet[..len], version, missing);
                    found[what.map_or(0, |what| what as usize)] += 1;
                }
            }
        }
    }
    let never = |what: &&Malformed| found[**what as usize] == 0;
    let link = [Malformed::LinkTruncated, Malformed::VlanTruncated, Malformed::FragmentBounds];
    let missed: Vec<_> = Malformed::ALL.iter().filter(never).collect();
    assert!(missed.iter().all(|what| link.contains(what)), "{missed:?}");
    assert!(found[0] > 9999, "{found:?}");
}

#[test]
fn ingress_and_views_agree_where_fragments_end() {
    let mut beyond = [0; 2];
    for (words, len) in (5_u8..=7).flat_map(|words| (words * 4..=64).map(move |len| (words, len))) {
        for units in 8180_u16..=8191 {
            let mut packet = right(4, ip_protocol::UDP);
            (packet[0], packet[3]) = (0x40 | words, len);
            packet[6..8].copy_from_slice(&units.to_be_bytes());
            // RFC 791, 3.1: header and data of the datagram have 65,535 bytes at most.
            let is_beyond = usize::from(units) * 8 + usize::from(len) > 65_535;
            let expected = is_beyond.then_some(Malformed::FragmentBounds);
            assert_eq!(compare(&packet, 4, 0), expected, "{units} {words} {len}");
            beyond[usize::from(is_beyond)] += 1;
        }
    }
    for (units, len) in (8180_u16..=8191).flat_map(|units| (0..=16).map(move |len| (units, len))) {
        let mut packet = right(6, ip_protocol::FRAGMENT);
        packet[5] = 8 + len;
        packet[42..44].copy_from_slice(&(units << 3).to_be_bytes());
        // RFC 8200, 4.5: the payload length of the whole is 65,535 at most.
        let is_beyond = usize::from(units) * 8 + usize::from(len) > 65_535;
        let expected = is_beyond.then_some(Malformed::FragmentBounds);
        assert_eq!(compare(&packet, 6, 0), expected, "{units} {len}");
        beyond[usize::from(is_beyond)] += 1;
    }
    assert!(beyond.iter().all(|&count| count > 50), "{beyond:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn ingress_and_views_agree_on_random_headers(
        is_v4 in any::<bool>(),
        protocol in proptest::sample::select(&PROTOCOLS),
        changes in proptest::collection::vec((0_usize..64, any::<u8>()), 0..6),
        len in 0_usize..=64,
        missing in prop_oneof![2 => Just(0_usize), 1 => 1_usize..100],
    ) {
        let version = if is_v4 { 4 } else { 6 };
        let mut packet = right(version, protocol);
        for (at, value) in changes {
            packet[at] = value;
        }
        for len in [len, packet.len()] {
            compare(&packet[..len], version, missing);
        }
    }
}
