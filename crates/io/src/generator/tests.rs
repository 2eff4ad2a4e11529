//! Whole frames, checked by a packet reader that shares no code with the writer.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::traffic::LOST_AT_ONCE;
use super::*;
use crate::port::FRAME_LEN_MAX;

/// A packet as the naive reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    source: Vec<u8>,
    destination: Vec<u8>,
    protocol: u8,
    ports: (u16, u16),
    sequence: u32,
    payload: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from(bytes[at]) * 256 + u16::from(bytes[at + 1])
}

/// Adds word by word with the carry brought round at once; right data sums to 0xffff.
fn ones_complement(parts: &[&[u8]]) -> u32 {
    let mut joined = parts.concat();
    joined.resize(joined.len().next_multiple_of(2), 0);
    joined.chunks(2).fold(0, |sum: u32, pair| {
        let sum = sum + u32::from(word(pair, 0));
        if sum > 0xffff { sum - 0xffff } else { sum }
    })
}

/// Reads a frame; panics on any wrong length or sum.
fn read(frame: &[u8]) -> Seen {
    assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let ip = &frame[14..];
    let (protocol, addresses, transport) = match word(frame, 12) {
        0x0800 => {
            assert_eq!((ip[0], usize::from(word(ip, 2))), (0x45, ip.len()));
            assert_eq!(ones_complement(&[&ip[..20]]), 0xffff, "header sum");
            assert_eq!((word(ip, 6), ip[8]), (0x4000, 64));
            (ip[9], &ip[12..20], &ip[20..])
        }
        0x86dd => {
            assert_eq!((&ip[..4], usize::from(word(ip, 4))), (&[0x60, 0, 0, 0][..], ip.len() - 40));
            assert_eq!(ip[7], 64);
            (ip[6], &ip[8..40], &ip[40..])
        }
        other => panic!("type {other:x}"),
    };
    let len = u32::try_from(transport.len()).unwrap().to_be_bytes();
    let pseudo = [addresses, &len, &[0, 0, 0, protocol]].concat();
    assert_eq!(ones_complement(&[&pseudo, transport]), 0xffff, "transport sum");
    let (sequence, payload) = match protocol {
        6 => {
            assert_eq!((transport[12], transport[13], word(transport, 18)), (0x50, 0x18, 0));
            (u32::from_be_bytes(transport[4..8].try_into().unwrap()), &transport[20..])
        }
        17 => {
            assert_eq!(usize::from(word(transport, 4)), transport.len());
            assert_ne!(word(transport, 6), 0, "no checksum");
            (0, &transport[8..])
        }
        other => panic!("protocol {other}"),
    };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let ports = (word(transport, 0), word(transport, 2));
    let (source, destination, payload) = (source.into(), destination.into(), payload.into());
    Seen { source, destination, protocol, ports, sequence, payload }
}

fn generator(settings: &str) -> Generator {
    Generator::new(GeneratorConfig::parse(settings).unwrap())
}

/// All frames with their timestamps in nanoseconds since the epoch of the traffic.
fn frames(settings: &str) -> Vec<(u64, Vec<u8>)> {
    let mut source = generator(settings);
    let mut frames = Vec::new();
    loop {
        match source.next().unwrap() {
            Next::Frame(frame) => {
                assert_eq!(frame.wire_len as usize, frame.bytes.len());
                assert_eq!((frame.link, frame.interface), (LinkType::ETHERNET, 0));
                let elapsed = frame.timestamp.as_nanos() - EPOCH.as_nanos();
                frames.push((elapsed, frame.bytes.to_vec()));
            }
            Next::Idle(_) => panic!("waits without a rate"),
            Next::End => break,
        }
    }
    assert!(matches!(source.next(), Ok(Next::End)));
    assert_eq!(source.progress(), Some(1.0));
    frames
}

