//! Application protocols as alerts report them.

use super::frames::{Frame, Talk};
use super::run::run_for_apps;

const RULES: &str = "alert ip any any -> any any (content:\"x\"; sid:1;)\n\
                     drop tcp any any -> any any (content:\"evil\"; dsize:<99; sid:2;)\n";

/// `expected` are the place of an alert's frame and the protocol, by alert.
#[track_caller]
fn check(frames: &[Frame], expected: &[(usize, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(at, app)| (*at, (*app).to_owned())).collect();
    assert_eq!(run_for_apps(RULES, frames), expected);
}

fn talk(port: u16) -> Talk {
    Talk::new(&Frame::udp(b"").ports([40_000, port]))
}

/// From the packet on whose data show it, in both directions.
#[test]
fn streams_keep_what_their_first_data_show() {
    let mut http = talk(8080);
    http.client(b"x");
    http.server(b"x");
    check(&http.frames, &[(3, ""), (4, "")]);
    let mut http = talk(8080);
    http.client(b"GE");
    http.client(b"T /x");
    http.server(b"HTTP/1.1 200 x");
    http.client(b"GET /x");
    check(&http.frames, &[(4, "http"), (5, "http"), (6, "http")]);
    // Data in which no rule finds anything are judged too.
    let mut quiet = talk(8080);
    quiet.client(b"GE");
    quiet.client(b"T / HTTP");
    quiet.server(b"x");
    check(&quiet.frames, &[(5, "http")]);
    let mut other = talk(8080);
    other.client(b"0123456789 0123456789 x");
    other.server(b"0123456789 x");
    other.client(b"GET /x");
    check(&other.frames, &[(3, ""), (4, "failed"), (5, "failed")]);
}

/// Segments out of their order are judged once the stream has its first bytes.
#[test]
fn streams_are_judged_in_order() {
    let mut late = talk(8080);
    late.frames.push(late.segment(0, super::frames::ACK, 4, b"/ x"));
    late.client(b"GET ");
    check(&late.frames, &[(4, "http")]);
}

/// The receiver never has what a rule dropped.
#[test]
fn dropped_data_show_nothing() {
    let mut dropped = talk(8080);
    let evil = dropped.segment(0, super::frames::ACK, 0, b"SSH-2.0-evil");
    dropped.frames.push(evil);
    dropped.client(b"GET /x");
    check(&dropped.frames, &[(3, "ssh"), (4, "http")]);
}

#[test]
fn datagrams_are_judged_at_once() {
    let ask = |payload: &[u8]| Frame::udp(payload).ports([40_000, 53]);
    let name = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01x\0\0\x01\0\x01";
    check(&[ask(name), ask(name).back()], &[(0, "dns"), (1, "dns")]);
    check(&[ask(b"x"), ask(name)], &[(0, "failed"), (1, "failed")]);
    check(&[ask(b"x"), ask(name).back()], &[(0, "failed"), (1, "dns")]);
    check(&[Frame::icmp(8, 0, b"x")], &[(0, "")]);
}
