//! `warpline trace`: the way of single packets.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Demo;
use crate::ipsec::{GCM, Site, TRAFFIC};
use crate::pcap::{Record, capture, udp};
use crate::pcapng;

/// Packets of the demo that are traced.
const PACKETS: usize = 2500;
/// A filter that every packet matches.
const ALL: &str = "greater\u{b7}0";

fn traced(demo: &Demo, arguments: &str) -> Vec<Value> {
    let ended = demo.warpline(&format!("trace {arguments} --json")).expect(0);
    assert_eq!(ended.stderr, "");
    let trace: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(trace["schema"], 1);
    trace["chains"][0]["packets"].as_array().unwrap().clone()
}

/// What both a capture and a trace show of a packet: why it was not sent, its length, and of IP its
/// TTL and addresses.
type Shown = (String, u64, Option<(u64, String, String)>);

fn shown_in_capture(packet: &pcapng::Packet) -> Shown {
    let Record { bytes, wire_len, .. } = &packet.record;
    if bytes.len() < 14 {
        return (packet.comment.clone(), (*wire_len).into(), None);
    }
    let is_tag = |tag: &&[u8]| matches!(tag[..2], [0x81, 0] | [0x88, 0xa8]);
    let tags = bytes[12..].chunks(4).take_while(is_tag).count();
    let (kind, ip) = (&bytes[12 + 4 * tags..14 + 4 * tags], &bytes[14 + 4 * tags..]);
    let v4 = |at: usize| {
        let bytes: [u8; 4] = ip[at..at + 4].try_into().unwrap();
        std::net::Ipv4Addr::from(bytes).to_string()
    };
    let v6 = |at: usize| {
        let bytes: [u8; 16] = ip[at..at + 16].try_into().unwrap();
        std::net::Ipv6Addr::from(bytes).to_string()
    };
    let about = match kind {
        [8, 0] if ip.len() >= 20 && ip[0] >> 4 == 4 => Some((ip[8].into(), v4(12), v4(16))),
        [0x86, 0xdd] if ip.len() >= 40 && ip[0] >> 4 == 6 => Some((ip[7].into(), v6(8), v6(24))),
        _ => None,
    };
    (packet.comment.clone(), (*wire_len).into(), about)
}

fn shown_in_trace(way: &Value) -> Shown {
    let hops = way["hops"].as_array().unwrap();
    let last = hops.last().map_or("", |hop| hop["function"].as_str().unwrap());
    let reason = way["reason"].as_str().unwrap_or_default();
    let (comment, frame) = match way["end"].as_str().unwrap() {
        "sent" => (String::new(), &way["sent"]),
        "dropped" => (format!("dropped by {last}: {reason}"), &way["packet"]),
        "malformed" => (format!("rejected by {last}: malformed: {reason}"), &way["packet"]),
        other => panic!("{other}"),
    };
    let text = |field: &str| frame[field].as_str().map(str::to_owned);
    let ttl = text("ttl").map(|ttl| ttl.parse().unwrap());
    let about = ttl.zip(text("src-addr")).zip(text("dst-addr"));
    let about = about.map(|((ttl, from), to)| (ttl, from, to));
    (comment, frame["len"].as_u64().unwrap(), about)
}

