//! Notes, EVE lines and lines of `fast.log`.

use serde_json::{Value, json};

use super::*;
use crate::apps::{App, DetectedApp};
use crate::report::eve::Known;
use crate::report::{Decision, EveOptions, Source, eve, fast_log};
use warpline_nids_rules::{Name, Target};

const PLAIN: EveOptions =
    EveOptions { payload: 0, payload_printable: 0, packet: 0, ether: false, metadata: false };
const ALL: EveOptions =
    EveOptions { payload: 2000, payload_printable: 9, packet: 64, ether: true, metadata: true };
const ETHER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xab, 8, 0];

fn about() -> About {
    About {
        gid: 1,
        sid: 7,
        rev: 3,
        msg: "a \"quoted\" é \\ attack".into(),
        class: "A Network Trojan was detected".into(),
        priority: 1,
        metadata: [("tag", "x"), ("created_at", "2020_01_01"), ("Tag", "y"), ("\"", "z")]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
        ..About::default()
    }
}

fn eve_of(alert: &Alert<'_>, about: &About, options: EveOptions) -> Value {
    let mut line = Vec::new();
    let names = [(5, "foo"), (6, "bar"), (7, "count"), (8, "traffic/id/x")]
        .map(|(name, text)| (Name(name), text.into()))
        .into();
    eve::write_line(&mut line, alert, &Known { packet: 4, about, names: &names }, options);
    let text = line.strip_suffix(b"\n").expect("a line");
    assert!(!text.contains(&b'\n'));
    serde_json::from_slice(text).expect("JSON")
}

fn fast_of(alert: &Alert<'_>, about: &About) -> String {
    let mut line = Vec::new();
    fast_log::write_line(&mut line, alert, about);
    String::from_utf8(line).expect("text")
}

#[test]
fn a_tcp_alert_is_reported_whole() {
    let payload = b"hello \"\\\x00\r\n\xff";
    let alert = Alert { payload_len: 5000, payload, frame: &ETHER, ether: Some(ETHER), ..alert() };
    let expected = json!({
        "timestamp": "2023-11-14T22:13:20.123456+0000",
        "flow_id": u64::MAX,
        "pcap_cnt": 4,
        "event_type": "alert",
        "src_ip": "10.1.0.1", "src_port": 4000, "dest_ip": "10.2.0.2", "dest_port": 80,
        "proto": "TCP", "ip_v": 4, "pkt_src": "wire/pcap",
        "alert": {
            "action": "allowed", "gid": 1, "signature_id": 7, "rev": 3,
            "signature": "a \"quoted\" é \\ attack",
            "category": "A Network Trojan was detected", "severity": 1,
        },
        "direction": "to_server",
        "flow": {
            "pkts_toserver": 3, "pkts_toclient": 2, "bytes_toserver": 184, "bytes_toclient": 114,
            "start": "2023-11-14T22:13:20.000000+0000",
            "src_ip": "10.1.0.1", "dest_ip": "10.2.0.2", "src_port": 4000, "dest_port": 80,
        },
        "stream": 0,
    });
    assert_eq!(eve_of(&alert, &about(), PLAIN), expected);
    let mut more = expected;
    more["payload"] = "aGVsbG8gIlwADQr/".into();
    more["payload_length"] = 5000.into();
    more["payload_printable"] = "hello \"\\.".into();
    more["ether"] = json!({
        "ether_type": 0x800, "src_mac": "02:00:00:00:00:ab", "dest_mac": "02:00:00:00:00:01",
    });
    more["packet"] = "AgAAAAABAgAAAACrCAA=".into();
    more["packet_info"] = json!({"linktype": 1, "linktype_name": "EN10MB"});
    more["alert"]["metadata"] =
        json!({"\"": ["z"], "created_at": ["2020_01_01"], "Tag": ["y", "x"]});
    assert_eq!(eve_of(&alert, &about(), ALL), more);
}

