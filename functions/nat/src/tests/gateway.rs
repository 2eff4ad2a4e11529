//! Gateways made of a file of rules, and their packets.

use super::super::DEFINITION;
use super::model::{assert_sent, dropped};
use super::{Harness, Input, ip, send, sent};
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Function, Port, Ports, Resources, Section, Side, SourceText};
use warpline_testkit::frames::{Body, Datagram};

/// Rules that leave little to the table.
#[test]
fn a_file_of_rules_makes_a_gateway() {
    let rules = "*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n\
        -A PREROUTING -p tcp --dport 80 -j DNAT --to-destination 10.0.0.5:8080\n\
        -A PREROUTING -d 203.0.113.40 -j DNAT --to-destination 10.9.0.40\n\
        -A POSTROUTING -s 10.0.0.0/16 -d 10.200.0.0/16 -j ACCEPT\n\
        -A POSTROUTING -s 10.0.0.0/16 -j SNAT --to-source 203.0.113.1\nCOMMIT\n";
    let mut resources = Resources::default();
    let function = built(rules, &mut resources);
    let mut nat = Harness::new(function, resources.scratch_words());
    let tcp = |src: (&str, u16), dst: (&str, u16)| {
        Datagram::new(ip(src.0), ip(dst.0), Body::Tcp { src: src.1, dst: dst.1, flags: 2 })
    };
    let remote = ("198.51.100.1", 5000);
    let asks = tcp(remote, ("203.0.113.1", 80));
    assert_sent(&sent(&mut nat, 1, &asks), &asks.to(ip("10.0.0.5"), 8080));
    let asks = tcp(remote, ("203.0.113.40", 99));
    assert_sent(&sent(&mut nat, 1, &asks), &asks.to(ip("10.9.0.40"), 99));
    let out = tcp(("10.9.0.40", 7), remote);
    assert_sent(&sent(&mut nat, 1, &out), &out.from(ip("203.0.113.40"), 7));
    let inner = tcp(("10.0.0.7", 7), ("10.200.0.1", 7));
    assert_sent(&sent(&mut nat, 1, &inner), &inner);
    let out = sent(&mut nat, 1, &tcp(("10.0.0.7", 7), remote));
    assert_eq!(out.bytes[26..30], [203, 0, 113, 1]);
}

/// The function of a file of rules.
pub(super) fn built(rules: &str, resources: &mut Resources) -> Box<dyn Function> {
    built_with(rules, "", resources)
}

