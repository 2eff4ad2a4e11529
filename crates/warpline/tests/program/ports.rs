//! Chains with ports: where packets come in, and by which port they leave.

mod mistakes;
mod rules;

use serde_json::json;

use crate::ends::{signal, wait_until_running};
use crate::harness::{Demo, LIMIT, wait};
use crate::pcap::{Record, capture, udp};
use crate::reload::lines_of;
use crate::{pcap, pcapng, stats};

/// A datagram from 10.0.0.HOST, or from `src`, to `dst`.
pub(crate) fn frame(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    udp(4, |ip| {
        ip[12..16].copy_from_slice(&src);
        ip[16..20].copy_from_slice(&dst);
    })
}

const LAN: [u8; 4] = [10, 0, 0, 5];
const WAN: [u8; 4] = [203, 0, 113, 18];

const SECOND: u64 = 1_000_000_000;

/// Packets from the inside at 1 and 3 seconds, and from the outside at 1, 2 and 4.
fn demo() -> Demo {
    let demo = Demo::new();
    let out = |at| Record::new(at * SECOND, frame(LAN, WAN));
    let back = |at| Record::new(at * SECOND, frame(WAN, LAN));
    demo.write("lan.pcap", capture(1, &[out(1), out(3)]));
    demo.write("wan.pcap", capture(1, &[back(1), back(2), back(4)]));
    demo
}

fn port(name: &str, side: &str, device: &str, more: &str) -> String {
    format!("[[port]]\nname = {name:?}\nside = {side:?}\ndevice = {device:?}\n{more}")
}

fn two(chain: &str) -> String {
    let (lan, wan) =
        (port("lan", "inside", "lan.pcap", ""), port("wan", "outside", "wan.pcap", ""));
    format!("[chain]\n{chain}\n{lan}{wan}")
}

/// Seconds and interface of each packet.
fn seen(demo: &Demo, name: &str) -> Vec<(u64, String)> {
    let packets = pcapng::parse(&demo.read(name));
    packets.into_iter().map(|one| (one.record.at_ns / SECOND, one.interface)).collect()
}

fn named(all: &[(u64, &str)]) -> Vec<(u64, String)> {
    all.iter().map(|(at, name)| (*at, (*name).to_owned())).collect()
}

#[test]
fn packets_come_in_by_time_and_leave_by_the_other_port() {
    let demo = demo();
    demo.write("two.toml", two("functions = []\noutput = \"out.pcapng\"\ntap = \"tap.pcapng\""));
    let ended = demo.warpline("run two.toml --stats s.json").expect(0);
    let crossed = named(&[(1, "wan"), (1, "lan"), (2, "lan"), (3, "wan"), (4, "lan")]);
    assert_eq!(seen(&demo, "out.pcapng"), crossed);
    let came = named(&[(1, "lan"), (1, "wan"), (2, "wan"), (3, "lan"), (4, "wan")]);
    assert_eq!(seen(&demo, "tap.pcapng"), came);
    let all = stats::read(&demo, "s.json");
    let len = frame(LAN, WAN).len();
    let of = |name: &str, side: &str, read: usize, sent: usize| {
        json!({
            "name": name, "side": side, "packets": { "read": read, "sent": sent, "overload": 0 },
            "bytes": { "read": read * len, "sent": sent * len },
        })
    };
    let ports = json!([of("lan", "inside", 2, 3), of("wan", "outside", 3, 2)]);
    assert_eq!(all["chains"][0]["ports"], ports);
    for line in ["port              read          sent", "lan                  2             3"] {
        assert!(ended.stderr.contains(line), "{}", ended.stderr);
    }
    // A limit and lanes hold over all ports.
    demo.warpline("run two.toml --count 3 --lanes 2").expect(0);
    assert_eq!(seen(&demo, "out.pcapng"), crossed[..3]);
    // So do a pace and impairments.
    let pace =
        "--set port.lan.device=lan.pcap,pace=1000000 --set port.wan.device=wan.pcap,pace=1000000";
    demo.warpline(&format!("run two.toml {pace}")).expect(0);
    assert_eq!(seen(&demo, "out.pcapng"), crossed);
    demo.warpline("run two.toml --set chain.impair=duplicate=1").expect(0);
    let twice: Vec<_> = crossed.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
    assert_eq!(seen(&demo, "out.pcapng"), twice);
}

