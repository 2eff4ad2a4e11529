//! Policies at two places: which packets may go from peer to peer, and what is remarked.

use std::net::{IpAddr, Ipv4Addr};

use warpline_packet::{LinkType, Prefix, StateKey, Verdict};

use super::super::DEFINITION;
use super::super::cipher::cases::{self, Suite};
use super::super::cipher::{Auth, Cipher};
use super::super::forwarding::Forwarding;
use super::super::sa::{Action, Database, Direction, Policy, Selector};
use super::super::traffic::ANY_PORT;
use super::gateway::{CBC, Files, GCM, SaText, on_link, reason, send, udp};
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Growth, Resources, Section, SourceText};
use warpline_verify::{Harness, build_pair};

const HERE: &str = "192.0.2.1";
const PEERS: [&str; 2] = ["198.51.100.1", "198.51.100.2"];

/// SAs "out-0" and "in-0" with the first peer, and the same with the second; `more` are lines of
/// those of direction `in`.
fn sas(more: [&str; 2]) -> String {
    let mut text = String::new();
    for (number, peer) in PEERS.into_iter().enumerate() {
        let number_text = number.to_string();
        let sa = |direction: &str, spi, peers, more: &str| {
            let name = format!("{direction}-{number_text}");
            SaText { name, spi, peers, more: more.into(), ..SaText::new(CBC) }.text(direction)
        };
        text += &sa("out", 0x1001 + number as u32, [HERE, peer], "");
        text += &sa("in", 0x2001 + number as u32, [peer, HERE], more[number]);
    }
    text
}

fn policies(all: &[(&str, &str, usize)]) -> String {
    let one = |(src, dst, peer): &(&str, &str, usize)| {
        format!("[[policy]]\nsrc = '{src}'\ndst = '{dst}'\naction = 'protect'\nsa = 'out-{peer}'\n")
    };
    all.iter().map(one).collect()
}

/// Whether all places have one shard, and what is remarked.
fn built(files: &Files, places: usize) -> (bool, String) {
    let source = SourceText::new("c.toml", "sas = 'sas.toml'\npolicies = 'policies.toml'\n");
    let parsed = toml::de::DeTable::parse(&source.text).unwrap();
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let (mut mistakes, mut resources) = (Diagnostics::default(), Resources::default());
    let folder = Folder::Disk(&files.0);
    let mut section = Section::new(vec![layer], "ipsec", folder, &mut mistakes);
    let functions: Vec<_> = match places {
        1 => (DEFINITION.build)(&mut section, &mut resources).into_iter().collect(),
        _ => DEFINITION.build_pair.unwrap()(&mut section, &mut resources).unwrap().into(),
    };
    let whole: Vec<bool> = functions.iter().map(|one| one.state_key() == StateKey::Whole).collect();
    assert!(whole.len() == places && whole.iter().all(|is| *is == whole[0]));
    (whole[0], resources.remarks().to_string())
}

