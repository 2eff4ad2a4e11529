//! ClassBench filters; small sets are built and matched against their own bounds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::rules::check_rules;
use warpline_nf::SourceText;
use warpline_rule_files::{Action, is_classbench, parse_classbench};

fuzz_target!(|text: &str| {
    let _ = is_classbench(text);
    let source = SourceText::new("filters", text);
    for action in [Action::Accept, Action::Drop] {
        check_rules(&parse_classbench(&source, action), text);
    }
});
