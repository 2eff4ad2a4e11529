//! A sensor under fuzzed packets, with rules of ours or fuzzed ones: see `sensors`. Nothing is
//! changed, what is dropped has a name, alerts are JSON, and two matchers find the same.
//!
//! The first byte selects the rules. If it selects the input's own, these are the text up to the
//! first zero byte. Packets follow.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::sensors::{self, Pair};

thread_local! {
    /// By rule set, made when first asked for.
    static PAIRS: RefCell<Vec<Option<Pair>>> = const { RefCell::new(Vec::new()) };
}

/// Text of rules that is looked at: to build many takes long.
const RULES_LEN_MAX: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let Some((&first, data)) = data.split_first() else { return };
    let number = usize::from(first) % (sensors::RULE_SETS + 1);
    if number < sensors::RULE_SETS {
        PAIRS.with_borrow_mut(|pairs| {
            pairs.resize_with(sensors::RULE_SETS, || None);
            pairs[number].get_or_insert_with(|| Pair::of_rule_set(number)).run(data);
        });
        return;
    }
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let rules = String::from_utf8_lossy(&data[..end.min(RULES_LEN_MAX)]);
    Pair::new("midstream = true\n", &rules).run(data.get(end + 1..).unwrap_or(&[]));
});