#[test]
fn ports_have_outputs_of_their_own() {
    let demo = demo();
    let lan = port("lan", "inside", "lan.pcap", "output = \"to-lan.pcap\"\n");
    let wan = port("wan", "outside", "wan.pcap", "");
    let text = format!("[chain]\nfunctions = []\noutput = \"rest.pcapng\"\n{lan}{wan}");
    demo.write("c.toml", &text);
    demo.warpline("run c.toml").expect(0);
    let (_, to_lan) = pcap::parse(&demo.read("to-lan.pcap"));
    let times: Vec<u64> = to_lan.iter().map(|record| record.at_ns / SECOND).collect();
    assert_eq!(times, [1, 2, 4]);
    assert_eq!(seen(&demo, "rest.pcapng"), named(&[(1, "wan"), (3, "wan")]));
    // Packets without an output are absorbed.
    demo.write("c.toml", text.replace("output = \"rest.pcapng\"", ""));
    demo.warpline("run c.toml --stats s.json").expect(0);
    let packets = &stats::read(&demo, "s.json")["chains"][0]["packets"];
    assert_eq!((&packets["sent"], &packets["absorbed"]), (&json!(3), &json!(2)));
}

#[test]
fn packets_leave_by_the_peer_of_their_port() {
    let demo = demo();
    let peer = |name: &str| format!("peer = \"{name}\"\n");
    let four = |lan: &str, wan: &str| {
        let all = [("lan", "lan.pcap", lan), ("c", "none", ""), ("wan", "wan.pcap", wan)];
        let all = all.into_iter().chain([("d", "none", "")]);
        let all = all.map(|(name, device, more)| port(name, "inside", device, more));
        let chain = "[chain]\nfunctions = []\noutput = \"out.pcapng\"\n".to_owned();
        all.fold(chain, |text, table| text + &table)
    };
    demo.write("c.toml", four(&peer("d"), &peer("c")));
    demo.warpline("run c.toml").expect(0);
    let left = named(&[(1, "d"), (1, "c"), (2, "c"), (3, "d"), (4, "c")]);
    assert_eq!(seen(&demo, "out.pcapng"), left);
    for (lan, wan, mistake) in [
        (peer("e"), peer("c"), "`peer`: the chain has no port \"e\""),
        (peer("lan"), peer("c"), "`peer`: port \"lan\" is its own peer"),
        (peer("c"), peer("c"), "`peer`: port \"wan\" or \"c\" has another peer"),
        (peer("c"), String::new(), "a chain with more than two ports needs a router"),
    ] {
        demo.write("c.toml", four(&lan, &wan));
        let ended = demo.warpline("check c.toml").expect(2);
        assert!(ended.stderr.contains(mistake), "{}", ended.stderr);
    }
}

