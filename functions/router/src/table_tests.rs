//! The tables against a linear scan for the longest match, and the readers of files.

use std::net::IpAddr;

use proptest::prelude::*;

use super::routes::{Route, Routes, Target, Unsupported};
use super::*;
use warpline_nf::{Ports, SourceText};

/// Every rule is compared bit by bit; of equal prefixes the last holds.
fn scan(rules: &[(u128, u8, u16)], bits: u32, address: u128) -> u16 {
    let mut best: Option<(u8, u16)> = None;
    for &(prefix, len, hop) in rules {
        let same = (0..u32::from(len)).all(|i| {
            let bit = bits - 1 - i;
            prefix >> bit & 1 == address >> bit & 1
        });
        if same && best.is_none_or(|(longest, _)| len >= longest) {
            best = Some((len, hop));
        }
    }
    best.map_or(0, |(_, hop)| hop)
}

/// Addresses near the edges of every rule, and some anywhere.
fn probes(rules: &[(u128, u8, u16)], bits: u32, extra: &[u128]) -> Vec<u128> {
    let all = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let mut probes = vec![0, all];
    for &(prefix, len, _) in rules {
        let host = all.checked_shr(u32::from(len)).unwrap_or(0) & all;
        let first = prefix & !host;
        let last = first | host;
        probes.extend([first, last, first.wrapping_sub(1) & all, last.wrapping_add(1) & all]);
    }
    probes.extend(extra.iter().map(|&address| address & all));
    probes
}

/// Rules in a few neighbourhoods, so that they nest, of all lengths with a liking for the edges.
fn rules(bits: u32, hops: u16) -> impl Strategy<Value = Vec<(u128, u8, u16)>> {
    let edges = prop_oneof![
        4 => 0..=bits as u8,
        2 => Just(0),
        2 => Just(bits as u8),
        4 => (bits as u8 / 4 * 3 - 1)..=bits as u8,
        3 => 17u8..26,
    ];
    let near = (0u128..3, any::<u16>(), 0u32..5).prop_map(move |(place, low, shift)| {
        let spread = u128::from(low) << (shift * bits / 8);
        ((place * 0x0101_0101) << (bits - 32)) ^ spread
    });
    let all = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let rule =
        (near, edges, 1..hops).prop_map(move |(address, len, hop)| (address & all, len, hop));
    prop::collection::vec(rule, 0..40)
}

fn v4(rules: &[(u128, u8, u16)]) -> Vec<Rule4> {
    rules.iter().map(|&(address, len, hop)| (address as u32, len, hop)).collect()
}

fn same_prefix(bits: u32, a: &(u128, u8, u16), b: (u128, u8)) -> bool {
    a.1 == b.1 && (b.1 == 0 || (a.0 ^ b.0) >> (bits - u32::from(b.1)) == 0)
}

