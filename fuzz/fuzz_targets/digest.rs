//! Digests under fuzzed packets: duplicates are tagged, whatever their headers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::FunctionHarness;

const TABLE: &str = "on_duplicate = \"tag\"\nmin_len = 1\nentries = 64\n";

thread_local! {
    static BENCH: FunctionHarness =
        const { FunctionHarness::new(&warpline_digest::DEFINITION, TABLE, &[]) };
}

fuzz_target!(|data: &[u8]| BENCH.with(|bench| bench.run(data)));