#[test]
fn application_protocols_are_reported() {
    let reported = |flow, client, server| {
        let apps = Apps::from_bytes([flow, client, server].map(DetectedApp::to_byte));
        let flow = alert().flow.map(|at| FlowAt { apps, ..at });
        let alert = Alert { flow, ..alert() };
        let mut note = [0; Alert::LEN];
        assert_eq!(alert.encode(&mut note), Alert::LEN);
        assert_eq!(Alert::decode(&note), Some(alert));
        let reported = eve_of(&alert, &about(), PLAIN);
        ["app_proto", "app_proto_ts", "app_proto_tc"].map(|name| reported[name].clone())
    };
    let [http, tls] = [App::Http, App::Tls].map(DetectedApp::Known);
    let none = Value::Null;
    assert_eq!(
        reported(DetectedApp::Unknown, DetectedApp::Unknown, DetectedApp::Greeting),
        [const { Value::Null }; 3]
    );
    assert_eq!(reported(http, http, http), [json!("http"), none.clone(), none.clone()]);
    assert_eq!(
        reported(http, http, DetectedApp::Unknown),
        [json!("http"), none.clone(), none.clone()]
    );
    assert_eq!(
        reported(http, http, DetectedApp::Failed),
        [json!("http"), none.clone(), json!("failed")]
    );
    assert_eq!(reported(http, tls, http), [json!("http"), json!("tls"), none.clone()]);
    assert_eq!(
        reported(DetectedApp::Unknown, DetectedApp::Failed, http),
        [const { Value::Null }; 3]
    );
    assert_eq!(
        reported(DetectedApp::Failed, DetectedApp::Failed, DetectedApp::Failed),
        [json!("failed"), none.clone(), none]
    );
}

/// Flowbits and flowints come in the order in which rules set them.
#[test]
fn flow_variables_are_reported() {
    let reported = |bits: &[u32], ints: &[(u32, u32)]| {
        let mut vars = FlowVars::EMPTY;
        bits.iter().for_each(|name| vars.set(Name(*name)));
        ints.iter().for_each(|(name, value)| vars.set_int(Name(*name), *value));
        let alert = Alert { vars, ..alert() };
        assert!(eve_of(&alert, &about(), PLAIN).get("metadata").is_none());
        let reported = eve_of(&alert, &about(), ALL);
        (reported["metadata"].clone(), reported["traffic"].clone())
    };
    assert_eq!(reported(&[], &[]), (Value::Null, Value::Null));
    assert_eq!(reported(&[6, 5], &[]), (json!({"flowbits": ["bar", "foo"]}), Value::Null));
    assert_eq!(reported(&[], &[(7, 9)]), (json!({"flowints": {"count": 9}}), Value::Null));
    let both = json!({"flowbits": ["foo"], "flowints": {"count": 0}});
    assert_eq!(reported(&[8, 5], &[(7, 0)]), (both, json!({"id": ["x"]})));
    assert_eq!(reported(&[8], &[]), (json!({}), json!({"id": ["x"]})));
}

#[test]
fn link_types_have_names() {
    for (link, number, name) in [(101, 12, "RAW"), (113, 113, "LINUX_SLL"), (4242, 4242, "n/a")] {
        let reported = eve_of(&Alert { link: LinkType(link), ..alert() }, &about(), ALL);
        assert_eq!(reported["packet_info"], json!({"linktype": number, "linktype_name": name}));
    }
}

/// A datagram of fragments is of no one packet, and what waited until its flow ended of none at
/// all.
#[test]
fn where_packets_came_from() {
    let datagram = eve_of(&Alert { source: Source::Fragments, ..alert() }, &about(), ALL);
    assert_eq!((&datagram["pcap_cnt"], &datagram["pkt_src"]), (&Value::Null, &json!("defrag")));
    let around = json!({
        "src_ip": "10.1.0.1", "src_port": 0, "dest_ip": "10.2.0.2", "dest_port": 0, "proto": "TCP",
        "depth": 0, "pcap_cnt": 4, "pkt_src": "wire/pcap",
    });
    assert_eq!(datagram["tunnel"], around);
    let rest = eve_of(&Alert { source: Source::FlowEnd, ..alert() }, &about(), ALL);
    let reported = (&rest["pcap_cnt"], &rest["pkt_src"], &rest["packet"], &rest["tunnel"]);
    assert_eq!(
        reported,
        (&Value::Null, &json!("stream (flow timeout)"), &Value::Null, &Value::Null)
    );
    let no_ip = Alert { source: Source::Fragments, ends: None, ..alert() };
    assert_eq!(eve_of(&no_ip, &about(), ALL)["tunnel"]["pcap_cnt"], 4);
}

