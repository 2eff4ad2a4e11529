//! The capture matches its counts, and all packets that are not malformed are correct to the last
//! checksum.

use std::collections::{BTreeMap, HashMap};

use warpline_io::{Next, Source};
use warpline_packet::wire::Malformed;
use warpline_packet::{Headers, Instant, LinkType};

/// 2026-01-05T09:00:00Z.
const START: Instant = Instant::from_secs(1_767_603_600);

fn frames() -> Vec<(Instant, Vec<u8>)> {
    let (mut source, mut frames) = (super::source().unwrap(), Vec::new());
    while let Next::Frame(frame) = source.next().unwrap() {
        assert_eq!((frame.link, frame.wire_len as usize), (LinkType::ETHERNET, frame.bytes.len()));
        frames.push((frame.timestamp, frame.bytes.to_vec()));
    }
    frames
}

fn malformed(frame: &[u8]) -> Option<Malformed> {
    Headers::parse(frame, LinkType::ETHERNET, frame.len()).malformed()
}

#[test]
fn has_as_many_packets_as_its_summary_says_each_later_than_the_one_before() {
    let frames = frames();
    let bytes: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
    let total = format!("{} packets, {bytes} bytes: ", frames.len());
    let kinds = super::SUMMARY.strip_prefix(&total).expect("the total");
    let counts = kinds.split(", ").map(|kind| kind.split_once(' ').unwrap().1);
    assert_eq!(counts.map(|count| count.parse::<usize>().unwrap()).sum::<usize>(), frames.len());
    assert!(frames.is_sorted_by(|(a, _), (b, _)| a < b));
    assert!(frames[0].0.since(START).as_micros() == 0, "{}", frames[0].0);
    assert!((18..=20).contains(&frames[frames.len() - 1].0.since(START).as_secs()));
}

#[test]
fn every_lie_is_there() {
    let mut found = BTreeMap::<&str, u64>::new();
    for what in frames().iter().filter_map(|(_, frame)| malformed(frame)) {
        *found.entry(what.name()).or_default() += 1;
    }
    let expected = [
        ("ipv4-header-len", 6),
        ("ipv4-total-len", 12),
        ("ipv4-version", 6),
        ("ipv6-payload-len", 6),
        ("ipv6-truncated", 6),
        ("link-truncated", 6),
        ("tcp-header-len", 12),
        ("udp-length", 12),
        ("vlan-truncated", 6),
    ];
    assert!(found.into_iter().eq(expected));
}

#[test]
fn checksums_are_right() {
    let mut pieces = HashMap::<(Vec<u8>, u32), Vec<(usize, bool, Vec<u8>)>>::new();
    let mut checked = BTreeMap::<u8, u32>::new();
    let mut check = |packet: &Packet, message: &[u8]| {
        assert_eq!(message_sum(packet, message), 0xffff, "{packet:?}");
        *checked.entry(packet.protocol).or_default() += 1;
    };
    for (_, frame) in frames().iter().filter(|(_, frame)| malformed(frame).is_none()) {
        let Some(packet) = packet(frame) else { continue };
        match packet.fragment {
            None | Some((_, 0, false)) => check(&packet, &packet.message),
            Some((ident, offset, more)) => pieces
                .entry((packet.addresses.clone(), ident))
                .or_default()
                .push((offset, more, [&[packet.protocol], &packet.message[..]].concat())),
        }
    }
    assert_eq!(pieces.len(), 42);
    for ((addresses, _), mut parts) in pieces {
        parts.sort_unstable();
        assert!(!parts[parts.len() - 1].1, "no last fragment");
        let mut message = Vec::new();
        for (offset, _, part) in &parts {
            assert_eq!(*offset, message.len(), "fragments don't join");
            message.extend_from_slice(&part[1..]);
        }
        let protocol = parts[0].2[0];
        check(&Packet { addresses, protocol, message: Vec::new(), fragment: None }, &message);
    }
    assert_eq!(checked.keys().copied().collect::<Vec<_>>(), [1, 6, 17, 58]);
    assert!(checked.values().all(|&count| count > 100), "{checked:?}");
}

#[test]
fn conversations_have_no_gap() {
    // By source, destination and ports: what is sent next, and the highest number acknowledged.
    let mut sent = HashMap::<Vec<u8>, (u32, u32)>::new();
    let (mut two_way, mut data_bytes) = (0, 0);
    for (_, frame) in frames().iter().filter(|(_, frame)| malformed(frame).is_none()) {
        let Some(packet) = packet(frame).filter(|packet| packet.protocol == 6) else { continue };
        let (half, tcp) = (packet.addresses.len() / 2, &packet.message);
        let key = |flip: bool| {
            let (a, b) = packet.addresses.split_at(half);
            let (p, q) = (&tcp[0..2], &tcp[2..4]);
            if flip { [b, a, q, p].concat() } else { [a, b, p, q].concat() }
        };
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let (seq, ack, flags) = (word(4), word(8), tcp[13]);
        let len = (tcp.len() - usize::from(tcp[12] >> 4) * 4) as u32;
        let state = sent.entry(key(false)).or_insert((seq, ack));
        assert_eq!(state.0, seq, "a gap or a repetition");
        // Before it receives the other end's number, a client acknowledges 0.
        assert!(state.1 == 0 || ack.wrapping_sub(state.1) < 1 << 31, "acknowledges less");
        *state = (seq.wrapping_add(len + u32::from(flags & 3 != 0)), ack);
        data_bytes += len;
        if let Some(&(next, _)) = sent.get(&key(true)) {
            two_way += 1;
            let in_flight = next.wrapping_sub(ack);
            assert!(in_flight < 60_000, "acknowledges what was not sent: {in_flight}");
        }
    }
    assert!(two_way > 4_000 && data_bytes > 2_500_000, "{two_way} {data_bytes}");
}