/// A burst is the frames that `next` would give, whatever their lengths.
#[test]
fn bursts_give_the_same_frames() {
    for sizes in ["90", "imix", "90|65549", "1514", "65549"] {
        let settings = format!("{ALL_KINDS},size={sizes}");
        let mut source = generator(&settings);
        let (mut all, mut longest) = (Vec::new(), 0);
        loop {
            let mut burst = Burst::new();
            match source.burst(&mut burst).expect("a generator") {
                Given::Frames => {}
                Given::Idle(_) => panic!("waits without a rate"),
                Given::End => break,
            }
            let frames = burst.frames();
            longest = longest.max(frames.len());
            assert!(frames.iter().map(|frame| frame.bytes.len()).sum::<usize>() <= FRAME_LEN_MAX);
            all.extend(frames.iter().map(|frame| {
                assert_eq!(frame.wire_len as usize, frame.bytes.len());
                (frame.timestamp.as_nanos() - EPOCH.as_nanos(), frame.bytes.to_vec())
            }));
        }
        assert_eq!(all, frames(&settings), "{sizes}");
        assert_eq!(longest, if sizes.contains("65549") { 1 } else { BURST_MAX }, "{sizes}");
        assert!(matches!(source.burst(&mut Burst::new()), Ok(Given::End)));
    }
}

/// With a rate, a burst ends before the first frame that is not due.
#[test]
fn bursts_keep_the_rate() {
    let mut source = generator("packets=4,size=1000,rate_gbps=0.000001");
    {
        let mut burst = Burst::new();
        assert_eq!(source.burst(&mut burst).expect("a generator"), Given::Frames);
        assert_eq!(burst.frames().len(), 1);
    }
    let given = source.burst(&mut Burst::new()).expect("a generator");
    assert!(matches!(given, Given::Idle(wait) if !wait.is_zero()));
    assert_eq!(source.produced(), 1);
}

const ALL_KINDS: &str = "packets=3000,flows=50,zipf=1.1,ip=mix,protocol=mix,arrivals=onoff,\
                         payload=planted:secret@0.2";

#[test]
fn same_settings_same_packets() {
    let first = frames(&format!("{ALL_KINDS},seed=5"));
    assert_eq!(first, frames(&format!("seed=5,{ALL_KINDS}")));
    assert_ne!(first, frames(&format!("{ALL_KINDS},seed=6")));
}

