//! Bad packets and bad captures through the demo's chain.

use serde_json::Value;

use crate::harness::Demo;
use crate::pcap::{Record, capture, parse, udp};
use crate::stats;
use crate::stats::whole;

/// Frames, and where each is to end: `sent`, or the function and the reason or lie.
#[test]
fn every_packet_ends_where_the_manuals_say() {
    let demo = Demo::new();
    let big = |len: usize| udp(len, |_| {});
    let set = |at: usize, bytes: &'static [u8]| {
        Record::new(0, udp(100, move |ip| ip[at..at + bytes.len()].copy_from_slice(bytes)))
    };
    let options = |len: usize| {
        udp(100, move |ip| {
            ip[0] = 0x45 + (len / 4) as u8;
            ip.splice(20..20, vec![1; len]);
            let total = ip.len() as u16;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
        })
    };
    let snapped = |keep: usize| {
        let mut record = Record::new(0, big(100));
        record.bytes.truncate(keep);
        record
    };
    let plain = |bytes: Vec<u8>| Record::new(0, bytes);
    let cases: Vec<(&str, Record, [&str; 2])> = vec![
        ("as it should be", plain(big(100)), ["sent", ""]),
        ("no byte", plain(vec![]), ["nat:1", "link-truncated"]),
        ("one byte", plain(vec![2]), ["nat:1", "link-truncated"]),
        ("no byte of many", Record { wire_len: 99, ..plain(vec![]) }, ["nat:1", "snapped"]),
        ("the longest", plain(big(65_507)), ["sent", ""]),
        ("no payload", plain(big(0)), ["sent", ""]),
        ("snapped in the payload", snapped(60), ["sent", ""]),
        ("snapped in the IP header", snapped(30), ["nat:1", "snapped"]),
        ("snapped in the link header", snapped(10), ["nat:1", "snapped"]),
        ("version 6 that is not", set(0, &[0x65]), ["nat:1", "ipv4-version"]),
        ("header of 16 bytes", set(0, &[0x44]), ["nat:1", "ipv4-header-len"]),
        (
            "header longer than the packet",
            plain(udp(0, |ip| ip[0] = 0x4f)),
            ["nat:1", "ipv4-total-len"],
        ),
        ("total length too long", set(2, &[0xff, 0xff]), ["nat:1", "ipv4-total-len"]),
        ("total length too short", set(2, &[0, 19]), ["nat:1", "ipv4-total-len"]),
        ("UDP longer than the packet", set(24, &[0xff, 0xff]), ["nat:1", "udp-length"]),
        ("UDP shorter than its header", set(24, &[0, 7]), ["nat:1", "udp-length"]),
        ("options of 4 bytes", plain(options(4)), ["sent", ""]),
        ("options to the brim", plain(options(40)), ["sent", ""]),
        ("no time left", set(8, &[1]), ["router", "ttl-exceeded"]),
        ("no time at all", set(8, &[0]), ["router", "ttl-exceeded"]),
        ("to an unknown host", set(16, &[203, 0, 113, 30]), ["firewall", "default"]),
        ("a UDP checksum made by hardware", set(26, &[0x12, 0x34]), ["sent", ""]),
        // Fragments: all but the first have no ports, and without that one no rule accepts them.
        ("first fragment", set(6, &[0x20, 0]), ["sent", ""]),
        ("second fragment", set(6, &[0x20, 8]), ["firewall", "default"]),
        ("one that overlaps it", set(6, &[0x00, 7]), ["firewall", "default"]),
        ("one within the header", set(6, &[0x20, 1]), ["firewall", "default"]),
        ("one beyond 64 KiB", set(6, &[0x3f, 0xff]), ["nat:1", "fragment-bounds"]),
        ("TCP over its own header", set(6, &[0, 1, 64, 6]), ["firewall", "fragment"]),
    ];
    for (name, record, [place, reason]) in cases {
        demo.write("one.pcap", capture(1, std::slice::from_ref(&record)));
        demo.warpline("run chain.toml --input one.pcap --stats s.json").expect(0);
        let stats = stats::read(&demo, "s.json");
        let chain = &stats["chains"][0];
        let found = end_of_one(chain);
        assert_eq!(found, (place.to_owned(), reason.to_owned()), "{name}: {chain}");
        let (_, sent) = parse(&demo.read("out.pcap"));
        if place == "sent" {
            assert_eq!(sent[0].bytes.len(), record.bytes.len(), "{name}");
            assert_eq!(sent[0].wire_len, record.wire_len, "{name}");
        }
    }
}

