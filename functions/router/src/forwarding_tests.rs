//! Packets that are never forwarded. The expected fates are those that Linux gave the same frames.

use super::tests::Folder;
use super::*;
use warpline_packet::Verdict;
use warpline_verify::{Harness, Input};

/// See the file. `tests/kernels/router.rs` and the naive router of `warpline-engine` have the same
/// cases.
const SEEN: &str = include_str!("forwarding_of_linux.txt");
const ROUTES: &str = "0.0.0.0/0 10.0.2.2\n10.0.1.0/24 direct\n10.0.2.0/24 direct\n\
    ::/0 2001:db8:2::2\n2001:db8:1::/64 direct\n2001:db8:2::/64 direct\n";
const ICMP: &str =
    "icmp = \"on\"\nicmp_src_v4 = \"192.0.2.254\"\nicmp_src_v6 = \"2001:db8::254\"\n";

struct Case {
    name: &'static str,
    goes_on_linux: bool,
    reason: &'static str,
    frame: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let lines = SEEN.lines().filter(|line| !line.starts_with('#'));
    let all = lines.map(|line| {
        let [name, linux, reason, hex] = line.split(';').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let frame = (0..hex.len()).step_by(2).map(byte).collect();
        Case { name, goes_on_linux: linux == "forward", reason, frame }
    });
    all.collect()
}

/// The reason for which a frame is dropped, `-` if it is forwarded, and how many frames came out.
fn outcome(harness: &mut Harness, frame: &[u8]) -> (&'static str, usize) {
    let out = harness.process(&[Input::at(0, frame)]);
    let why = match out[0].verdict {
        Verdict::Forward => "-",
        Verdict::Dropped => DEFINITION.drops[usize::from(out[0].reason)],
        other => panic!("{other:?}"),
    };
    (why, out.len())
}

#[test]
fn packets_that_linux_drops_have_a_reason() {
    let folder = Folder::new("linux", &[("routes", ROUTES)]);
    let mut harness = folder.harness("routes = \"routes\"\n");
    for case in cases() {
        let differs = case.name == "dst6 ::";
        assert_eq!(case.goes_on_linux, (case.reason == "-") != differs, "{}", case.name);
        assert_eq!(outcome(&mut harness, &case.frame).0, case.reason, "{}", case.name);
    }
    // The same frames in one batch.
    let inputs: Vec<_> = cases().iter().map(|case| Input::at(0, &case.frame)).collect();
    for (out, case) in harness.process(&inputs).iter().zip(cases()) {
        assert_eq!(out.verdict == Verdict::Forward, case.reason == "-", "{}", case.name);
    }
}

#[test]
fn each_key_lets_its_own_through() {
    let folder = Folder::new("keys", &[("routes", ROUTES)]);
    for key in checks::KEYS.map(|key| key.name) {
        let table = format!("routes = \"routes\"\n{key} = \"forward\"\n");
        let mut harness = folder.harness(&table);
        let own = key.replace('_', "-");
        let mut through = 0;
        for case in cases() {
            let (why, _) = outcome(&mut harness, &case.frame);
            let expected = if case.reason == own { "-" } else { case.reason };
            let expected = match (key, case.name) {
                // The sum is right, and nothing else is asked of a wrong source route.
                ("bad_options", "LSRR ptr3" | "SSRR+LSRR") => "source-route",
                _ => expected,
            };
            assert_eq!(why, expected, "{key}: {}", case.name);
            through += u32::from(case.reason == own);
        }
        assert!(through > 0, "{key}");
    }
}

