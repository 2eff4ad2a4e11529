//! The effects of rules on packets and flows, their order, and how often they alert (manual,
//! "Action-order" and "Thresholding Keywords").

use super::frames::{ACK, Frame, SYN, Talk};
use super::run::{Ran, run};

fn datagrams(count: usize, payload: &[u8]) -> Vec<Frame> {
    vec![Frame::udp(payload); count]
}

#[test]
fn actions_go_in_their_order() {
    let ran = |rules: &str| run(rules, "", &datagrams(1, b"abc"));
    let alert = "alert udp any any -> any any (content:\"abc\"; sid:1;)\n";
    let drop = "drop udp any any -> any any (content:\"abc\"; sid:2;)\n";
    let reject = "reject udp any any -> any any (content:\"abc\"; sid:3;)\n";
    let pass = "pass udp any any -> any any (content:\"abc\"; sid:4;)\n";
    let all = [alert, reject, drop].concat();
    let expected = Ran { alerts: vec![(0, 2), (0, 3), (0, 1)], dropped: vec![0], made: 0 };
    assert_eq!(ran(&all), expected);
    assert_eq!(ran(&(all + pass)), Ran { alerts: vec![], dropped: vec![], made: 0 });
    let expected = Ran { alerts: vec![(0, 3)], dropped: vec![0], made: 1 };
    assert_eq!(ran(reject), expected);
    // An ICMP error is about what its receiver sent: of a datagram, the sender alone gets one.
    let both = reject.replace("reject", "rejectboth");
    assert_eq!(ran(&both).made, 1);
    let segment = Frame::tcp(ACK, b"abc");
    assert_eq!(run(&both.replace("udp", "tcp"), "", &[segment]).made, 2);
    assert_eq!(ran(&drop.replace("sid", "noalert; sid")).alerts, []);
    assert_eq!(ran(&drop.replace("sid", "noalert; sid")).dropped, [0]);
}

#[test]
fn a_stream_match_decides_of_what_follows() {
    let mut talk = Talk::new(&Frame::udp(b""));
    for part in [&b"att"[..], b"ack", b"more"] {
        talk.client(part);
    }
    talk.server(b"answer");
    let rule = "tcp any any -> any any (content:\"attack\"; sid:1;)\n";
    let ran = run(&format!("drop {rule}"), "", &talk.frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(4, 1)], vec![4, 5, 6]));
    let after = "alert tcp any any -> any any (content:\"more\"; sid:2;)\n";
    let ran = run(&format!("pass {rule}{after}"), "", &talk.frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![], vec![]));
    let ran = run(&format!("reject {rule}{after}"), "", &talk.frames);
    assert_eq!((ran.alerts, ran.dropped, ran.made), (vec![(4, 1)], vec![4, 5, 6], 1));
}

#[test]
fn a_packet_match_decides_of_the_packet() {
    let frames = [datagrams(1, b"abc"), datagrams(1, b"xyz"), datagrams(1, b"abc")].concat();
    let ran = run("drop udp any any -> any any (content:\"abc\"; sid:1;)\n", "", &frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(0, 1), (2, 1)], vec![0, 2]));
}

/// As `SIG_TYPE_LIKE_IPONLY` of Suricata has it.
#[test]
fn addresses_that_exclude_some_decide_of_the_flow() {
    let there = Frame::udp(b"a");
    let back = there.clone().back();
    let frames = [there.clone(), back.clone(), there, back];
    let none = Ran { alerts: vec![], dropped: vec![], made: 0 };
    for source in ["!9.9.9.9", "[0.0.0.0/0,!9.9.9.9]", "[10.0.0.0/8,!10.9.9.9]", "0.0.0.0/0"] {
        let rule = format!("udp {source} any -> any 80 (sid:1;)\n");
        let dropped = Ran { alerts: vec![(0, 1)], dropped: vec![0, 1, 2, 3], made: 0 };
        assert_eq!(run(&format!("drop {rule}"), "", &frames), dropped, "{source}");
        let all = format!("pass {rule}alert udp any any -> any any (content:\"a\"; sid:2;)\n");
        assert_eq!(run(&all, "", &frames), none, "{source}");
        let alerts = if source == "0.0.0.0/0" { vec![(0, 1)] } else { vec![(0, 1), (2, 1)] };
        let ran = run(&format!("alert {rule}"), "", &frames);
        assert_eq!(ran.alerts, alerts, "{source}");
    }
}

#[test]
fn rules_on_addresses_tell_once_a_direction() {
    let there = Frame::udp(b"a");
    let back = there.clone().back();
    let other = there.clone().ports([9, 9]);
    let frames = [there.clone(), there.clone(), back.clone(), there, back, other.clone(), other];
    let ran = run("alert ip any any -> any any (sid:1;)\n", "", &frames);
    assert_eq!(ran.alerts, [(0, 1), (2, 1), (5, 1)]);
    let ran = run("drop ip 10.0.0.2 any -> any any (sid:1;)\n", "", &frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(2, 1)], vec![2, 3, 4]));
}

