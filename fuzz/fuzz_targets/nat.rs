//! NAT under fuzzed packets.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::FunctionHarness;

const TABLE: &str = "inside = [\"10.0.0.0/8\", \"2001:db8:1::/64\"]\n\
    outside = [\"203.0.113.0/30\", \"2001:db8:3::/126\"]\nbindings = 256\nremotes = 2\n";

thread_local! {
    static BENCH: FunctionHarness =
        const { FunctionHarness::new(&warpline_nat::DEFINITION, TABLE, &[]) };
}

fuzz_target!(|data: &[u8]| BENCH.with(|bench| bench.run(data)));