/// The function of a file of rules and more keys.
fn built_with(rules: &str, keys: &str, resources: &mut Resources) -> Box<dyn Function> {
    try_built(rules, keys, resources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

pub(super) fn try_built(
    rules: &str,
    keys: &str,
    resources: &mut Resources,
) -> Result<Box<dyn Function>, Diagnostics> {
    try_read(rules, keys, |section| (DEFINITION.build)(section, resources))
}

/// Reads a table with a file of rules and more keys.
fn try_read<T>(
    rules: &str,
    keys: &str,
    build: impl FnOnce(&mut Section<'_>) -> Option<T>,
) -> Result<T, Diagnostics> {
    let files = [("rules", rules)];
    let source = SourceText::new("chain.toml", format!("rules = \"rules\"\n{keys}"));
    let parsed = toml::de::DeTable::parse(&source.text).unwrap();
    let mut mistakes = Diagnostics::default();
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let folder = Folder::Bundled(&files);
    let mut section = Section::new(vec![layer], "nat", folder, &mut mistakes);
    let function = build(&mut section);
    assert_eq!(function.is_some(), mistakes.is_empty());
    function.ok_or(mistakes)
}

/// A gateway with two inside ports: one is translated, the other is not.
#[test]
fn rules_match_the_port_of_a_packet() {
    let rules = "*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n\
        -A PREROUTING -i wan -d 203.0.113.1 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n\
        -A PREROUTING -d 203.0.113.1 -p gre -j DNAT --to-destination 10.1.0.6\n\
        -A POSTROUTING -s 10.0.0.0/8 -i lan -j SNAT --to-source 203.0.113.1\nCOMMIT\n";
    let mut nat = with_three_ports(rules);
    nat.set_comes(|packet| [packet as u16 % 3, 0]);
    let inputs = |datagram: &Datagram| [0, 1, 2].map(|at| Input::at(at, &datagram.frame()));
    let tcp = |src: (&str, u16), dst: (&str, u16), flags| {
        Datagram::new(ip(src.0), ip(dst.0), Body::Tcp { src: src.1, dst: dst.1, flags })
    };
    let remote = ("198.51.100.1", 5000);
    let mut came = |datagram: &Datagram| nat.process(&inputs(datagram));
    let out = tcp(("10.0.0.7", 7), remote, 2);
    let [by_lan, by_dmz, by_wan] = &came(&out)[..] else { panic!("three packets") };
    assert_eq!(by_lan.bytes[26..30], [203, 0, 113, 1]);
    assert_eq!([&by_dmz.bytes, &by_wan.bytes], [&out.frame(); 2]);
    let asks = tcp(remote, ("203.0.113.1", 80), 2);
    let outcomes = came(&asks);
    assert_eq!([dropped(&outcomes[0]), dropped(&outcomes[1])], [Some("no-binding"); 2]);
    assert_sent(&outcomes[2], &asks.to(ip("10.1.0.5"), 80));
    // The host answers by a port whose packets no rule translates.
    let answer = tcp(("10.1.0.5", 80), remote, 18);
    for outcome in &came(&answer)[1..2] {
        assert_sent(outcome, &answer.clone().from(ip("203.0.113.1"), 80));
    }
    let gre = Datagram::new(ip(remote.0), ip("203.0.113.1"), Body::Other { protocol: 47 });
    assert_sent(&came(&gre)[2], &gre.to(ip("10.1.0.6"), 0));
}

/// Rules that differ in nothing but their port are one forward.
#[test]
fn forwards_of_several_ports_lead_to_one_host() {
    let rule = |port: &str, to: &str| {
        format!(
            "-A PREROUTING -i {port} -d 203.0.113.1 -p tcp --dport 80 -j DNAT --to-destination {to}"
        )
    };
    let (dmz, wan) = (rule("dmz", "10.1.0.5"), rule("wan", "10.1.0.5"));
    let mut nat = with_three_ports(&saved(&[&dmz, &wan, ALL]));
    nat.set_comes(|packet| [packet as u16 % 3, 0]);
    let tcp = Body::Tcp { src: 5000, dst: 80, flags: 2 };
    let asks = Datagram::new(ip("198.51.100.1"), ip("203.0.113.1"), tcp);
    let outcomes = nat.process(&[0, 1, 2].map(|at| Input::at(at, &asks.frame())));
    assert_eq!(dropped(&outcomes[0]), Some("no-binding"));
    outcomes[1..].iter().for_each(|out| assert_sent(out, &asks.clone().to(ip("10.1.0.5"), 80)));
    let other = saved(&[&dmz, &rule("wan", "10.1.0.6"), ALL]);
    let reported = try_built(&other, "", &mut three_ports()).err().unwrap().to_string();
    assert!(
        reported.contains(
            "port 80 of 203.0.113.1 to 10.1.0.6 overlaps one before it (it leads to one host, \
             whichever port packets come by): give it another outside port"
        ),
        "{reported}"
    );
}

/// Rules that translate between inside addresses, and those that do not.
#[test]
fn remarks_name_packets_that_keep_their_source() {
    let narrow = "-A POSTROUTING -s 10.1.0.0/16 ! -d 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";
    let host = "-A POSTROUTING -s 10.1.1.9/32 -j SNAT --to-source 203.0.113.1";
    let accept = "-A POSTROUTING -d 10.1.0.0/16 -j ACCEPT";
    let lan = "-A POSTROUTING -s 10.1.0.0/16 -i lan -p tcp -j SNAT --to-source 203.0.113.1";
    for (rules, reported) in [
        (&[ALL][..], Some("10.1.0.0 > 10.1.255.255")),
        (&[EXCEPT, ALL], Some("10.1.0.0 > 10.1.255.255")),
        (&[lan], Some("10.1.0.0 > 10.1.255.255")),
        (&[narrow, host], Some("10.1.1.9 > 10.1.255.255")),
        (&[accept, ALL], None),
        (&[host], None),
        (&[narrow], None),
    ] {
        let mut resources = three_ports();
        built(&saved(rules), &mut resources);
        let remarks = resources.remarks().to_string();
        let expected =
            reported.map_or(String::new(), |pair| format!("such as {pair}, keeps its source"));
        assert!(remarks.contains(&expected), "{rules:?}: {remarks}");
        assert_eq!(remarks.is_empty(), reported.is_none(), "{rules:?}: {remarks}");
    }
}

/// Ports for a gateway: `lan` and `dmz` inside, `wan` outside.
fn three_ports() -> Resources {
    ports(&[("lan", Side::Inside), ("dmz", Side::Inside), ("wan", Side::Outside)])
}

/// These ports for a gateway.
pub(super) fn ports(all: &[(&str, Side)]) -> Resources {
    let ports = all.iter().map(|&(name, side)| Port { name: name.into(), side });
    Resources::default().with_ports(Ports::new(ports.collect()))
}

/// A gateway with these ports.
pub(super) fn with_three_ports(rules: &str) -> Harness {
    let mut resources = three_ports();
    let function = built(rules, &mut resources);
    Harness::new(function, resources.scratch_words())
}

/// Both places of a gateway with these ports.
pub(super) fn pair_with_three_ports(rules: &str) -> [Harness; 2] {
    let (mut resources, pair) = (three_ports(), DEFINITION.build_pair.unwrap());
    let built = try_read(rules, "", |section| pair(section, &mut resources));
    let places = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    places.map(|place| Harness::new(place, resources.scratch_words()))
}

/// A gateway of rules without ports.
fn gateway(rules: &[&str]) -> Harness {
    gateway_with(rules, "")
}

/// The same, with more keys.
fn gateway_with(rules: &[&str], keys: &str) -> Harness {
    try_gateway(&saved(rules), keys).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A file of `iptables-save`.
pub(super) fn saved(rules: &[&str]) -> String {
    format!("*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n{}\nCOMMIT\n", rules.join("\n"))
}

pub(super) fn try_gateway(rules: &str, keys: &str) -> Result<Harness, Diagnostics> {
    let mut resources = Resources::default();
    let function = try_built(rules, keys, &mut resources)?;
    Ok(Harness::new(function, resources.scratch_words()))
}

pub(super) const INWARD: &str = "-A PREROUTING -d 203.0.113.9/32 -j DNAT --to-destination 10.1.1.9";
pub(super) const OUTWARD: &str = "-A POSTROUTING -s 10.1.1.9/32 -j SNAT --to-source 203.0.113.9";
const EXCEPT: &str = "-A POSTROUTING -s 10.1.0.0/16 -d 8.8.8.0/24 -j ACCEPT";
const ALL: &str = "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1";

pub(super) fn udp(src: (&str, u16), dst: (&str, u16)) -> Datagram {
    Datagram::new(ip(src.0), ip(dst.0), Body::Udp { src: src.1, dst: dst.1, unsummed: false })
}

/// The source that a datagram from an inside host has outside.
fn source(nat: &mut Harness, from: &str, to: &str) -> [u8; 4] {
    let out = sent(nat, 1, &udp((from, 5000), (to, 53)));
    assert_eq!(dropped(&out), None);
    out.bytes[26..30].try_into().unwrap()
}

/// The first rule that matches decides for a host with an address of its own, too.
#[test]
fn rules_of_mapped_hosts_hold_in_their_order() {
    let net = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let net_out = "-A POSTROUTING -s 10.1.1.8/30 -j NETMAP --to 203.0.113.8/30";
    let own = [203, 0, 113, 9];
    for rules in [&[INWARD, OUTWARD, EXCEPT, ALL], &[net, net_out, EXCEPT, ALL]] {
        let mut nat = gateway(rules);
        assert_eq!(source(&mut nat, "10.1.1.9", "8.8.8.8"), own, "{rules:?}");
        assert_eq!(source(&mut nat, "10.1.1.9", "1.1.1.1"), own, "{rules:?}");
        assert_eq!(source(&mut nat, "10.1.0.1", "8.8.8.8"), [10, 1, 0, 1], "{rules:?}");
        assert_eq!(source(&mut nat, "10.1.0.1", "1.1.1.1"), [203, 0, 113, 1], "{rules:?}");
    }
}

/// Of a forward and a mapping of its whole address the first one decides.
#[test]
fn rules_of_mapped_addresses_hold_in_their_order() {
    let port = "-A PREROUTING -d 203.0.113.9/32 -p udp -m udp --dport 80 -j DNAT \
                --to-destination 10.1.1.5:8080";
    let every = "-A PREROUTING -p udp -m udp --dport 80 -j DNAT --to-destination 10.1.1.5:8080";
    let same = "-A PREROUTING -d 203.0.113.9/32 -p udp -m udp --dport 80 -j DNAT \
                --to-destination 10.1.1.9:8080";
    let net = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let (forwarded, mapped) = (("10.1.1.5", 8080), ("10.1.1.9", 80));
    for (rules, inside) in [
        (&[INWARD, port, ALL][..], mapped),
        (&[INWARD, every, ALL], mapped),
        (&[port, INWARD, ALL], forwarded),
        (&[every, INWARD, ALL], forwarded),
        (&[every, net, ALL], forwarded),
        (&[same, INWARD, ALL], ("10.1.1.9", 8080)),
        (&[same, INWARD, OUTWARD, ALL], ("10.1.1.9", 8080)),
    ] {
        let mut nat = gateway(rules);
        let (remote, to) = (("198.51.100.7", 5000), ("203.0.113.9", 80));
        let (asks, answers) = (udp(remote, to), udp(inside, remote));
        assert_sent(&sent(&mut nat, 1, &asks), &udp(remote, inside));
        assert_sent(&sent(&mut nat, 1, &answers), &udp(to, remote));
        // Errors about both, from outside and from inside.
        let reported = udp(to, remote).error(ip(remote.0), 48);
        assert_sent(&sent(&mut nat, 1, &reported), &answers.error(ip(remote.0), 48));
        let reported = udp(remote, inside).error(ip(inside.0), 48);
        assert_sent(&sent(&mut nat, 1, &reported), &asks.error(ip(to.0), 48));
        let [first, second] = udp(inside, remote).with(&[7; 64]).fragments(24);
        let expected = udp(to, remote).with(&[7; 64]).fragments(24);
        let left = [&first, &second].map(|frame| send(&mut nat, 1, frame).bytes);
        assert_eq!(left, expected, "{rules:?}");
        let beside = udp(remote, ("203.0.113.9", 81));
        assert_sent(&sent(&mut nat, 1, &beside), &beside.to(ip("10.1.1.9"), 81));
    }
}

/// Where the keys of the table translate the rest, packets that rules accept keep their source.
#[test]
fn keys_translate_the_rest() {
    let net_in = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let net = "-A POSTROUTING -s 10.1.1.8/30 -j NETMAP --to 203.0.113.8/30";
    let keys = "inside = [\"10.1.0.0/16\"]\noutside = [\"203.0.113.1\"]\n";
    let mut nat = gateway_with(&[net_in, net, EXCEPT], keys);
    assert_eq!(source(&mut nat, "10.1.1.9", "8.8.8.8"), [203, 0, 113, 9]);
    assert_eq!(source(&mut nat, "10.1.0.1", "8.8.8.8"), [10, 1, 0, 1]);
    assert_eq!(source(&mut nat, "10.1.0.1", "1.1.1.1"), [203, 0, 113, 1]);
    let some = "-A POSTROUTING -s 10.1.1.8/30 -d 8.8.8.8 -j NETMAP --to 203.0.113.8/30";
    let mut nat = gateway_with(&[net_in, some], keys);
    for to in ["8.8.8.8", "1.1.1.1"] {
        assert_eq!(source(&mut nat, "10.1.1.9", to), [203, 0, 113, 9]);
    }
}

/// A file of hosts with addresses of their own, and of forwards, needs no keys.
#[test]
fn fixed_translations_alone_need_no_keys() {
    let forward = "-A PREROUTING -d 203.0.113.1/32 -p udp --dport 53 -j DNAT --to-destination \
                   10.1.0.5";
    let (remote, asked, server) = (("1.1.1.1", 9), ("203.0.113.1", 53), ("10.1.0.5", 53));
    for rules in [&[INWARD, OUTWARD][..], &[INWARD, OUTWARD, forward], &[forward]] {
        let mut nat = gateway(rules);
        let own = udp(("10.1.1.9", 5000), remote);
        match rules.contains(&INWARD) {
            true => {
                assert_sent(&sent(&mut nat, 1, &own), &own.clone().from(ip("203.0.113.9"), 5000))
            }
            false => assert_sent(&sent(&mut nat, 1, &own), &own),
        }
        let (asks, answers) = (udp(remote, asked), udp(server, remote));
        if rules.contains(&forward) {
            assert_sent(&sent(&mut nat, 1, &answers), &answers);
            assert_sent(&sent(&mut nat, 1, &asks), &udp(remote, server));
            assert_sent(&sent(&mut nat, 1, &answers), &udp(asked, remote));
        }
    }
    // Beside a key the rest is translated, and the other one is required.
    let reported = |rules: &[&str], keys: &str| {
        let mistakes = try_gateway(&saved(rules), keys).err().unwrap();
        mistakes.iter().map(|own| own.message.clone()).collect::<Vec<_>>()
    };
    let inside = "inside = [\"10.0.0.0/8\"]";
    let missing = reported(&[INWARD, OUTWARD], inside);
    assert!(missing[0].contains("needs `outside`"), "{missing:?}");
    let anywhere = forward.replace("-d 203.0.113.1/32 ", "");
    let missing = reported(&[&anywhere], "");
    assert!(missing[0].contains("without a destination, `-d`, needs `outside`"), "{missing:?}");
    // A rule about other hosts says that there are some inside.
    let missing = reported(&[INWARD, OUTWARD, EXCEPT], "");
    assert!(missing[0].contains("needs `inside`"), "{missing:?}");
}

pub(super) const SKIP: &str = "unsupported = \"skip\"";
pub(super) const OTHER: &str = "-A POSTROUTING -s 10.2.0.0/16 -j SNAT --to-source 203.0.113.1";

/// A host with an address of its own for some packets answers from the address that was asked.
#[test]
fn answers_of_partly_mapped_hosts_keep_the_address() {
    let some = "-A POSTROUTING -s 10.1.1.9/32 -p tcp -j SNAT --to-source 203.0.113.9";
    let mut nat = gateway_with(&[INWARD, some, OTHER], SKIP);
    let (remote, outside, inside) = (("1.1.1.1", 9), ("203.0.113.9", 53), ("10.1.1.9", 53));
    assert_sent(&sent(&mut nat, 1, &udp(remote, outside)), &udp(remote, inside));
    assert_sent(&sent(&mut nat, 1, &udp(inside, remote)), &udp(outside, remote));
}

/// Of a host's own address a skipped part is a condition, never the translation.
#[test]
fn skipped_conditions_of_own_addresses_translate_more() {
    let net_in = "-A PREROUTING -d 203.0.113.8/30 -j NETMAP --to 10.1.1.8/30";
    let net = "-A POSTROUTING -s 10.1.1.8/30 -j NETMAP --to 203.0.113.8/30";
    let ttl = "-A POSTROUTING -s 10.1.1.8/30 -m ttl --ttl-lt 5 -j NETMAP --to 203.0.113.8/30";
    let web = "-A POSTROUTING -s 10.1.1.9/32 -p tcp --dport 80 -j SNAT --to-source 203.0.113.9";
    let some = "-A POSTROUTING -s 10.1.0.0/16 -d 8.8.8.0/24 -j SNAT --to-source 203.0.113.1";
    let keep = "-A POSTROUTING -s 10.1.0.0/16 -j ACCEPT";
    for rules in [
        &[net_in, ttl, OTHER][..],
        &[net_in, ttl, keep, OTHER],
        &[INWARD, web, keep, OTHER],
        &[net_in, some, net],
        &[net_in, some, net, keep],
        &[INWARD, some, OUTWARD, keep],
    ] {
        let mut nat = gateway_with(rules, SKIP);
        for to in ["8.8.8.8", "1.1.1.1"] {
            let tcp = Body::Tcp { src: 5000, dst: 80, flags: 2 };
            let out = Datagram::new(ip("10.1.1.9"), ip(to), tcp);
            assert_sent(&sent(&mut nat, 1, &out), &out.from(ip("203.0.113.9"), 5000));
        }
    }
}

/// Later fragments to a mapped address follow a forwarded first one. Only ingress knows the shard
/// of that, so they do here where it is the shard of the mapped host.
#[test]
fn fragments_to_mapped_addresses_follow_the_first() {
    let forward = |host: u16| {
        format!(
            "-A PREROUTING -d 203.0.113.9/32 -p udp -m udp --dport {host} -j DNAT \
             --to-destination 10.1.2.{host}"
        )
    };
    let forwards = (1..255).map(forward).collect::<Vec<_>>().join("\n");
    let mut nat = gateway(&[&forwards, INWARD, ALL]);
    let (remote, mut followed) = (("198.51.100.7", 5000), 0);
    for host in 1..255 {
        let address = format!("10.1.2.{host}");
        let [first, second] = udp(remote, ("203.0.113.9", host)).with(&[7; 64]).fragments(24);
        let expected = udp(remote, (&address, host)).with(&[7; 64]).fragments(24);
        assert_eq!(send(&mut nat, 1, &first).bytes, expected[0]);
        followed += usize::from(send(&mut nat, 1, &second).bytes == expected[1]);
    }
    assert!(followed > 0);
    // A packet to the mapped host that has the same identification.
    let [first, second] = udp(remote, ("203.0.113.9", 300)).with(&[7; 64]).fragments(24);
    let expected = udp(remote, ("10.1.1.9", 300)).with(&[7; 64]).fragments(24);
    let sent = [&first, &second].map(|frame| send(&mut nat, 1, frame).bytes);
    assert_eq!(sent, expected);
}
