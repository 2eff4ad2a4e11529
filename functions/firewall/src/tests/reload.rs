//! A firewall whose rules are changed while packets flow.

use super::super::DEFINITION;
use super::traffic::{Numbers, Sent, Shape};
use super::{Draw, Folder, firewall, reported};
use warpline_nf::Function;
use warpline_verify::{Harness, Input, build};

/// A firewall like [`firewall`] makes, by itself.
fn function(rules: &str, keys: &str) -> Box<dyn Function> {
    let folder = Folder::new().with("rules", rules);
    build(&DEFINITION, &format!("rules = \"rules\"\n{keys}"), folder.path()).0
}

/// A segment of host 1 to host 2, or back.
fn segment(src_port: u16, dst_port: u16, flags: u8, back: bool) -> Input {
    let sent = Sent {
        version: 4,
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        protocol: 6,
        src_port,
        dst_port,
        flags,
        numbers: Numbers::plain(flags),
        vlan: false,
        shape: Shape::Whole,
        ..Sent::drawn(&mut Draw::new(1))
    };
    let turned = Sent {
        src: sent.dst,
        dst: sent.src,
        src_port: sent.dst_port,
        dst_port: sent.src_port,
        ..sent.clone()
    };
    if back { turned } else { sent }.input(0)
}

const SYN: u8 = 2;
const SYN_ACK: u8 = 18;
const ACK: u8 = 16;

fn one(harness: &mut Harness, input: Input) -> &'static str {
    reported(&harness.process(&[input])[0])
}

#[test]
fn connections_go_on_and_new_rules_hold() {
    let keys = "established = true";
    let mut harness = firewall("accept tcp to any port 80\n", keys);
    assert_eq!(one(&mut harness, segment(1024, 80, SYN, false)), "accept");
    assert_eq!(one(&mut harness, segment(1024, 80, SYN_ACK, true)), "accept");
    assert_eq!(one(&mut harness, segment(1024, 53, SYN, false)), "default");

    harness.reload(function("accept tcp to any port 53\n", keys)).unwrap();
    assert_eq!(one(&mut harness, segment(1024, 80, ACK, false)), "accept", "it goes on");
    assert_eq!(one(&mut harness, segment(1025, 80, SYN, false)), "default", "no new ones");
    assert_eq!(one(&mut harness, segment(1025, 53, SYN, false)), "accept");
    assert_eq!(one(&mut harness, segment(1025, 53, SYN_ACK, true)), "accept", "it was noted");
    assert_eq!(harness.counter("connections"), 2);

    harness.reload(function("drop tcp to any port 80\naccept established\n", keys)).unwrap();
    assert_eq!(one(&mut harness, segment(1024, 80, ACK, false)), "rule", "rules may end them");
    assert_eq!(one(&mut harness, segment(1024, 80, ACK, true)), "accept");
}

#[test]
fn without_tracking_rules_are_changed_whole() {
    let mut harness = firewall("accept tcp to any port 80\n", "");
    assert_eq!(one(&mut harness, segment(1024, 80, ACK, false)), "accept");
    harness.reload(function("drop tcp\n", "default = \"accept\"")).unwrap();
    assert_eq!(one(&mut harness, segment(1024, 80, ACK, false)), "rule");
}

#[test]
fn tracking_can_not_be_changed() {
    let rules = "accept tcp\n";
    let tracked = "established = true\nconnections = 128";
    for (old, new) in [
        ("", tracked),
        (tracked, ""),
        (tracked, "established = true\nconnections = 256"),
        (tracked, "established = true\nconnections = 128\nudp_s = 31"),
        (tracked, "established = true\nconnections = 128\ntcp_loose = true"),
        (tracked, "established = true\nconnections = 128\ntcp_window = 'liberal'"),
    ] {
        let mut harness = firewall(rules, old);
        assert!(harness.reload(function(rules, new)).is_err(), "{old:?} then {new:?}");
        assert!(harness.reload(function(rules, old)).is_ok());
    }
}
