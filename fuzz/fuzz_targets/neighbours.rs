//! Neighbour files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::reported::check_reported;
use warpline_nf::SourceText;
use warpline_rule_files::neighbours::read;

fuzz_target!(|text: &str| {
    let source = SourceText::new("neighbours", text);
    let lines = text.lines().count();
    let mut mistakes = 0;
    let found = read(&source, &mut |mistake| {
        assert!(mistake.line >= 1 && mistake.line <= lines);
        check_reported([&mistake], text);
        mistakes += 1;
    });
    assert!(mistakes + found.iter().count() <= lines);
    for (address, device, mac) in found.iter() {
        assert_eq!(found.mac(address, device), Some(mac));
        assert_eq!(mac.0[0] & 1, 0);
    }
});
