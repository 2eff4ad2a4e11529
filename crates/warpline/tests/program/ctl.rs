//! `run --socket` and `ctl`: counts while packets flow, pauses, reloads, and hostile clients.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ends::signal;
use crate::harness::{Child, Demo, LIMIT, wait};

const CHAIN: &str = "[chain]\nname = \"edge\"\nfunctions = [\"firewall\", \"digest\"]\n\
    [firewall]\nrules = \"rules\"\n";
const ENDLESS: &str = "run c.toml --input generate:packets=1000000000000,size=100 --quiet \
    --socket c.sock --stats s.json";

fn ctl(demo: &Demo, request: &str) -> String {
    let ended = demo.warpline(&format!("ctl --socket c.sock {request}")).expect(0);
    String::from_utf8(ended.stdout).expect("text")
}

fn json(demo: &Demo, request: &str) -> Value {
    serde_json::from_str(&ctl(demo, &format!("{request} --json"))).expect("JSON")
}

/// A running chain that accepts all packets.
fn started() -> (Demo, Child) {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "accept from any to any\n");
    let child = demo.start(ENDLESS);
    let begun = Instant::now();
    while demo.warpline("ctl --socket c.sock status").status != Some(0) {
        assert!(begun.elapsed() < LIMIT, "it serves its socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    (demo, child)
}

fn packets(demo: &Demo) -> [u64; 2] {
    let status = json(demo, "status");
    let packets = &status["chains"][0]["packets"];
    ["read", "in_flight"].map(|key| packets[key].as_u64().expect("a count"))
}

#[test]
fn counts_grow_while_packets_flow_and_balance() {
    let (demo, child) = started();
    let mode = fs::metadata(demo.path("c.sock")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut before = 0;
    for _ in 0..3 {
        let stats = json(&demo, "stats");
        let chain = &stats["chains"][0];
        assert_eq!(chain["ended"], "running");
        assert_eq!(chain["packets"]["balanced"], true);
        let read = chain["packets"]["read"].as_u64().expect("a count");
        assert!(read > before, "{read} after {before}");
        before = read;
        let counters = &chain["functions"][1]["counters"];
        assert!(counters["unique"].is_u64() && counters["not_digested"].is_u64(), "{counters}");
        assert!(chain["functions"][0]["packets_in"].as_u64() <= Some(read));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(ctl(&demo, "functions").contains("firewall"));
    assert!(ctl(&demo, "stats").starts_with("edge: "));
    assert!(ctl(&demo, "status").starts_with("edge             running"));
    assert_eq!(ctl(&demo, "stop"), "stopping\n");
    wait(child).expect(0);
    assert!(!demo.path("c.sock").exists(), "its file is removed");
}

#[test]
fn a_paused_chain_reads_nothing() {
    let (demo, child) = started();
    assert_eq!(ctl(&demo, "pause --chain edge"), "paused\n");
    let begun = Instant::now();
    // Packets on their way continue.
    while packets(&demo)[1] > 0 {
        assert!(begun.elapsed() < LIMIT, "it drains");
    }
    let [read, _] = packets(&demo);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(packets(&demo), [read, 0]);
    assert_eq!(json(&demo, "status")["chains"][0]["state"], "paused");
    assert_eq!(ctl(&demo, "resume"), "resumed\n");
    while packets(&demo)[0] == read {
        assert!(begun.elapsed() < LIMIT, "it goes on");
    }
    signal(&child, "INT");
    wait(child).expect(130);
}

#[test]
fn a_reload_answers_with_its_result() {
    let (demo, child) = started();
    assert_eq!(ctl(&demo, "reload"), "nothing changed\n");
    demo.write("rules", "drop from any to any\n");
    assert_eq!(ctl(&demo, "reload"), "[firewall] in place\n");
    demo.write("rules", "dorp from any to any\n");
    let refused = demo.warpline("ctl --socket c.sock reload").expect(1).stderr;
    assert!(refused.contains("dorp"), "{refused}");
    let chain = &json(&demo, "functions")["chains"][0];
    assert!(chain["functions"][0]["drops"]["rule"].as_u64() > Some(0), "{chain}");
    ctl(&demo, "stop");
    wait(child).expect(0);
}

#[test]
fn requests_that_can_not_be_are_refused() {
    let (demo, child) = started();
    let told = demo.warpline("ctl --socket c.sock pause --chain wan").expect(1).stderr;
    assert!(told.contains("there is no chain \"wan\"; chains: \"edge\""), "{told}");
    let told = demo.warpline(ENDLESS).expect(2).stderr;
    assert!(told.contains("--socket c.sock: a running process has it"), "{told}");
    demo.write("file", "");
    let told = demo.warpline("run c.toml --input generate:packets=1 --socket file").expect(2);
    assert!(told.stderr.contains("there is a file that is no socket"), "{}", told.stderr);
    demo.warpline("run c.toml --input generate:packets=1 --socket missing/c.sock").expect(2);
    let told = demo.warpline("ctl --socket unserved.sock status").expect(1).stderr;
    assert!(told.contains("unserved.sock: no such file or directory"), "{told}");
    ctl(&demo, "stop");
    wait(child).expect(0);
}

/// Silent clients and clients that send nonsense delay no other client.
#[test]
fn hostile_clients_stop_nothing() {
    let (demo, child) = started();
    let connect = || UnixStream::connect(demo.path("c.sock")).expect("a connection");
    let silent: Vec<UnixStream> = (0..10).map(|_| connect()).collect();
    for text in [
        &b"\0\xff\xfe nonsense\r\n\r\n"[..],
        b"GET /v1/../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/stop?chain=%ff%00 HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n",
        b"DELETE /v1/status HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v1/status?chain=a&chain=b&&=%zz HTTP/1.0\r\n\r\n",
    ] {
        let mut client = connect();
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        client.write_all(text).expect("written");
        let mut answer = [0; 64];
        let len = client.read(&mut answer).unwrap_or(0);
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer}");
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    assert_eq!(json(&demo, "status")["chains"][0]["state"], "running");
    // One that was killed leaves its file, and the next takes it over.
    signal(&child, "KILL");
    wait(child);
    drop(silent);
    assert!(demo.path("c.sock").exists());
    let child = demo.start(ENDLESS);
    let begun = Instant::now();
    while demo.warpline("ctl --socket c.sock status").status != Some(0) {
        assert!(begun.elapsed() < LIMIT, "it takes the socket over");
    }
    ctl(&demo, "stop");
    wait(child).expect(0);
}
