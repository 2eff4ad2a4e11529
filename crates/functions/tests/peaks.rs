//! A peak is the most that all shards had at one time, not a sum of values of other times.

use std::net::IpAddr;
use std::path::PathBuf;

use warpline_functions::definition;
use warpline_packet::Instant;
use warpline_testkit::frames::{Body, Datagram};
use warpline_verify::{Harness, Input, build};

/// Hosts that begin a conversation each, at a time.
const HOSTS: u8 = 200;
const SERVER: [u8; 4] = [198, 51, 100, 1];
const SYN: u8 = 2;
const ACK: u8 = 16;

const SERVICES: &str = "vip 198.51.100.1 udp 53\n backend 203.0.113.9\n";
const RULES: &str = "alert tcp any any -> any 80 (content:\"never seen here\"; sid:1;)\n";

fn datagram(host: [u8; 4]) -> Vec<Vec<u8>> {
    let body = Body::Udp { src: 5000, dst: 53, unsummed: false };
    vec![Datagram::new(host.into(), SERVER.into(), body).frame()]
}

/// A connection with data, which wait for more.
fn stream(host: [u8; 4]) -> Vec<Vec<u8>> {
    let [host, server] = [host, SERVER].map(IpAddr::from);
    let request = |flags| Datagram::new(host, server, Body::Tcp { src: 5000, dst: 80, flags });
    let answer = Body::Tcp { src: 80, dst: 5000, flags: SYN | ACK };
    let datagrams = [
        request(SYN).with(b"").numbered(9, 0),
        Datagram::new(server, host, answer).with(b"").numbered(99, 10),
        request(ACK).with(&[b'a'; 700]).numbered(10, 100),
    ];
    datagrams.iter().map(Datagram::frame).collect()
}

struct Case {
    function: &'static str,
    keys: &'static str,
    peak: &'static str,
    /// What each host adds.
    each: u64,
    frames: fn([u8; 4]) -> Vec<Vec<u8>>,
}

const CASES: [Case; 4] = [
    Case {
        function: "nat",
        keys: "inside = ['10.0.0.0/8']\noutside = ['203.0.113.1']",
        peak: "bindings-peak",
        each: 1,
        frames: datagram,
    },
    Case { function: "flow_monitor", keys: "", peak: "flows-peak", each: 1, frames: datagram },
    Case {
        function: "load_balancer",
        keys: "services = 'services'",
        peak: "connections-peak",
        each: 1,
        frames: datagram,
    },
    Case {
        function: "nids",
        keys: "rules = 'rules'",
        peak: "stream-memory-peak",
        each: 1024,
        frames: stream,
    },
];

/// All hosts of a network begin a conversation.
fn begin(harness: &mut Harness, second: u64, network: u8, case: &Case) {
    for host in 0..HOSTS {
        for frame in (case.frames)([10, 0, network, host]) {
            harness.process(&[Input::at(second * 1_000_000_000, &frame)]);
        }
    }
}

#[test]
fn hosts_of_other_times_add_nothing() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("peaks");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("services"), SERVICES).expect("a file");
    std::fs::write(folder.join("rules"), RULES).expect("a file");
    let mut wrong = Vec::new();
    for case in &CASES {
        let definition = definition(case.function).expect("a function");
        let (function, words) = build(definition, case.keys, &folder);
        let mut harness = Harness::new(function, words);
        let expected = u64::from(HOSTS) * case.each;
        let mut second = 1;
        for network in 0..3 {
            begin(&mut harness, second, network, case);
            let peak = harness.counter(case.peak);
            if peak != expected {
                wrong.push(format!("{} {network}: {peak}, not {expected}", case.function));
            }
            for _ in 0..8 {
                second += 100_000;
                harness.tick(Instant::from_secs(second));
            }
        }
        begin(&mut harness, second, 3, case);
        begin(&mut harness, second, 4, case);
        let peak = harness.counter(case.peak);
        if peak != 2 * expected {
            wrong.push(format!("{}: {peak}, not {}", case.function, 2 * expected));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