#[test]
fn forwarding_by_routes_has_conditions() {
    let demo = demo();
    demo.write("routes.txt", "10.1.0.0/16 dev lan\n0.0.0.0/0 via 192.0.2.1 dev wan\n");
    demo.write("bare.txt", "0.0.0.0/0 via 192.0.2.1\n");
    demo.write("neighbours.txt", "192.0.2.1 02:00:00:00:00:11\n");
    let route = "forward = \"route\"\n";
    let router = "[router]\nroutes = \"routes.txt\"\n";
    let files = "neighbours = \"neighbours.txt\"\nmac = \"02:00:00:00:00:01\"\n";
    let kernel = "[router]\nroutes = \"kernel\"\n";
    for (function, table, lan, wan, mistake) in [
        ("\"router\"", router, route, route, ""),
        ("", "", route, route, "1:1: forward = \"route\" needs a router in the chain"),
        ("\"router\"", router, route, "", "port \"wan\" lacks forward = \"route\""),
        (
            "\"router\"",
            router,
            "forward = \"route\"\npeer = \"wan\"\n",
            route,
            "7:11: `forward` conflicts with `peer`",
        ),
        (
            "\"router\"",
            "[router]\nroutes = \"bare.txt\"\n",
            route,
            route,
            "bare.txt:1:1: the route to 0.0.0.0/0 names no port",
        ),
        ("\"router\"", router, "forward = \"wire\"\n", route, "`forward` must be \"route\""),
        (
            "\"router\"",
            &format!("{router}{files}"),
            route,
            route,
            "`neighbours` conflicts with forward = \"route\"",
        ),
        (
            "\"router\"",
            &format!("{kernel}{files}"),
            "",
            "",
            "`neighbours` conflicts with routes = \"kernel\"",
        ),
    ] {
        let ports = port("lan", "inside", "af_packet:lan", lan)
            + &port("wan", "outside", "af_packet:wan", wan);
        let chain = format!("[chain]\nfunctions = [{function}]\n{ports}\n{table}");
        demo.write("c.toml", chain);
        let ended = demo.warpline("check c.toml");
        match mistake {
            "" => drop(ended.expect(0)),
            _ => assert!(ended.stderr.contains(mistake), "{}", ended.expect(2).stderr),
        }
    }
    let capture = port("lan", "inside", "trace.pcap", route);
    demo.write("c.toml", format!("[chain]\nfunctions = []\n{capture}"));
    let ended = demo.warpline("check c.toml").expect(2);
    let reported = "`forward` requires an interface as `device`";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
}

#[test]
fn interfaces_of_one_capture_are_ports() {
    let demo = Demo::new();
    let records = [(0, 1), (1, 2), (2, 3), (1, 4), (0, 5)];
    let records = records.map(|(port, at)| (port, Record::new(at * SECOND, frame(LAN, WAN))));
    demo.write("both.pcapng", pcapng::capture(&["eth0", "eth1", "eth2"], &records));
    let wan = port("wan", "outside", "both.pcapng", "interface = \"eth1\"\n");
    let lan = port("lan", "inside", "both.pcapng", "interface = 0\n");
    let chain = "[chain]\nfunctions = []\noutput = \"out.pcapng\"\n";
    demo.write("c.toml", format!("{chain}{wan}{lan}"));
    let ended = demo.warpline("run c.toml").expect(0);
    let expected = named(&[(1, "wan"), (2, "lan"), (4, "lan"), (5, "wan")]);
    assert_eq!(seen(&demo, "out.pcapng"), expected);
    let warning = "both.pcapng: 1 frames of interfaces without a port";
    assert!(ended.stderr.contains(warning), "{}", ended.stderr);
    demo.write("c.toml", format!("{chain}{lan}{}", wan.replace("eth1", "eth7")));
    let ended = demo.warpline("run c.toml").expect(1);
    let error = "both.pcapng: there is no interface \"eth7\"";
    assert!(ended.stderr.contains(error), "{}", ended.stderr);
}

#[test]
fn the_command_line_names_a_ports_device() {
    let demo = demo();
    demo.write("two.toml", two("functions = []\noutput = \"out.pcapng\""));
    demo.warpline("run two.toml --set port.wan.device=none").expect(0);
    assert_eq!(seen(&demo, "out.pcapng"), named(&[(1, "wan"), (3, "wan")]));
    demo.warpline(
        "run two.toml --set port.lan.device=generate:packets=3 --set port.wan.device=none",
    )
    .expect(0);
    assert_eq!(seen(&demo, "out.pcapng").len(), 3);
    let ended = demo.warpline("run two.toml --set port.dmz.device=none").expect(2);
    assert!(ended.stderr.contains("--set: [port.dmz] is in no chain"), "{}", ended.stderr);
    for command in ["run two.toml --input x.pcap", "check two.toml --strict --input x.pcap"] {
        let ended = demo.warpline(command).expect(2);
        let text =
            "--input conflicts with [[port]]; for a port, write --set port.lan.device=x.pcap";
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    }
}

