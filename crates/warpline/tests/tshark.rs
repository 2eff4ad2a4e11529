//! The demo's output as tshark sees it, with every checksum looked at: what the chain rewrote, and
//! what it made, is as good as what came in.
//!
//! Skipped where tshark is not installed, unless `WARPLINE_REQUIRE_PEERS` is 1.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

#[path = "program/harness.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod harness;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::Command;

use harness::{Demo, output_of};

/// The fields that tshark prints of each packet, in this order. Packets in packets have several
/// values, outer first.
const FIELDS: [&str; 23] = [
    "frame.time_epoch",
    "eth.src",
    "eth.dst",
    "ip.src",
    "ip.dst",
    "ip.ttl",
    "ip.id",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.hlim",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "icmp.type",
    "icmpv6.type",
    "_ws.malformed",
    "_ws.expert.message",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "ipcomp.cpi",
];

/// One packet: its fields, each with all its occurrences.
struct Dissected(HashMap<&'static str, Vec<String>>);

impl Dissected {
    fn all(&self, field: &str) -> &[String] {
        &self.0[field]
    }

    /// The first occurrence, of the outermost header; empty where there is none.
    fn first(&self, field: &str) -> &str {
        self.all(field).first().map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.first(field).parse().ok()
    }

    /// Nanoseconds since 1970, from tshark's decimal seconds.
    fn at_ns(&self) -> u64 {
        let (seconds, rest) = self.first("frame.time_epoch").split_once('.').unwrap();
        seconds.parse::<u64>().unwrap() * 1_000_000_000
            + format!("{rest:0<9}")[..9].parse::<u64>().unwrap()
    }

    fn is_icmp_error(&self) -> bool {
        self.number("icmp.type").is_some_and(|kind| matches!(kind, 3 | 11 | 12))
            || self.number("icmpv6.type").is_some_and(|kind| matches!(kind, 1..=4))
    }

    /// Messages of tshark about bytes, not about a conversation.
    fn complaints(&self) -> Vec<&str> {
        let messages = self.all("_ws.expert.message").iter().map(String::as_str);
        let about_bytes = |text: &&str| {
            let text = text.to_lowercase();
            ["checksum", "malformed", "bogus", "length", "exceeds"].iter().any(|w| text.contains(w))
        };
        let malformed = self.all("_ws.malformed").iter().map(String::as_str);
        messages.filter(about_bytes).chain(malformed).collect()
    }
}

/// Whether tshark and capinfos can be run. Fails where they must be.
fn has_peers() -> bool {
    let runs =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let has = runs("tshark") && runs("capinfos");
    let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(has || !required, "tshark and capinfos are required and not installed");
    if !has {
        eprintln!("skipped: tshark and capinfos are not installed");
    }
    has
}

fn dissect(demo: &Demo, name: &str) -> Vec<Dissected> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(demo.path(name)).arg("-n");
    for protocol in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    // Each packet by itself: what is asked about are headers.
    command.args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]);
    command.args(["-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields", "-E", "separator=/t"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let text = output_of(&mut command);
    text.lines()
        .map(|line| {
            let values: Vec<&str> = line.split('\t').collect();
            assert_eq!(values.len(), FIELDS.len(), "{line}");
            let list = |text: &str| -> Vec<String> {
                text.split('|').filter(|v| !v.is_empty()).map(str::to_owned).collect()
            };
            Dissected(FIELDS.into_iter().zip(values).map(|(f, v)| (f, list(v))).collect())
        })
        .collect()
}

/// Runs the demo; gives its folder, the packets that came in and those that went out.
fn run() -> Option<(Demo, Vec<Dissected>, Vec<Dissected>)> {
    if !has_peers() {
        return None;
    }
    let demo = Demo::new();
    demo.warpline("run chain.toml").expect(0);
    let (before, after) = (dissect(&demo, "capture.pcap"), dissect(&demo, "out.pcap"));
    assert!(before.len() == 12_703 && after.len() > 10_000);
    Some((demo, before, after))
}

const NAT: &str = "203.0.113.1";
const VIP: &str = "203.0.113.24";
const BACKENDS: [&str; 2] = ["203.0.113.25", "203.0.113.26"];
/// The port of the NAT's address that leads to an inside server.
const FORWARDED: &str = "8443";
const INTRANET: &str = "10.1.0.5";
const GATEWAY: &str = "02:00:00:00:00:01";

fn is_inside(address: &str) -> bool {
    address.parse::<Ipv4Addr>().is_ok_and(|a| a.octets()[..2] == [10, 1])
}

#[test]
fn nothing_in_the_output_is_malformed_or_has_a_bad_checksum() {
    let Some((_, before, after)) = run() else { return };
    let complaining =
        |packets: &[Dissected]| packets.iter().filter(|p| !p.complaints().is_empty()).count();
    assert!(complaining(&before) >= 30, "the lies of the demo's capture are seen");
    for packet in &after {
        assert!(packet.complaints().is_empty(), "{:?}: {:?}", packet.0, packet.complaints());
    }
}

/// The input's packet that each output packet is: each keeps its time. Fragments that came before
/// the first of their packet leave after it.
#[test]
fn the_chain_rewrites_what_it_says_and_nothing_else() {
    let Some((_, before, after)) = run() else { return };
    let sources: HashMap<u64, &Dissected> = before.iter().map(|one| (one.at_ns(), one)).collect();
    let (mut translated, mut restored) = (0, 0);
    let (mut generated, mut balanced, mut compressed, mut forwarded) = (0, [0; 2], 0, [0; 2]);
    for packet in &after {
        if packet.is_icmp_error() && packet.first("eth.src") == GATEWAY && is_gateways(packet) {
            generated += 1;
            continue;
        }
        let source = sources.get(&packet.at_ns()).expect("its source");
        for field in ["ip.ttl", "ipv6.hlim"] {
            assert_eq!(packet.number(field), source.number(field).map(|hops| hops - 1), "{field}");
        }
        assert_eq!(packet.first("eth.src"), GATEWAY);
        assert_eq!(packet.first("eth.dst"), neighbour(packet), "{:?}", packet.0);
        let same = ["ip.id", "ipv6.src", "ipv6.dst", "tcp.seq_raw", "tcp.ack_raw"];
        same.iter()
            .for_each(|field| assert_eq!(packet.first(field), source.first(field), "{field}"));
        let to = [packet, source].map(|p| (p.first("ip.dst"), p.first("tcp.dstport")));
        if to[1].0 == VIP {
            assert!(to[0].1 == "8080" && BACKENDS.contains(&to[0].0) && to[1].1 == "80", "{to:?}");
            balanced[0] += 1;
        } else if to[1] == (NAT, FORWARDED) {
            assert_eq!(to[0], (INTRANET, "443"));
            forwarded[0] += 1;
        } else if to[1].0 == NAT {
            assert!(is_inside(to[0].0), "{to:?}");
            restored += 1;
        } else {
            assert_eq!(to[0], to[1]);
            assert_eq!(packet.first("udp.dstport"), source.first("udp.dstport"));
        }
        if is_inside(source.first("ip.src")) {
            translated += 1;
            assert_eq!(packet.first("ip.src"), NAT);
            let port = packet.number("tcp.srcport").or(packet.number("udp.srcport"));
            assert!(port.is_none_or(|port| port >= 1024), "{port:?}");
            let is_forwarded = source.first("ip.src") == INTRANET;
            assert_eq!(packet.first("tcp.srcport") == FORWARDED, is_forwarded);
            forwarded[1] += u64::from(is_forwarded);
        } else if BACKENDS.contains(&source.first("ip.src")) {
            assert_eq!([packet, source].map(|p| p.first("tcp.srcport")), ["80", "8080"]);
            assert_eq!(packet.first("ip.src"), VIP);
            balanced[1] += 1;
        } else {
            assert_eq!(packet.first("ip.src"), source.first("ip.src"));
            assert_eq!(packet.first("tcp.srcport"), source.first("tcp.srcport"));
        }
        // Text to the branch office is compressed, and nothing else; inside it is what it was.
        let is_compressed = !packet.first("ipcomp.cpi").is_empty();
        assert!(!is_compressed || packet.first("ip.dst").starts_with("10.2."), "{:?}", packet.0);
        compressed += u64::from(is_compressed);
    }
    assert!(balanced.iter().all(|&packets| packets > 150), "{balanced:?}");
    assert!(compressed > 250, "{compressed}");
    assert!(forwarded.iter().all(|&packets| packets > 70), "{forwarded:?}");
    assert!(translated > 1500 && restored > 1500, "{translated} and {restored}");
    assert_eq!(generated, 98);
    assert!(
        !after
            .iter()
            .any(|packet| packet.all("ip.src").iter().any(|a| is_inside(a))
                && !packet.is_icmp_error())
    );
}

fn is_gateways(packet: &Dissected) -> bool {
    packet.first("ip.src") == NAT || packet.first("ipv6.src") == "2001:db8:1::1"
}

/// Whose Ethernet address a packet must have, by the demo's routes and neighbours.
fn neighbour(packet: &Dissected) -> &'static str {
    match (packet.first("ip.dst"), packet.first("ipv6.dst")) {
        ("203.0.113.17", _) => "02:00:cb:00:71:11",
        ("203.0.113.18", _) => "02:00:cb:00:71:12",
        ("203.0.113.19", _) => "02:00:cb:00:71:13",
        ("203.0.113.20", _) => "02:00:cb:00:71:14",
        ("203.0.113.21", _) => "02:00:cb:00:71:15",
        ("203.0.113.25", _) => "02:00:cb:00:71:19",
        ("203.0.113.26", _) => "02:00:cb:00:71:1a",
        (v4, _) if v4.starts_with("10.1.") => "02:00:00:00:00:03",
        (v4, _) if v4.starts_with("10.2.") => "02:00:00:00:00:04",
        (v4, _) if v4.starts_with("192.0.2.") || v4.starts_with("198.51.100.") => {
            "02:00:00:00:00:02"
        }
        ("", v6) if v6.starts_with("2001:db8:ffff:") => "02:00:00:00:00:02",
        ("", v6) if v6.starts_with("2001:db8:1:") => "02:00:00:00:00:03",
        other => panic!("no route to {other:?}"),
    }
}

