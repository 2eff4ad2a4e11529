//! Options on flows, and the state of flows and hosts (manual, "Flow Keywords" and "Xbits
//! Keyword").

use super::frames::{ACK, FIN, Frame, RST, SYN, Talk};
use super::run::{Reported, run};

fn alerts(rules: &str, frames: &[Frame]) -> Vec<Reported> {
    run(rules, "", frames).alerts
}

/// Handshake, a request, its answer, and a second request.
fn talk() -> Talk {
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"one abc");
    talk.server(b"two abc");
    talk.client(b"three abc");
    talk
}

#[test]
fn directions_and_states() {
    let stray = Frame::tcp(ACK, b"abc").ports([9, 80]);
    let frames = [talk().frames, vec![stray]].concat();
    let cases: &[(&str, &[usize])] = &[
        ("flow:to_server;", &[3, 5, 6]),
        ("flow:from_client;", &[3, 5, 6]),
        ("flow:to_client;", &[4]),
        ("flow:from_server;", &[4]),
        ("flow:established;", &[3, 4, 5]),
        ("flow:established,to_server;", &[3, 5]),
        ("flow:not_established;", &[6]),
        ("flow:stateless;", &[3, 4, 5, 6]),
        ("flow:only_stream;", &[3, 4, 5]),
        ("flow:no_stream;", &[3, 4, 5, 6]),
    ];
    for (option, expected) in cases {
        let rule = format!("alert tcp any any -> any any ({option} content:\"abc\"; sid:1;)\n");
        let places: Vec<usize> = alerts(&rule, &frames).iter().map(|reported| reported.0).collect();
        assert_eq!(places, *expected, "{option}");
    }
}

#[test]
fn rules_without_a_literal_are_asked_of_each_packet_that_may_match() {
    let late_syn = talk().frames[0].clone();
    let frames = [talk().frames, vec![late_syn, Frame::tcp(SYN, b"").ports([9, 80])]].concat();
    let cases: &[(&str, &[usize])] = &[
        ("any any -> any any (flags:S;", &[0, 6, 7]),
        ("any any -> any 80 (flags:S;", &[0, 6, 7]),
        ("any any -> any any (flags:S+;", &[0, 1, 6, 7]),
        ("any any <> any 80 (flags:S+;", &[0, 1, 6, 7]),
        ("any 80 -> any any (flags:A+;", &[1, 4]),
        ("any any -> any 80 (flags:A+;", &[2, 3, 5]),
        ("any any -> any 80 (dsize:>6; flow:established;", &[3, 5]),
        ("any any -> 10.0.0.2 any (dsize:>0;", &[3, 5]),
        ("any 80 -> any any (ttl:64;", &[1, 4]),
    ];
    for (rule, expected) in cases {
        let rules = format!(
            "alert tcp {rule} sid:1;)\nalert ip any any -> any any (ip_proto:!6; sid:2;)\n"
        );
        let places: Vec<usize> =
            alerts(&rules, &frames).iter().map(|reported| reported.0).collect();
        assert_eq!(places, *expected, "{rule}");
    }
}

/// Data that a stream refuses is inspected packet by packet, and is not part of the stream.
#[test]
fn payloads_that_the_stream_refuses() {
    let rules = "alert tcp any any -> any any (content:\"attack\"; sid:1;)\n\
                 alert tcp any any -> any any (flow:established,to_server; content:\"attack\"; \
                 sid:2;)\n";
    let mut talk = talk();
    for (flags, ahead) in [(ACK, 100_000), (0, 0), (SYN, 0), (SYN | ACK, 0), (RST | ACK, 100_000)] {
        talk.frames.push(talk.segment(0, flags, ahead, b"an attack"));
    }
    talk.client(b"att");
    talk.frames.push(talk.segment(0, 0, 0, b"???"));
    talk.client(b"ack");
    let reported = alerts(rules, &talk.frames);
    let expected: Vec<Reported> =
        [6, 7, 8, 9, 10, 13].iter().flat_map(|&at| [(at, 1), (at, 2)]).collect();
    assert_eq!(reported, expected);
}

