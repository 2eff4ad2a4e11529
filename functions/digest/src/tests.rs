//! Tests of the whole function, against the crate `md-5` and a model that remembers everything.

use std::collections::HashMap;
use std::path::Path;

use md5::Digest as _;
use warpline_packet::hash::mix32;
use warpline_packet::{LinkType, Verdict};

use super::DEFINITION;
use warpline_nf::{Cell, Outputs, Report};
use warpline_verify::{Harness, Input, Outcome, build, try_build};

fn digest(table: &str) -> (Harness, Box<dyn Report>) {
    let (function, words) = build(&DEFINITION, table, Path::new("."));
    let report = function.report(&Outputs::default()).unwrap().expect("a report");
    (Harness::new(function, words), report)
}

/// Ones' complement sum of big-endian words, one after the other.
fn sum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0u32, |sum, pair| {
        let sum = sum + u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&b| u32::from(b));
        (sum & 0xffff) + (sum >> 16)
    }) as u16
}

fn v4(host: u8, tos: u8, protocol: u8, transport: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = (20 + transport.len() + payload.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, tos];
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, host, 192, 0, 2, host]);
    let check = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    [&frame, transport, payload].concat()
}

fn v6(host: u8, class: u8, protocol: u8, transport: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    frame.extend([0x60 | class >> 4, class << 4 | 0xa, 0xbc, 0xde]);
    frame.extend(((transport.len() + payload.len()) as u16).to_be_bytes());
    frame.extend([protocol, 64]);
    frame.extend([[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]; 2].concat());
    [&frame, transport, payload].concat()
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0, 7, 0, 9];
    header.extend((8 + payload.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34]);
    header
}

const TCP: [u8; 20] = [0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 16, 1, 0, 0, 0, 0, 0];

fn content(number: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| mix32(number << 16 ^ i) as u8).collect()
}

/// Packets of both families and several protocols, some of which repeat a payload.
fn traffic(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let packet = |i| {
        let random = mix32(i);
        let payload =
            content(random >> 8 & 63, [0, 1, 63, 64, 119, 500, 1400][random as usize % 7]);
        let host = (random >> 20) as u8;
        let frame = match random >> 28 & 3 {
            0 => v4(host, 0xb9, 17, &udp(&payload), &payload),
            1 => v4(host, 3, 6, &TCP, &payload),
            2 => v6(host, 0xb9, 17, &udp(&payload), &payload),
            _ if payload.is_empty() => v6(host, 0, 59, &[], &[]),
            _ => v6(host, 0, 99, &[], &payload),
        };
        (frame, payload)
    };
    (0..count).map(packet).collect()
}

fn inputs(traffic: &[(Vec<u8>, Vec<u8>)]) -> Vec<Input> {
    traffic.iter().map(|(frame, _)| Input::at(0, frame)).collect()
}

/// Finds duplicates by comparing the payloads themselves.
fn model(traffic: &[(Vec<u8>, Vec<u8>)], min_len: usize) -> (Vec<bool>, HashMap<Vec<u8>, u64>) {
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut see = |payload: &Vec<u8>| {
        let count = counts.entry(payload.clone()).or_default();
        *count += 1;
        *count > 1
    };
    let repeats = traffic.iter().map(|(_, p)| p.len() >= min_len && see(p)).collect();
    (repeats, counts)
}

fn hex(payload: &[u8]) -> String {
    md5::Md5::digest(payload).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counters(report: &dyn Report) -> HashMap<&'static str, u64> {
    let mut found = HashMap::new();
    report.counters(&mut |name, value| {
        found.insert(name, value);
    });
    found
}

/// The table of a report: digest, count, length.
fn top(report: &dyn Report) -> Vec<(String, u64, u64)> {
    let table = report.tables().remove(0);
    assert_eq!(table.name, "top_payloads");
    let row = |row: &Vec<Cell>| match &row[..] {
        [Cell::Text(md5), Cell::Number(count), Cell::Number(len), Cell::Number(bytes)] => {
            assert_eq!(*bytes, (count - 1) * len);
            (md5.clone(), *count, *len)
        }
        other => panic!("{other:?}"),
    };
    table.rows.iter().map(row).collect()
}

fn expected_top(counts: &HashMap<Vec<u8>, u64>) -> Vec<(String, u64, u64)> {
    let mut rows: Vec<_> =
        counts.iter().map(|(p, &count)| (hex(p), count, p.len() as u64)).collect();
    rows.sort_by_key(|(md5, count, len)| (u64::MAX - count, u64::MAX - len, words(md5)));
    rows.into_iter().filter(|(_, count, _)| *count > 1).take(10).collect()
}

