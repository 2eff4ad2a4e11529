//! Routes and rules that name ports.

use serde_json::json;

use super::{LAN, SECOND, WAN, demo, frame, named, port, seen, two};
use crate::pcap::{Record, capture};
use crate::{pcapng, stats};

const FORWARDS: &str = "*filter\n:FORWARD DROP [0:0]\n:in - [0:0]\n-A FORWARD -i lan -o wan -j \
                        ACCEPT\n\
    -A FORWARD -i w+ ! -o wan -j in\n-A in -s 203.0.113.0/24 -j ACCEPT\nCOMMIT\n";

/// Rules name ports, before the router by which side of two a packet comes, after it by its route.
#[test]
fn rules_name_ports_as_interfaces() {
    let demo = demo();
    demo.write("rules", FORWARDS);
    // The last packet of the inside is routed back.
    let to = |at: u64, dst: [u8; 4]| Record::new(at * SECOND, frame(LAN, dst));
    demo.write("lan.pcap", capture(1, &[to(1, WAN), to(3, [10, 9, 9, 9])]));
    let other = Record::new(5 * SECOND, frame([198, 51, 100, 1], LAN));
    let back = |at| Record::new(at * SECOND, frame(WAN, LAN));
    demo.write("wan.pcap", capture(1, &[back(2), back(4), other]));
    demo.write("routes", "10.0.0.0/8 dev lan\n0.0.0.0/0 via 198.51.100.9 dev wan\n");
    let tables =
        "output = \"out.pcapng\"\n[firewall]\nrules = \"rules\"\n[router]\nroutes = \"routes\"\n";
    for (functions, rule_drops, hairpins) in [
        ("\"firewall\", \"router\"", 1, 1),
        ("\"router\", \"firewall\"", 2, 0),
        ("\"firewall\"", 1, 0),
    ] {
        let table = match functions.contains("router") {
            true => tables.to_owned(),
            false => tables.split("[router]").next().unwrap().to_owned(),
        };
        demo.write("c.toml", two(&format!("functions = [{functions}]\n{table}")));
        let copies = "--device host --set firewall.in_place=false --set router.in_place=false";
        let copies = match functions.contains("router") {
            true => copies,
            false => copies.split(" --set router").next().unwrap(),
        };
        for more in ["", "--lanes 3 --set chain.batch_packets=1", "--device host", copies] {
            demo.warpline(&format!("run c.toml --stats s.json {more}")).expect(0);
            let mut expected = vec![(1, "wan"), (2, "lan"), (4, "lan")];
            if hairpins == 0 && rule_drops == 1 {
                // Without a router it crosses.
                expected.insert(2, (3, "wan"));
            }
            assert_eq!(seen(&demo, "out.pcapng"), named(&expected), "{functions} {more}");
            let chain = &stats::read(&demo, "s.json")["chains"][0];
            let functions = chain["functions"].as_array().unwrap();
            let firewall = functions.iter().find(|one| one["name"] == json!("firewall")).unwrap();
            assert_eq!(firewall["drops"]["default"], json!(rule_drops), "{more}");
            let drops = if hairpins > 0 { json!({ "hairpin": 1 }) } else { json!({}) };
            assert_eq!(chain["egress_drops"], drops, "{more}");
        }
    }
    // Dropped packets are shown where they came in, with the reason.
    demo.write("c.toml", two(&format!("functions = [\"firewall\", \"router\"]\n{tables}")));
    demo.warpline("run c.toml --annotate").expect(0);
    let all = pcapng::parse(&demo.read("out.pcapng"));
    let hairpin = all.iter().find(|packet| packet.record.at_ns == 3 * SECOND).unwrap();
    let reported = ("dropped at egress: hairpin", "lan");
    assert_eq!((hairpin.comment.as_str(), hairpin.interface.as_str()), reported);
}

#[test]
fn interfaces_that_are_no_ports_are_refused() {
    let demo = demo();
    demo.write("rules", FORWARDS.replace("-i lan", "-i eth9"));
    demo.write("c.toml", two("functions = [\"firewall\"]\n[firewall]\nrules = \"rules\"\n"));
    let ended = demo.warpline("check c.toml").expect(2);
    let reported = "rules:4:15: `eth9`: not supported: no port of the chain; ports: lan, wan";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    // With a third port, where a packet leaves is known after the router only.
    demo.write("rules", FORWARDS);
    demo.write("routes", "10.0.0.0/8 dev lan\n0.0.0.0/0 dev wan\n");
    let chain = |functions: &str| {
        let tables = "[firewall]\nrules = \"rules\"\n[router]\nroutes = \"routes\"\n";
        two(&format!("functions = [{functions}]\n{tables}")) + &port("dmz", "inside", "none", "")
    };
    demo.write("c.toml", chain("\"router\", \"firewall\""));
    let checked = demo.warpline("check c.toml --strict --device host").expect(0);
    let reported = String::from_utf8(checked.stdout).unwrap();
    assert!(reported.contains("  ports     lan inside, wan outside, dmz inside\n"), "{reported}");
    demo.write("c.toml", chain("\"firewall\", \"router\""));
    let ended = demo.warpline("check c.toml").expect(2);
    let reported = "rules:4:22: `wan`: not supported: with more than two ports, the router must \
                    come before the rules";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
}

#[test]
fn routes_by_interfaces_that_are_no_ports_are_refused() {
    let demo = demo();
    let three = |routes: &str| {
        demo.write("routes", routes);
        let chain =
            "functions = [\"router\"]\noutput = \"out.pcapng\"\n[router]\nroutes = \"routes\"\n";
        two(chain) + &port("dmz", "inside", "none", "")
    };
    for (routes, reported) in [
        ("10.0.0.0/8 via 192.0.2.1 dev eth7\n", "routes:1:30: `eth7` is no port of this chain"),
        (
            "10.0.0.0/8 dev lan\n203.0.113.0/24 192.0.2.1\n",
            "routes:2:1: the route to 203.0.113.0/24 names no port",
        ),
    ] {
        demo.write("c.toml", three(routes));
        let ended = demo.warpline("check c.toml").expect(2);
        assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    }
    // Its packets are dropped, not sent by a shorter route.
    let routes = "0.0.0.0/0 dev wan\n203.0.113.0/24 via 192.0.2.1 dev eth7\n";
    let text =
        three(routes).replace("routes = \"routes\"", "routes = \"routes\"\nunsupported = \"skip\"");
    demo.write("c.toml", text);
    demo.warpline("run c.toml --stats s.json").expect(0);
    let chain = &stats::read(&demo, "s.json")["chains"][0];
    assert_eq!(chain["functions"][0]["drops"]["unsupported-route"], json!(2));
    assert_eq!(seen(&demo, "out.pcapng"), named(&[(1, "wan"), (2, "wan"), (4, "wan")]));
}