/// Rules on protocols and addresses alone are asked once in each direction of a flow.
#[test]
fn rules_on_protocols_alone() {
    let cases: &[(&str, &[usize])] = &[
        ("alert ip any any -> any any (ip_proto:6;", &[0, 1]),
        ("alert ip any any -> any any (ip_proto:!17;", &[0, 1]),
        ("alert pkthdr any any -> any any (", &[0, 1]),
        ("alert pkthdr any any -> any any (ip_proto:6;", &[0, 1]),
        ("alert pkthdr any any -> any any (ttl:64;", &[0, 1, 2, 3, 4, 5]),
        ("alert ip any any -> any any (ip_proto:6; ttl:64;", &[0, 1, 2, 3, 4, 5]),
        ("alert ip any any -> any any (ip_proto:6; flow:to_client;", &[1, 4]),
    ];
    for (rule, expected) in cases {
        let reported = alerts(&format!("{rule} sid:1;)\n"), &talk().frames);
        let places: Vec<usize> = reported.iter().map(|reported| reported.0).collect();
        assert_eq!(places, *expected, "{rule}");
    }
}

/// A rule alerts again on what it had not matched in, and on nothing else, whichever of its
/// contents is looked for.
#[test]
fn a_literal_that_comes_again_does_not_match_old_data() {
    let words = |words: &[&str]| {
        let mut talk = Talk::new(&Frame::udp(b""));
        words.iter().for_each(|word| talk.client(word.as_bytes()));
        talk.frames
    };
    // Places after the handshake: with the second content as the fast pattern, and with the first.
    let cases: &[(&[&str], [&[usize]; 2])] = &[
        (&["login a", "xyz", "xyz", "xyz xyz"], [&[1], &[1]]),
        (&["login a xyz", "login b", "xyz", "xyz"], [&[0, 2], &[0, 2]]),
        (&["xyz login", "xyz", "login"], [&[0, 2], &[0, 2]]),
        // A match that begins in old data counts if its literal is the fast pattern.
        (&["login xyz lo", "gin xy", "z"], [&[0], &[0, 2]]),
        (&["login xyz xy", "z login"], [&[0, 1], &[0]]),
    ];
    for (said, expected) in cases {
        for (options, expected) in
            ["; content:\"xyz\"; fast_pattern;", "; fast_pattern; content:\"xyz\";"]
                .iter()
                .zip(expected)
        {
            let rule =
                format!("alert tcp any any -> any any (content:\"login\"{options} sid:1;)\n");
            let reported = alerts(&rule, &words(said));
            let places: Vec<usize> = reported.iter().map(|reported| reported.0 - 3).collect();
            assert_eq!(places, *expected, "{said:?} {options}");
        }
    }
    let rule = "alert tcp any any -> any any (content:\"login\"; content:\"xyz\"; fast_pattern; \
                detection_filter:track by_src,count 2,seconds 60; sid:1;)\n";
    assert!(alerts(rule, &words(&["login xyz", "xyz", "xyz", "xyz", "xyz"])).is_empty());
}

#[test]
fn datagrams_are_established_by_an_answer() {
    let there = Frame::udp(b"abc");
    let frames = [there.clone(), there.clone(), there.clone().back(), there];
    let rule =
        |option| format!("alert udp any any -> any any ({option} content:\"abc\"; sid:1;)\n");
    assert_eq!(alerts(&rule("flow:established;"), &frames), [(2, 1), (3, 1)]);
    assert_eq!(alerts(&rule("flow:not_established,to_server;"), &frames), [(0, 1), (1, 1)]);
    assert_eq!(alerts(&rule("flow:to_client;"), &frames), [(2, 1)]);
}

#[test]
fn flowbits_between_packets_and_in_one() {
    let rules = "alert tcp any any -> any any (content:\"three\"; flowbits:isset,seen; sid:3;)\n\
                 alert tcp any any -> any any (content:\"one\"; flowbits:set,seen; noalert; \
                 sid:1;)\n\
                 alert tcp any any -> any any (content:\"two\"; flowbits:isset,seen; sid:2;)\n\
                 alert tcp any any -> any any (content:\"abc\"; flowbits:isnotset,seen; sid:4;)\n\
                 alert tcp any any -> any any (content:\"one\"; flowbits:isset,seen|other; \
                 sid:5;)\n";
    assert_eq!(alerts(rules, &talk().frames), [(3, 5), (4, 2), (5, 3)]);
    let rules = rules.replace("noalert;", "flowbits:noalert;");
    assert_eq!(alerts(&rules, &talk().frames), [(3, 5), (4, 2), (5, 3)]);
    let rules = "alert tcp any any -> any any (content:\"abc\"; flowbits:toggle,odd; noalert; \
                 sid:1;)\n\
                 alert tcp any any -> any any (content:\"abc\"; flowbits:isset,odd; sid:2;)\n\
                 alert tcp any any -> any any (content:\"two\"; flowbits:set,a; \
                 flowbits:unset,odd; sid:3;)\n";
    assert_eq!(alerts(rules, &talk().frames), [(3, 2), (4, 3), (5, 2)]);
    // Another flow's bits are its own.
    let other = Talk::new(&Frame::udp(b"").ports([5, 6]));
    let rules = "alert tcp any any -> any any (flags:S; flowbits:set,s; noalert; sid:1;)\n\
                 alert tcp any any -> any 80 (content:\"abc\"; flowbits:isset,s; sid:2;)\n";
    let frames = [other.frames, talk().frames[1..].to_vec()].concat();
    assert_eq!(alerts(rules, &frames), []);
}