/// An ICMP error that the router made goes to the sender of the packet that it quotes, which came
/// in at the same time.
#[test]
fn made_icmp_errors_quote_the_right_packet() {
    let Some((_, before, after)) = run() else { return };
    let mut seen = 0;
    for packet in after.iter().filter(|packet| packet.is_icmp_error() && is_gateways(packet)) {
        let status = [packet.first("icmp.checksum.status"), packet.first("icmpv6.checksum.status")];
        assert!(status.contains(&"1"), "a good checksum: {status:?}");
        let source = before.iter().find(|source| source.at_ns() == packet.at_ns()).unwrap();
        // Back to the station that it came from.
        assert_eq!(packet.first("eth.dst"), source.first("eth.src"));
        let v6 = packet.first("ip.src").is_empty();
        let [src, dst] = if v6 { ["ipv6.src", "ipv6.dst"] } else { ["ip.src", "ip.dst"] };
        // The second header is the quoted one, with the addresses that its sender knows.
        let (quoted_src, quoted_dst) = (&packet.all(src)[1], &packet.all(dst)[1]);
        assert_eq!(packet.first(dst), quoted_src);
        assert_eq!(quoted_dst, source.first(dst));
        let sender = source.first(src);
        assert_eq!(quoted_src, sender);
        for port in ["tcp.dstport", "udp.dstport"] {
            assert_eq!(packet.first(port), source.first(port));
        }
        seen += 1;
    }
    assert_eq!(seen, 98);
}