/// The digest in the order of a report: by its little endian words.
fn words(hex: &str) -> Vec<u32> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..4).map(|w| u32::from_le_bytes([0, 2, 4, 6].map(|b| byte(8 * w + b)))).collect()
}

fn process(harness: &mut Harness, traffic: &[(Vec<u8>, Vec<u8>)], batch: usize) -> Vec<Outcome> {
    inputs(traffic).chunks(batch).flat_map(|inputs| harness.process(inputs)).collect()
}

#[test]
fn run_leaves_the_digest_of_every_payload() {
    let traffic = traffic(1000);
    let (mut harness, mut report) = digest("min_len = 1");
    process(&mut harness, &traffic, 1000);
    let notes = harness.take_notes();
    let digested: Vec<_> = traffic.iter().filter(|(_, payload)| !payload.is_empty()).collect();
    assert_eq!(notes.len(), digested.len());
    for (note, (_, payload)) in notes.iter().zip(digested) {
        assert_eq!(note[..16], md5::Md5::digest(payload)[..]);
        assert_eq!(note[16..], (payload.len() as u32).to_le_bytes());
        report.note(note);
    }
    assert_eq!(harness.counter("digested"), notes.len() as u64);
    assert_eq!(harness.counter("not-digested"), (traffic.len() - notes.len()) as u64);
}

#[test]
fn counting_agrees_with_a_model_in_batches_of_any_size() {
    let traffic = traffic(3000);
    let (repeats, counts) = model(&traffic, 64);
    let lens = traffic.iter().zip(&repeats).filter(|(_, repeat)| **repeat);
    let bytes: u64 = lens.map(|((_, payload), _)| payload.len() as u64).sum();
    for batch in [1, 7, 256] {
        let (mut harness, mut report) = digest("");
        let out = process(&mut harness, &traffic, batch);
        assert!(
            out.iter().zip(&traffic).all(|(out, (frame, _))| {
                out.verdict == Verdict::Forward && out.bytes == *frame
            })
        );
        harness.close(&mut *report).unwrap();
        let counters = counters(&*report);
        assert_eq!(counters["duplicates"], repeats.iter().filter(|&&r| r).count() as u64);
        assert_eq!(counters["unique"], counts.len() as u64);
        assert_eq!((counters["duplicate-bytes"], counters["evicted"]), (bytes, 0));
        assert_eq!(top(&*report), expected_top(&counts));
    }
}

#[test]
fn duplicates_are_dropped() {
    let traffic = traffic(2000);
    let (repeats, counts) = model(&traffic, 100);
    for batch in [1, 7, 256] {
        let (mut harness, mut report) = digest("on_duplicate = \"drop\"\nmin_len = 100");
        let out = process(&mut harness, &traffic, batch);
        for ((out, repeat), (frame, _)) in out.iter().zip(&repeats).zip(&traffic) {
            let verdict = if *repeat { Verdict::Dropped } else { Verdict::Forward };
            assert_eq!((out.verdict, out.reason), (verdict, 0));
            assert_eq!(out.bytes, *frame);
        }
        let dropped = repeats.iter().filter(|&&r| r).count() as u64;
        assert_eq!(harness.counter("duplicates"), dropped);
        harness.close(&mut *report).unwrap();
        assert!(counters(&*report).is_empty(), "counted once");
        assert_eq!(top(&*report), expected_top(&counts));
    }
}

#[test]
fn duplicates_are_tagged() {
    let traffic = traffic(2000);
    let (repeats, _) = model(&traffic, 64);
    for batch in [1, 7, 256] {
        let (mut harness, _) = digest("on_duplicate = \"tag\"\ntag_dscp = 42");
        let out = process(&mut harness, &traffic, batch);
        for ((out, repeat), (frame, _)) in out.iter().zip(&repeats).zip(&traffic) {
            assert_eq!(out.verdict, Verdict::Forward);
            let mut expected = frame.clone();
            if *repeat && frame[12] == 8 {
                expected[15] = 42 << 2 | frame[15] & 3;
                expected[24..26].fill(0);
                let check = !sum(&expected[14..34]);
                expected[24..26].copy_from_slice(&check.to_be_bytes());
            } else if *repeat {
                // Version 6, class 0b101010_ee, flow label 0xabcde.
                let ecn = frame[15] >> 4 & 3;
                expected[14] = 0x6a;
                expected[15] = (0b1000 | ecn) << 4 | 0xa;
            }
            assert_eq!(out.bytes, expected);
        }
    }
}

