//! Rules of a sensor in both dialects, and the files beside them: any bytes give rules or mistakes
//! with their place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::try_build;
use warpline_fuzz::reported::check_reported;
use warpline_nf::{Diagnostics, SourceText};
use warpline_nids::DEFINITION;
use warpline_nids_rules::{Configs, Dialect, RuleFile, ThresholdFile, Variables, read};

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
        assert!(mistakes.iter().all(|reported| (1..=lines).contains(&reported.line)));
        check_reported(mistakes.iter(), text);
    }
    for dialect in [Dialect::Suricata, Dialect::Snort] {
        let set = read(&[RuleFile { name: "rules".into(), bytes, dialect }], &variables, &configs);
        assert!(set.count() <= lines && !set.to_string().is_empty());
        let reported = || set.broken.iter().chain(set.notices.iter());
        assert!(reported().all(|reported| (1..=lines).contains(&reported.line)));
        check_reported(reported(), &String::from_utf8_lossy(bytes));
        for rule in &set.rules {
            assert!(rule.about.sid > 0 && !rule.header.src_ports.0.is_empty());
        }
        if let Ok(text) = str::from_utf8(bytes)
            && set.count() == set.broken.count()
        {
            check_refused(text, dialect);
        }
    }
});

/// A file without one line that is a rule is none of rules: there is no sensor that looks for
/// nothing.
fn check_refused(text: &str, dialect: Dialect) {
    let key = if dialect == Dialect::Snort { "snort_rules" } else { "rules" };
    let table = format!("{key} = 'r'\nflows = 64\nstream_memory_mib = 1\ndatagrams = 64\n");
    match try_build(&DEFINITION, &table, &[("r", text)]).expect("TOML") {
        Ok(_) => panic!("no line is a rule, yet no error"),
        Err(mistakes) => check_reported(mistakes.iter(), text),
    }
}