#[test]
fn flowints_count() {
    let rules = "alert udp any any -> any any (content:\"a\"; flowint:n,isnotset; flowint:n,=,1; \
                 sid:1;)\n\
                 alert udp any any -> any any (content:\"a\"; flowint:n,isset; flowint:n,+,1; \
                 noalert; sid:2;)\n\
                 alert udp any any -> any any (content:\"a\"; flowint:n,>,3; sid:3;)\n";
    let frames = vec![Frame::udp(b"a"); 4];
    let found = alerts(rules, &frames);
    assert_eq!(found.iter().filter(|reported| reported.1 == 1).collect::<Vec<_>>(), [&(0, 1)]);
    assert_eq!(found.iter().filter(|reported| reported.1 == 3).count(), 2);
}

#[test]
fn xbits_of_hosts_and_pairs() {
    let set = Frame::udp(b"set");
    let ask = |hosts, at| Frame { hosts, ..Frame::udp(b"ask") }.at(at);
    let frames = [
        set.at(0),
        ask([1, 2], 1),
        ask([1, 3], 2),
        ask([3, 2], 3),
        ask([2, 1], 4),
        ask([1, 2], 20_000),
    ];
    let cases: [(&str, &[usize]); 3] =
        [("ip_src", &[1, 2]), ("ip_dst", &[1, 3]), ("ip_pair", &[1, 4])];
    for (track, expected) in cases {
        let rules = format!(
            "alert udp any any -> any any (content:\"set\"; xbits:set,x,track {track},expire 10; \
             noalert; sid:1;)\n\
             alert udp any any -> any any (content:\"ask\"; xbits:isset,x,track {track}; sid:2;)\n"
        );
        let places: Vec<usize> =
            alerts(&rules, &frames).iter().map(|reported| reported.0).collect();
        assert_eq!(places, expected, "{track}");
    }
}

#[test]
fn sizes_of_streams() {
    let rule = |option| {
        format!("alert tcp any any -> any any (stream_size:{option}; content:\"abc\"; sid:1;)\n")
    };
    // The client's SYN counts 1, and its requests 7 and 9.
    for (option, expected) in [
        ("client,=,8", vec![3, 4]),
        ("client,>,8", vec![5]),
        ("server,<,2", vec![3]),
        ("both,>,7", vec![4, 5]),
        ("either,>,16", vec![5]),
    ] {
        let found = alerts(&rule(option), &talk().frames);
        let places: Vec<usize> = found.iter().map(|reported| reported.0).collect();
        assert_eq!(places, expected, "{option}");
    }
}

/// Suricata 7.0.10 has these.
#[test]
fn syn_and_fin_count_in_the_sizes_of_streams() {
    let rule = |option| format!("alert tcp any any -> any any (stream_size:{option}; sid:1;)\n");
    let mut talk = Talk::new(&Frame::udp(b""));
    talk.client(b"hello");
    talk.frames.push(talk.segment(0, FIN | ACK, 0, b""));
    for (option, expected) in [
        ("server,=,0", vec![0]),
        ("server,=,1", vec![1, 2, 3, 4]),
        ("client,=,6", vec![3]),
        ("client,=,7", vec![4]),
    ] {
        let found = alerts(&rule(option), &talk.frames);
        let places: Vec<usize> = found.iter().map(|reported| reported.0).collect();
        assert_eq!(places, expected, "{option}");
    }
    assert_eq!(alerts(&rule("either,>=,0"), &[Frame::tcp(ACK, b"abc")]), []);
}

