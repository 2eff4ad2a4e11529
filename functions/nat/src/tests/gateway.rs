//! Gateways made of a file of rules, and their packets.

use super::super::DEFINITION;
use super::model::{assert_sent, dropped};
use super::{Harness, Input, ip, sent};
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
fn built(rules: &str, resources: &mut Resources) -> Box<dyn Function> {
    let files = [("rules", rules)];
    let source = SourceText::new("chain.toml", "rules = \"rules\"\n");
    let parsed = toml::de::DeTable::parse(&source.text).unwrap();
    let mut mistakes = Diagnostics::default();
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let folder = Folder::Bundled(&files);
    let mut section = Section::new(vec![layer], "nat", folder, &mut mistakes);
    let function = (DEFINITION.build)(&mut section, resources);
    assert!(mistakes.is_empty(), "{mistakes}");
    function.unwrap()
}

/// A gateway with two inside ports: one is translated, the other is not.
#[test]
fn rules_match_the_port_of_a_packet() {
    let rules = "*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\n\
        -A PREROUTING -i wan -d 203.0.113.1 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5\n\
        -A PREROUTING -d 203.0.113.1 -p gre -j DNAT --to-destination 10.1.0.6\n\
        -A POSTROUTING -s 10.0.0.0/8 -i lan -j SNAT --to-source 203.0.113.1\nCOMMIT\n";
    let ports = [("lan", Side::Inside), ("dmz", Side::Inside), ("wan", Side::Outside)];
    let ports = ports.map(|(name, side)| Port { name: name.into(), side });
    let mut resources = Resources::default().with_ports(Ports::new(ports.into()));
    let function = built(rules, &mut resources);
    let mut nat = Harness::new(function, resources.scratch_words());
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