#[test]
fn routes_name_the_port_that_packets_leave_by() {
    let demo = demo();
    let to = |host: u8, at: u64| Record::new(at * SECOND, frame(LAN, [10, host, 0, 1]));
    demo.write("lan.pcap", capture(1, &[to(1, 1), to(2, 2), to(3, 3), to(4, 4), to(5, 5)]));
    let routes = "10.1.0.0/16 via 192.0.2.1 dev wan\n10.2.0.0/16 via 198.51.100.1\n\
        198.51.100.0/24 dev dmz\n10.3.0.0/16 via 192.0.2.1 dev dmz\nblackhole 10.4.0.0/16 dev lo\n\
        10.5.0.0/16 via 10.0.0.9 dev lan\n";
    demo.write("routes", routes);
    let lan = port("lan", "inside", "lan.pcap", "");
    let wan = port("wan", "outside", "none", "");
    let dmz = port("dmz", "inside", "none", "");
    let chain = "[chain]\nfunctions = [\"router\"]\noutput = \"out.pcapng\"\n[router]\n\
                 routes = \"routes\"\n";
    demo.write("c.toml", format!("{chain}{lan}{wan}{dmz}"));
    demo.warpline("run c.toml --lanes 2").expect(0);
    let expected = named(&[(1, "wan"), (2, "dmz"), (3, "dmz"), (5, "lan")]);
    assert_eq!(seen(&demo, "out.pcapng"), expected);
    demo.warpline("run c.toml --device host").expect(0);
    assert_eq!(seen(&demo, "out.pcapng"), expected);
}

#[test]
fn chains_share_the_ports_of_a_file() {
    let demo = demo();
    let chain = |name: &str, ports: &str| {
        format!("[[chain]]\nname = {name:?}\nfunctions = []\noutput = \"{name}.pcapng\"\n{ports}\n")
    };
    let ports = [("lan", "lan.pcap"), ("wan", "wan.pcap"), ("a", "none"), ("b", "none")];
    let tables: String = ports.map(|(name, device)| port(name, "inside", device, "")).concat();
    let first = chain("first", "ports = [\"a\", \"lan\"]");
    let second = chain("second", "ports = [\"wan\", \"b\"]");
    demo.write("c.toml", format!("{first}{second}{tables}"));
    demo.warpline("run c.toml").expect(0);
    assert_eq!(seen(&demo, "first.pcapng"), named(&[(1, "a"), (3, "a")]));
    assert_eq!(seen(&demo, "second.pcapng"), named(&[(1, "b"), (2, "b"), (4, "b")]));
    let third = chain("third", "ports = [\"a\"]");
    demo.write("c.toml", format!("{first}{second}{third}{tables}"));
    let ended = demo.warpline("check c.toml").expect(2);
    assert!(ended.stderr.contains("port \"a\" is named twice in `ports`"), "{}", ended.stderr);
}

