//! The demo shows every function at work.

use warpline_functions::FUNCTIONS;

use crate::harness::Demo;
use crate::stats::{self, whole};

/// Counters that a function increments when it does its work on the demo's traffic, and not just
/// passes it.
fn works(function: &str) -> &'static [&'static str] {
    match function {
        "digest" => &["digested", "unique", "duplicates", "duplicate-bytes"],
        "firewall" => &["connections-created", "connections-expired"],
        "flow_monitor" => &["metered", "records", "ended-detected", "ended-forced"],
        "ipcomp" => &["compressed", "saved-bytes"],
        "ipsec" => &["sealed", "bypassed"],
        "load_balancer" => &["created", "to-backends", "to-clients"],
        "nat" => &["created", "outbound", "inbound"],
        "nids" => &["matches", "alerts", "alerts-suppressed", "candidates", "datagrams"],
        "router" => &["icmp-sent"],
        other => {
            panic!("the demo has nothing for {other}: give it traffic and a counter")
        }
    }
}

#[test]
fn every_function_is_in_a_chain_and_does_something() {
    let demo = Demo::new();
    // The gateway of IPsec has a chain of its own.
    let chains = ["run", "run gateway.toml"].map(|run| {
        demo.warpline(&format!("{run} --lanes 2 --stats s.json")).expect(0);
        let stats = stats::read(&demo, "s.json");
        assert_eq!(stats["chains"][0]["lanes"], 2, "one key serves all of them");
        stats["chains"][0]["functions"].as_array().unwrap().clone()
    });
    for definition in FUNCTIONS {
        let own = chains.iter().flatten().find(|own| own["function"] == definition.name);
        let own = own.unwrap_or_else(|| panic!("{} is not in the demo", definition.name));
        for name in works(definition.name) {
            assert!(whole(&own["counters"][name]) > 0, "{}: {name}", definition.name);
        }
    }
}

/// The capture has the answers of the backends that the balancer chooses: each finds its
/// connection.
#[test]
fn answers_of_backends_leave_with_the_address_of_the_shop() {
    let demo = Demo::new();
    demo.warpline("run chain.toml --stats s.json").expect(0);
    let functions = &stats::read(&demo, "s.json")["chains"][0]["functions"];
    let counters = &functions[1]["counters"];
    let answers = count(&demo, "capture.pcap", |src, _| is_backend(src));
    assert!(answers > 100, "{answers}");
    assert_eq!(whole(&counters["to-clients"]), answers);
    assert_eq!(count(&demo, "out.pcap", |src, _| is_backend(src)), 0);
    assert_eq!(count(&demo, "out.pcap", |src, _| src == VIP), answers);
    // Every packet to the shop's address is one that a backend gets.
    let asked = count(&demo, "out.pcap", |_, dst| is_backend(dst));
    assert_eq!(whole(&counters["to-backends"]), asked);
    assert_eq!(count(&demo, "out.pcap", |_, dst| dst == VIP), 0);
    let each = [25, 26].map(|host| count(&demo, "out.pcap", |_, dst| dst == [203, 0, 113, host]));
    assert!(each.iter().all(|&packets| packets > 50) && each.iter().sum::<u64>() == asked);
}

/// Another host that tries the port of the inside server gets no packet to any inside host.
#[test]
fn partners_reach_the_inside_server_by_its_forward() {
    let demo = Demo::new();
    demo.warpline("run chain.toml --stats s.json").expect(0);
    let is_partner = |a: [u8; 4]| a[..3] == [192, 0, 2] && (100..=109).contains(&a[3]);
    let sent = |src: [u8; 4], dst| is_partner(src) && dst == NAT;
    let asked = count(&demo, "capture.pcap", sent);
    let answered = count(&demo, "capture.pcap", |src, _| src == SERVER);
    assert!(asked > 70 && answered > 70, "{asked} {answered}");
    assert_eq!(count(&demo, "out.pcap", |src, dst| is_partner(src) && dst == SERVER), asked);
    assert_eq!(count(&demo, "out.pcap", |src, dst| src == NAT && is_partner(dst)), answered);
    let tries = count(&demo, "capture.pcap", |src, _| src == INTRUDER);
    assert_eq!((tries, count(&demo, "out.pcap", |src, _| src == INTRUDER)), (12, 0));
    let functions = &stats::read(&demo, "s.json")["chains"][0]["functions"];
    assert!(whole(&functions[0]["drops"]["no-binding"]) >= 4);
    assert!(whole(&functions[4]["drops"]["invalid"]) >= 2);
}

const NAT: [u8; 4] = [203, 0, 113, 1];
const SERVER: [u8; 4] = [10, 1, 0, 5];
const INTRUDER: [u8; 4] = [198, 51, 100, 141];
const VIP: [u8; 4] = [203, 0, 113, 24];

fn is_backend(address: [u8; 4]) -> bool {
    address[..3] == VIP[..3] && (25..=27).contains(&address[3])
}

/// IPv4 packets over plain Ethernet whose source and destination are so.
fn count(demo: &Demo, name: &str, is: impl Fn([u8; 4], [u8; 4]) -> bool) -> u64 {
    let (_, records) = crate::pcap::parse(&demo.read(name));
    let is_one = |frame: &[u8]| {
        let address = |at: usize| frame.get(at..at + 4).and_then(|a| a.try_into().ok());
        frame.get(12..14) == Some(&[8, 0])
            && address(26).zip(address(30)).is_some_and(|(src, dst)| is(src, dst))
    };
    records.iter().filter(|record| is_one(&record.bytes)).count() as u64
}