/// The traffic of a seed never changes, since recorded results depend on it. FNV-1a over all times
/// and bytes, also with more flows than are kept.
#[test]
fn traffic_does_not_change_between_releases() {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let poisson = ALL_KINDS.replace("onoff", "poisson");
    let many = ALL_KINDS.replace("flows=50,zipf=1.1", "flows=9000");
    for (elapsed, bytes) in [ALL_KINDS, &poisson, &many].into_iter().flat_map(frames) {
        for byte in elapsed.to_le_bytes().into_iter().chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    assert_eq!(hash, 0x8078_e894_b5a0_fb03, "{hash:#x}");
}

#[test]
fn one_setting_changes_only_its_own_part() {
    let tuples = |settings: &str| -> Vec<_> {
        let seen = frames(settings).into_iter().map(|(elapsed, bytes)| (elapsed, read(&bytes)));
        seen.map(|(elapsed, seen)| (elapsed, seen.source, seen.ports, seen.payload.len())).collect()
    };
    assert_eq!(tuples("packets=500,payload=random"), tuples("packets=500,payload=text"));
}

#[test]
fn lengths_and_sums_of_every_kind() {
    for settings in ["size=74|75|512|1500|9001|65549", "size=imix", "size=80"] {
        for seed in 0..4 {
            let all = frames(&format!("{settings},{ALL_KINDS},seed={seed}"));
            let kinds: HashSet<(usize, u8)> = all
                .iter()
                .map(|(_, bytes)| read(bytes))
                .map(|seen| (seen.source.len(), seen.protocol))
                .collect();
            assert_eq!(kinds.len(), 4, "{settings}");
        }
    }
    frames("size=42,packets=1000")
        .iter()
        .for_each(|(_, bytes)| assert!(read(bytes).payload.is_empty()));
}

#[test]
fn flows_are_as_many_as_asked_and_go_outside() {
    let all = frames("packets=20000,flows=500,ip=mix,protocol=mix,size=100");
    let flows: HashSet<_> = all
        .iter()
        .map(|(_, bytes)| read(bytes))
        .inspect(|seen| {
            let (inside, outside): (&[u8], &[u8]) = match seen.source.len() {
                4 => (&[10], &[198]),
                _ => (&[0x20, 1, 0xd, 0xb8, 0, 1, 0, 0], &[0x20, 1, 0xd, 0xb8, 0, 2, 0, 0]),
            };
            assert!(seen.source.starts_with(inside) && seen.destination.starts_with(outside));
            assert!(seen.source.len() != 4 || seen.destination[1] & 0xfe == 18);
        })
        .map(|seen| (seen.source, seen.destination, seen.protocol, seen.ports))
        .collect();
    assert_eq!(flows.len(), 500);
}

#[test]
fn tcp_streams_go_on_where_they_were() {
    let mut expected = HashMap::new();
    for (_, bytes) in frames("packets=5000,flows=40,protocol=tcp,size=imix,zipf=1") {
        let seen = read(&bytes);
        let next = seen.sequence.wrapping_add(u32::try_from(seen.payload.len()).unwrap());
        if let Some(expected) = expected.insert((seen.source, seen.ports), next) {
            assert_eq!(seen.sequence, expected);
        }
    }
    assert_eq!(expected.len(), 40);
}

#[test]
fn zipf_orders_flows_by_number() {
    let mut counts = HashMap::new();
    for (_, bytes) in frames("packets=20000,flows=100,zipf=1.0,size=60") {
        let seen = read(&bytes);
        *counts.entry((seen.source, seen.ports)).or_insert(0u32) += 1;
    }
    let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
    let most = f64::from(counts.values().copied().max().unwrap());
    assert!((most - 20_000.0 / harmonic).abs() < 300.0, "{most}");
}

#[test]
fn patterns_are_where_they_are_counted() {
    let mut source = generator("packets=2000,size=200,payload=planted:%00attack%ff@0.25");
    let mut found = 0;
    while let Next::Frame(frame) = source.next().unwrap() {
        let payload = read(frame.bytes).payload;
        found += u64::from(payload.windows(8).any(|window| window == b"\0attack\xff"));
    }
    assert_eq!(found, source.planted());
    assert!(found.abs_diff(500) < 100, "{found}");
}

#[test]
fn limits_rate_and_timestamps() {
    // 1250 bytes at 10 Gb/s: a packet a microsecond.
    let all = frames("seconds=0.001,size=1250");
    assert_eq!(all.len(), 1000);
    assert!(all.iter().zip(0u64..).all(|(&(elapsed, _), number)| elapsed == number * 1000));
    assert_eq!(frames("packets=0").len(), 0);
    assert_eq!(frames("packets=7,seconds=1").len(), 7);
    let last = |arrivals: &str| {
        let all = frames(&format!("packets=50000,arrivals={arrivals},size=imix"));
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(all.is_sorted_by_key(|&(elapsed, _)| elapsed));
        bytes as f64 * 8.0 / all.last().unwrap().0 as f64
    };
    for (arrivals, within) in [("constant", 0.001), ("poisson", 0.3), ("onoff", 1.5)] {
        let gbps = last(arrivals);
        assert!((gbps - 10.0).abs() < within, "{arrivals}: {gbps}");
    }
}

#[test]
fn a_rate_in_real_time_makes_the_second_packet_wait() {
    let mut source = generator("packets=2,rate_gbps=0.000001,size=1000,on_full=drop");
    assert!(matches!(source.next(), Ok(Next::Frame(_))));
    // 8000 bits at 1 kb/s.
    let Ok(Next::Idle(wait)) = source.next() else { panic!("does not wait") };
    assert!(wait <= Duration::from_secs(8) && wait > Duration::from_secs(4), "{wait:?}");
    assert!(source.is_paced() && source.loses_when_full() && !source.drops_when_full());
    assert_eq!(source.produced(), 1);
    assert_eq!(source.progress(), Some(0.5));
}

/// A frame takes 8 us of the rate, and the receiver comes back after 10 ms at least.
#[test]
fn a_ring_keeps_the_newest_frames_and_counts_the_others() {
    const FRAME_NS: i64 = 8_000;
    const AWAY: Duration = Duration::from_millis(10);
    for (settings, ring) in [
        ("on_full=drop,ring=10", Some(10)),
        ("on_full=drop,ring=500", Some(500)),
        ("on_full=drop,ring=0", None),
        ("on_full=wait,ring=10", None),
    ] {
        let text = format!("packets=4000000,size=1000,rate_gbps=1,{settings}");
        let mut source = generator(&text);
        assert!(matches!(source.next(), Ok(Next::Frame(_))));
        std::thread::sleep(AWAY);
        // The first look at the clock finds the second frame due, and those after it.
        let Ok(Next::Frame(second)) = source.next() else { panic!("{settings}: not due") };
        let after_ns = second.timestamp.since(EPOCH).as_nanos() as i64;
        let mut lost = 0;
        source.take_lost(&mut |port, count| lost += count * u64::from(port == 0));
        match ring {
            Some(ring) => {
                let away_ns = AWAY.as_nanos() as i64;
                assert!(after_ns >= away_ns - (ring + 1) * FRAME_NS, "{settings}: {after_ns}");
                // Each frame before it was given or lost.
                assert_eq!(lost as i64, after_ns / FRAME_NS - 1, "{settings}");
            }
            None => assert_eq!((after_ns, lost), (FRAME_NS, 0), "{settings}"),
        }
        assert_eq!(source.produced(), 2, "{settings}");
        assert_eq!(source.drops_when_full(), settings.ends_with("drop,ring=0"), "{settings}");
        source.take_lost(&mut |_, count| panic!("{settings}: {count} lost twice"));
    }
}

/// Without a bound each frame takes many times as long as the one before.
#[test]
fn a_rate_that_nothing_follows_still_gives_frames() {
    let mut source = generator("packets=1000000000000,size=64,rate_gbps=10000,on_full=drop,ring=1");
    for _ in 0..100 {
        assert!(matches!(source.next(), Ok(Next::Frame(_))));
    }
    let mut lost = 0;
    source.take_lost(&mut |_, count| lost += count);
    assert!(lost <= 99 * u64::from(LOST_AT_ONCE), "{lost}");
}

/// Settings that are sometimes good.
fn settings() -> impl Strategy<Value = String> {
    let size = prop_oneof![
        (30u32..2000).prop_map(|size| size.to_string()),
        (40u32..66_000, 40u32..300).prop_map(|(a, b)| format!("{a}|{b}")),
        Just("imix".to_owned()),
    ];
    let payload = prop_oneof![
        Just("random".to_owned()),
        Just("text".to_owned()),
        ("[a-z%0-9]{0,40}", 0.0..1.2)
            .prop_map(|(pattern, share)| format!("planted:{pattern}@{share}")),
    ];
    let zipf = 0.0f64..12.0;
    let arrivals = prop::sample::select(vec!["constant", "poisson", "onoff", "x"]);
    let ip = prop::sample::select(vec!["4", "6", "mix", "mix"]);
    let protocol = prop::sample::select(vec!["udp", "tcp", "mix", "mix"]);
    (size, payload, zipf, arrivals, ip, protocol, any::<u64>(), 1u64..20_000_000).prop_map(
        |(size, payload, zipf, arrivals, ip, protocol, seed, flows)| {
            format!(
                "packets=40,size={size},payload={payload},zipf={zipf},arrivals={arrivals},\
                 ip={ip},protocol={protocol},seed={seed},flows={flows}"
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn valid_settings_generate_valid_frames(settings in settings()) {
        if let Ok(config) = GeneratorConfig::parse(&settings) {
            let longest = config.frame_len_max();
            let all = frames(&settings);
            prop_assert_eq!(all.len(), 40);
            for (_, bytes) in &all {
                read(bytes);
                prop_assert!(bytes.len() <= longest);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        match GeneratorConfig::parse(&text) {
            Ok(_) => {}
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!((1..=text.len() + 1).contains(&problem.column));
                }
            }
        }
    }
}