/// Inserts and removes rules one by one; after each step, probes equal the scan.
fn update<E: Entry>(steps: &[(u128, u8, u16, bool)]) {
    let mut fib = Dir24_8::<E>::new(&[]).unwrap();
    let mut kept: Vec<(u128, u8, u16)> = Vec::new();
    for &(address, len, hop, add) in steps {
        let before = kept.iter().find(|r| same_prefix(32, r, (address, len))).map(|r| r.2);
        kept.retain(|rule| !same_prefix(32, rule, (address, len)));
        if add {
            kept.push((address, len, hop));
            assert_eq!(fib.insert((address as u32, len, hop)), Ok(before));
        } else {
            assert_eq!(fib.remove(address as u32, len), before);
        }
        assert_eq!(fib.len(), kept.len());
        let mut hops = Vec::new();
        let probes: Vec<u32> =
            probes(&kept, 32, &[address]).into_iter().map(|address| address as u32).collect();
        hops.resize(probes.len(), 9999);
        fib.lookup_bulk(&probes, &mut hops);
        for (&probe, &hop) in probes.iter().zip(&hops) {
            assert_eq!(hop, scan(&kept, 32, probe.into()), "{probe:08x} after {address:08x}/{len}");
            assert_eq!(hop, fib.lookup(probe));
        }
    }
    let mut slots: Vec<u128> = kept.iter().filter(|r| r.1 > 24).map(|r| r.0 >> 8).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(fib.groups(), slots.len(), "a group for each slot with a long prefix, no more");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn dir24_8_is_the_longest_match(rules in rules(32, 40_000), extra in any::<[u32; 32]>()) {
        let extra = extra.map(u128::from);
        let (narrow, wide) = (Fib4::new(&v4(&rules)), Dir24_8::<u32>::new(&v4(&rules)).unwrap());
        let fits = rules.iter().all(|rule| rule.2 < 1 << 15);
        if fits {
            prop_assert!(matches!(narrow, Fib4::Narrow(_)));
        }
        let probes: Vec<u32> =
            probes(&rules, 32, &extra).into_iter().map(|probe| probe as u32).collect();
        let (mut a, mut b) = (vec![9; probes.len()], vec![9; probes.len()]);
        narrow.lookup_bulk(&probes, &mut a);
        wide.lookup_bulk(&probes, &mut b);
        for (i, &probe) in probes.iter().enumerate() {
            let expected = scan(&rules, 32, probe.into());
            prop_assert_eq!((a[i], b[i]), (expected, expected), "{:08x}", probe);
            prop_assert_eq!(narrow.lookup(probe), expected);
        }
    }

    #[test]
    fn dir24_8_is_updated_in_place(rules in rules(32, 30_000), picks in any::<[u8; 32]>()) {
        let mut steps: Vec<_> = rules.iter().map(|&(a, l, h)| (a, l, h, true)).collect();
        for (i, &pick) in picks.iter().enumerate() {
            if let Some(&(a, l, h)) = rules.get(usize::from(pick) % rules.len().max(1)) {
                steps.insert((i * 2).min(steps.len()), (a, l, h ^ 1, pick & 0x80 == 0));
            }
        }
        steps.extend(rules.iter().map(|&(a, l, h)| (a, l, h, false)));
        update::<u16>(&steps);
        update::<u32>(&steps);
    }

    #[test]
    fn poptrie_is_the_longest_match(rules in rules(128, 65_535), extra in any::<[u128; 32]>()) {
        let fib = Poptrie::new(&rules);
        let probes = probes(&rules, 128, &extra);
        let mut hops = vec![9; probes.len()];
        fib.lookup_bulk(&probes, &mut hops);
        for (&probe, &hop) in probes.iter().zip(&hops) {
            prop_assert_eq!(hop, scan(&rules, 128, probe), "{:032x}", probe);
            prop_assert_eq!(hop, fib.lookup(probe));
        }
    }

    #[test]
    fn readers_take_any_text(text in "([0-9a-f:./# \t\nx]|via|dev|default|nexthop|lladdr){0,60}") {
        let source = SourceText::new("f", text);
        let mut mistakes = 0;
        let (ports, mut note) = (Ports::default(), |_| mistakes += 1);
        let found = routes::read(&source, Unsupported::Error, &ports, &mut note);
        prop_assert!(found.routes.len() + mistakes <= 2 * source.text.lines().count());
        warpline_rule_files::neighbours::read(&source, &mut |_| ());
    }
}

#[test]
fn tables_grow_wide_when_an_update_needs_it() {
    let mut fib = Fib4::new(&[(0, 0, 1), (0x0a00_0001, 32, 2)]);
    assert_eq!(fib.insert((0x0a00_0000, 8, 40_000)), None);
    assert!(matches!(fib, Fib4::Wide(_)));
    assert_eq!(fib.insert((0x0a00_0000, 8, 40_001)), Some(40_000));
    let found = [0x0a00_0001, 0x0a00_0002, 0x0b00_0000].map(|address| fib.lookup(address));
    assert_eq!(found, [2, 40_001, 1]);

    // One group more than 15 bits can number.
    let rules: Vec<Rule4> = (0..=1 << 15).map(|slot| (slot << 8 | 7, 32, 3)).collect();
    assert_eq!(Dir24_8::<u16>::new(&rules).err(), Some(TooNarrow));
    let mut full = Dir24_8::<u16>::new(&rules[1..]).unwrap();
    assert_eq!(full.insert(rules[0]), Err(TooNarrow));
    assert_eq!(full.lookup(7), 0);
    full.remove(rules[9].0, 32);
    assert_eq!(full.insert(rules[0]), Ok(None), "a group that was given back is used again");
    let mut fib = Fib4::new(&rules[1..]);
    fib.insert(rules[0]);
    assert!(matches!(fib, Fib4::Wide(_)));
    assert!(rules.iter().all(|&(address, ..)| fib.lookup(address) == 3));
}