/// Packets to inside hosts go to the NAT's address: answers to ports that it assigns, backscatter
/// and what is for the inside web server to others.
#[test]
fn answers_to_inside_hosts_go_to_the_nat() {
    let (mut answers, mut backscatter, mut forwarded) = (0, 0, 0);
    for (_, frame) in frames().iter().filter(|(_, frame)| malformed(frame).is_none()) {
        let Some(packet) = packet(frame).filter(|packet| packet.addresses.len() == 8) else {
            continue;
        };
        assert_ne!(packet.addresses[4..6], [10, 1], "{packet:?}");
        if packet.addresses[4..] != [203, 0, 113, 1] {
            continue;
        }
        match u16::from_be_bytes([packet.message[2], packet.message[3]]) {
            8443 | 8444 if packet.protocol == 6 => forwarded += 1,
            ..1024 if packet.protocol == 6 => backscatter += 1,
            _ => answers += 1,
        }
    }
    assert!(forwarded > 80, "{forwarded}");
    assert_eq!(backscatter, 36);
    assert!(answers > 1_500, "{answers}");
}

/// An IP packet as far as checksums are concerned.
#[derive(Debug)]
struct Packet {
    /// Source, then destination.
    addresses: Vec<u8>,
    protocol: u8,
    /// The transport message, or a fragment of it.
    message: Vec<u8>,
    /// Identification, offset in bytes, whether more follow.
    fragment: Option<(u32, usize, bool)>,
}

/// The IP packet in a frame, read byte by byte; the header checksum of IPv4 is checked.
fn packet(frame: &[u8]) -> Option<Packet> {
    let word = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().unwrap()));
    let mut at = 12;
    while matches!(word(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let (kind, ip) = (word(at)?, &frame[at + 2..]);
    match kind {
        0x0800 if ip.len() >= 20 && ip[0] == 0x45 => Some(packet_v4(ip)),
        0x86dd if ip.len() >= 40 => Some(packet_v6(ip)),
        _ => None,
    }
}

fn packet_v4(ip: &[u8]) -> Packet {
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let end = usize::from(word(2)).clamp(20, ip.len());
    assert_eq!(sum(&ip[..20]), 0xffff, "IPv4 header checksum");
    let (offset, more) = (usize::from(word(6) & 0x1fff) * 8, word(6) & 0x2000 != 0);
    Packet {
        addresses: ip[12..20].to_vec(),
        protocol: ip[9],
        message: ip[20..end].to_vec(),
        fragment: (offset > 0 || more).then_some((word(4).into(), offset, more)),
    }
}

fn packet_v6(ip: &[u8]) -> Packet {
    let end = (40 + usize::from(ip[4]) * 256 + usize::from(ip[5])).min(ip.len());
    let (mut next, mut at, mut fragment) = (ip[6], 40, None);
    while matches!(next, 0 | 44 | 60) && !matches!(fragment, Some((_, 1.., _))) {
        if next == 44 {
            let word = usize::from(ip[at + 2]) * 256 + usize::from(ip[at + 3]);
            let ident = u32::from_be_bytes(ip[at + 4..at + 8].try_into().unwrap());
            fragment = Some((ident, word & 0xfff8, word & 1 != 0));
        } else {
            assert_eq!(ip[at + 1], 0, "8 bytes long");
        }
        next = ip[at];
        at += 8;
    }
    let message = ip[at..end].to_vec();
    Packet { addresses: ip[8..40].to_vec(), protocol: next, message, fragment }
}

/// The sum that is 0xffff where the checksum is right; a UDP checksum must be there.
fn message_sum(packet: &Packet, message: &[u8]) -> u16 {
    if packet.protocol == 17 {
        assert_eq!(usize::from(message[4]) * 256 + usize::from(message[5]), message.len());
        assert_ne!(message[6..8], [0, 0]);
    }
    if packet.protocol == 1 {
        return sum(message);
    }
    let mut all = packet.addresses.clone();
    all.extend((message.len() as u32).to_be_bytes());
    all.extend([0, 0, 0, packet.protocol]);
    all.extend_from_slice(message);
    sum(&all)
}

/// The ones'-complement sum, word by word (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let mut total = 0_u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&low| u32::from(low));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
