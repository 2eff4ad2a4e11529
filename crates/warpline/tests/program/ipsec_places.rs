//! A gateway for both directions: `ipsec` opens at its first place and seals at its second. Its
//! peers are another Warpline with one place, and scapy if it is installed (required if
//! `WARPLINE_REQUIRE_PEERS` is 1).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::devices::has_host;
use crate::ipsec::{GCM, Site, sa};
use crate::pcap::{self, Record};
use crate::pcapng;
use crate::stats::whole;

const GATEWAY: &str = "192.0.2.1";
const PEERS: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// The SPIs of packets that the gateway sends to each peer, and gets from it.
const TO: [u32; 2] = [0x1001, 0x1002];
const FROM: [u32; 2] = [0x2001, 0x2002];

/// The SAs between the gateway and its peers, whose keys are all different.
fn sas(out: &str, inward: &str) -> String {
    let mut text = String::new();
    for (peer, address) in PEERS.iter().enumerate() {
        for (name, direction, spi, [src, dst]) in [
            ("to", out, TO[peer], [GATEWAY, address]),
            ("from", inward, FROM[peer], [address, GATEWAY]),
        ] {
            let place = 2 * peer + usize::from(name == "from");
            let name = format!("{name}-{}", ["b", "c"][peer]);
            let own = sa(&name, direction, spi, GCM, place);
            let own = own.replace("src = \"192.0.2.1\"", "src = \"SRC\"");
            let own = own.replace("dst = \"198.51.100.1\"", &format!("dst = {dst:?}"));
            text += &own.replace("\"SRC\"", &format!("{src:?}"));
        }
    }
    text
}

fn policy(src: &str, dst: &str, action: &str) -> String {
    format!("[[policy]]\nsrc = {src:?}\ndst = {dst:?}\n{action}\n")
}

fn protect(src: &str, dst: &str, name: &str) -> String {
    policy(src, dst, &format!("action = \"protect\"\nsa = {name:?}"))
}

/// The network 10.1.0.0/16 and those of both peers.
fn policies(src: &str) -> String {
    protect(src, "10.2.0.0/16", "to-b") + &protect(src, "10.3.0.0/16", "to-c")
}

const CHAIN: &str = "[chain]\nfunctions = [\"ipsec\", \"router\", \"ipsec\", \"router\"]\n\
    input = \"in.pcap\"\noutput = \"out.pcap\"\n\
    [ipsec]\nsas = \"gateway.sas\"\npolicies = \"policies\"\nnonce_state = \"nonces\"\n\
    [router]\nroutes = \"routes\"\nneighbours = \"neighbours\"\nmac = \"02:00:00:00:00:01\"\n\
    icmp = \"on\"\nicmp_src_v4 = \"10.1.0.1\"\n";

struct Gateway(Site);

impl Gateway {
    fn new(policies: &str) -> Self {
        let site = Site::new();
        site.write_secret("gateway.sas", &sas("out", "in"));
        site.write("policies", policies);
        site.write("chain.toml", CHAIN);
        site.write(
            "routes",
            "10.1.0.0/16 direct\n10.0.0.0/8 192.0.2.253\n198.51.100.0/24 192.0.2.254\n\
             203.0.113.0/24 192.0.2.254\n",
        );
        site.write(
            "neighbours",
            "10.1.0.5 02:00:00:00:00:05\n192.0.2.253 02:00:00:00:00:fd\n\
             192.0.2.254 02:00:00:00:00:fe\n",
        );
        site.write("in.pcap", capture(&[]));
        site.write_secret("peers.sas", &sas("in", "out"));
        site.write(
            "peers.policies",
            protect("10.2.0.0/16", "0.0.0.0/0", "from-b")
                + &protect("10.3.0.0/16", "0.0.0.0/0", "from-c"),
        );
        site.write(
            "peers.toml",
            "[chain]\nfunctions = [\"ipsec\"]\ninput = \"p.pcap\"\noutput = \"q.pcap\"\n\
             [ipsec]\nsas = \"peers.sas\"\npolicies = \"peers.policies\"\n\
             nonce_state = \"peers.nonces\"\ncrypto = \"software\"\n",
        );
        Self(site)
    }