#[test]
fn ways_end_as_packets_of_a_run_do() {
    let demo = Demo::new();
    let run = format!("run chain.toml --annotate -c {PACKETS} -w a.pcapng --alerts a.json");
    demo.warpline(&run).expect(0);
    let packets = pcapng::parse(&demo.read("a.pcapng"));
    let traced = traced(&demo, &format!("chain.toml --filter {ALL} --count {PACKETS}"));
    let numbers = traced.iter().map(|packet| packet["number"].as_u64().unwrap());
    assert!(numbers.eq(1..=PACKETS as u64));
    let ways = traced.iter().flat_map(|packet| packet["ways"].as_array().unwrap());
    let ends = ways.filter(|way| way["end"] != "absorbed").map(shown_in_trace);
    let ends: Vec<Shown> = ends.collect();
    // Packets that a function changed before another dropped it are shown as that one got them.
    let of_capture = packets.iter().map(shown_in_capture);
    for (number, (way, expected)) in ends.iter().zip(of_capture).enumerate() {
        let is_same = match expected.0.is_empty() {
            true => *way == expected,
            false => way.0 == expected.0,
        };
        assert!(is_same, "packet {number} of the capture: {way:?} is not {expected:?}");
    }
    assert_eq!(ends.len(), packets.len());
    let reasons: BTreeSet<&str> = ends.iter().map(|(comment, ..)| comment.as_str()).collect();
    assert!(reasons.len() > 5, "{reasons:?}");
    let alerts: Vec<Value> = traced
        .iter()
        .flat_map(|packet| packet["alerts"].as_array().unwrap().iter().cloned())
        .collect();
    let of_run = demo.read("a.json");
    let of_run = of_run.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let of_run = of_run.map(|line| serde_json::from_slice(line).unwrap());
    // Those of reassembled datagrams are about no packet.
    let of_run: Vec<Value> = of_run.filter(|alert: &Value| !alert["pcap_cnt"].is_null()).collect();
    assert!(!alerts.is_empty() && alerts == of_run);
}

#[test]
fn a_way_names_functions_changes_and_made_packets() {
    let demo = Demo::new();
    let frame = |ttl: u8| udp(20, |ip| ip[8] = ttl);
    let records: Vec<Record> =
        [64, 1, 64].iter().zip(0..).map(|(&ttl, at)| Record::new(at, frame(ttl))).collect();
    demo.write("in.pcap", capture(1, &records));
    let ended = demo.warpline("trace chain.toml -r in.pcap --packet 2,3").expect(0);
    assert_eq!(ended.stderr, "");
    let text = String::from_utf8(ended.stdout).unwrap();
    let expected = "\
packet 2, 0.000000001
  UDP 192.0.2.7:1000 > 203.0.113.18:53, ttl 1, 62 bytes
    nat:1            forwarded
    load_balancer:1  forwarded
    flow_monitor     forwarded
    nids             forwarded
    firewall         forwarded
    digest           forwarded
    router           dropped: ttl-exceeded
  dropped
  made by router: ICMP 203.0.113.1 > 192.0.2.7 type 11 code 0, ttl 64, 90 bytes
    load_balancer:2  answered
    nat:2            answered
  sent: ICMP 203.0.113.1 > 192.0.2.7 type 11 code 0, ttl 64, 90 bytes
packet 3, 0.000000002
  UDP 192.0.2.7:1000 > 203.0.113.18:53, ttl 64, 62 bytes
    nat:1            forwarded
    load_balancer:1  forwarded
    flow_monitor     forwarded
    nids             forwarded
    firewall         forwarded
    digest           forwarded
    router           forwarded
                       eth-dst 02:00:00:00:00:01 -> 02:00:cb:00:71:12
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("ttl 64 -> 63\n"), "{text}");
    let first = demo.warpline("trace chain.toml -r in.pcap --filter udp --count 1").expect(0);
    assert!(first.stdout.starts_with(b"packet 1, 0.000000000\n"));
}