#[test]
fn other_protocols_directions_and_ends() {
    let six = Some((ip("2001:db8::1"), ip("2001:db8::2")));
    let long = ["1", "2"].map(|end| format!("2001:0db8:0000:0000:0000:0000:0000:000{end}"));
    let icmp = Alert { protocol: 58, src_port: 128, dst_port: 1, ends: six, ..alert() };
    let reported = eve_of(&icmp, &about(), ALL);
    assert_eq!((&reported["src_ip"], &reported["dest_ip"]), (&json!(long[0]), &json!(long[1])));
    assert_eq!((&reported["proto"], &reported["ip_v"]), (&json!("IPv6-ICMP"), &json!(6)));
    assert_eq!((&reported["icmp_type"], &reported["icmp_code"]), (&json!(128), &json!(1)));
    assert!(reported.get("src_port").is_none() && reported["flow"].get("src_port").is_none());
    assert!(reported.get("payload").is_none());

    let to_client = FlowAt { to_server: false, ..alert().flow.unwrap() };
    let vlans = [Some(5), Some(7), None];
    let back = Alert { flow: Some(to_client), is_blocked: true, is_stream: true, vlans, ..alert() };
    let target = About { target: Some(Target::Source), ..about() };
    let reported = eve_of(&back, &target, PLAIN);
    assert_eq!(reported["vlan"], json!([5, 7]));
    assert_eq!((&reported["direction"], &reported["stream"]), (&json!("to_client"), &json!(1)));
    assert_eq!(reported["alert"]["action"], "blocked");
    assert_eq!(reported["alert"]["source"], json!({"ip": "10.2.0.2", "port": 80}));
    assert_eq!(reported["alert"]["target"], json!({"ip": "10.1.0.1", "port": 4000}));
    assert_eq!(
        (&reported["flow"]["src_ip"], &reported["flow"]["dest_port"]),
        (&json!("10.2.0.2"), &json!(4000))
    );

    let other = Alert { protocol: 253, flow: None, src_port: 0, dst_port: 0, ..alert() };
    let target = About { target: Some(Target::Destination), ..about() };
    let reported = eve_of(&other, &target, PLAIN);
    assert_eq!(
        (&reported["proto"], &reported["alert"]["target"]),
        (&json!("253"), &json!({"ip": "10.2.0.2"}))
    );
    assert!(
        ["flow_id", "flow", "direction", "src_port"]
            .iter()
            .all(|name| reported.get(name).is_none())
    );
    let no_ip = Alert { ends: None, protocol: 0, flow: None, ..alert() };
    let reported = eve_of(&no_ip, &target, ALL);
    assert!(["src_ip", "proto"].iter().all(|name| reported.get(name).is_none()));
}

