//! The load balancer under fuzzed packets, in every mode.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::functions::FunctionHarness;
use warpline_load_balancer::DEFINITION;

const DNAT: &str = "services = \"dnat\"\nconnections = 128\ntable_size = 13\n";
const IPIP: &str = "services = \"ipip\"\nmode = \"ipip\"\nconnections = 128\ntable_size = 13\n";
const MAC: &str = "services = \"mac\"\nmode = \"mac\"\nmac = \"02:00:00:00:00:09\"\n\
    no_vip = \"drop\"\nconnections = 128\ntable_size = 13\n";

const FILES: &[(&str, &str)] = &[
    (
        "dnat",
        "vip 192.0.2.9 tcp 80,81\nbackend 203.0.113.1 port 1024\nbackend 203.0.113.2\n\
         vip 192.0.2.9 udp 53\nbackend 203.0.113.1\nbackend 203.0.113.3 down\n\
         vip 2001:db8:2::2 tcp 80\nbackend 2001:db8:3::1\nbackend 2001:db8:3::2 port 8080\n\
         vip 2001:db8:2::2 udp 53\nbackend 2001:db8:3::1\n",
    ),
    (
        "ipip",
        "vip 192.0.2.9 tcp 80\nbackend 203.0.113.1\nbackend 2001:db8:3::1\n\
         vip 192.0.2.9 udp 53\nbackend 2001:db8:3::1\n\
         vip 2001:db8:2::2 tcp 80\nbackend 2001:db8:3::1\nvip 2001:db8:2::2 udp 53\n",
    ),
    (
        "mac",
        "vip 192.0.2.9 tcp 80\nbackend 203.0.113.1 mac 02:00:00:00:00:01\n\
         vip 192.0.2.9 udp 53\nbackend ::1 mac 02:00:00:00:00:02\n\
         vip 2001:db8:2::2 tcp 80\nbackend ::1 mac 02:00:00:00:00:02\n",
    ),
];

thread_local! {
    static BENCHES: [FunctionHarness; 3] = const {
        [
            FunctionHarness::new(&DEFINITION, DNAT, FILES),
            FunctionHarness::new(&DEFINITION, IPIP, FILES),
            FunctionHarness::new(&DEFINITION, MAC, FILES),
        ]
    };
}

fuzz_target!(|data: &[u8]| BENCHES.with(|benches| benches.iter().for_each(|b| b.run(data))));