#[test]
fn policies_between_peers_take_one_shard() {
    let none = ["", ""];
    let selecting =
        |src: &str, dst: &str| format!("selectors = [{{ src = '{src}', dst = '{dst}' }}]\n");
    let from_0 = selecting("10.2.0.0/16", "10.1.0.0/16");
    let from_0_to_1 = selecting("10.2.0.0/16", "10.3.0.0/16");
    let from_1 = selecting("10.3.0.0/16", "0.0.0.0/0");
    let spokes = [("10.1.0.0/16", "10.2.0.0/16", 0), ("10.1.0.0/16", "10.3.0.0/16", 1)];
    let hub = [("10.0.0.0/8", "10.2.0.0/16", 0), ("10.0.0.0/8", "10.3.0.0/16", 1)];
    let one_way = [("10.2.0.0/16", "10.3.0.0/16", 1)];
    let all = [("0.0.0.0/0", "0.0.0.0/0", 0)];
    let v6 = [("10.1.0.0/16", "10.2.0.0/16", 0), ("::/0", "fd03::/16", 1)];
    // Both peers lead to 10.2.9.0/24: answers to packets from one may leave to the other.
    let uneven = [("10.1.0.0/16", "10.2.9.0/24", 1), ("10.1.0.0/16", "10.2.0.0/16", 0)];
    type Case<'a> = (&'a [(&'a str, &'a str, usize)], [&'a str; 2], bool, &'a str);
    let cases: &[Case<'_>] = &[
        (&spokes, none, false, ""),
        (&spokes, [&from_0, &from_1], false, ""),
        (&hub, none, true, "\"in-0\" on by SA \"out-1\""),
        (&hub, [&from_0, &from_1], true, "\"in-1\" on by SA \"out-0\""),
        (&hub, [&from_0_to_1, &from_1], true, "\"in-0\" on by SA \"out-1\""),
        (&one_way, [&from_0_to_1, &from_0_to_1], true, "\"in-0\" on by SA \"out-1\""),
        (&one_way, [&from_0, &from_0], false, ""),
        // Nothing says where packets of the second come from.
        (&all, none, true, "\"in-1\" on by SA \"out-0\""),
        (&all, [&from_0, &from_0], true, "\"in-1\" on by SA \"out-0\""),
        (&v6, [&from_0, "selectors = [{ src = 'fd03::/16', dst = 'fd01::/16' }]\n"], false, ""),
        (&uneven, none, true, "\"in-0\" on by SA \"out-1\""),
    ];
    for (rules, more, is_whole, remark) in cases {
        let files = Files::new();
        files.write("sas.toml", &sas(*more));
        files.write("policies.toml", &policies(rules));
        let (whole, remarks) = built(&files, 2);
        assert_eq!(
            (whole, remarks.contains("one lane")),
            (*is_whole, *is_whole),
            "{rules:?} {more:?} {remarks}"
        );
        assert!(remarks.contains(remark), "{rules:?} {more:?} {remarks}");
        let (whole, remarks) = built(&files, 1);
        assert!(!whole && !remarks.contains("the policies may send"), "{remarks}");
    }
}

#[test]
fn policies_that_send_packets_back_are_remarked_on() {
    for (src, is_back) in [("0.0.0.0/0", true), ("10.2.0.0/24", true), ("10.1.0.0/16", false)] {
        let files = Files::new();
        files.write("sas.toml", &sas(["", ""]));
        files.write(
            "policies.toml",
            &policies(&[(src, "10.2.0.0/16", 0), ("10.1.0.0/16", "10.3.0.0/16", 1)]),
        );
        let (_, remarks) = built(&files, 2);
        let is = remarks.contains("packets of SA \"in-0\" back to their peer by SA \"out-0\"");
        assert_eq!(is, is_back, "{src}: {remarks}");
    }
}

