//! Output of `nft -j list ruleset`, for the firewall and the translator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::reported::check_reported;
use warpline_fuzz::rules::check_imported;
use warpline_nat::RulePorts;
use warpline_nf::SourceText;
use warpline_rule_files::{Interfaces, parse_nft};

fuzz_target!(|text: &str| {
    let source = SourceText::new("rules", text);
    for tracked in [true, false] {
        check_imported(&parse_nft(&source, None, tracked, &Interfaces::default()), &[4, 6], text);
    }
    check_imported(&parse_nft(&source, Some("in"), true, &Interfaces::default()), &[4, 6], text);
    let found = warpline_nat::parse_nft(&source, &RulePorts::default());
    check_reported(found.mistakes.iter().chain(found.unsupported.iter()), text);
});
