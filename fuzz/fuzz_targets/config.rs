//! Tables of functions: the first line is the function's name, the rest its table. Files that it
//! may name are given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_functions::{FUNCTIONS, definition};
use warpline_fuzz::functions::try_build;
use warpline_fuzz::reported::check_reported;

const FILES: &[(&str, &str)] = &[
    ("rules", "accept tcp to any port 80\naccept established\n"),
    ("filters", "@192.0.2.0/24 10.0.0.0/8 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n"),
    ("routes", "10.0.0.0/8 192.0.2.1\n::/0 2001:db8::1\n"),
    ("ip-route", "default via 192.0.2.1 dev eth0 metric 100\n10.0.0.0/8 nexthop via 1.1.1.1\n"),
    ("neighbours", "192.0.2.1 02:00:00:00:00:01\n"),
    ("services", "vip 192.0.2.9 tcp 80\nbackend 10.0.0.1\nvip ::9 udp 53\nbackend ::1\n"),
    ("macs", "vip 192.0.2.9 tcp 80\nbackend 10.0.0.1 mac 02:00:00:00:00:01\n"),
    ("wrong", "drop everything\n"),
];

fuzz_target!(|text: &str| {
    let Some((name, table)) = text.split_once('\n') else { return };
    // An unknown name selects some function all the same.
    let definition = definition(name).unwrap_or(&FUNCTIONS[name.len() % FUNCTIONS.len()]);
    match try_build(definition, table, FILES) {
        None => {}
        Some(Ok((function, words))) => {
            let access = function.access();
            assert!(words <= warpline_packet::SCRATCH_WORDS);
            assert!((0.0..=1.0).contains(&access.flagged_share));
            let _ = (function.state_key(), function.growth(), function.emits(), function.tick());
        }
        Some(Err(mistakes)) => {
            let lines = table.lines().count().max(1);
            for mistake in mistakes.iter().filter(|mistake| &*mistake.file == "chain.toml") {
                assert!(mistake.line >= 1 && mistake.line <= lines + 1);
            }
            check_reported(mistakes.iter(), text);
        }
    }
});