/// An answer to a translated packet comes in by the other port and leaves by the first.
#[test]
fn translated_packets_cross_both_ways() {
    let demo = demo();
    let chain = "functions = [\"nat\"]\noutput = \"out.pcapng\"\n\
        [nat]\ninside = [\"10.0.0.0/8\"]\noutside = [\"192.0.2.9\"]\n";
    demo.write("two.toml", two(chain));
    demo.warpline("run two.toml --set port.wan.device=none").expect(0);
    let sent = pcapng::parse(&demo.read("out.pcapng"));
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|packet| packet.interface == "wan"));
    let out = &sent[0].record.bytes[14..];
    assert_eq!(out[12..16], [192, 0, 2, 9]);
    let answer = udp(4, |ip| {
        ip[12..16].copy_from_slice(&out[16..20]);
        ip[16..20].copy_from_slice(&out[12..16]);
        ip[20..22].copy_from_slice(&out[22..24]);
        ip[22..24].copy_from_slice(&out[20..22]);
    });
    demo.write("wan.pcap", capture(1, &[Record::new(2 * SECOND, answer)]));
    demo.warpline("run two.toml").expect(0);
    let all = pcapng::parse(&demo.read("out.pcapng"));
    let ports: Vec<&str> = all.iter().map(|packet| packet.interface.as_str()).collect();
    assert_eq!(ports, ["wan", "lan", "wan"]);
    assert_eq!(all[1].record.bytes[14 + 16..14 + 20], LAN);
}

/// New routes send packets to other ports, from one packet of the input on.
#[test]
fn reloaded_routes_name_other_ports() {
    let demo = demo();
    let chain = "[chain]\nfunctions = [\"router\"]\nlanes = 2\n[router]\nroutes = \"routes\"\n";
    let lan = port("lan", "inside", "generate:packets=1000000000000,flows=50", "");
    let others =
        ["wan", "dmz"].map(|name| port(name, "outside", "none", "output = \"/dev/null\"\n"));
    demo.write("c.toml", format!("{chain}{lan}{}", others.concat()));
    demo.write("routes", "0.0.0.0/0 via 192.0.2.1 dev wan\n");
    let mut child = demo.start("run c.toml --stats s.json");
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 1);
    demo.write("routes", "0.0.0.0/0 via 192.0.2.1 dev dmz\n");
    signal(&child, "HUP");
    let reported = lines.recv_timeout(LIMIT).expect("an answer to SIGHUP");
    assert_eq!(reported, "reload: [router] in place");
    demo.write("c.toml", format!("{chain}{lan}{}", others.concat()).replace("\"dmz\"", "\"dmz2\""));
    demo.write("routes", "0.0.0.0/0 via 192.0.2.1 dev dmz2\n");
    signal(&child, "HUP");
    let reported = lines.recv_timeout(LIMIT).expect("an answer to SIGHUP");
    assert!(reported.contains("`[[port]]` can't change while packets flow"), "{reported}");
    signal(&child, "INT");
    wait(child).expect(130);
    let ports = stats::read(&demo, "s.json")["chains"][0]["ports"].clone();
    let sent = |at: usize| stats::whole(&ports[at]["packets"]["sent"]);
    assert!(sent(0) == 0 && sent(1) > 0 && sent(2) > 0, "{ports}");
}

/// It may be made before the run, which refuses it otherwise.
#[test]
fn an_interface_that_is_missing_is_a_warning_of_check() {
    let demo = demo();
    let chain = "[chain]\nfunctions = []\n";
    let ports = port("lan", "inside", "af_packet:lo", "")
        + &port("wan", "outside", "af_packet:not-there,promiscuous=false", "");
    demo.write("c.toml", format!("{chain}{ports}"));
    let reported = demo.warpline("check c.toml").expect(0).stderr;
    let why = "there is no interface \"not-there\" now; `run` refuses it until it exists";
    assert!(reported.starts_with(&format!("warning: c.toml:10:10: {why}\n")), "{reported}");
    assert_eq!(reported.matches("warning").count(), 1, "{reported}");
    let checked = demo.warpline("check c.toml --json").expect(0);
    assert_eq!(checked.stderr, "");
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let warnings = &checked["warnings"];
    assert_eq!(warnings["count"], 1);
    let listed = &warnings["listed"][0];
    assert_eq!((&listed["line"], &listed["column"]), (&10.into(), &10.into()), "{listed}");
    assert_eq!(listed["message"], why);
    demo.warpline("run c.toml").expect(2);
}