/// A packet that passes every function may be dropped where it leaves.
#[test]
fn ports_and_drops_at_the_end_are_those_of_a_run() {
    let demo = Demo::new();
    let ports = ["lan", "wan"].map(|name| {
        let (side, device) =
            if name == "lan" { ("inside", "capture.pcap") } else { ("outside", "none") };
        format!("[[port]]\nname = {name:?}\nside = {side:?}\ndevice = {device:?}\n")
    });
    let functions = "[firewall]\nrules = \"rules.v4\"\n[router]\nroutes = \"two.txt\"\n";
    let chain = "[chain]\nfunctions = [\"firewall\", \"router\"]\n";
    demo.write("ports.toml", format!("{chain}{}{functions}", ports.concat()));
    let rules = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i lan -o wan -j ACCEPT\nCOMMIT\n";
    demo.write("rules.v4", rules);
    demo.write("two.txt", "0.0.0.0/0 192.0.2.1 dev wan\n203.0.113.0/24 192.0.2.2 dev lan\n");
    demo.warpline("run ports.toml --quiet -c 2500 --stats s.json").expect(0);
    let stats = crate::stats::read(&demo, "s.json");
    let expected = [
        stats["chains"][0]["ports"][1]["packets"]["sent"].as_u64(),
        stats["chains"][0]["egress_drops"]["hairpin"].as_u64(),
    ];
    let traced = traced(&demo, &format!("ports.toml --filter {ALL} --count 2500"));
    let ways = || traced.iter().flat_map(|packet| packet["ways"].as_array().unwrap());
    let absorbed = stats["chains"][0]["packets"]["absorbed"].as_u64();
    let count = |is_counted: &dyn Fn(&Value) -> bool| {
        Some(ways().filter(|way| is_counted(way)).count() as u64)
    };
    let by_wan = count(&|way| way["end"] == "sent" && way["port"] == "wan");
    let hairpins = count(&|way| way["end"] == "dropped" && way["reason"] == "hairpin");
    assert!(by_wan > Some(0) && hairpins > Some(0), "{by_wan:?}, {hairpins:?}");
    // No capture takes what leaves.
    assert_eq!((absorbed, Some(0), hairpins), (by_wan, expected[0], expected[1]));
    let ended = demo.warpline(
        "trace ports.toml --filter udp\u{b7}and\u{b7}dst\u{b7}host\u{b7}203.0.113.18 --count 1",
    );
    let text = String::from_utf8(ended.expect(0).stdout).unwrap();
    assert!(text.ends_with("  dropped at the end of the chain: hairpin\n"), "{text}");
}

/// Stages of their own and small batches change nothing.
#[test]
fn ways_do_not_depend_on_how_a_chain_runs() {
    let demo = Demo::new();
    let trace = |more: &str| traced(&demo, &format!("chain.toml --filter icmp {more}"));
    let expected = trace("");
    assert!(!expected.is_empty());
    for more in ["--set nat.stage=own", "--set chain.batch_packets=1 --set router.stage=own"] {
        assert_eq!(trace(more), expected, "{more}");
    }
}

#[test]
fn a_trace_writes_nothing() {
    let demo = Demo::new();
    let files = "--set flow_monitor.csv=flows.csv --set nids.fast_log=fast.log";
    let ended = demo.warpline(&format!("trace chain.toml --packet 49 {files}")).expect(0);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.ends_with("  alert 1:9000007:1 \"demo: greets the shop over TLS\"\n"), "{text}");
    for name in ["out.pcap", "flows.csv", "fast.log"] {
        assert!(!demo.path(name).exists(), "{name}");
    }
    // Sequence numbers of a counter mode are not used up.
    let site = Site::with(GCM);
    let ended = site.warpline(&format!("trace seal.toml --input {TRAFFIC} --packet 3")).expect(0);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("esp-seq none -> 3\n"), "{text}");
    assert!(!site.path("nonces").exists());
}

#[test]
fn traces_that_cannot_be_are_refused() {
    let demo = Demo::new();
    demo.write("empty.toml", "[chain]\nfunctions = []\ninput = \"capture.pcap\"\n");
    demo.write("none.toml", "[chain]\nfunctions = [\"digest\"]\n");
    for (arguments, status, reported) in [
        ("chain.toml", 2, "--packet <N>"),
        ("chain.toml --packet 0", 2, "not a number from 1"),
        ("chain.toml --packet 1 --filter udp", 2, "cannot be used with"),
        ("chain.toml --packet 1 --count 2", 2, "cannot be used with"),
        ("chain.toml --filter udp\u{b7}and", 2, "--filter \"udp and\": "),
        ("chain.toml --packet 1 -r absent.pcap", 2, "absent.pcap: no such file"),
        ("chain.toml --packet 1 -r af_packet:lo", 2, "record them with `tap`"),
        ("empty.toml --packet 1", 2, "chain \"chain\": functions: there are none"),
        ("none.toml --packet 1", 2, "chain \"chain\": input: there is none"),
        ("absent.toml --packet 1", 2, "can't read absent.toml"),
        ("chain.toml --packet 7,12704", 1, "there is no packet 12704; the chain read 12703"),
        ("chain.toml --filter port\u{b7}9", 1, "none of 12703 packets matches the filter"),
    ] {
        let ended = demo.warpline(&format!("trace {arguments}")).expect(status);
        assert!(ended.stderr.contains(reported), "{arguments}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments}");
    }
}