    /// The frames that the gateway sends for `packets`, and its statistics.
    fn run(&self, packets: &[Vec<u8>], options: &str) -> (Vec<Vec<u8>>, Value) {
        self.0.write("in.pcap", capture(packets));
        self.0.warpline(&format!("run chain.toml --stats s.json {options}")).expect(0);
        (frames(&self.0.read("out.pcap")), self.0.stats("s.json"))
    }
}

/// Packets in frames from a host with the address 02:00:00:00:00:07 to the gateway.
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let header = [&[2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 7], &[8, 0]].concat();
    let record = |(at, packet): (usize, &Vec<u8>)| {
        Record::new(at as u64 * 1_000_000, [&header[..], packet].concat())
    };
    pcap::capture(1, &packets.iter().enumerate().map(record).collect::<Vec<_>>())
}

fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    pcap::parse(file).1.into_iter().map(|record| record.bytes).collect()
}

/// Another end of the gateway's SAs.
trait Peer {
    /// Seals packets by the SAs of these SPIs.
    fn seal(&self, packets: &[(u32, Vec<u8>)]) -> Vec<Vec<u8>>;
    /// Opens packets; those that are no ESP are `None`.
    fn open(&self, packets: &[Vec<u8>]) -> Vec<Option<Vec<u8>>>;
}

/// Warpline with one place: its policies name the SA of each source.
struct OnePlace<'a>(&'a Gateway);

impl OnePlace<'_> {
    fn run(&self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let site = &self.0.0;
        site.write("p.pcap", capture(packets));
        site.warpline("run peers.toml").expect(0);
        frames(&site.read("q.pcap")).into_iter().map(|frame| frame[14..].to_vec()).collect()
    }
}

impl Peer for OnePlace<'_> {
    fn seal(&self, packets: &[(u32, Vec<u8>)]) -> Vec<Vec<u8>> {
        let plain: Vec<_> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        let sealed = self.run(&plain);
        let spis: Vec<u32> = sealed.iter().map(|packet| spi(packet).unwrap()).collect();
        assert!(spis.iter().eq(packets.iter().map(|(spi, _)| spi)));
        sealed
    }

    fn open(&self, packets: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let is_sealed = |packet: &&Vec<u8>| spi(packet).is_some();
        let sealed: Vec<_> = packets.iter().filter(is_sealed).cloned().collect();
        let mut opened = self.run(&sealed).into_iter();
        let all = packets.iter().map(|packet| spi(packet).map(|_| opened.next().unwrap()));
        all.collect()
    }
}

struct Scapy {
    python: &'static str,
    sas: Vec<Value>,
}

impl Scapy {
    /// `None` where it is not installed.
    fn find(gateway: &Gateway) -> Option<Self> {
        let imports = |python: &&str| {
            let mut command = Command::new(python);
            command.args(["-c", "import scapy.layers.ipsec, cryptography"]);
            command.output().is_ok_and(|output| output.status.success())
        };
        let python = ["python3", "/usr/bin/python3"].into_iter().find(imports);
        let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(python.is_some() || !required, "scapy is required and not installed");
        let text = String::from_utf8(gateway.0.read("gateway.sas")).unwrap();
        let sas = text.split("[[sa]]").skip(1).map(|sa| {
            let of = |key: &str| {
                let line = sa.lines().find(|line| line.starts_with(key)).unwrap();
                line.split(" = ").nth(1).unwrap().trim_matches('"').to_owned()
            };
            let (spi, key) = (of("spi").parse::<u32>().unwrap(), of("enc_key"));
            json!({"spi": spi, "src": of("src"), "dst": of("dst"), "enc_key": key[2..]})
        });
        Some(Self { python: python?, sas: sas.collect() })
    }

