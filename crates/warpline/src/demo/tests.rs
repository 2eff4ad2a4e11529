//! The capture is what its counts say, and what is not malformed is right to the last checksum.

use std::collections::{BTreeMap, HashMap};

use warpline_io::{Frame, Sink, SinkError};
use warpline_packet::{Headers, Instant, LinkType};

use super::capture::{self, START, Trace};
use super::malformed::LIES;
use super::summary::{Count, Kind};

/// Keeps what a capture file would.
#[derive(Default)]
struct Kept {
    bytes: u64,
    last: Instant,
    hash: u64,
}

impl Sink for Kept {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        assert!(frame.timestamp >= self.last, "back in time at {}", frame.timestamp);
        assert_eq!((frame.link, frame.wire_len as usize), (LinkType::ETHERNET, frame.bytes.len()));
        self.last = frame.timestamp;
        self.bytes += 16 + frame.bytes.len() as u64;
        for byte in frame.timestamp.as_nanos().to_le_bytes().iter().chain(frame.bytes) {
            // FNV-1a.
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

#[test]
fn is_the_same_every_time_and_of_a_handy_size() {
    let mut kept = Kept { hash: 0xcbf2_9ce4_8422_2325, ..Kept::default() };
    let summary = capture::write(&mut kept).unwrap();
    assert_eq!(kept.hash, 0x2404_5dba_73a2_9697, "{:#018x}", kept.hash);
    assert!((3_000_000..6_000_000).contains(&kept.bytes), "{}", kept.bytes);
    assert_eq!(kept.bytes, summary.total().bytes + 16 * summary.total().packets);
    let first = Trace::whole().frames().next().unwrap().0;
    assert_eq!(first, START);
    assert_eq!(START.to_string(), "1767603600.000000000");
    assert!((18..=20).contains(&kept.last.since(START).as_secs()), "{}", kept.last);
}

#[test]
fn holds_so_much_of_each_kind() {
    let summary = capture::write(&mut Kept::default()).unwrap();
    let rows: Vec<_> = summary
        .rows()
        .map(|(kind, Count { packets, bytes })| (kind.name(), packets, bytes))
        .collect();
    assert_eq!(rows, COUNTS);
}

/// Reviewed: what has a sum beside it follows from the parts' own numbers.
const COUNTS: [(&str, u64, u64); 19] = [
    ("web", 3573, 1_361_991),
    ("dns", 706, 79_651), // 140 x 2 + 140 + 140 x 2, and 6 that ask for long answers
    ("bulk", 2035, 2_201_050),
    ("voip", 3650, 801_100),  // 700 x 2 + 400 x 2 + 500 x 2 + 450
    ("echo", 200, 21_200),    // 5 of each: 8 x 2 + 8 + 8 x 2
    ("traceroute", 66, 6060), // 6 x 9, and 2 x 6 answers
    ("ntp", 60, 5880),        // 12 x 2 + 12 + 12 x 2
    ("scan", 532, 31_920),    // 14 hosts, 38 ports
    ("backscatter", 36, 2160),
    ("spoofed", 80, 5867),
    ("no-route", 80, 6416),
    ("fragment", 108, 119_486), // 6 x 6 messages of 3
    ("extension", 60, 8054),    // 3 x 5 x 4
    ("vlan", 459, 191_446),
    ("qinq", 64, 8132),      // 4 x (4 + 4) x 2
    ("non-ip", 70, 4200),    // 5 x 2, and 30 x 2
    ("malformed", 72, 7320), // 12 x 6
    ("shop", 746, 401_262),
    ("branch", 490, 478_483),
];

#[test]
fn a_sink_that_closes_ends_it() {
    struct Closed;
    impl Sink for Closed {
        fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
            Err(SinkError::Closed)
        }
    }
    assert!(matches!(capture::write(&mut Closed), Err(SinkError::Closed)));
}

#[test]
fn only_lies_are_malformed_and_each_as_it_says() {
    let mut found = BTreeMap::<u8, u64>::new();
    for (_, kind, frame) in Trace::whole().frames() {
        let what = Headers::parse(frame, LinkType::ETHERNET, frame.len()).malformed();
        assert_eq!(what.is_some(), kind == Kind::Malformed, "{kind:?} {what:?}");
        *found.entry(what.map_or(0, |what| what as u8)).or_default() += 1;
    }
    for (what, lie) in LIES {
        let frame = lie(77, 5);
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        assert_eq!(headers.malformed(), Some(what));
        let same = LIES.iter().filter(|(other, _)| *other == what).count() as u64;
        assert_eq!(found[&(what as u8)], same * 6);
    }
}

#[test]
fn checksums_are_right() {
    let mut pieces = HashMap::<(Vec<u8>, u32), Vec<(usize, bool, Vec<u8>)>>::new();
    let mut checked = BTreeMap::<u8, u32>::new();
    let mut check = |packet: &Packet, message: &[u8]| {
        assert_eq!(message_sum(packet, message), 0xffff, "{packet:?}");
        *checked.entry(packet.protocol).or_default() += 1;
    };
    for (_, kind, frame) in Trace::whole().frames() {
        let Some(packet) = packet(frame).filter(|_| kind != Kind::Malformed) else { continue };
        match packet.fragment {
            None | Some((_, 0, false)) => check(&packet, &packet.message),
            Some((ident, offset, more)) => pieces
                .entry((packet.addresses.clone(), ident))
                .or_default()
                .push((offset, more, [&[packet.protocol], &packet.message[..]].concat())),
        }
    }
    assert_eq!(pieces.len(), 36);
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
    for (_, kind, frame) in Trace::whole().frames() {
        if !matches!(kind, Kind::Web | Kind::Bulk | Kind::Vlan | Kind::Shop | Kind::Branch) {
            continue;
        }
        let packet = packet(frame).unwrap();
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
        // Before it hears the other end's number, a client acknowledges 0.
        assert!(state.1 == 0 || ack.wrapping_sub(state.1) < 1 << 31, "acknowledges less");
        *state = (seq.wrapping_add(len + u32::from(flags & 3 != 0)), ack);
        data_bytes += len;
        if let Some(&(next, _)) = sent.get(&key(true)) {
            two_way += 1;
            let in_flight = next.wrapping_sub(ack);
            assert!(in_flight < 60_000, "acknowledges what was not sent: {in_flight}");
        }
    }
    assert!(two_way > 4_000 && data_bytes > 3_000_000, "{two_way} {data_bytes}");
}

#[test]
fn nothing_needs_to_know_what_the_nat_chooses() {
    for (_, kind, frame) in Trace::whole().frames() {
        let Some(packet) = packet(frame).filter(|packet| packet.addresses.len() == 8) else {
            continue;
        };
        if kind == Kind::Malformed {
            continue;
        }
        assert_ne!(packet.addresses[4..6], [10, 1], "{kind:?}");
        let to_nat = packet.addresses[4..] == [203, 0, 113, 1];
        assert_eq!(to_nat, kind == Kind::Backscatter, "{kind:?}");
    }
}

/// An IP packet as far as checksums are concerned.
#[derive(Debug)]
struct Packet {
    /// Source, then destination.
    addresses: Vec<u8>,
    protocol: u8,
    /// What the transport protocol sent, or a piece of it.
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