/// The search by addresses finds what a look at every pair finds.
#[test]
fn forwarding_is_found_as_by_looking_at_every_pair() {
    let mut state = 0x1234_5678_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut between, mut back) = (0, 0);
    for round in 0..400 {
        let suite = Suite { cipher: Cipher::Null, key_len: 0, auth: Auth::None, esn: false };
        let mut prefix = || {
            let len = [0, 3, 6, 6, 8, 8, 12, 12][random(16).min(7) as usize];
            let address = Ipv4Addr::from_bits((random(16) as u32) << 26);
            Prefix::new(address.into(), len).unwrap()
        };
        let selector = |prefix: &mut dyn FnMut() -> Prefix| Selector {
            src: prefix(),
            dst: prefix(),
            protocol: None,
            src_ports: ANY_PORT,
            dst_ports: ANY_PORT,
        };
        let mut sas = Vec::new();
        for number in 0..3u8 {
            let peer: IpAddr = [198, 51, 100, number].into();
            for direction in [Direction::In, Direction::Out] {
                let mut sa = cases::sa(suite, direction, &[], &[]);
                (sa.src, sa.dst) = match direction {
                    Direction::In => (peer, [192, 0, 2, 1].into()),
                    Direction::Out => ([192, 0, 2, 1].into(), peer),
                };
                if direction == Direction::In {
                    sa.selectors = vec![selector(&mut prefix), selector(&mut prefix)];
                }
                sas.push(sa);
            }
        }
        let policies: Vec<Policy> = (0..3)
            .map(|number: usize| Policy {
                selector: selector(&mut prefix),
                action: Action::Protect(2 * number + 1),
            })
            .collect();
        let meet = |a: &Selector, b: &Selector| {
            let both = |a: Prefix, b: Prefix| {
                let ((a, b), (c, d)) = (a.bounds(), b.bounds());
                a <= d && c <= b
            };
            both(a.src, b.src) && both(a.dst, b.dst)
        };
        let (mut is_between, mut is_back) = (false, false);
        for (sa, policy) in (0..3).flat_map(|sa| (0..3).map(move |policy| (sa, policy))) {
            for own in &sas[2 * sa].selectors {
                let answer = Selector { src: own.dst, dst: own.src, ..own.clone() };
                let own = meet(own, &policies[policy].selector);
                let any = own || meet(&answer, &policies[policy].selector);
                is_between |= sa != policy && any;
                is_back |= sa == policy && own;
            }
        }
        let found = Forwarding::of(&Database { sas, policies, ..Database::default() });
        assert_eq!(found.between_peers.is_some(), is_between, "{round}");
        assert!(is_between || found.back.is_some() == is_back, "{round}");
        between += usize::from(is_between);
        back += usize::from(!is_between && is_back);
    }
    assert!((50..350).contains(&between) && back > 10, "{between} {back}");
}

/// One file of numbers, at the place that seals; each place has its own counters.
#[test]
fn each_place_has_its_own_part() {
    let files = Files::new();
    let inward = SaText {
        name: "two".into(),
        spi: 0x2002,
        peers: ["198.51.100.1", HERE],
        ..SaText::new(GCM)
    };
    files.write("sas.toml", &(SaText::new(GCM).text("out") + &inward.text("in")));
    let rule =
        "[[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.0.0/16'\naction = 'protect'\nsa = 'one'\n";
    files.write("policies.toml", rule);
    let [mut first, mut second] = files.places("icmp = 'on'\nicmp_src_v4 = '192.0.2.1'");
    let keeps = |harness: &Harness| harness.function().keeps().len();
    assert_eq!((keeps(&first), keeps(&second)), (0, 1));
    let names = |harness: &Harness| harness.counters().into_keys().collect::<Vec<_>>();
    let (of_first, of_second) = (names(&first), names(&second));
    assert!(of_first.contains(&"opened") && of_second.contains(&"sealed"));
    assert!(of_second.contains(&"icmp-sent"));
    assert!(of_first.iter().all(|name| !of_second.contains(name)), "{of_first:?} {of_second:?}");
    assert_eq!(first.function().growth(), Growth::NONE);
    assert_eq!(second.function().tables().len(), 0);
    let outbound = on_link(LinkType::RAW, &udp("10.1.0.1", "10.2.0.1", [1, 2], 40));
    let passed = send(&mut first, &outbound);
    assert_eq!((passed.verdict, &passed.bytes), (Verdict::Forward, &outbound.bytes));
    assert_eq!(reason(&send(&mut second, &outbound)), "forward");
    assert_eq!((second.counter("sealed"), first.counter("opened")), (1, 0));
    // A reload keeps numbers, though both places share one table.
    let table = files.table("icmp = 'on'\nicmp_src_v4 = '192.0.2.1'\ndefault = 'bypass'");
    let ([new_first, new_second], _) = build_pair(&DEFINITION, &table, &files.0);
    assert!(new_second.succeeds(first.function()).is_err(), "it is another place");
    first.reload(new_first).unwrap();
    second.reload(new_second).unwrap();
    let sealed = send(&mut second, &outbound);
    assert_eq!(sealed.bytes[20 + 4..20 + 8], [0, 0, 0, 2]);
}