fn read(text: &str, unsupported: Unsupported) -> (Vec<String>, Vec<String>) {
    let source = SourceText::new("r", text);
    let mut reported = Vec::new();
    let found = routes::read(&source, unsupported, &Ports::default(), &mut |mistake| {
        reported.push(format!("{}:{} {}", mistake.line, mistake.column, mistake.message));
    });
    (show(&found), reported)
}

fn show(found: &Routes<'_>) -> Vec<String> {
    let one = |route: &Route| {
        let target = match found.targets[usize::from(route.hop) - 1] {
            Target::Via { address, device: None } => address.to_string(),
            Target::Via { address, device: Some(device) } => format!("{address}%{device}"),
            Target::Direct { device } => device.unwrap_or("direct").into(),
            other => format!("{other:?}"),
        };
        format!("{} {target}", route.prefix)
    };
    found.routes.iter().map(one).collect()
}

#[test]
fn route_files_are_read() {
    let text = "# mine\n\n10.0.0.0/8 192.0.2.1 # the lab\r\n2001:db8::/32\t2001:db8:f::1\n\
        10.9.0.0/16 192.0.2.9 metric 20\n10.9.0.0/16 192.0.2.2 metric 10\n\
        10.9.0.0/16 192.0.2.2 metric 10\n192.0.2.0/24 direct\nblackhole 10.66.0.0/16\n\
        10.1.2.3 ::1\n";
    let (routes, reported) = read(text, Unsupported::Error);
    assert_eq!(reported, [""; 0]);
    assert_eq!(
        routes,
        [
            "10.0.0.0/8 192.0.2.1",
            "10.1.2.3/32 ::1",
            "10.9.0.0/16 192.0.2.2",
            "10.66.0.0/16 Blackhole",
            "192.0.2.0/24 direct",
            "2001:db8::/32 2001:db8:f::1",
        ]
    );
}

const IP_ROUTE: &str = "default via 192.0.2.1 dev eth0 proto dhcp src 192.0.2.7 metric 100 \n\
    192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.7 metric 100 linkdown \n\
    10.1.0.0/16 via inet6 fe80::9 dev eth1 mtu lock 1400 \n\
    10.2.0.0/16 proto static \n\
    \tnexthop via 192.0.2.2 dev eth0 weight 1 \n\
    \tnexthop via 192.0.2.3 dev eth0 weight 1 \n\
    local 192.0.2.7 dev eth0 table local proto kernel scope host src 192.0.2.7 \n\
    10.3.0.0/16 via 192.0.2.2 dev eth0 dead linkdown \n\
    2001:db8::/64 dev eth0 proto ra metric 100 expires 86sec pref medium\n\
    fe80::/64 dev eth0 proto kernel metric 256 pref medium\n\
    fe80::/64 dev eth1 proto kernel metric 256 pref medium\n\
    unreachable 2001:db8:66::/48 dev lo metric 1024 error -101 pref medium\n\
    prohibit default dev lo metric 4294967295 error -13 pref medium\n\
    default nhid 9 via fe80::1 dev eth0 proto ra metric 100 pref high\n";

#[test]
fn output_of_ip_route_is_read() {
    let (routes, reported) = read(IP_ROUTE, Unsupported::Skip);
    assert_eq!(reported, [""; 0]);
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 192.0.2.1",
            "10.1.0.0/16 fe80::9%eth1",
            "10.2.0.0/16 Unsupported",
            "192.0.2.0/24 eth0",
            "192.0.2.7/32 Unsupported",
            "::/0 fe80::1%eth0",
            "2001:db8::/64 eth0",
            "2001:db8:66::/48 Unreachable",
        ]
    );
    let (again, reported) = read(IP_ROUTE, Unsupported::Error);
    assert_eq!(again, routes);
    assert_eq!(
        reported,
        [
            "4:1 routes of several next hops are not supported",
            "7:1 routes with `local` are not supported",
        ]
    );
}

