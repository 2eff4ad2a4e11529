//! The router, which answers with ICMP errors, under fuzzed packets.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::FunctionHarness;

const TABLE: &str = r#"
routes = "routes"
neighbours = "neighbours"
mac = "02:00:00:00:00:ff"
icmp = "on"
icmp_src_v4 = "198.51.100.1"
icmp_src_v6 = "2001:db8::1"
icmp_rate_pps = 1000
"#;
const ROUTES: &str = "10.0.0.0/8 via 192.0.2.1\n192.0.2.0/24 direct\n192.0.2.128/25 via 192.0.2.2\n\
    blackhole 10.9.0.0/16\nunreachable 10.8.0.0/16\nprohibit 10.7.0.0/16\n\
    2001:db8:2::/48 via 192.0.2.1\n2001:db8:3::/48 direct\nunreachable 2001:db8:4::/48\n";
const NEIGHBOURS: &str = "192.0.2.1 02:00:00:00:00:01\n192.0.2.9 02:00:00:00:00:09\n";
const FILES: &[(&str, &str)] = &[("routes", ROUTES), ("neighbours", NEIGHBOURS)];

thread_local! {
    static BENCH: FunctionHarness =
        const { FunctionHarness::new(&warpline_router::DEFINITION, TABLE, FILES) };
}

fuzz_target!(|data: &[u8]| BENCH.with(|bench| bench.run(data)));