/// Where the one packet of a run ended.
fn end_of_one(chain: &Value) -> (String, String) {
    for function in chain["functions"].as_array().unwrap() {
        for kind in ["drops", "malformed"] {
            for (reason, count) in function[kind].as_object().unwrap() {
                if whole(count) > 0 {
                    return (function["name"].as_str().unwrap().into(), reason.clone());
                }
            }
        }
    }
    assert_eq!(chain["packets"]["sent"], 1, "{chain}");
    ("sent".into(), String::new())
}

#[test]
fn a_capture_that_is_cut_short_is_read_up_to_there() {
    let demo = Demo::new();
    let records: Vec<Record> = (0..10).map(|i| Record::new(i, udp(100, |_| {}))).collect();
    let file = capture(1, &records);
    let each = (file.len() - 24) / 10;
    for cut in [24, 24 + each, file.len() - each, file.len()] {
        for (extra, warns) in [(0, false), (1, true), (15, true), (16, true), (each - 1, true)] {
            let Some(part) = file.get(..cut + extra) else { continue };
            for input in ["cut.pcap", "-"] {
                demo.write("cut.pcap", part);
                let run = format!("run chain.toml --stats s.json --input {input}");
                let ended = demo.warpline_with(&run, part).expect(0);
                let stats = stats::read(&demo, "s.json");
                let packet = (cut - 24) / each;
                assert_eq!(stats["chains"][0]["packets"]["read"], packet, "{cut} + {extra}");
                assert_eq!(parse(&demo.read("out.pcap")).1.len(), packet);
                let warning = format!(
                    "capture cut short at byte {} in the middle of packet {}",
                    cut + extra,
                    packet + 1
                );
                assert_eq!(ended.stderr.contains(&warning), warns, "{}", ended.stderr);
            }
        }
    }
}