/// The routes that a line gives with `unsupported = "skip"`.
#[test]
fn a_route_that_is_not_supported_holds_its_prefix() {
    let cases: &[(&str, &[&str])] = &[
        ("10.2.0.0/16 \n\tnexthop via 192.0.2.2 dev a weight 1 \n", &["10.2.0.0/16 Unsupported"]),
        ("10.2.0.0/16 nexthop via 192.0.2.2 nexthop via 192.0.2.3", &["10.2.0.0/16 Unsupported"]),
        ("10.2.0.0/16 proto bgp \\\tnexthop via 192.0.2.2", &["10.2.0.0/16 Unsupported"]),
        ("default proto static \n\tnexthop via 192.0.2.2 dev a", &["0.0.0.0/0 Unsupported"]),
        ("default proto static \n\tnexthop via fe80::1 dev a", &["::/0 Unsupported"]),
        ("default \n\tnexthop dev a", &["0.0.0.0/0 Unsupported", "::/0 Unsupported"]),
        ("10.2.0.0/16 tos 0x10 via 192.0.2.2 dev a", &["10.2.0.0/16 Unsupported"]),
        (
            "10.2.0.0/16  encap ip id 5 src 0.0.0.0 dst 1.2.3.4 ttl 0 tos 0 dev a scope link",
            &["10.2.0.0/16 Unsupported"],
        ),
        ("10.2.0.0/16  encap mpls  100/200 via inet 192.0.2.2 dev a", &["10.2.0.0/16 Unsupported"]),
        (
            "2001:db8::/32  encap seg6 mode encap segs 1 [ 2001:db8:9::1 ] dev a metric 7 pref \
             medium",
            &["2001:db8::/32 Unsupported"],
        ),
        ("10.2.0.0/16 nhid 5 proto static", &["10.2.0.0/16 Unsupported"]),
        ("default from 2001:db8:1::/64 via fe80::1 dev a metric 5", &["::/0 Unsupported"]),
        (
            "2001:db8::/32 from 2001:db8:1::/64 dev a metric 9\n2001:db8::/32 via fe80::1 dev a",
            &["2001:db8::/32 Unsupported"],
        ),
        ("throw 10.2.0.0/16 metric 5", &["10.2.0.0/16 Unsupported"]),
        (
            "local 10.2.0.1 dev lo table local proto kernel scope host src 10.2.0.1",
            &["10.2.0.1/32 Unsupported"],
        ),
        ("broadcast 10.2.0.255 dev a table 255 scope link", &["10.2.0.255/32 Unsupported"]),
        ("10.2.0.0/16 via 192.0.2.2 table 100", &[]),
        // Of two routes to a prefix the one that can't be done holds, but for one of a lower
        // metric.
        (
            "10.2.0.0/16 via 192.0.2.2\n10.2.0.0/16 tos 8 via 192.0.2.3 metric 9",
            &["10.2.0.0/16 Unsupported"],
        ),
        ("10.2.0.0/16 via 192.0.2.2 metric 9\nthrow 10.2.0.0/16", &["10.2.0.0/16 Unsupported"]),
        ("10.2.0.0/16 via 192.0.2.2\nthrow 10.2.0.0/16 metric 9", &["10.2.0.0/16 192.0.2.2"]),
        (
            "local 10.2.0.1 dev lo table local metric 5\n10.2.0.1 via 192.0.2.2",
            &["10.2.0.1/32 Unsupported"],
        ),
    ];
    for &(text, expected) in cases {
        let (routes, reported) = read(text, Unsupported::Skip);
        assert_eq!(
            (&routes[..], reported.len()),
            (&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..], 0),
            "{text}"
        );
        let (_, reported) = read(text, Unsupported::Error);
        assert_eq!(reported.len(), 1, "{text}: {reported:?}");
    }
}

/// The kernel has its routes already: none keeps the others from being taken up.
#[test]
fn routes_of_the_kernel_are_never_mistakes() {
    let text = "10.1.0.0/16 via 192.0.2.1\n10.1.0.0/16 via 192.0.2.2\n10.2.0.0/16\n\
        10.3.0.0/16 via 192.0.2.1 colour red\nblackhole 10.4.0.0/16 via x\nten\n\
        10.5.0.0/16 via 192.0.2.2\n";
    let expected = [
        "10.1.0.0/16 192.0.2.1",
        "10.2.0.0/16 Unsupported",
        "10.3.0.0/16 Unsupported",
        "10.4.0.0/16 Unsupported",
        "10.5.0.0/16 192.0.2.2",
    ];
    let (routes, reported) = read(text, Unsupported::Kernel);
    assert_eq!(
        (&routes[..], reported.len()),
        (&expected.map(str::to_owned)[..], 0),
        "{reported:?}"
    );
    let (_, reported) = read(text, Unsupported::Skip);
    assert_eq!(reported.len(), 5, "{reported:?}");
}