/// The lines that Suricata 7.0.10 writes of such packets (its `[wDrop]` is `[Drop]` where it stands
/// in the way).
#[test]
fn lines_of_fast_log() {
    let plain = About { rev: 0, msg: "udp".into(), class: "".into(), priority: 3, ..about() };
    for (alert, about, expected) in [
        (
            alert(),
            about(),
            "11/14/2023-22:13:20.123456  [**] [1:7:3] a \"quoted\" é \\ attack [**] \
             [Classification: A Network Trojan was detected] [Priority: 1] {TCP} 10.1.0.1:4000 -> \
             10.2.0.2:80\n",
        ),
        (
            Alert { protocol: 17, is_blocked: true, ..alert() },
            plain.clone(),
            "11/14/2023-22:13:20.123456  [Drop] [**] [1:7:0] udp [**] [Classification: (null)] \
             [Priority: 3] {UDP} 10.1.0.1:4000 -> 10.2.0.2:80\n",
        ),
        (
            Alert { protocol: 1, src_port: 8, dst_port: 0, ..alert() },
            About {
                msg: "two\nlines\t!\u{202e}\u{2066}\u{2028}|".into(),
                class: "a\u{202e}\x1b[2Jb".into(),
                ..plain.clone()
            },
            "11/14/2023-22:13:20.123456  [**] [1:7:0] two lines !   | [**] [Classification: a  \
             [2Jb] [Priority: 3] {ICMP} 10.1.0.1:8 -> 10.2.0.2:0\n",
        ),
        (
            Alert { protocol: 253, src_port: 0, dst_port: 0, ..alert() },
            plain.clone(),
            "11/14/2023-22:13:20.123456  [**] [1:7:0] udp [**] [Classification: (null)] [Priority: \
             3] {PROTO:253} 10.1.0.1:0 -> 10.2.0.2:0\n",
        ),
        (
            Alert { ends: None, ..alert() },
            plain,
            "11/14/2023-22:13:20.123456  [**] [1:7:0] udp [**] [Classification: (null)] [Priority: \
             3]\n",
        ),
    ] {
        assert_eq!(fast_of(&alert, &about), expected);
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, expected) in [
        (0, "01/01/1970-00:00:00.000000  "),
        (951_782_399, "02/28/2000-23:59:59.000000  "),
        (951_782_400, "02/29/2000-00:00:00.000000  "),
        (1_709_251_199, "02/29/2024-23:59:59.000000  "),
        (1_709_251_200, "03/01/2024-00:00:00.000000  "),
        (4_107_542_399, "02/28/2100-23:59:59.000000  "),
        (4_107_542_400, "03/01/2100-00:00:00.000000  "),
        (18_446_744_073, "07/21/2554-23:34:33.000000  "),
    ] {
        let alert = Alert { captured: Instant::from_secs(seconds), ..alert() };
        assert!(fast_of(&alert, &about()).starts_with(expected), "{expected}");
    }
}

#[test]
fn notes_say_what_was_put_in_and_anything_else_is_refused() {
    let six = Some((ip("2001:db8::1"), ip("::")));
    let decisions =
        [None, Some(Decision::Reported), Some(Decision::Silent), Some(Decision::Nothing)];
    for decision in decisions {
        for (ends, flow) in [(alert().ends, alert().flow), (six, None), (None, None)] {
            let alert = Alert {
                rule: u32::MAX,
                generation: 9,
                now: Instant::MAX,
                vlans: [Some(4095), Some(0), None],
                is_blocked: flow.is_some(),
                is_stream: flow.is_none(),
                is_first: flow.is_some(),
                payload_len: 70_000,
                payload: b"some bytes",
                source: if flow.is_some() { Source::Fragments } else { Source::FlowEnd },
                link: LinkType::RAW,
                ether: flow.map(|_| ETHER),
                frame: b"a frame",
                ..Alert { ends, flow, decision, ..alert() }
            };
            let mut note = [0xee; 4096];
            let len = alert.encode(&mut note);
            assert_eq!(len, Alert::LEN + 17);
            assert_eq!(Alert::decode(&note[..len]), Some(alert));
            // With less room, first the frame is cut, then the payload.
            let len = alert.encode(&mut note[..Alert::LEN + 11]);
            let cut = Alert { frame: b"a", ..alert };
            assert_eq!(Alert::decode(&note[..len]), Some(cut));
            let len = alert.encode(&mut note[..Alert::LEN + 4]);
            let cut = Alert { payload: b"some", frame: b"", ..alert };
            assert_eq!(Alert::decode(&note[..len]), Some(cut));
            assert_eq!(alert.encode(&mut note[..Alert::LEN - 1]), 0);
            assert_eq!(Alert::decode(&note[..Alert::LEN - 1]), None);
        }
    }
    assert_eq!(Alert::decode(&[]), None);
}
