//! The firewall with connection tracking under fuzzed packets.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::FunctionHarness;

const TABLE: &str = "rules = \"rules\"\nestablished = true\nconnections = 256\ntcp_loose = true\n\
    non_ip = \"accept\"\n";
const RULES: &str = "accept established\naccept tcp flags syn/syn,ack to any port 80,443\n\
    accept udp from 10.0.0.0/8 to any port 53\ndrop icmp type 5\naccept icmp\n\
    accept icmpv6 type 128-129 code 0\ndrop esp from 10.0.0.0/8\naccept any from 2001:db8::/32\n\
    drop tcp from any port 1-1023\naccept tcp\n";

thread_local! {
    static BENCH: FunctionHarness =
        const { FunctionHarness::new(&warpline_firewall::DEFINITION, TABLE, &[("rules", RULES)]) };
}

fuzz_target!(|data: &[u8]| BENCH.with(|bench| bench.run(data)));
