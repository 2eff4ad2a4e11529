//! Rules of a sensor in both dialects, and the files beside them: any bytes give rules or mistakes with their place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_nf::nids::rules::{Configs, Dialect, RuleFile, ThresholdFile, Variables, read};
use warpline_nf::{Diagnostics, SourceText};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.iter().filter(|b| **b == b'\n').count() + 1;
    let variables: Variables =
        [("HOME_NET", "10.0.0.0/8"), ("LOOP", "[$LOOP]")].into_iter().collect();
    let mut configs = Configs::default();
    if let Ok(text) = str::from_utf8(bytes) {
        let source = SourceText::new("config", text);
        let mut mistakes = Diagnostics::default();
        configs.read_classification(&source, &mut mistakes);
        configs.read_reference(&source, &mut mistakes);
        ThresholdFile::read(&source, &variables, &mut mistakes);
        for told in mistakes.iter() {
            assert!((1..=lines).contains(&told.line) && !told.to_string().is_empty());
        }
    }
    for dialect in [Dialect::Suricata, Dialect::Snort] {
        let set = read(&[RuleFile { name: "rules".into(), bytes, dialect }], &variables, &configs);
        assert!(set.count() <= lines && !set.to_string().is_empty());
        for told in set.broken.iter().chain(set.notices.iter()) {
            assert!((1..=lines).contains(&told.line) && !told.to_string().is_empty());
        }
        for rule in &set.rules {
            assert!(rule.about.sid > 0 && !rule.header.src_ports.0.is_empty());
        }
    }
});