/// Packets before the invalid length are not lost, but the run fails.
#[test]
fn a_length_that_lies_ends_the_run_with_what_came_before() {
    let demo = Demo::new();
    let records: Vec<Record> = (0..3).map(|i| Record::new(i, udp(100, |_| {}))).collect();
    let mut file = capture(1, &records);
    let last = file.len() - 142 - 16;
    file[last + 8..last + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    demo.write("lies.pcap", &file);
    let ended = demo.warpline("run chain.toml --input lies.pcap --stats s.json").expect(1);
    let reported =
        format!("input: at byte {}: captured length 4294967295 is more than 16777216", last + 8);
    assert!(ended.stderr.contains(&reported), "{}", ended.stderr);
    let stats = stats::read(&demo, "s.json");
    assert_eq!(stats["chains"][0]["packets"]["sent"], 2);
    assert_eq!(parse(&demo.read("out.pcap")).1.len(), 2);
    // A wire length below the captured one is a lie that does no harm.
    let mut file = capture(1, &records);
    file[last + 12..last + 16].copy_from_slice(&7_u32.to_le_bytes());
    demo.write("lies.pcap", &file);
    demo.warpline("run chain.toml --input lies.pcap").expect(0);
    assert_eq!(parse(&demo.read("out.pcap")).1[2].wire_len, 142);
}

#[test]
fn every_packet_keeps_its_own_time() {
    let demo = Demo::new();
    let day = 86_400_000_000_000;
    let times =
        [5 * day + 999_999_999, day + 1, 5 * day, 0, u64::from(u32::MAX) * 1_000_000_000, 7];
    let records = times.map(|at| Record::new(at, udp(100, |_| {})));
    demo.write("times.pcap", capture(1, &records));
    for functions in ["[]", "[\"nat\",\"firewall\",\"router\",\"nat\"]"] {
        for lanes in [1, 4] {
            demo.warpline(&format!(
                "run chain.toml --input times.pcap --lanes {lanes} --set \
                 chain.functions={functions}"
            ))
            .expect(0);
            let (_, sent) = parse(&demo.read("out.pcap"));
            assert!(sent.iter().map(|packet| packet.at_ns).eq(times), "{sent:?}");
        }
    }
}

/// Link types that nothing is known of, and the raw ones.
#[test]
fn other_link_types_are_counted_by_name() {
    let demo = Demo::new();
    let frame = udp(100, |_| {});
    let ip = frame[14..].to_vec();
    for (link, bytes, place) in [
        (147, frame.clone(), "firewall"),
        (65_535, frame.clone(), "firewall"),
        (9, frame, "firewall"),
        (101, ip.clone(), "sent"),
        (228, ip, "sent"),
    ] {
        demo.write("link.pcap", capture(link, &[Record::new(1, bytes.clone())]));
        // Without Ethernet there is no neighbour to write an address of.
        demo.warpline("run chain.toml --input link.pcap --stats s.json").expect(0);
        let stats = stats::read(&demo, "s.json");
        assert_eq!(end_of_one(&stats["chains"][0]).0, place, "{link}");
        demo.warpline("run chain.toml --input link.pcap --set chain.functions=[]").expect(0);
        let (kept, sent) = parse(&demo.read("out.pcap"));
        assert_eq!((kept, &sent[0].bytes), (if link == 228 { 101 } else { link }, &bytes));
    }
}

/// Bytes of every sort after a good file header and before one: never a panic, never a hang.
#[test]
fn noise_never_hurts() {
    let demo = Demo::new();
    let mut state = 1_u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let byte = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(byte).collect()
    };
    for round in 0..20 {
        let records: Vec<Record> =
            (0..200).map(|i| Record::new(i, noise(i as usize % 120))).collect();
        demo.write("noise.pcap", capture(1, &records));
        demo.warpline("run chain.toml --input noise.pcap --stats s.json --lanes 2").expect(0);
        assert_eq!(stats::read(&demo, "s.json")["chains"][0]["packets"]["read"], 200);
        let file = [capture(1, &records[..1]), noise(500)].concat();
        demo.write("noise.pcap", &file);
        let ended = demo.warpline("run chain.toml --input noise.pcap --stats s.json");
        assert!(matches!(ended.status, Some(0 | 1)), "round {round}: {}", ended.stderr);
        stats::read(&demo, "s.json");
        // The demo's capture with bytes flipped in it.
        let mut file = demo.read("capture.pcap");
        for place in noise(400).chunks_exact(4) {
            let at = u32::from_le_bytes(place.try_into().unwrap()) as usize % (file.len() - 24);
            file[24 + at] ^= 0x55;
        }
        demo.write("noise.pcap", &file);
        let ended = demo.warpline("run chain.toml --input noise.pcap --stats s.json");
        assert!(matches!(ended.status, Some(0 | 1)), "round {round}: {}", ended.stderr);
        stats::read(&demo, "s.json");
    }
}

#[test]
fn quiet_runs_warn() {
    let demo = Demo::new();
    let whole = demo.read("capture.pcap");
    demo.write("cut.pcap", &whole[..whole.len() - 10]);
    demo.write("e.toml", "[chain]\nfunctions = []\n");
    let ended = demo.warpline("run e.toml --quiet --input cut.pcap").expect(0);
    let start = "warning: chain \"chain\": capture cut short";
    assert!(ended.stderr.starts_with(start), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}
