use std::net::IpAddr;

use proptest::prelude::*;
use warpline_packet::Prefix;

use super::*;

fn functions(names: &[&str]) -> Vec<RoutedFunction> {
    let one = |name: &&str| RoutedFunction { name: (*name).into(), ..RoutedFunction::default() };
    names.iter().map(one).collect()
}

fn prefix(text: &str) -> Option<Prefix> {
    (!text.is_empty()).then(|| text.parse().expect("a prefix"))
}

/// `in` is ingress and `out` egress; a number is a function.
fn route((from, destination, to): (&str, &str, &str)) -> Route {
    let from = match from {
        "in" => From::Ingress(None),
        port if port.starts_with('p') => From::Ingress(port[1..].parse().ok()),
        function => From::Function(function.parse().expect("a position")),
    };
    let to = match to {
        "out" => To::Egress,
        function => To::Function(function.parse().expect("a position")),
    };
    Route { from, destination: prefix(destination), to }
}

fn routes(all: &[(&str, &str, &str)]) -> Vec<Route> {
    all.iter().copied().map(route).collect()
}

fn v4(text: &str) -> Destination {
    match text.parse().expect("an address") {
        IpAddr::V4(address) => Destination::V4(address.to_bits()),
        IpAddr::V6(address) => Destination::V6(address.to_bits()),
    }
}

const SIMMER: [(&str, &str, &str); 6] = [
    ("in", "10.1.0.0/16", "0"),
    ("in", "10.2.0.0/16", "1"),
    ("0", "", "1"),
    ("1", "", "2"),
    ("2", "10.0.0.0/8", "out"),
    ("2", "2001:db8::/32", "out"),
];

#[test]
fn the_papers_two_chains_share_functions() {
    let routes = Routes::new(&functions(&["a", "b", "c"]), 0, &routes(&SIMMER)).expect("fine");
    let entry = |destination| routes.ingress(0).find(destination);
    assert_eq!(entry(v4("10.1.2.3")).to, Some(To::Function(0)));
    assert_eq!(entry(v4("10.2.2.3")).to, Some(To::Function(1)));
    assert_eq!(entry(v4("10.3.2.3")).to, None);
    assert_eq!(entry(v4("2001:db8::1")).to, None);
    assert_eq!(entry(Destination::None).to, None);
    assert_eq!([0, 1].map(|at| routes.exit(at).is_some()), [false, false]);
    let last = routes.exit(2).expect("routes that leave some out");
    let ends = ["10.9.9.9", "2001:db8::1", "11.0.0.0"].map(|to| last.find(v4(to)).to);
    assert_eq!(ends, [Some(To::Egress), Some(To::Egress), None]);
    assert_eq!([0, 1, 2].map(|at| routes.is_join(at)), [false, true, false]);
}

#[test]
fn mistakes_are_named_with_their_routes() {
    let names = ["a", "b", "c"];
    let straight = [("in", "", "0"), ("0", "", "1"), ("1", "", "2"), ("2", "", "out")];
    let all_in = ["lan", "wan"].len();
    for (added, ports, expected) in [
        (vec![("2", "10.0.0.0/8", "1")], 0, "routes form a loop: b -> c -> b"),
        (vec![("1", "10.0.0.0/8", "1")], 0, "routes form a loop: b -> b"),
        (vec![("1", "", "out")], 0, "a second route with the same `from` and `destination`"),
        (vec![("in", "10.0.0.0/8", "out")], 0, ""),
        (vec![("in", "10.0.0.0/8", "2")], all_in, ""),
    ] {
        let all = routes(&[&straight[..], &added].concat());
        let found = Routes::new(&functions(&names), ports, &all);
        let texts: Vec<String> = match &found {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(|error| error.mistake.to_string()).collect(),
        };
        let expected: Vec<&str> = Some(expected).into_iter().filter(|e| !e.is_empty()).collect();
        assert_eq!(texts, expected, "{added:?}");
        if let Err(errors) = found {
            assert_eq!(errors[0].routes[0], 4, "{added:?}");
        }
    }
    for (all, ports, expected) in [
        (vec![("0", "", "1")], 0, vec!["no route begins at \"ingress\""]),
        (vec![("in", "", "0"), ("0", "", "1")], 0, vec!["no route leads on from `b`"]),
        (vec![("in", "", "0"), ("0", "", "out")], 0, vec!["no route leads to `b`"]),
        (vec![("in", "", "1"), ("1", "", "out"), ("0", "", "1")], 0, vec!["no route leads to `a`"]),
        (
            vec![("p0", "", "0"), ("0", "", "1"), ("1", "", "out")],
            2,
            vec!["no route begins at \"ingress\" for port number 1"],
        ),
        // From `a` no packet has this destination.
        (
            vec![("in", "10.1.0.0/16", "0"), ("0", "10.2.0.0/16", "1"), ("0", "", "out")],
            0,
            vec!["no route leads to `b`"],
        ),
        (
            vec![("0", "", "out"), ("1", "", "0"), ("in", "", "1")],
            0,
            vec!["`a` comes before `b` in `functions`; routes go forward only"],
        ),
    ] {
        let errors = Routes::new(&functions(&["a", "b"]), ports, &routes(&all)).expect_err("bad");
        let texts: Vec<String> = errors.iter().map(|error| error.mistake.to_string()).collect();
        assert_eq!(texts, expected, "{all:?}");
    }
}