/// Times to the nanosecond, as capinfos and tshark read them.
#[test]
fn times_keep_their_nanoseconds() {
    let Some((demo, before, after)) = run() else { return };
    let info = output_of(Command::new("capinfos").arg(demo.path("out.pcap")));
    assert!(info.contains("nanoseconds (9)"), "{info}");
    assert!(info.contains("Ethernet"), "{info}");
    let times: std::collections::HashSet<u64> = before.iter().map(Dissected::at_ns).collect();
    assert!(after.iter().all(|packet| times.contains(&packet.at_ns())));
    assert!(after.iter().any(|packet| packet.at_ns() % 1000 != 0));
}

/// Every format that is written, as tshark reads it.
#[test]
fn tshark_reads_every_format() {
    let Some((demo, _, after)) = run() else { return };
    let about = |name: &str| -> Vec<Vec<String>> {
        let packets = dissect(&demo, name);
        packets.into_iter().map(|packet| FIELDS.map(|f| packet.all(f).join("|")).to_vec()).collect()
    };
    let plain = about("out.pcap");
    assert_eq!(plain.len(), after.len());
    for ending in ["pcapng", "pcap.gz", "pcapng.gz", "pcap.zst", "pcapng.zst"] {
        let name = format!("x.{ending}");
        demo.warpline(&format!("run chain.toml --output {name}")).expect(0);
        assert!(about(&name) == plain, "{name}");
        let info = output_of(Command::new("capinfos").arg("-M").arg(demo.path(&name)));
        assert!(info.contains("nanoseconds (9)"), "{info}");
        assert!(info.contains(&format!("Number of packets:   {}", after.len())), "{info}");
        if name.contains("pcapng") {
            assert!(info.contains("Capture application: warpline "), "{info}");
            assert!(info.contains("Name = if0"), "{info}");
        }
    }
}