#[test]
fn every_mistake_of_a_route_file_is_reported() {
    let text = "10.0.0.1/8 192.0.2.1\n10.0.0.0/33 192.0.2.1\n10.0.0.0/8\nten 192.0.2.1\n\
        10.0.0.0/8 192.0.2.300\n  10.0.0.0/8 via\n10.0.0.0/8 via x\n10.0.0.0/8 192.0.2.1 metric \
        -1\n\
        10.0.0.0/8 192.0.2.1 colour red\nblackhole\n\u{fc}\u{fc} \u{fc}\n10.0.0.0/8 encap mpls 3\n\
        nexthop via 192.0.2.1\n10.5.0.0/16 192.0.2.1\n10.5.0.0/16 192.0.2.2\n";
    let (routes, reported) = read(text, Unsupported::Error);
    assert_eq!(routes, ["10.0.0.0/8 Unsupported", "10.5.0.0/16 192.0.2.1"]);
    assert_eq!(
        reported,
        [
            "1:1 `10.0.0.1/8`: address has bits set after the prefix length",
            "2:1 `10.0.0.0/33`: prefix length out of range",
            "3:1 10.0.0.0/8 has no next hop",
            "4:1 `ten`: not an IPv4 or IPv6 address",
            "5:12 `192.0.2.300`: invalid IP address syntax",
            "6:14 `via` lacks its value",
            "7:16 `x`: invalid IP address syntax",
            "8:29 `-1`: invalid digit found in string",
            "9:22 `colour` is not a word of a route",
            "10:1 `blackhole` needs a prefix",
            "11:1 `\u{fc}\u{fc}`: not an IPv4 or IPv6 address",
            "12:12 routes with `encap` are not supported",
            "13:1 `nexthop`: not an IPv4 or IPv6 address",
            "15:1 10.5.0.0/16 has another next hop in line 14",
        ]
    );
}

#[test]
fn next_hops_are_bounded() {
    let lines: String = (0..=routes::HOPS_MAX)
        .map(|i| format!("10.0.{}.{} ::1:{i:x}\n", i >> 8 & 255, i & 255))
        .collect();
    let (routes, reported) = read(&lines, Unsupported::Error);
    assert_eq!(routes.len(), routes::HOPS_MAX);
    assert_eq!(reported, ["65528:1 more than 65527 next hops"]);
}

#[test]
fn neighbour_files_are_read() {
    let text = "# x\n192.0.2.1 02:00:00:00:00:01\n192.0.2.2 dev eth0 lladdr 2:0:0:0:0:2 REACHABLE\n\
        192.0.2.3 dev eth0  FAILED\nfe80::1 dev eth0 lladdr 02:00:00:00:00:03 router STALE\n\
        fe80::1 dev eth1 lladdr 02:00:00:00:00:04 STALE\n192.0.2.1 02:00:00:00:00:09\n\
        x 02:00:00:00:00:09\n192.0.2.8\n192.0.2.8 02:00:00:00:00\n192.0.2.8 01:00:00:00:00:01\n\
        192.0.2.8 02:00:00:00:00:08 what\n192.0.2.8 02:00:00:00:00:08:09\n\
        192.0.2.8 +2:00:00:00:00:08\n";
    let source = SourceText::new("n", text);
    let mut reported = Vec::new();
    let found = warpline_rule_files::neighbours::read(&source, &mut |mistake| {
        reported.push(format!("{}:{} {}", mistake.line, mistake.column, mistake.message));
    });
    let mac = |address: &str, device| {
        found.mac(address.parse::<IpAddr>().unwrap(), device).map(|mac: Mac| mac.0[5])
    };
    assert_eq!(mac("192.0.2.1", None), Some(1));
    assert_eq!(mac("192.0.2.2", Some("eth9")), Some(2));
    assert_eq!(mac("192.0.2.3", None), None);
    assert_eq!(mac("fe80::1", Some("eth0")), Some(3));
    assert_eq!(mac("fe80::1", Some("eth1")), Some(4));
    assert_eq!(mac("fe80::1", Some("eth2")), None);
    let form = "not an Ethernet address such as 02:00:00:00:00:01";
    assert_eq!(
        reported,
        [
            "7:1 192.0.2.1 has another Ethernet address in line 2".to_string(),
            "8:1 `x` is not an IPv4 or IPv6 address".into(),
            "9:1 192.0.2.8 has no Ethernet address".into(),
            format!("10:11 `02:00:00:00:00`: {form}"),
            "11:11 `01:00:00:00:00:01`: the Ethernet address of a group".into(),
            "12:29 `what` is not a word of a neighbour".into(),
            format!("13:11 `02:00:00:00:00:08:09`: {form}"),
            format!("14:11 `+2:00:00:00:00:08`: {form}"),
        ]
    );
}