    fn ask<T>(&self, task: &str, packets: Value, of: impl Fn(&Value) -> T) -> Vec<T> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/gateway_peer.py");
        let mut command = Command::new(self.python);
        command.arg(script).arg(task).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let request = json!({"sas": self.sas, "packets": packets});
        child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let answer: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        answer.iter().map(of).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

impl Peer for Scapy {
    fn seal(&self, packets: &[(u32, Vec<u8>)]) -> Vec<Vec<u8>> {
        let packets: Vec<_> =
            packets.iter().map(|(spi, packet)| json!([spi, hex(packet)])).collect();
        self.ask("seal", packets.into(), |sealed| unhex(sealed.as_str().unwrap()))
    }

    fn open(&self, packets: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let packets: Vec<_> = packets.iter().map(|packet| hex(packet)).collect();
        self.ask("open", packets.into(), |opened| opened.as_str().map(unhex))
    }
}

/// A UDP datagram of these addresses and TTL, with a text in it.
fn udp([src, dst]: [&str; 2], ttl: u8, text: &str) -> Vec<u8> {
    let octets = |address: &str| address.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let frame = pcap::udp(text.len(), |ip| {
        ip[8] = ttl;
        ip[12..20].copy_from_slice(&[octets(src), octets(dst)].concat());
        ip[28..].copy_from_slice(text.as_bytes());
    });
    frame[14..].to_vec()
}

fn spi(packet: &[u8]) -> Option<u32> {
    (packet[9] == 50).then(|| u32::from_be_bytes(packet[20..24].try_into().unwrap()))
}

/// A packet in words: protocol, addresses, TTL, and its text or the packet that it quotes.
fn reported(packet: &[u8]) -> String {
    let address = |at: usize| packet[at..at + 4].iter().map(u8::to_string).collect::<Vec<_>>();
    let (src, dst) = (address(12).join("."), address(16).join("."));
    match packet[9] {
        17 => {
            let text = String::from_utf8_lossy(packet.get(28..).unwrap_or(&[]));
            format!("udp {src} {dst} ttl {} {text}", packet[8])
        }
        1 => format!("icmp {src} {dst} type {} [{}]", packet[20], reported(&packet[28..])),
        50 => format!("esp {:x} {src} {dst} ttl {}", spi(packet).unwrap(), packet[8]),
        other => format!("{other} {src} {dst}"),
    }
}

/// The frames that were sent, each with the last byte of its Ethernet destination.
fn all_reported(frames: &[Vec<u8>], peer: &dyn Peer) -> Vec<String> {
    let packets: Vec<Vec<u8>> = frames.iter().map(|frame| frame[14..].to_vec()).collect();
    let mut reported = Vec::new();
    for ((frame, packet), opened) in frames.iter().zip(&packets).zip(peer.open(&packets)) {
        let inner = opened.map_or(String::new(), |packet| format!(": {}", self::reported(&packet)));
        reported.push(format!("to {:02x} {}{inner}", frame[5], self::reported(packet)));
    }
    reported
}

enum Sent {
    Clear([&'static str; 2], u8, &'static str),
    Sealed(u32, [&'static str; 2], u8, &'static str),
}
use Sent::{Clear, Sealed};

fn inputs(sent: &[Sent], peer: &dyn Peer) -> Vec<Vec<u8>> {
    let to_seal: Vec<(u32, Vec<u8>)> = sent
        .iter()
        .filter_map(|one| match one {
            Sealed(spi, ends, ttl, text) => Some((*spi, udp(*ends, *ttl, text))),
            Clear(..) => None,
        })
        .collect();
    let mut sealed = peer.seal(&to_seal).into_iter();
    let packet = |one: &Sent| match one {
        Clear(ends, ttl, text) => udp(*ends, *ttl, text),
        Sealed(..) => sealed.next().unwrap(),
    };
    sent.iter().map(packet).collect()
}

const OUT: [&str; 2] = ["10.1.0.5", "10.2.0.9"];
const INWARD: [&str; 2] = ["10.2.0.9", "10.1.0.5"];

/// TTLs end inside the tunnel both ways.
const BOTH_WAYS: &[Sent] = &[
    Clear(OUT, 64, "out-1"),
    Clear(OUT, 1, "out-2"),
    Sealed(FROM[0], INWARD, 64, "in-3"),
    Sealed(FROM[0], INWARD, 1, "in-4"),
    Clear(["10.1.0.5", "203.0.113.80"], 64, "nowhere-5"),
    Clear(OUT, 64, "out-6"),
];

const TO_B: &str = "to fe esp 1001 192.0.2.1 198.51.100.1 ttl 64: ";

/// The packets that leave of [`BOTH_WAYS`], with errors from `icmp_src`.
fn both_ways(icmp_src: &str) -> Vec<String> {
    vec![
        format!("{TO_B}udp 10.1.0.5 10.2.0.9 ttl 63 out-1"),
        format!("to 07 icmp {icmp_src} 10.1.0.5 type 11 [udp 10.1.0.5 10.2.0.9 ttl 1 out-2]"),
        "to 05 udp 10.2.0.9 10.1.0.5 ttl 63 in-3".into(),
        format!("{TO_B}icmp {icmp_src} 10.2.0.9 type 11 [udp 10.2.0.9 10.1.0.5 ttl 1 in-4]"),
        format!("{TO_B}udp 10.1.0.5 10.2.0.9 ttl 63 out-6"),
    ]
}

/// Runs a test with every peer that there is.
fn with_peers(gateway: &Gateway, test: impl Fn(&dyn Peer)) {
    test(&OnePlace(gateway));
    if let Some(scapy) = Scapy::find(gateway) {
        test(&scapy);
    }
}

#[test]
fn both_directions_and_errors_inside_the_tunnel() {
    let gateway = Gateway::new(&policies("10.1.0.0/16"));
    with_peers(&gateway, |peer| {
        let input = inputs(BOTH_WAYS, peer);
        let mut all = Vec::new();
        for options in ["", "--lanes 3", "--lanes 2 --set chain.batch_packets=1"] {
            let (sent, stats) = gateway.run(&input, options);
            assert_eq!(all_reported(&sent, peer), both_ways("10.1.0.1"), "{options}");
            let functions = stats["chains"][0]["functions"].as_array().unwrap();
            let count = |at: usize, name: &str| whole(&functions[at]["counters"][name]);
            assert_eq!((count(0, "opened"), count(2, "sealed")), (2, 3), "{functions:?}");
            assert_eq!((functions[0]["counters"].get("sealed"), count(1, "icmp-sent")), (None, 2));
            assert_eq!(whole(&functions[2]["drops"]["no-policy"]), 1);
            let names: Vec<_> = functions.iter().map(|one| one["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["ipsec:1", "router:1", "ipsec:2", "router:2"]);
            // Numbers rise by one in the order of the input.
            let numbers = sent.iter().filter(|frame| frame[23] == 50).map(|frame| frame[41]);
            all.extend(numbers);
        }
        let first = all[0];
        assert!(all.iter().zip(first..).all(|(number, expected)| *number == expected), "{all:?}");
    });
}

#[test]
fn no_answer_shows_what_was_opened() {
    let bypass = |src: &str| policy(src, "0.0.0.0/0", "action = \"bypass\"");
    let discard = policy("203.0.113.1/32", "10.2.0.0/16", "action = \"discard\"");
    let own = policies("10.1.0.0/16");
    for (policies, default) in [
        (own.clone(), "discard"),
        (own.clone(), "bypass"),
        (bypass("203.0.113.1/32") + &own, "discard"),
    ] {
        let gateway = Gateway::new(&policies);
        let peer = OnePlace(&gateway);
        let options = format!("--set router.icmp_src_v4=203.0.113.1 --set ipsec.default={default}");
        let (sent, _) = gateway.run(&inputs(BOTH_WAYS, &peer), &options);
        let mut expected = both_ways("203.0.113.1");
        if default == "bypass" {
            expected.insert(4, "to fe udp 10.1.0.5 203.0.113.80 ttl 63 nowhere-5".into());
        }
        assert_eq!(all_reported(&sent, &peer), expected, "{policies} {default}");
    }
    // A policy against answers holds, and without one for the return traffic there is none.
    let one_way = protect("10.1.0.0/16", "10.9.0.0/16", "to-b");
    for (policies, reason) in [(discard + &own, "discard"), (one_way, "no-policy")] {
        for default in ["discard", "bypass"] {
            let gateway = Gateway::new(&policies);
            let peer = OnePlace(&gateway);
            let sent = [Sealed(FROM[0], INWARD, 1, "in-1"), Sealed(FROM[0], INWARD, 9, "in-2")];
            let options =
                format!("--set router.icmp_src_v4=203.0.113.1 --set ipsec.default={default}");
            let (sent, stats) = gateway.run(&inputs(&sent, &peer), &options);
            assert_eq!(all_reported(&sent, &peer), ["to 05 udp 10.2.0.9 10.1.0.5 ttl 8 in-2"]);
            let drops = &stats["chains"][0]["functions"][2]["drops"];
            assert_eq!(whole(&drops[reason]), 1, "{drops}");
        }
    }
}

#[test]
fn one_place_withholds_answers_that_it_can_not_seal() {
    let gateway = Gateway::new(&policies("10.1.0.0/16"));
    let peer = OnePlace(&gateway);
    let input = inputs(BOTH_WAYS, &peer);
    for functions in ["\"ipsec\",\"router\"", "\"ipsec\",\"digest\",\"router\""] {
        let options = format!("--set chain.functions=[{functions}]");
        let (sent, stats) = gateway.run(&input, &options);
        let sent = all_reported(&sent, &peer);
        assert!(sent.contains(&"to 05 udp 10.2.0.9 10.1.0.5 ttl 63 in-3".into()), "{sent:?}");
        assert!(!sent.iter().any(|one| one.contains("icmp") || one.contains("in-4")), "{sent:?}");
        let functions = stats["chains"][0]["functions"].as_array().unwrap();
        let router = functions.iter().find(|one| one["function"] == "router").unwrap();
        assert_eq!(whole(&router["counters"]["icmp-withheld"]), 1, "{router}");
    }
}

/// RFC 4301, 5.2, 3: what should have come by an SA does not pass in the clear.
#[test]
fn packets_in_the_clear_are_asked_about_at_the_first_place() {
    let selectors = "selectors = [{ src = \"10.2.0.0/16\", dst = \"10.1.0.0/16\" }]\n";
    let discard = policy("10.1.0.66/32", "10.2.0.0/16", "action = \"discard\"");
    let gateway = Gateway::new(&(discard + &policies("10.1.0.0/16")));
    let with_selectors = sas("out", "in").replacen(
        "direction = \"in\"\n",
        &format!("direction = \"in\"\n{selectors}"),
        1,
    );
    gateway.0.write_secret("gateway.sas", &with_selectors);
    let sent = [
        Clear(INWARD, 64, "forged-1"),
        Clear(INWARD, 1, "forged-2"),
        Clear(["10.1.0.66", "10.2.0.9"], 1, "discarded-3"),
    ];
    let peer = OnePlace(&gateway);
    for default in ["discard", "bypass"] {
        let options = format!("--set ipsec.default={default}");
        let (out, stats) = gateway.run(&inputs(&sent, &peer), &options);
        assert_eq!(out.len(), 0);
        let drops = &stats["chains"][0]["functions"][0]["drops"];
        assert_eq!((whole(&drops["no-policy"]), whole(&drops["discard"])), (2, 1), "{drops}");
    }
}

#[test]
fn a_hub_seals_again_what_goes_to_another_peer() {
    let gateway = Gateway::new(&policies("10.0.0.0/8"));
    let check = gateway.0.warpline("check chain.toml").expect(0);
    let text = String::from_utf8(check.stdout).unwrap() + &check.stderr;
    assert!(text.contains("steering  none (one lane)"), "{text}");
    let remark = "the policies may send packets of SA \"from-b\" on by SA \"to-c\", which has \
                  another peer: the chain runs on one lane";
    assert!(text.contains(remark), "{text}");
    // Each field that a place touches is declared.
    gateway.0.write("in.pcap", capture(&inputs(BOTH_WAYS, &OnePlace(&gateway))));
    gateway.0.warpline("check chain.toml --strict").expect(0);
    let to_c = "to fe esp 1002 192.0.2.1 198.51.100.2 ttl 64: ";
    let sent = [
        Sealed(FROM[0], ["10.2.0.9", "10.3.0.7"], 64, "b-to-c-1"),
        Sealed(FROM[1], ["10.3.0.7", "10.2.0.9"], 64, "c-to-b-2"),
        Sealed(FROM[0], ["10.2.0.9", "10.3.0.7"], 1, "b-to-c-3"),
        Clear(OUT, 64, "out-4"),
        Sealed(FROM[1], ["10.3.0.7", "10.1.0.5"], 64, "in-5"),
    ];
    with_peers(&gateway, |peer| {
        for options in ["", "--lanes 3 --set chain.batch_packets=1"] {
            let (out, stats) = gateway.run(&inputs(&sent, peer), options);
            let expected = [
                format!("{to_c}udp 10.2.0.9 10.3.0.7 ttl 63 b-to-c-1"),
                format!("{TO_B}udp 10.3.0.7 10.2.0.9 ttl 63 c-to-b-2"),
                format!(
                    "{TO_B}icmp 10.1.0.1 10.2.0.9 type 11 [udp 10.2.0.9 10.3.0.7 ttl 1 b-to-c-3]"
                ),
                format!("{TO_B}udp 10.1.0.5 10.2.0.9 ttl 63 out-4"),
                "to 05 udp 10.3.0.7 10.1.0.5 ttl 63 in-5".into(),
            ];
            assert_eq!(all_reported(&out, peer), expected);
            assert_eq!(stats["chains"][0]["lanes"], 1);
        }
    });
}

#[test]
fn two_places_are_the_same_on_a_device() {
    let gateway = Gateway::new(&policies("10.1.0.0/16"));
    if !has_host(gateway.0.demo()) {
        return;
    }
    let peer = OnePlace(&gateway);
    let input = inputs(BOTH_WAYS, &peer);
    for options in ["--device host", "--device host --lanes 2 --set chain.batch_packets=2"] {
        let (sent, stats) = gateway.run(&input, options);
        assert_eq!(all_reported(&sent, &peer), both_ways("10.1.0.1"), "{options}");
        let functions = stats["chains"][0]["functions"].as_array().unwrap();
        assert!(functions.iter().all(|one| one["device"] == "host"), "{functions:?}");
    }
}

#[test]
fn orders_with_two_routers_that_can_not_work() {
    let gateway = Gateway::new(&policies("10.1.0.0/16"));
    let right = "write functions = [\"ipsec\", \"router\", \"ipsec\", \"router\"]";
    for (functions, help) in [
        ("\"router\",\"ipsec\",\"router\"", right),
        ("\"ipsec\",\"ipsec\",\"router\",\"router\"", right),
        ("\"router\",\"router\"", "write functions = [\"router\"]"),
    ] {
        if !functions.contains("ipsec") {
            let own = CHAIN.find("[ipsec]").unwrap()..CHAIN.find("[router]").unwrap();
            gateway.0.write("chain.toml", CHAIN.replace(&CHAIN[own], ""));
        }
        let set = format!("check chain.toml --set chain.functions=[{functions}]");
        let ended = gateway.0.warpline(&set).expect(2);
        let text = "the second place of `router` routes only packets that got outer headers";
        assert!(ended.stderr.contains(text), "{functions}: {}", ended.stderr);
        assert!(ended.stderr.contains(help), "{functions}: {}", ended.stderr);
    }
}

/// With ports the gateway knows the side of each packet. No opened packet leaves by an outside port
/// in the clear, unless a policy bypasses it.
#[test]
fn ports_tell_what_is_outside() {
    let selectors = ["10.2.0.0/16", "10.3.0.0/16"]
        .map(|src| format!("selectors = [{{ src = {src:?}, dst = \"0.0.0.0/0\" }}]\n"));
    let mut parts = sas("out", "in");
    for own in &selectors {
        parts =
            parts.replacen("direction = \"in\"\nspi", &format!("direction = \"in\"\n{own}spi"), 1);
    }
    let bypass = policy("10.2.0.0/16", "203.0.113.0/24", "action = \"bypass\"");
    let gateway = Gateway::new(&(bypass + &policies("10.0.0.0/8")));
    gateway.0.write_secret("gateway.sas", &parts);
    let own =
        CHAIN.replace("input = \"in.pcap\"\noutput = \"out.pcap\"", "output = \"out.pcapng\"");
    let port = |name: &str, side: &str| {
        format!("[[port]]\nname = {name:?}\nside = {side:?}\ndevice = \"{name}.pcap\"\n")
    };
    gateway.0.write("chain.toml", own + &port("lan", "inside") + &port("wan", "outside"));
    gateway.0.write(
        "routes",
        "10.1.0.0/16 direct dev lan\n10.0.0.0/8 192.0.2.253 dev wan\n\
         198.51.100.0/24 192.0.2.254 dev wan\n203.0.113.0/24 192.0.2.254 dev wan\n",
    );
    let from_lan = [
        Clear(OUT, 64, "out-1"),
        Clear(OUT, 1, "out-2"),
        // Selectors are no matter inside.
        Clear(["10.2.0.77", "10.2.0.9"], 64, "inside-3"),
    ];
    let from_wan = [
        Sealed(FROM[0], INWARD, 64, "in-4"),
        Sealed(FROM[0], INWARD, 1, "in-5"),
        Sealed(FROM[0], ["10.2.0.9", "10.3.0.7"], 64, "b-to-c-6"),
        Sealed(FROM[0], ["10.2.0.9", "10.9.0.7"], 64, "astray-7"),
        Sealed(FROM[0], ["10.2.0.9", "203.0.113.80"], 64, "bypassed-8"),
        Clear(["10.2.0.9", "10.3.0.7"], 64, "forged-9"),
        Clear(INWARD, 64, "forged-10"),
    ];
    let to_b = TO_B.replace("to fe", "wan: to fe");
    let expected = [
        format!("{to_b}udp 10.1.0.5 10.2.0.9 ttl 63 out-1"),
        "lan: to 07 icmp 10.1.0.1 10.1.0.5 type 11 [udp 10.1.0.5 10.2.0.9 ttl 1 out-2]".into(),
        format!("{to_b}udp 10.2.0.77 10.2.0.9 ttl 63 inside-3"),
        "lan: to 05 udp 10.2.0.9 10.1.0.5 ttl 63 in-4".into(),
        format!("{to_b}icmp 10.1.0.1 10.2.0.9 type 11 [udp 10.2.0.9 10.1.0.5 ttl 1 in-5]"),
        "wan: to fe esp 1002 192.0.2.1 198.51.100.2 ttl 64: \
         udp 10.2.0.9 10.3.0.7 ttl 63 b-to-c-6"
            .into(),
        "wan: to fe udp 10.2.0.9 203.0.113.80 ttl 63 bypassed-8".into(),
    ];
    let peer = OnePlace(&gateway);
    let (lan, wan) = (inputs(&from_lan, &peer), inputs(&from_wan, &peer));
    for default in ["discard", "bypass"] {
        gateway.0.write("lan.pcap", capture(&lan));
        // After those of the other port.
        let (link, mut records) = pcap::parse(&capture(&wan));
        records.iter_mut().for_each(|record| record.at_ns += 1_000_000_000);
        gateway.0.write("wan.pcap", pcap::capture(link, &records));
        let run = format!("run chain.toml --stats s.json --set ipsec.default={default}");
        gateway.0.warpline(&run).expect(0);
        let sent = pcapng::parse(&gateway.0.read("out.pcapng"));
        let frames: Vec<_> = sent.iter().map(|one| one.record.bytes.clone()).collect();
        let reported = all_reported(&frames, &peer).into_iter().zip(&sent);
        let reported: Vec<_> =
            reported.map(|(text, one)| format!("{}: {text}", one.interface)).collect();
        assert_eq!(reported, expected, "{default}");
        let chain = &gateway.0.stats("s.json")["chains"][0];
        assert_eq!(whole(&chain["egress_drops"]["unprotected"]), 1, "{chain}");
        assert_eq!(whole(&chain["functions"][0]["drops"]["no-policy"]), 2, "{chain}");
    }
}