#[test]
fn one_alert_for_a_rule_and_packet() {
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"abc abc abc");
    let rules = "alert tcp any any -> any any (content:\"abc\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"abc\"; depth:3; sid:2;)\n\
                 alert tcp any any <> any any (content:\"c a\"; content:\"abc\"; sid:3;)\n";
    assert_eq!(run(rules, "", &talk.frames).alerts, [(3, 1), (3, 2), (3, 3)]);
    let rule = "alert udp any any -> any any (flow:only_stream; content:\"abc\"; sid:1;)\n";
    assert_eq!(run(rule, "", &datagrams(1, b"abc")).alerts, []);
}

#[test]
fn thresholds() {
    let frames: Vec<Frame> = (0..10).map(|at| Frame::udp(b"abc").at(at * 1000)).collect();
    let places = |option: &str| {
        let rule = format!("alert udp any any -> any any (content:\"abc\"; {option} sid:1;)\n");
        let ran = run(&rule, "", &frames);
        ran.alerts.iter().map(|reported| reported.0).collect::<Vec<_>>()
    };
    let cases: &[(&str, &[usize])] = &[
        ("threshold:type limit, track by_src, count 2, seconds 60;", &[0, 1]),
        ("threshold:type limit, track by_dst, count 1, seconds 5;", &[0, 6]),
        ("threshold:type threshold, track by_src, count 3, seconds 60;", &[2, 5, 8]),
        ("threshold:type both, track by_rule, count 3, seconds 60;", &[2]),
        ("threshold:type threshold, track by_both, count 5, seconds 2;", &[]),
        ("detection_filter:track by_src, count 4, seconds 60;", &[4, 5, 6, 7, 8, 9]),
    ];
    for (option, expected) in cases {
        assert_eq!(places(option), *expected, "{option}");
    }
}

/// As the shard decides and as the report does.
#[test]
fn a_filter_counts_ports() {
    let ports = [1, 1, 2, 2, 3, 1, 4];
    let frame = |(at, &port): (usize, &u16)| {
        Frame::udp(b"abc").ports([port + 100, port]).at(at as u64 * 1000)
    };
    let frames: Vec<Frame> = ports.iter().enumerate().map(frame).collect();
    for port in ["src_port", "dst_port"] {
        let options = format!(
            "(content:\"abc\"; detection_filter:track by_src, count 2, seconds 60, \
             unique_on {port}; sid:1;)\n"
        );
        let alerted = run(&format!("alert udp any any -> any any {options}"), "", &frames);
        let dropped = run(&format!("drop udp any any -> any any {options}"), "", &frames);
        assert_eq!(alerted.alerts, [(4, 1), (5, 1), (6, 1)], "{port}");
        assert_eq!((dropped.alerts, dropped.dropped), (alerted.alerts, vec![4, 5, 6]), "{port}");
    }
}

#[test]
fn a_filter_that_decides_of_packets() {
    let frames: Vec<Frame> = (0..6).map(|at| Frame::udp(b"abc").at(at * 1000)).collect();
    let rule = "drop udp any any -> any any (content:\"abc\"; \
                detection_filter:track by_src, count 3, seconds 60; sid:1;)\n";
    let ran = run(rule, "", &frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(3, 1), (4, 1), (5, 1)], vec![3, 4, 5]));
}

#[test]
fn a_stream_rule_looks_at_packets_of_no_stream() {
    let rules = "alert tcp any any -> any any (content:\"abc\"; sid:1;)\n\
                 alert tcp any any -> any any (flow:only_stream; content:\"abc\"; sid:2;)\n\
                 alert tcp-pkt any any -> any any (content:\"abc\"; sid:3;)\n";
    assert_eq!(run(rules, "", &[Frame::tcp(SYN, b"abc")]).alerts, [(0, 1), (0, 3)]);
    assert_eq!(run(rules, "", &[Frame::tcp(ACK, b"abc")]).alerts, [(0, 1), (0, 3)]);
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"abc");
    assert_eq!(run(rules, "", &talk.frames).alerts, [(3, 1), (3, 2), (3, 3)]);
}

/// Suricata asks what is held back before it counts to `packet-alert-max`.
#[test]
fn withheld_alerts_take_no_place_of_a_packet() {
    let real = "alert udp any any -> any any (content:\"abc\"; sid:900;)\n";
    let rules = |count: u32, option: &str| {
        let rule =
            |sid| format!("alert udp any any -> any any (content:\"abc\"; {option} sid:{sid};)\n");
        (1..=count).map(rule).collect::<String>() + real
    };
    let frames = [Frame::udp(b"abc"), Frame::udp(b"abc").ports([7, 7])];
    assert_eq!(run(&rules(200, "noalert;"), "", &frames).alerts, [(0, 900), (1, 900)]);
    let first: Vec<_> = (1..=15).map(|sid| (0, sid)).collect();
    let limit = "threshold:type limit, track by_src, count 1, seconds 60;";
    let expected = [&first[..], &[(1, 900)]].concat();
    assert_eq!(run(&rules(30, limit), "", &frames).alerts, expected);
    // A rule that drops decides in the shard.
    let drops = rules(20, limit).replacen("alert udp", "drop udp", 20);
    assert_eq!(run(&drops, "", &frames).alerts, expected);
    let plain = run(&rules(20, ""), "", &frames).alerts;
    let again: Vec<_> = (1..=15).map(|sid| (1, sid)).collect();
    assert_eq!(plain, [first, again].concat());
}