/// Why packets were dropped, as tshark shows it; and files without a packet.
#[test]
fn tshark_shows_comments() {
    let Some((demo, before, _)) = run() else { return };
    demo.warpline("run chain.toml --output a.pcapng.zst --annotate").expect(0);
    let text = output_of(Command::new("tshark").arg("-r").arg(demo.path("a.pcapng.zst")).args([
        "-n",
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.comment",
    ]));
    let comments: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('\t')).map(|(_, c)| c).collect();
    let dropped = comments.iter().filter(|comment| !comment.is_empty()).count();
    assert_eq!(comments.len(), before.len() + 98, "the router made 98");
    assert_eq!(dropped, 828 + 72);
    assert!(comments.contains(&"dropped by router: ttl-exceeded"));
    assert!(comments.contains(&"rejected by nat:1: malformed: udp-length"));
    for ending in ["pcap.gz", "pcapng", "pcapng.gz", "pcap.zst", "pcapng.zst"] {
        let empty = "run chain.toml --input generate:packets=0 --output";
        demo.warpline(&format!("{empty} empty.{ending}")).expect(0);
        let path = demo.path(&format!("empty.{ending}"));
        assert_eq!(output_of(Command::new("tshark").arg("-r").arg(path)), "", "{ending}");
    }
}

/// The interfaces of a chain with ports: tshark names the port by which each packet leaves.
#[test]
fn packets_leave_by_the_ports_that_interfaces_name() {
    if !has_peers() {
        return;
    }
    let demo = Demo::new();
    let port = |name, side, device| {
        format!("[[port]]\nname = {name:?}\nside = {side:?}\ndevice = {device:?}\n")
    };
    let lan = port("lan", "inside", "capture.pcap") + "interface = 0\n";
    let wan = port("wan", "outside", "copy.pcap");
    let text = format!("[chain]\nfunctions = []\noutput = \"both.pcapng\"\n{lan}{wan}");
    std::fs::copy(demo.path("capture.pcap"), demo.path("copy.pcap")).unwrap();
    std::fs::write(demo.path("ports.toml"), text).unwrap();
    demo.warpline("run ports.toml").expect(0);
    let mut command = Command::new("tshark");
    command.arg("-r").arg(demo.path("both.pcapng")).args(["-n", "-T", "fields"]);
    command.args(["-e", "frame.interface_name", "-e", "frame.time_epoch"]);
    let text = output_of(&mut command);
    let all: Vec<(&str, &str)> = text.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert_eq!(all.len(), 2 * 12_703);
    // Both captures are the same: the first port's packet comes before the second's.
    for pair in all.chunks(2) {
        assert_eq!((pair[0].0, pair[1].0, pair[0].1), ("wan", "lan", pair[1].1));
    }
}
