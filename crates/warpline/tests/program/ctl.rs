//! `run --socket` and `ctl`: counts while packets flow, pauses, reloads, and hostile clients.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::devices::has_host;
use crate::ends::signal;
use crate::harness::{Child, Demo, LIMIT, wait};
use crate::stats;

const CHAIN: &str = "[chain]\nname = \"edge\"\nfunctions = [\"firewall\", \"digest\"]\n\
    [firewall]\nrules = \"rules\"\n";
const ENDLESS: &str = "run c.toml --quiet --socket c.sock --stats s.json \
    --input generate:packets=1000000000000,size=100,rate_gbps=0.1";

fn ctl(demo: &Demo, request: &str) -> String {
    let ended = demo.warpline(&format!("ctl --socket c.sock {request}")).expect(0);
    String::from_utf8(ended.stdout).expect("text")
}

fn json(demo: &Demo, request: &str) -> Value {
    let answer = serde_json::from_str(&ctl(demo, &format!("{request} --json"))).expect("JSON");
    stats::check_answer(request.split(' ').next().expect("a word"), &answer);
    answer
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
    // It does so before its first packet.
    while packets(&demo)[0] == 0 {
        assert!(begun.elapsed() < LIMIT, "it reads packets");
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
        assert!(counters["unique"].is_u64() && counters["not-digested"].is_u64(), "{counters}");
        assert!(chain["functions"][0]["packets_in"].as_u64() <= Some(read));
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = ctl(&demo, "functions");
    assert!(
        shown.contains("firewall") && shown.contains("\n                   not-digested "),
        "{shown}"
    );
    assert!(ctl(&demo, "stats").starts_with("edge: "));
    assert!(ctl(&demo, "status").starts_with("edge             running"));
    assert_eq!(ctl(&demo, "stop"), "stopping\n");
    wait(child).expect(0);
    assert!(!demo.path("c.sock").exists(), "its file is removed");
}

#[test]
fn answers_have_their_documented_form() {
    let (demo, child) = started();
    for request in ["status", "stats", "functions", "ports", "pause", "resume", "reload"] {
        json(&demo, request);
    }
    json(&demo, "place digest cpu");
    json(&demo, "policy cpu_only");
    let answer = json(&demo, "stop --chain edge");
    assert_eq!(answer, serde_json::json!({ "result": "stopping", "chains": ["edge"] }));
    wait(child).expect(0);
}

/// The functions that a traced packet passed, with their verdicts.
fn hops(packet: &Value) -> Vec<[&str; 2]> {
    let hops = packet["ways"][0]["hops"].as_array().expect("hops").iter();
    hops.map(|hop| ["function", "verdict"].map(|key| hop[key].as_str().expect("text"))).collect()
}

#[test]
fn packets_are_traced_while_the_chain_runs() {
    let (demo, child) = started();
    let text = ctl(&demo, "trace udp --count 2");
    assert_eq!(
        text.matches("\n    firewall  forwarded\n    digest    forwarded\n").count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches("\n  sent: UDP ").count(), 2, "{text}");
    assert!(text.starts_with("packet ") && text.ends_with(" bytes\n"), "{text}");
    if has_host(&demo) {
        ctl(&demo, "place digest host");
    }
    // The functions of a reload are those of traces that follow.
    demo.write("rules", "drop udp from any to any\n");
    assert!(ctl(&demo, "reload").contains("firewall"));
    let trace = json(&demo, "trace udp --seconds 20");
    let chain = &trace["chains"][0];
    let packets = chain["packets"].as_array().expect("a list");
    assert!(packets.len() == 10 && chain["came"].as_u64() >= Some(10), "{trace}");
    for packet in packets {
        assert_eq!(hops(packet), [["firewall", "dropped"]], "{packet}");
        assert_eq!(packet["ways"][0]["end"], "dropped", "{packet}");
    }
    assert_eq!(json(&demo, "stats")["chains"][0]["packets"]["balanced"], true);
    signal(&child, "INT");
    wait(child).expect(130);
}

#[test]
fn traces_end_without_a_packet_and_one_runs_at_a_time() {
    let (demo, child) = started();
    let refused = |request: &str, status: i32, why: &str| {
        let ended = demo.warpline(&format!("ctl --socket c.sock {request}")).expect(status);
        assert!(ended.stderr.contains(why), "{request}: {}", ended.stderr);
    };
    refused("trace tcp --seconds 1", 1, "chain \"edge\": none of ");
    refused("trace port", 1, "filter \"port\": ");
    refused("trace udp --chain other", 1, "there is no chain \"other\"");
    refused("trace", 2, "this request takes FILTER");
    refused("trace udp --count 0", 2, "not a number from 1 to 100");
    refused("status --count 3", 2, "--count and --seconds are for `trace`");
    let begin = || {
        let mut client = UnixStream::connect(demo.path("c.sock")).expect("a connection");
        let request = b"GET /v1/trace?filter=tcp&seconds=50 HTTP/1.1\r\nhost: w\r\n\r\n";
        client.write_all(request).expect("a request");
        client.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        client
    };
    let is_busy = || {
        let ended = demo.warpline("ctl --socket c.sock trace tcp --seconds 1");
        ended.expect(1).stderr.contains("another trace is under way")
    };
    let (mut long, begun) = (begin(), Instant::now());
    while !is_busy() {
        assert!(begun.elapsed() < LIMIT, "the long trace begins");
        // The short trace may have been the first.
        if long.read(&mut [0]).is_ok() {
            long = begin();
        }
    }
    // A client that leaves ends its trace.
    drop(long);
    while is_busy() {
        assert!(begun.elapsed() < LIMIT, "it ends");
    }
    signal(&child, "INT");
    wait(child).expect(130);
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

/// Then the firewall reads another field.
#[test]
fn a_reload_may_bring_rules_that_ask_for_ports() {
    let demo = Demo::new();
    let rules = |input: &str| {
        format!("*filter\n:FORWARD DROP [0:0]\n-A FORWARD {input} -j ACCEPT\nCOMMIT\n")
    };
    demo.write("rules", rules("-p udp"));
    demo.write(
        "c.toml",
        "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"rules\"\n\
         [[port]]\nname = \"lan\"\nside = \"inside\"\ndevice = \
         \"generate:packets=1000000000000,size=100,rate_gbps=0.1\"\n\
         [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"none\"\n",
    );
    let child = demo.start("run c.toml --quiet --socket c.sock --stats s.json");
    let begun = Instant::now();
    let dropped = || {
        let ended = demo.warpline("ctl --socket c.sock stats --json");
        let stats: Value = serde_json::from_slice(&ended.stdout).ok()?;
        stats["chains"][0]["packets"]["dropped"].as_u64()
    };
    while dropped().is_none() {
        assert!(begun.elapsed() < LIMIT, "it serves its socket");
    }
    for (input, drops) in [("-i wan", true), ("-i lan", false), ("-p udp", false)] {
        demo.write("rules", rules(input));
        assert!(ctl(&demo, "reload").contains("firewall"), "{input}");
        let before = dropped();
        if !drops {
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(dropped(), before, "{input}");
        }
        while drops && dropped() == before {
            assert!(begun.elapsed() < LIMIT, "{input} drops");
        }
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

/// The reader of a paused chain reads no packets, and still sees a reload.
#[test]
fn a_paused_chain_reloads_at_once() {
    let (demo, child) = started();
    ctl(&demo, "pause");
    for rules in ["drop from any to any\n", "accept from any to any\n"] {
        demo.write("rules", rules);
        let asked = Instant::now();
        assert_eq!(ctl(&demo, "reload"), "[firewall] in place\n");
        assert!(asked.elapsed() < LIMIT / 6, "{:?}", asked.elapsed());
        assert_eq!(json(&demo, "status")["chains"][0]["state"], "paused");
    }
    let [read, _] = packets(&demo);
    ctl(&demo, "resume");
    let begun = Instant::now();
    while packets(&demo)[0] == read {
        assert!(begun.elapsed() < LIMIT, "it goes on");
    }
    ctl(&demo, "stop");
    wait(child).expect(0);
}

/// The rest of the reload applies. Options of the command line hide keys of the file.
#[test]
fn a_reload_names_the_keys_that_need_a_restart() {
    let (demo, child) = started();
    let chain = "[chain]\n\
        batch_packets = 128\nqueue_batches = 4\narena_mib = 32\nlanes = 2\nbusy = true\nseed = 7\n\
        input = \"capture.pcap\"\noutput = \"other.pcap\"\ntap = \"tap.pcap\"\n\
        impair = \"drop=0.5\"\n";
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let more = format!(
        "[process]\nuser = \"{}\"\nmetrics = \"127.0.0.1:9464\"\n[backpressure]\nqueue = 9\n\
         [digest]\nstage = \"own\"\nlaunch_batches = 2\n",
        user.trim()
    );
    demo.write("c.toml", CHAIN.replace("[chain]\n", chain) + &more);
    demo.write("rules", "drop from any to any\n");
    let names = [
        "[backpressure] queue",
        "[digest] launch_batches",
        "[digest] stage",
        "[process] metrics",
        "[process] user",
        "arena_mib",
        "batch_packets",
        "busy",
        "impair",
        "lanes",
        "output",
        "queue_batches",
        "seed",
        "tap",
    ];
    let line = format!("reload: unchanged until a restart: {}", names.join(", "));
    assert_eq!(ctl(&demo, "reload"), format!("[firewall] in place\n{line}\n"));
    let answer = json(&demo, "reload");
    assert_eq!(answer["result"], format!("nothing changed\n{line}"));
    assert_eq!(answer["restart"], serde_json::json!(names));
    // Values that are the defaults, and those of the start, are no change.
    let same = CHAIN.replace("[chain]\n", "[chain]\nbatch_packets = 256\nbusy = false\n");
    demo.write("c.toml", same + "[digest]\nstage = \"fused\"\n");
    let answer = json(&demo, "reload");
    assert_eq!(answer, serde_json::json!({ "result": "nothing changed", "restart": [] }));
    let chain = &json(&demo, "stats")["chains"][0];
    assert_eq!(chain["stages"].as_array().map(Vec::len), Some(1), "{chain}");
    ctl(&demo, "stop");
    wait(child).expect(0);
}

#[test]
fn a_reload_keeps_launches() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write("rules", "accept from any to any\n");
    let file = |kib: u16| format!("{CHAIN}[digest]\ndevice = \"host\"\nlaunch_kib = {kib}\n");
    demo.write("c.toml", file(64));
    let child = demo.start(ENDLESS);
    reads(&demo, 0);
    demo.write("c.toml", file(128));
    demo.write("rules", "accept from any to any\n# reloaded\n");
    let answer = json(&demo, "reload");
    assert_eq!(answer["restart"], serde_json::json!(["[digest] launch_kib"]));
    assert!(answer["result"].as_str().is_some_and(|text| text.starts_with("[firewall] in place")));
    let launch = json(&demo, "stats")["chains"][0]["stages"][1]["launch"].clone();
    assert_eq!(launch["kib"], 64.0, "{launch}");
    ctl(&demo, "stop");
    wait(child).expect(0);
}

#[test]
fn a_reload_names_the_keys_of_ports_and_of_each_chain() {
    let demo = Demo::new();
    let file = |lanes: u8, output: &str| {
        format!(
            "[[chain]]\nname = \"a\"\nfunctions = []\nports = [\"lan\", \"wan\"]\n\
             [[chain]]\nname = \"b\"\nfunctions = []\nlanes = {lanes}\n\
             input = \"generate:packets=1000000000000,size=100\"\n\
             [[port]]\nname = \"lan\"\nside = \"inside\"\n\
             device = \"generate:packets=1000000000000\"\n\
             [[port]]\nname = \"wan\"\nside = \"outside\"\ndevice = \"none\"\n\
             output = \"{output}\"\n"
        )
    };
    demo.write("c.toml", file(1, "/dev/null"));
    let child = demo.start("run c.toml --quiet --socket c.sock");
    reads(&demo, 0);
    reads(&demo, 1);
    demo.write("c.toml", file(2, "none"));
    let expected = serde_json::json!(["[[port]] wan output", "lanes of chain \"b\""]);
    assert_eq!(json(&demo, "reload")["restart"], expected);
    ctl(&demo, "stop");
    wait(child).expect(0);
}

#[test]
fn functions_move_while_packets_flow() {
    let (demo, child) = started();
    let device = |number: usize| {
        let function = json(&demo, "functions")["chains"][0]["functions"][number].clone();
        function["device"].as_str().expect("a device").to_owned()
    };
    let refused = |request: &str, why: &str| {
        let reported = demo.warpline(&format!("ctl --socket c.sock {request}")).expect(1).stderr;
        assert!(reported.contains(why), "{request}: {reported}");
    };
    refused("place nat cpu", "there is no function \"nat\"; functions: ");
    refused("place digest abacus", "also: cpu");
    refused("place digest cpu --chain wan", "there is no chain \"wan\"");
    refused("policy fast", "there is no policy \"fast\"; policies: throughput, latency");
    refused("policy latency", "no profile, so functions");
    demo.warpline("ctl --socket c.sock place digest").expect(2);
    demo.warpline("ctl --socket c.sock status digest").expect(2);
    assert_eq!(ctl(&demo, "place digest cpu"), "digest runs on cpu already\n");
    assert!(ctl(&demo, "policy cpu_only").contains("edge moves nothing"));
    if has_host(&demo) {
        assert!(ctl(&demo, "place digest host").starts_with("digest runs on host; a lane stalled"));
        assert_eq!([device(0), device(1)], ["cpu", "host"]);
        assert_eq!(ctl(&demo, "reload"), "nothing changed\n");
        demo.write("rules", "accept from any to any\naccept from any to any\n");
        assert_eq!(ctl(&demo, "reload"), "[firewall] in place\n");
        assert_eq!([device(0), device(1)], ["cpu", "host"]);
        assert!(ctl(&demo, "place firewall host").starts_with("firewall runs on host;"));
        assert_eq!(ctl(&demo, "pause"), "paused\n");
        refused("place digest cpu", "chain \"edge\" is paused");
        ctl(&demo, "resume");
        let reported = ctl(&demo, "policy cpu_only");
        assert!(reported.contains("firewall runs on cpu, digest runs on cpu"), "{reported}");
        assert_eq!(json(&demo, "stats")["chains"][0]["moves"]["count"], 3);
    }
    ctl(&demo, "stop");
    wait(child).expect(0);
    let stats = stats::read(&demo, "s.json");
    assert_eq!(stats["chains"][0]["packets"]["balanced"], true);
}

/// Waits until chain `number` has read packets.
fn reads(demo: &Demo, number: usize) {
    let begun = Instant::now();
    let request = "ctl --socket c.sock status --json";
    loop {
        let status: Value =
            serde_json::from_slice(&demo.warpline(request).stdout).unwrap_or_default();
        if status["chains"][number]["packets"]["read"].as_u64() > Some(0) {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "chain {number} reads packets");
    }
}

#[test]
fn a_policy_that_one_chain_refuses_moves_no_chain() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let chain = |name: &str| {
        format!(
            "[[chain]]\nname = \"{name}\"\nfunctions = [\"digest\"]\n\
             input = \"generate:packets=1000000000000,size=100,rate_gbps=0.05\"\n"
        )
    };
    demo.write("c.toml", chain("a") + &chain("b"));
    let child = demo.start("run c.toml --quiet --socket c.sock");
    reads(&demo, 0);
    reads(&demo, 1);
    let devices = || {
        let functions = json(&demo, "functions");
        [0, 1].map(|chain| functions["chains"][chain]["functions"][0]["device"].clone())
    };
    for chain in ["a", "b"] {
        ctl(&demo, &format!("place digest host --chain {chain}"));
    }
    assert_eq!(devices(), ["host", "host"]);
    ctl(&demo, "pause --chain b");
    let refused = demo.warpline("ctl --socket c.sock policy cpu_only").expect(1).stderr;
    assert!(refused.contains("chain \"b\" is paused"), "{refused}");
    assert_eq!(devices(), ["host", "host"]);
    ctl(&demo, "resume --chain b");
    let reported = ctl(&demo, "policy cpu_only");
    assert_eq!(reported.matches("digest runs on cpu").count(), 2, "{reported}");
    assert_eq!(devices(), ["cpu", "cpu"]);
    ctl(&demo, "stop");
    wait(child).expect(0);
}

#[test]
fn requests_that_can_not_be_are_refused() {
    let (demo, child) = started();
    let reported = demo.warpline("ctl --socket c.sock pause --chain wan").expect(1).stderr;
    assert!(reported.contains("there is no chain \"wan\"; chains: \"edge\""), "{reported}");
    let reported = demo.warpline(ENDLESS).expect(2).stderr;
    assert!(reported.contains("--socket c.sock: a running process has it"), "{reported}");
    demo.write("file", "");
    let reported = demo.warpline("run c.toml --input generate:packets=1 --socket file").expect(2);
    assert!(reported.stderr.contains("there is a file that is no socket"), "{}", reported.stderr);
    demo.warpline("run c.toml --input generate:packets=1 --socket missing/c.sock").expect(2);
    let (long, fields) = ("a".repeat(70_000), "a: b\r\n".repeat(200));
    for (request, status) in [
        ("GET /v1/status HTTP/1.1\r\nno field\r\n\r\n", 400),
        ("GET /v1/nothing HTTP/1.1\r\nconnection: close\r\n\r\n", 404),
        ("POST /v1/status HTTP/1.1\r\nconnection: close\r\n\r\n", 405),
        ("POST /v1/stop?chain=a&chain=edge HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
        ("POST /v1/stop?chian=wan HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
        ("POST /v1/reload?chain=edge HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
        (&format!("GET /{long} HTTP/1.1\r\n\r\n"), 414),
        (&format!("GET /v1/status HTTP/1.1\r\n{fields}\r\n"), 431),
    ] {
        let mut socket = UnixStream::connect(demo.path("c.sock")).expect("a connection");
        socket.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        // The server closes the connection before it has read all of a long request.
        let _ = socket.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let body: Value = serde_json::from_str(body).expect("JSON");
        stats::check_answer("error", &body);
    }
    for request in ["reload", "policy cpu_only"] {
        let reported =
            demo.warpline(&format!("ctl --socket c.sock {request} --chain edge")).expect(2).stderr;
        assert!(reported.contains("--chain has no effect"), "{reported}");
    }
    let reported = demo.warpline("ctl --socket unserved.sock status").expect(1).stderr;
    assert!(reported.contains("unserved.sock: no such file or directory"), "{reported}");
    ctl(&demo, "stop");
    wait(child).expect(0);
}

/// Its name may stand for the socket of another process at the end.
#[test]
fn a_socket_of_another_process_stays() {
    let (demo, child) = started();
    fs::rename(demo.path("c.sock"), demo.path("old.sock")).expect("a move");
    fs::write(demo.path("c.sock"), "").expect("a file");
    signal(&child, "INT");
    wait(child).expect(130);
    assert!(demo.path("c.sock").exists());
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