#[test]
fn errors_belong_to_the_flow_that_they_quote() {
    let asked = Frame::udp(b"abc");
    let quoted = asked.packet();
    let error = Frame { hosts: [2, 1], ..Frame::icmp(3, 3, &quoted) };
    let rules = "alert udp any any -> any any (content:\"abc\"; flowbits:set,a; noalert; sid:1;)\n\
                 alert icmp any any -> any any (itype:3; flowbits:isset,a; sid:2;)\n";
    assert_eq!(alerts(rules, &[asked, error.clone()]), [(1, 2)]);
    assert_eq!(alerts(rules, &[error]), []);
}

/// Whose addresses may be those of any router: rules on addresses are asked of each, and decide of
/// it alone.
#[test]
fn rules_on_addresses_see_errors() {
    let asked = Frame::udp(b"abc");
    let answer = asked.clone().back();
    let error = Frame { hosts: [7, 1], ..Frame::icmp(3, 3, &asked.packet()) };
    let frames = [asked.clone(), answer, error.clone(), error, asked.clone(), asked.back()];
    let ran = run("drop ip 10.0.0.7 any -> any any (sid:1;)\n", "", &frames);
    assert_eq!((ran.alerts, ran.dropped), (vec![(2, 1), (3, 1)], vec![2, 3]));
    let ran = run("alert icmp any any -> 10.0.0.1 any (sid:1;)\n", "", &frames);
    assert_eq!(ran.alerts, [(2, 1), (3, 1)]);
}

#[test]
fn flows_picked_up_in_the_middle() {
    let frames = &talk().frames[3..];
    let rule = "alert tcp any any -> any any (flow:established; content:\"abc\"; sid:1;)\n";
    assert_eq!(run(rule, "", frames).alerts, []);
    assert_eq!(run(rule, "midstream = true", frames).alerts, [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(alerts(rule, &[Frame::tcp(SYN, b"abc")]), []);
}

/// A rule on packets and streams waited for more, then matched a packet: the stream has the same
/// bytes.
#[test]
fn a_match_in_a_packet_is_not_reported_for_its_stream() {
    let rule =
        "alert tcp any any -> any any (content:\"head\"; depth:4; pcre:\"/tail/\"; sid:1;)\n";
    let mut talk = Talk::new(&Frame::udp(b""));
    for data in [&b"head"[..], b"head tail", b"x"] {
        talk.client(data);
    }
    assert_eq!(alerts(rule, &talk.frames), [(4, 1)]);
}

/// More rules than a direction keeps by itself wait for the end; and again, when flows before have
/// ended unheard.
#[test]
fn many_rules_wait_for_more() {
    let rule = |n: u32| {
        format!(
            "alert tcp-stream any any -> any any (content:\"begin{n:02}\"; content:\"end\"; \
             distance:0; sid:{n};)\n"
        )
    };
    let rules: String = (1..=14).map(rule).collect();
    let begin: String = (1..=14).map(|n: u32| format!("begin{n:02} ")).collect();
    let mut frames = Vec::new();
    for round in 0..20_u64 {
        let mut talk = Talk::new(&Frame::udp(b""));
        talk.client(begin.as_bytes());
        if round == 19 {
            talk.client(b"end");
        }
        frames.extend((round * 700_000..).zip(talk.frames).map(|(at, frame)| frame.at(at)));
    }
    let last = frames.len() - 1;
    let expected: Vec<Reported> = (1..=14).map(|sid| (last, sid)).collect();
    assert_eq!(alerts(&rules, &frames), expected);
}

/// State that a packet sets is visible from the next packet on, as in Suricata.
#[test]
fn xbits_are_asked_before_they_are_set() {
    for track in ["ip_src", "ip_dst", "ip_pair"] {
        let rules = format!(
            "alert udp any any -> any any (content:\"abc\"; xbits:set,x,track {track},expire 10; \
             sid:1;)\n\
             alert udp any any -> any any (content:\"abc\"; xbits:isset,x,track {track}; sid:2;)\n\
             alert udp any any -> any any (content:\"abc\"; xbits:isnotset,x,track {track}; \
             sid:3;)\n"
        );
        let frames = [Frame::udp(b"abc"), Frame::udp(b"abc").ports([7, 7])];
        let expected = [(0, 3), (0, 1), (1, 2), (1, 1)];
        assert_eq!(alerts(&rules, &frames), expected, "{track}");
    }
}
