//! Route files of both forms, and the forwarding tables made of them against a search of the list.

#![no_main]

use std::cell::RefCell;
use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::in_prefix;
use warpline_fuzz::reported::check_reported;
use warpline_nf::{Ports, SourceText};
use warpline_router::routes::{Route, Unsupported, read};
use warpline_router::{Fib4, Poptrie, Rule4, Rule6};

thread_local! {
    /// Made once: it is 32 MiB, and every input leaves it empty.
    static FIB: RefCell<Fib4> = RefCell::new(Fib4::new(&[]));
}

fuzz_target!(|text: &str| {
    let source = SourceText::new("routes", text);
    let lines = text.lines().count();
    for unsupported in [Unsupported::Error, Unsupported::Skip] {
        let found = read(&source, unsupported, &Ports::default(), &mut |mistake| {
            assert!(mistake.line >= 1 && mistake.line <= lines);
            check_reported([&mistake], text);
        });
        assert!(found.routes.len() <= lines);
        for pair in found.routes.windows(2) {
            assert!(pair[0].prefix != pair[1].prefix, "one route a prefix");
        }
        for route in &found.routes {
            assert!(route.hop >= 1 && usize::from(route.hop) <= found.targets.len());
        }
        if unsupported == Unsupported::Skip {
            look_up(&found.routes);
        }
    }
});

/// The longest prefix that holds `address`, by looking at all of them.
fn longest(routes: &[Route], address: IpAddr) -> u16 {
    let holds = |route: &&Route| in_prefix(address, route.prefix.address(), route.prefix.len());
    routes.iter().filter(holds).max_by_key(|route| route.prefix.len()).map_or(0, |route| route.hop)
}

fn look_up(routes: &[Route]) {
    let (mut v4, mut v6): (Vec<Rule4>, Vec<Rule6>) = (Vec::new(), Vec::new());
    for route in routes {
        match route.prefix.address() {
            IpAddr::V4(a) => v4.push((a.to_bits(), route.prefix.len(), route.hop)),
            IpAddr::V6(a) => v6.push((a.to_bits(), route.prefix.len(), route.hop)),
        }
    }
    // Short prefixes fill a large part of the table, which takes too long to do often.
    let long: Vec<Route> = routes
        .iter()
        .copied()
        .filter(|r| r.prefix.address().is_ipv4() && r.prefix.len() >= 12)
        .collect();
    v4.retain(|rule| rule.1 >= 12);
    FIB.with_borrow_mut(|fib| check_v4(fib, &v4, &long));
    if !v6.is_empty() && v6.iter().filter(|rule| rule.1 < 12).count() <= 2 {
        check_v6(&v6, routes);
    }
}

/// Routes after whose end the others are looked at.
const LOOKED_AT: usize = 16;

fn check_v4(fib: &mut Fib4, rules: &[Rule4], routes: &[Route]) {
    for &rule in rules {
        assert_eq!(fib.insert(rule), None, "no prefix is there twice");
    }
    for &(address, len, _) in rules {
        let last = address | (u64::from(u32::MAX) >> len) as u32;
        for probe in [address, last, address.wrapping_sub(1), last.wrapping_add(1), address ^ 1] {
            assert_eq!(fib.lookup(probe), longest(routes, IpAddr::V4(probe.into())));
        }
    }
    for (gone, &(address, len, hop)) in (1..).zip(rules) {
        assert_eq!(fib.remove(address, len), Some(hop));
        assert_eq!(fib.remove(address, len), None);
        // Looking at all that is left, for each, takes long where there are many.
        for &(probe, ..) in rules.iter().filter(|_| gone <= LOOKED_AT) {
            assert_eq!(fib.lookup(probe), longest(&routes[gone..], IpAddr::V4(probe.into())));
        }
    }
    for &(address, ..) in rules {
        assert_eq!(fib.lookup(address), 0, "nothing is left");
    }
}

fn check_v6(rules: &[Rule6], routes: &[Route]) {
    let trie = Poptrie::new(rules);
    assert_eq!(trie.len(), rules.len());
    for &(address, len, _) in rules {
        let last = address | u128::MAX.checked_shr(len.into()).unwrap_or(0);
        for probe in [address, last, address.wrapping_sub(1), last.wrapping_add(1), address ^ 1] {
            assert_eq!(trie.lookup(probe), longest(routes, IpAddr::V6(probe.into())));
        }
    }
}