#[test]
fn a_path_has_both_places_or_neither() {
    let mut all = functions(&["nat:1", "firewall", "nat:2"]);
    all[0].second_place = Some(2);
    let half = |routed: &[(&str, &str, &str)], changes: bool| {
        let mut all = all.clone();
        all[0].changes_destination = changes;
        match Routes::new(&all, 0, &routes(routed)) {
            Ok(_) => String::new(),
            Err(errors) => errors[0].mistake.to_string(),
        }
    };
    let ends = [("1", "10.0.0.0/8", "2"), ("1", "", "out"), ("2", "", "out")];
    let only_ten = [&[("in", "10.0.0.0/8", "0"), ("in", "", "1"), ("0", "", "1")][..], &ends];
    // The firewall's route past the second place is for destinations that skip the first.
    let refused = "packets pass `nat:2` and not `nat:1`: a path has both places or neither";
    assert_eq!(half(&only_ten.concat(), false), refused, "10/8 enters at the firewall by no route");
    let by_prefix = [
        ("in", "10.0.0.0/8", "0"),
        ("in", "11.0.0.0/8", "1"),
        ("0", "", "1"),
        ("1", "10.0.0.0/8", "2"),
        ("1", "11.0.0.0/8", "out"),
        ("2", "", "out"),
    ];
    assert_eq!(half(&by_prefix, false), "");
    let refused = "packets pass `nat:1` and not `nat:2`: a path has both places or neither";
    assert_eq!(half(&by_prefix, true), refused);
}

