//! Ports of a chain: its `[[port]]` tables, and each line as a source and as a destination.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use warpline::fuzzing;
use warpline_fuzz::reported::check_reported;
use warpline_io::interface::Interface;

/// The text comes after these lines.
const HEAD: &str = "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\n";

/// A table of IPv4 routes takes long to make.
const FILES: &[(&str, &str)] = &[
    ("routes", "::/0 2001:db8::1 dev lan\n2001:db8:2::/48 2001:db8::2 dev wan\n"),
    ("lan.pcap", ""),
];

fuzz_target!(|text: &str| {
    for line in text.lines().take(8) {
        for reported in fuzzing::read_place(line) {
            assert!(!reported.trim().is_empty());
            assert!(
                !reported.contains(|c: char| c.is_control() && c != '\n' && c != '\t'),
                "{reported:?}"
            );
        }
        if let Ok(interface) = Interface::parse(line) {
            let again = Interface::parse(&interface.to_string());
            assert_eq!(again.map(|own| own.name().to_owned()), Ok(interface.name().to_owned()));
        }
    }
    let file = format!("{HEAD}{text}");
    match fuzzing::read(&file, FILES, &[], warpline_functions::FUNCTIONS) {
        Ok(chains) => chains.iter().for_each(check),
        Err(mistakes) => {
            let lines = file.lines().count() + 1;
            for mistake in mistakes.iter().filter(|mistake| &*mistake.file == "chain.toml") {
                assert!((1..=lines).contains(&mistake.line), "{mistake}");
            }
            // The text has no keys, only digits that look like one.
            check_reported(mistakes.iter(), "");
        }
    }
});

/// Each name and each interface once, and wires with two ends.
fn check(chain: &fuzzing::Chain) {
    let ports = chain.deployment.chain().ports();
    let names: BTreeSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names.len(), ports.len());
    assert!(names.iter().all(|name| (1..=128).contains(&name.len())));
    for interface in &chain.interfaces {
        assert!((1..=15).contains(&interface.name().len()), "{interface}");
    }
}