/// Fewer places than payloads: results are the same however the packets are batched, and sums hold.
#[test]
fn a_full_table_forgets_alike() {
    let traffic = traffic(3000);
    let run = |batch| {
        let (mut harness, _) = digest("on_duplicate = \"drop\"\nentries = 16");
        let verdicts: Vec<_> =
            process(&mut harness, &traffic, batch).iter().map(|out| out.verdict).collect();
        let sums =
            ["unique", "duplicates", "evicted", "digested"].map(|name| harness.counter(name));
        (verdicts, sums)
    };
    let (verdicts, [unique, duplicates, evicted, digested]) = run(256);
    assert_eq!(unique + duplicates, digested);
    assert_eq!(evicted, unique - 16);
    assert!(duplicates > 0);
    assert_eq!(run(1), (verdicts.clone(), [unique, duplicates, evicted, digested]));
    assert_eq!(run(7).0, verdicts);
}

#[test]
fn packets_without_a_digest_pass_or_are_rejected() {
    let payload = content(1, 200);
    let whole = v4(1, 0, 17, &udp(&payload), &payload);
    let mut snapped = Input::at(0, &whole[..150]);
    snapped.wire_len = whole.len() as u32;
    let mut lying = whole.clone();
    lying[16] = 0xff;
    let mut arp = whole.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut tagged = whole.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let padded = [&whole[..], &[0; 9]].concat();
    let raw = Input { link: LinkType::RAW, ..Input::at(0, &whole[14..]) };
    let mut inputs: Vec<Input> =
        [&whole, &lying, &arp, &tagged, &padded].map(|frame| Input::at(0, frame)).to_vec();
    inputs.extend([snapped, raw]);
    let (mut harness, mut report) = digest("");
    let out = harness.process(&inputs);
    let verdicts: Vec<_> = out.iter().map(|out| out.verdict).collect();
    assert_eq!(verdicts[1], Verdict::Malformed);
    assert_eq!(verdicts.iter().filter(|&&v| v == Verdict::Forward).count(), 6);
    assert_eq!(harness.counter("not-digested"), 2, "what was rejected was not passed on");
    harness.close(&mut *report).unwrap();
    assert_eq!(counters(&*report)["duplicates"], 3);
    assert_eq!(top(&*report), [(hex(&payload), 4, 200)]);
}

/// Fragments one by one: a first one from its UDP payload on, a later one from its IP header on.
#[test]
fn fragments_are_digested_one_by_one() {
    let payload = content(2, 160);
    let mut first = v4(1, 0, 17, &udp(&payload), &payload);
    first[20] = 0x20;
    let mut later = v4(1, 0, 17, &[], &payload);
    later[21] = 21;
    for frame in [&mut first, &mut later] {
        frame[24..26].fill(0);
        let check = !sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    }
    let (mut harness, mut report) = digest("");
    harness.process(&[Input::at(0, &first), Input::at(0, &later)]);
    harness.close(&mut *report).unwrap();
    assert_eq!(top(&*report), [(hex(&payload), 2, 160)]);
}

#[test]
fn the_table_has_as_many_rows_as_are_asked_for() {
    let payloads = [content(1, 100), content(2, 100), content(3, 100)];
    let frames: Vec<_> =
        payloads.iter().cycle().take(9).map(|p| v4(1, 0, 17, &udp(p), p)).collect();
    for on_duplicate in ["count", "tag", "drop"] {
        for (keys, rows) in [("", 3), ("top = 2", 2), ("top = 0", 0)] {
            let (mut harness, mut report) =
                digest(&format!("on_duplicate = \"{on_duplicate}\"\n{keys}"));
            let inputs: Vec<Input> = frames.iter().map(|frame| Input::at(0, frame)).collect();
            harness.process(&inputs);
            harness.close(&mut *report).unwrap();
            assert_eq!(top(&*report).len(), rows, "{on_duplicate} {keys}");
        }
    }
}

#[test]
fn mistakes_are_reported() {
    let reported = |table: &str| -> Vec<String> {
        let Err(mistakes) = try_build(&DEFINITION, table, Path::new(".")) else {
            panic!("{table}")
        };
        mistakes.iter().map(|mistake| mistake.message.clone()).collect()
    };
    assert_eq!(reported("tag_dscp = 3"), ["`tag_dscp` needs on_duplicate = \"tag\""]);
    assert_eq!(reported("entries = 0\nmin_len = 0\non_duplicate = \"keep\"").len(), 3);
}
