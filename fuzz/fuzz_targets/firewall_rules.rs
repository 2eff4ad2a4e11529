//! Rules in the readable form; small sets are built.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::rules::check_rules;
use warpline_nf::SourceText;
use warpline_rule_files::parse_lines;

fuzz_target!(|text: &str| {
    let source = SourceText::new("rules", text);
    check_rules(&parse_lines(&source), text);
});