#[test]
fn too_many_paths_are_refused() {
    let names: Vec<String> = (0..20).map(|at| format!("f{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut all = vec![("in".to_owned(), String::new(), "0".to_owned())];
    for at in 0..20u32 {
        for (block, skip) in [("", 1), ("10.0.0.0/8", 2)] {
            let to = if at + skip < 20 { (at + skip).to_string() } else { "out".into() };
            all.push((at.to_string(), block.to_owned(), to));
        }
    }
    let few = |count: usize| -> Vec<Route> {
        let last = (20 - count).to_string();
        all.iter()
            .filter(|(from, _, _)| {
                from != "in" && from.parse::<usize>().expect("one") >= 20 - count
            })
            .map(|(from, block, to)| route((from, block, to)))
            .chain([route(("in", "", &last))])
            .chain(
                (0..20 - count)
                    .map(|at| route(("in", &format!("10.{at}.0.0/16"), &at.to_string()))),
            )
            .chain((0..20 - count).map(|at| route((&at.to_string(), "", "out"))))
            .collect()
    };
    assert!(Routes::new(&functions(&names), 0, &few(12)).is_ok());
    let errors = Routes::new(&functions(&names), 0, &few(20)).map(|_| ());
    assert!(errors.is_ok(), "Fibonacci's 20th number is small: {errors:?}");
    let dense: Vec<Route> = (0..18u8)
        .flat_map(|from| {
            let to = move |to: u8| Route {
                from: From::Function(from),
                destination: Prefix::new(IpAddr::from([10, to, 0, 0]), 16),
                to: if to < 18 { To::Function(to) } else { To::Egress },
            };
            (from + 1..=18).map(to)
        })
        .chain([route(("in", "", "0"))])
        .collect();
    let errors = Routes::new(&functions(&names[..18]), 0, &dense).expect_err("many");
    assert!(matches!(errors[0].mistake, RouteMistake::TooManyPaths(_)), "{errors:?}");
}

/// Routes between `count` functions and their names. Each place has one for all packets, so no
/// packet is dropped, and its other routes overlap.
fn any_routes() -> impl Strategy<Value = (usize, Vec<Route>)> {
    let block = (0..4u8, 8..=32u8, any::<bool>());
    let own = proptest::collection::vec((block, any::<prop::sample::Index>()), 0..5);
    (1..7usize)
        .prop_flat_map(move |count| {
            let each = (own.clone(), any::<prop::sample::Index>());
            (Just(count), proptest::collection::vec(each, count + 1))
        })
        .prop_map(|(count, places)| {
            let mut routes = Vec::new();
            for (place, (own, rest)) in places.into_iter().enumerate() {
                let from = match place {
                    0 => From::Ingress(None),
                    _ => From::Function(place as u8 - 1),
                };
                let to = |index: prop::sample::Index| match place + index.index(count + 1 - place) {
                    end if end == count => To::Egress,
                    next => To::Function(next as u8),
                };
                let mut seen = std::collections::BTreeSet::new();
                for ((net, len, is_v6), index) in own {
                    let address = match is_v6 {
                        true => IpAddr::from([0x2001, 0xdb8, u16::from(net), 0, 0, 0, 0, 0]),
                        false => IpAddr::from([10, net, net, net]),
                    };
                    let destination = Prefix::new(address, len);
                    if seen.insert(destination) {
                        routes.push(Route { from, destination, to: to(index) });
                    }
                }
                routes.push(Route { from, destination: None, to: to(rest) });
            }
            (count, routes)
        })
}

/// The longest prefix, one by one.
fn longest(routes: &[Route], from: From, address: Option<IpAddr>) -> Option<To> {
    let holds = |route: &&Route| match (route.destination, address) {
        (None, _) => true,
        (Some(prefix), Some(address)) => prefix.contains(address),
        (Some(_), None) => false,
    };
    let own = routes.iter().filter(|route| route.from == from).filter(holds);
    own.max_by_key(|route| route.destination.map_or(-1, |prefix| i16::from(prefix.len())))
        .map(|r| r.to)
}

/// All ways from a place to egress.
fn ways(routes: &[Route], from: From) -> std::collections::BTreeSet<Vec<u8>> {
    let mut all = std::collections::BTreeSet::new();
    for route in routes.iter().filter(|route| route.from == from) {
        match route.to {
            To::Egress => _ = all.insert(Vec::new()),
            To::Function(next) => {
                for rest in ways(routes, From::Function(next)) {
                    all.insert([&[next][..], &rest].concat());
                }
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn look_ups_find_the_longest_prefix_and_paths_have_their_number(
        (count, all) in any_routes(),
        addresses in proptest::collection::vec((any::<bool>(), 0..5u8, any::<u8>()), 40),
    ) {
        let names: Vec<String> = (0..count).map(|at| format!("f{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let built = match Routes::new(&functions(&names), 0, &all) {
            Ok(built) => built,
            Err(errors) => {
                let unreachable =
                    errors.iter().all(|e| matches!(e.mistake, RouteMistake::Unreachable(_)));
                prop_assert!(unreachable, "{errors:?}");
                return Ok(());
            }
        };
        for (is_v6, net, low) in addresses {
            let address = match is_v6 {
                true => IpAddr::from([0x2001, 0xdb8, u16::from(net), 0, 0, 0, 0, u16::from(low)]),
                false => IpAddr::from([10, net, if low > 128 { net } else { low }, net]),
            };
            for address in [Some(address), None] {
                let destination = match address {
                    Some(IpAddr::V4(address)) => Destination::V4(address.to_bits()),
                    Some(IpAddr::V6(address)) => Destination::V6(address.to_bits()),
                    None => Destination::None,
                };
                let (mut at, mut path, mut passed) = (From::Ingress(None), 0, Vec::new());
                loop {
                    let expected = longest(&all, at, address);
                    let entry = match at {
                        From::Ingress(_) => built.ingress(0).find(destination),
                        From::Function(own) => match built.exit(own) {
                            Some(exit) => exit.find(destination),
                            None => RouteEntry { to: Some(next_of(own, count as u8)), step: 0 },
                        },
                    };
                    prop_assert_eq!(entry.to, expected);
                    path += entry.step;
                    match expected {
                        Some(To::Function(next)) => {
                            passed.push(next);
                            at = From::Function(next);
                        }
                        _ => break,
                    }
                }
                prop_assert_eq!(built.functions(path), passed);
            }
        }
        let from_ingress = ways(&all, From::Ingress(None));
        let mut number = 0;
        for path in 0..from_ingress.len() as u32 {
            prop_assert!(from_ingress.contains(&built.functions(path)));
            number += 1;
        }
        for at in 0..count as u8 {
            prop_assert_eq!(built.start(at), number);
            let own = ways(&all, From::Function(at));
            for path in number..number + own.len() as u32 {
                let functions = built.functions(path);
                prop_assert_eq!(functions[0], at);
                prop_assert!(own.contains(&functions[1..]));
            }
            number += own.len() as u32;
        }
        prop_assert_eq!(built.paths(), number as usize);
    }
}