/// Whatever is let through: RFC 1812, 4.3.2.7.
#[test]
fn no_error_is_sent_about_what_may_not_go_on() {
    let folder = Folder::new("unanswered", &[("routes", ROUTES)]);
    let all: String =
        checks::KEYS.iter().map(|key| format!("{} = \"forward\"\n", key.name)).collect();
    for (keys, ends) in [("", false), (&all[..], true)] {
        let mut harness = folder.harness(&format!("routes = \"routes\"\n{ICMP}{keys}"));
        for mut case in cases() {
            // Its time is over. The sum of a right header stays right.
            let ttl = if case.frame[12] == 8 { 22 } else { 21 };
            let was = core::mem::replace(&mut case.frame[ttl], 1);
            if case.frame[12] == 8 {
                let sum = u16::from_be_bytes([case.frame[24], case.frame[25]]);
                let sum =
                    warpline_packet::wire::checksum::update16(sum, u16::from(was) << 8, 1 << 8);
                case.frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            let (why, frames) = outcome(&mut harness, &case.frame);
            if case.reason != "-" {
                assert_eq!(frames, 1, "{}", case.name);
                assert!(ends || why == case.reason, "{}: {why}", case.name);
            } else {
                assert_eq!(why, "ttl-exceeded", "{}", case.name);
            }
        }
        assert!(harness.counter("icmp-sent") > 20);
    }
}

/// A plain batch goes a way of its own: one packet of it that is wrong, and all its neighbours.
#[test]
fn one_wrong_packet_of_many_is_found() {
    let folder = Folder::new("runs", &[("routes", ROUTES)]);
    let mut harness = folder.harness("routes = \"routes\"\n");
    let all = cases();
    let plain = &all[0];
    assert_eq!((plain.name, plain.reason), ("plain", "-"));
    for case in all.iter().filter(|case| case.frame.len() == plain.frame.len()) {
        for at in [0, 9, 63] {
            let mut inputs = vec![Input::at(0, &plain.frame); 64];
            inputs[at] = Input::at(0, &case.frame);
            for (row, out) in harness.process(&inputs).iter().enumerate() {
                let goes_on = row != at || case.reason == "-";
                assert_eq!(out.verdict == Verdict::Forward, goes_on, "{} {row}", case.name);
                assert_eq!(out.next_hop != 0, goes_on, "{} {row}", case.name);
                assert_eq!(out.bytes[22] == 63, goes_on, "{} {row}", case.name);
            }
        }
    }
}

#[test]
fn broadcasts_of_connected_prefixes_have_routes_of_their_own() {
    let routes = "10.0.0.0/8 192.0.2.1\n10.1.0.0/16 direct\n10.1.255.0/24 192.0.2.1\n\
        10.2.0.0/30 direct\n10.3.0.0/31 direct\n10.4.0.0/24 direct\n10.4.0.255/32 192.0.2.1\n\
        0.0.0.0/1 direct\n224.1.0.0/16 192.0.2.1\nff02::/16 direct\n192.0.2.0/24 direct\n";
    let neighbours = "192.0.2.1 02:00:00:00:00:11\n10.2.0.3 02:00:00:00:00:12\n\
        10.2.0.2 02:00:00:00:00:13\n10.3.0.1 02:00:00:00:00:14\n";
    let folder = Folder::new("broadcasts", &[("routes", routes), ("n", neighbours)]);
    let table = "routes = \"routes\"\nneighbours = \"n\"\nmac = \"02:00:00:00:00:01\"\n";
    let cases = [
        ([10, 1, 255, 255], "directed-broadcast"),
        ([10, 1, 255, 254], "-"),
        ([10, 1, 0, 0], "no-neighbour"),
        ([10, 2, 0, 3], "directed-broadcast"),
        ([10, 2, 0, 2], "-"),
        ([10, 3, 0, 1], "-"),
        ([10, 4, 0, 255], "-"),
        ([127, 255, 255, 255], "martian-destination"),
        ([224, 1, 0, 1], "multicast"),
    ];
    let mut harness = folder.harness(table);
    let mut open = folder.harness(&format!("{table}directed_broadcast = \"forward\"\n"));
    for (dst, reason) in cases {
        let frame = tests::v4(dst, 64);
        assert_eq!(outcome(&mut harness, &frame).0, reason, "{dst:?}");
        let expected = if reason == "directed-broadcast" { "-" } else { reason };
        let out = open.process(&[Input::at(0, &frame)]);
        assert_eq!(outcome(&mut open, &frame).0, expected, "{dst:?}");
        let to_all = out[0].bytes[..6] == [0xff; 6];
        assert_eq!(to_all, reason == "directed-broadcast", "{dst:?}");
    }
}
