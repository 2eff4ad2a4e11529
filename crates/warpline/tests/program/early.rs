//! Before packets flow: signals that come while chains are built, and pipes that are read.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::ends::signal;
use crate::harness::{Child, Demo, LIMIT, output_of, wait};
use crate::stats;
use crate::stats::whole;

const ENDLESS: &str = "--input generate:packets=1000000000000";
const RULES: &[u8] = b"accept from any to any\n";

fn make_pipe(demo: &Demo, name: &str) {
    output_of(Command::new("mkfifo").arg(demo.path(name)));
}

/// A run whose firewall reads its rules from a pipe, which it has open; and the other end.
fn being_built(demo: &Demo, more: &str) -> (Child, File) {
    let _ = fs::remove_file(demo.path("rules"));
    make_pipe(demo, "rules");
    demo.write(
        "piped.toml",
        "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"rules\"\n",
    );
    let child = demo.start(&format!("run piped.toml --stats s.json {more}"));
    // This waits for the reader.
    let rules = File::options().write(true).open(demo.path("rules")).unwrap();
    (child, rules)
}

/// Waits until the program handles SIGTERM itself.
fn wait_until_caught(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let (began, bit) = (Instant::now(), 1 << (15 - 1));
    let is_caught = || {
        let text = fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & bit != 0
    };
    while !is_caught() {
        assert!(began.elapsed() < LIMIT, "it catches no signals");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_signal_before_the_chain_is_built_is_not_lost() {
    let demo = Demo::new();
    for (name, status) in [("INT", 130), ("TERM", 143)] {
        let (child, mut rules) = being_built(&demo, &format!("{ENDLESS} --output o.pcap"));
        signal(&child, name);
        rules.write_all(RULES).unwrap();
        drop(rules);
        let ended = wait(child).expect(status);
        assert!(ended.stderr.contains(&format!("ended by SIG{name}")), "{}", ended.stderr);
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        let ends = (&chain["ended"], &chain["packets"]["balanced"], &chain["packets"]["in_flight"]);
        assert_eq!(ends, (&"signal".into(), &true.into(), &0.into()), "{chain}");
        assert!(demo.read("o.pcap").len() >= 24);
        fs::remove_file(demo.path("s.json")).unwrap();
        fs::remove_file(demo.path("o.pcap")).unwrap();
        // Where the chain is never built, nothing was touched.
        let (child, rules) = being_built(&demo, &format!("{ENDLESS} --output o.pcap"));
        signal(&child, name);
        let ended = wait(child).expect(status);
        assert!(ended.stderr.contains("before a packet was read"), "{}", ended.stderr);
        assert!(!demo.path("o.pcap").exists() && !demo.path("s.json").exists());
        drop(rules);
    }
}

#[test]
fn a_reload_asked_for_early_comes_late() {
    let demo = Demo::new();
    let (mut child, mut rules) = being_built(&demo, &format!("{ENDLESS} --output none"));
    for name in ["HUP", "USR1"] {
        signal(&child, name);
    }
    // The reload reads a file.
    fs::remove_file(demo.path("rules")).unwrap();
    demo.write("rules", RULES);
    rules.write_all(RULES).unwrap();
    drop(rules);
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let reported = stderr.lines().next().unwrap().unwrap();
    assert_eq!(reported, "reload: nothing changed");
    for name in ["USR1", "USR2", "TERM"] {
        signal(&child, name);
    }
    wait(child).expect(143);
    let packets = &stats::read(&demo, "s.json")["chains"][0]["packets"];
    assert!(packets["balanced"] == true && whole(&packets["read"]) > 0, "{packets}");
}

#[test]
fn a_pipe_is_read_while_it_has_a_writer() {
    let demo = Demo::new();
    make_pipe(&demo, "unfed");
    let chain = "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"unfed\"\n";
    demo.write("piped.toml", chain);
    let why = "it is a pipe, and no program writes to it";
    for (command, place) in [
        ("check unfed", "can't read unfed: "),
        ("plan unfed", "can't read unfed: "),
        ("run unfed", "can't read unfed: "),
        ("check piped.toml", "piped.toml:4:9: can't read \"unfed\": "),
        ("run piped.toml --input capture.pcap", "piped.toml:4:9: can't read \"unfed\": "),
    ] {
        let reported = demo.warpline(command).expect(2).stderr;
        assert!(reported.contains(&format!("{place}{why}")), "{command}: {reported}");
    }
    // A pipe as input is live: it may get its writer later, and a signal ends the wait.
    let child = demo.start("run chain.toml --input unfed --output none");
    wait_until_caught(&child);
    signal(&child, "TERM");
    wait(child).expect(143);
    // However slowly a program writes.
    let (child, mut rules) = being_built(&demo, "--input capture.pcap --output none");
    for part in RULES.chunks(5) {
        rules.write_all(part).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    drop(rules);
    wait(child).expect(0);
}
