//! Output of iptables-save, for the firewall and the translator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::reported::check_reported;
use warpline_fuzz::rules::check_imported;
use warpline_nat::RulePorts;
use warpline_nf::SourceText;
use warpline_rule_files::{Interfaces, parse_iptables};

fuzz_target!(|text: &str| {
    let source = SourceText::new("rules", text);
    for (version, tracked) in [(4, true), (6, true), (4, false)] {
        check_imported(
            &parse_iptables(&source, version, "FORWARD", tracked, &Interfaces::default()),
            &[version],
            text,
        );
    }
    let found = warpline_nat::parse_iptables(&source, &RulePorts::default());
    for reported in found.mistakes.iter().chain(found.unsupported.iter()) {
        assert!(reported.line <= text.lines().count().max(1));
    }
    check_reported(found.mistakes.iter().chain(found.unsupported.iter()), text);
});
