//! Rules and alerts: the output and its place, the messages about rules that can't be applied, and
//! a reload.

use serde_json::Value;

use crate::ends::{signal, wait_until_running};
use crate::harness::{Demo, LIMIT, wait};
use crate::pcap::{Record, capture, tcp};
use crate::reload::lines_of;
use crate::stats::{self, whole};

const CHAIN: &str = "[chain]\nfunctions = [\"nids\"]\ninput = \"capture.pcap\"\n\
    [nids]\nrules = \"rules\"\nclassification = \"classes.config\"\n\
    [nids.variables]\nHTTP_SERVERS = \"203.0.113.16/28\"\n";

/// The request that the demo's clients send to the web server.
const LOGIN: &str = "alert tcp any any -> $HTTP_SERVERS 80 (msg:\"login\"; \
    flow:established,to_server; content:\"/account/login\"; classtype:policy-violation; sid:7; \
    rev:2;)\n";

fn with(rules: &str, more: &str) -> Demo {
    let demo = Demo::new();
    demo.write("ids.toml", CHAIN.replace("[nids]\n", &format!("[nids]\n{more}")));
    demo.write("rules", rules);
    demo
}

/// Lines of EVE as JSON.
fn eve(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn alerts_are_lines_of_eve_in_a_file_or_on_standard_output() {
    let files = "eve = \"own.json\"\nfast_log = \"fast.log\"\nhits = \"hits.json\"\npayload = 40\n";
    let demo = with(LOGIN, files);
    let ended = demo.warpline("run ids.toml --alerts a.json --stats s.json").expect(0);
    assert!(ended.stdout.is_empty());
    let alerts = eve(&demo.read("a.json"));
    assert!(alerts.len() > 3, "{}", alerts.len());
    for alert in &alerts {
        for key in ["timestamp", "src_ip", "dest_ip"] {
            assert!(alert[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {alert}");
        }
        assert_eq!((&alert["event_type"], &alert["proto"]), (&"alert".into(), &"TCP".into()));
        assert_eq!(whole(&alert["dest_port"]), 80);
        assert!(whole(&alert["src_port"]) > 0 && whole(&alert["pcap_cnt"]) > 0, "{alert}");
        let about = serde_json::json!({
            "action": "allowed", "gid": 1, "signature_id": 7, "rev": 2, "signature": "login",
            "category": "Against the house rules", "severity": 1,
        });
        assert_eq!(alert["alert"], about);
        assert!(alert["payload"].is_string() && alert["flow_id"].is_u64(), "{alert}");
    }
    // The run's own file, the function's and standard output have the same lines.
    assert_eq!(demo.read("own.json"), demo.read("a.json"));
    let ended = demo.warpline("run ids.toml --lanes 3 --alerts -").expect(0);
    assert_eq!(eve(&ended.stdout), alerts);
    let fast = String::from_utf8(demo.read("fast.log")).unwrap();
    assert_eq!(fast.lines().count(), alerts.len());
    let messages =
        "[**] [1:7:2] login [**] [Classification: Against the house rules] [Priority: 1] {TCP} ";
    assert!(fast.lines().all(|line| line.contains(messages)), "{fast}");
    let hits: Value = serde_json::from_slice(&demo.read("hits.json")).unwrap();
    assert_eq!(
        (whole(&hits["rules"][0]["sid"]), whole(&hits["totals"]["alerts"])),
        (7, alerts.len() as u64)
    );
    let function = &stats::read(&demo, "s.json")["chains"][0]["functions"][0];
    assert_eq!(whole(&function["counters"]["alerts"]), alerts.len() as u64);
    assert_eq!(function["tables"]["top_rules"][0]["rule"], "1:7:2");
}

#[test]
fn the_outcome_of_rules_is_reported_as_text_and_as_json() {
    let broken = "alert tcp any any -> any 80 (content:\"x; sid:1;)\n";
    let held = "alert http any any -> any any (http.uri; content:\"/a\"; sid:2;)\n\
        alert dns any any -> any any (dns.query; content:\"a\"; sid:3;)\n";
    let hollow = "alert tcp any any -> any any (pcre:\"/(/\"; sid:4;)\n";
    let demo = with(&format!("{LOGIN}{broken}{held}{hollow}"), "");
    let line = "1 of 5 rules active; 1 need dns.*; 1 need http.*; 2 broken";
    let ended = demo.warpline("check ids.toml").expect(0);
    let checked = String::from_utf8(ended.stdout).unwrap();
    for messages in [line, "matcher ", "skipped, 2 in all:\n", "rules:2:", "rules:5:"] {
        assert!(checked.contains(messages), "{messages:?} is missing from\n{checked}");
    }
    let ended = demo.warpline("run ids.toml -v --stats s.json --alerts a.json").expect(0);
    assert!(ended.stderr.contains(&format!("    rules      {line}\n")), "{}", ended.stderr);
    let skipped =
        "  skipped 2 invalid and 2 unsupported lines; `warpline check` names the reasons\n";
    assert!(ended.stderr.contains(skipped), "{}", ended.stderr);
    assert!(!eve(&demo.read("a.json")).is_empty(), "the rest runs");

    let ended = demo.warpline("check ids.toml --json").expect(0);
    let mut checked: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let chain = checked["chains"][0].take();
    assert_eq!((&chain["name"], whole(&chain["left_out"]["count"])), (&"chain".into(), 2));
    assert_eq!(chain["left_out"]["listed"][0]["line"], 2);
    let mut run = stats::read(&demo, "s.json")["chains"][0]["functions"][0]["about"].take();
    let mut about = chain["functions"][0]["about"].clone();
    run["load_seconds"].take();
    assert!(about["load_seconds"].take().is_f64());
    assert_eq!(about, run, "the same in `--stats`");
    let rules = &about["rules"];
    let counts = ["rules", "active", "held", "broken"].map(|key| whole(&rules[key]));
    assert_eq!(counts, [5, 1, 2, 2]);
    assert_eq!((whole(&rules["needed"]["http.*"]), whole(&rules["needed"]["dns.*"])), (1, 1));
    let held = rules["held_by"].as_array().unwrap();
    assert!(held.iter().any(|need| need["need"] == "http.uri" && need["sids"][0] == 2), "{rules}");
    let place = |at: usize| ["line", "column"].map(|key| whole(&rules["broken_rules"][at][key]));
    assert_eq!((place(0)[0], place(1)[0]), (2, 5), "{rules}");
    assert!(place(0)[1] > 1 && rules["broken_rules"][0]["file"] == "rules", "{rules}");
    assert!(whole(&about["matcher"]["bytes"]) > 0 && whole(&about["flow_bytes"]) > 1 << 20);
}

/// A thousand mistakes are counted, and ten printed.
#[test]
fn a_file_of_mistakes_is_counted_and_the_rest_runs() {
    let wrong = "alert tcp any any -> any 80 (content:\"x; sid:1;)\n".repeat(1000);
    let demo = with(&format!("{wrong}{LOGIN}"), "");
    let ended = demo.warpline("check ids.toml").expect(0);
    let messages = String::from_utf8(ended.stdout).unwrap();
    assert!(messages.contains("1 of 1,001 rules active; 1,000 broken"), "{messages}");
    assert!(
        messages.contains("skipped, 1000 in all:") && messages.contains("... and 990 more: "),
        "{messages}"
    );
    let ended = demo.warpline("run ids.toml --alerts -").expect(0);
    assert!(!eve(&ended.stdout).is_empty());
}

#[test]
fn mistakes_in_the_table_are_reported_with_their_place() {
    for (table, messages) in [
        (
            "matcher = \"fast\"\n",
            "`matcher` must be \"auto\", \"hyperscan\", \"dense\" or \"compact\"",
        ),
        ("threshold = \"nowhere\"\n", "can't read \"nowhere\""),
        ("snort_rules = [\"rules\", \"gone.rules\"]\n", "can't read \"gone.rules\""),
        ("eve = \"a.json\"\nhits = \"a.json\"\n", "`hits` and `eve` name the same file"),
        ("payload = 5000\n", "`payload` must be a whole number from 0 to 2048"),
        ("flow = 1\n", "[nids] has no key `flow`"),
    ] {
        let demo = with(LOGIN, table);
        for command in ["check ids.toml", "run ids.toml --alerts a.json"] {
            let ended = demo.warpline(command).expect(2);
            assert!(ended.stderr.contains(messages), "{table}: {}", ended.stderr);
            assert!(ended.stderr.contains("ids.toml:5:") || ended.stderr.contains("ids.toml:6:"));
        }
        assert!(!demo.path("a.json").exists());
    }
    let demo = with(LOGIN, "");
    std::fs::remove_file(demo.path("rules")).unwrap();
    let ended = demo.warpline("run ids.toml").expect(2);
    assert!(ended.stderr.contains("ids.toml:5:9: can't read \"rules\""), "{}", ended.stderr);
}

/// All matchers give the same alerts. Requesting a missing Hyperscan is a mistake.
#[test]
fn every_matcher_gives_the_same_alerts() {
    let demo = with(LOGIN, "");
    let run = |matcher: &str| {
        demo.warpline(&format!("run ids.toml --alerts - --set nids.matcher={matcher}"))
    };
    let alerts = run("dense").expect(0).stdout;
    assert!(run("compact").expect(0).stdout == alerts && run("auto").expect(0).stdout == alerts);
    let ended = run("hyperscan");
    match ended.status {
        Some(0) => assert_eq!(ended.stdout, alerts),
        _ => assert!(ended.expect(2).stderr.contains("libhs.so"), "names the missing library"),
    }
}

/// Files without one rule are refused, by `check` as by `run`; so is what `strict` and `rules_min`
/// ask for.
#[test]
fn files_that_are_no_rules_are_refused() {
    let rule = "alert tcp any any -> any any (content:\"x\"; sid:1;)\n";
    let wide: Vec<u8> = rule.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let broken = format!("{rule}alert tcp any any ->\n");
    let other = format!("{rule}alert http any any -> any any (http.uri; content:\"x\"; sid:2;)\n");
    let cases: [(&[u8], &str, &str); 11] = [
        (&noise, "", "is a rule that can be read"),
        (&[&[0xff, 0xfe][..], &wide].concat(), "", "is not a file of rules: it is text in UTF-16"),
        (&wide, "", "is not a file of rules: it is full of zero bytes"),
        (&[0x1f, 0x8b, 8, 0, 9], "", "can't be unpacked: unexpected end of file"),
        (b"", "", "these files contain no rules"),
        (b"# alert\n", "", "these files contain no rules"),
        (b"hello\n", "", "`hello` is not an action"),
        (broken.as_bytes(), "strict = true\n", "rules:2:"),
        (other.as_bytes(), "rules_min = 2\n", "1 rules are active, fewer than 2"),
        (broken.as_bytes(), "", ""),
        (other.as_bytes(), "strict = true\nrules_min = 1\n", ""),
    ];
    for (rules, keys, why) in cases {
        let demo = with("", keys);
        demo.write("rules", rules);
        for command in ["check ids.toml", "run ids.toml --output none"] {
            let ended = demo.warpline(command);
            let messages = ended.expect(if why.is_empty() { 0 } else { 2 }).stderr;
            assert!(messages.contains(why), "{why}: {messages}");
        }
    }
    // The running rules stay in place if the new file has none.
    let demo = with(MARKS, "");
    let mut child = demo.start(ENDLESS);
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 1);
    demo.write("rules", &noise);
    signal(&child, "HUP");
    while lines.recv_timeout(LIMIT).unwrap() != "reload: the previous version keeps running" {}
    signal(&child, "INT");
    wait(child).expect(130);
}

/// Broken rules, rules that need missing features, and rules that run with a remark are counted
/// apart.
#[test]
fn states_of_rules() {
    let demo = with(
        "alert tcp any any -> any any (content:\"x\"; classtype:mine; sid:1;)\n\
         alert http any any -> any any (http.uri; content:\"x\"; sid:2;)\nalert tcp\n",
        "",
    );
    let messages = String::from_utf8(demo.warpline("check ids.toml").expect(0).stdout).unwrap();
    let line = "1 of 3 rules active; 1 need http.*; 1 broken; 1 of no known class";
    assert!(messages.contains(line), "{messages}");
    assert!(messages.contains("  skipped, 1 in all:\nrules:3:"), "{messages}");
    assert!(
        messages.contains("  remarks, 1 in all:\nrules:1:54: no class is called `mine`"),
        "{messages}"
    );
}

/// A request of a client, at a time in milliseconds; its own checksums are right or not filled in.
fn request(client: u8, at_ms: u64, is_unfilled: bool) -> Vec<Record> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const PUSH: u8 = 0x18;
    let question = b"GET /account/login HTTP/1.1\r\n\r\n";
    let frames = [
        tcp((client, true), [1, 0], SYN, b"", is_unfilled),
        tcp((client, false), [1, 2], SYN | ACK, b"", false),
        tcp((client, true), [2, 2], ACK, b"", is_unfilled),
        tcp((client, true), [2, 2], PUSH, question, is_unfilled),
    ];
    let at = |n: usize| 1_750_000_000_000_000_000 + (at_ms + n as u64) * 1_000_000;
    frames.into_iter().enumerate().map(|(n, frame)| Record::new(at(n), frame)).collect()
}

/// The first client's checksums weren't filled in, those of all others were: as a whole the capture
/// is one with checksums.
#[test]
fn a_pace_changes_no_decision_on_checksums() {
    let demo = with(LOGIN, "");
    let others = (8..=30).flat_map(|client| request(client, 370 + 4 * u64::from(client), false));
    let frames = request(7, 0, true).into_iter().chain(others).collect::<Vec<_>>();
    demo.write("late.pcap", capture(1, &frames));
    let alerts = ["late.pcap", "late.pcap,pace=1", "late.pcap,pace=1.5"].map(|input| {
        let run = format!("run ids.toml --alerts - --input {input}");
        eve(&demo.warpline(&run).expect(0).stdout)
    });
    let clients: Vec<&str> =
        alerts[0].iter().map(|alert| alert["src_ip"].as_str().unwrap()).collect();
    let expected: Vec<String> = (8..=30).map(|client| format!("192.0.2.{client}")).collect();
    assert_eq!(clients, expected);
    assert!(alerts.iter().all(|some| *some == alerts[0]));
}

const ENDLESS: &str = "run ids.toml -v --lanes 2 --output none --stats s.json --alerts a.json \
     --input generate:packets=1000000000000,size=100,flows=100";

const MARKS: &str =
    "alert ip any any -> any any (msg:\"marks\"; flowbits:set,seen; flowbits:noalert; sid:1;)\n";
const MARKED: &str = "alert ip any any -> any any (msg:\"marked\"; flowbits:isset,seen; \
    threshold:type limit,track by_rule,count 3,seconds 1000000; sid:2;)\n";

#[test]
fn rules_change_while_packets_flow() {
    let demo = with(MARKS, "flows = 1000\nstream_memory_mib = 1\n");
    let mut child = demo.start(ENDLESS);
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 1);
    let reload = |rules: &str| {
        demo.write("rules", rules);
        signal(&child, "HUP");
        lines.recv_timeout(LIMIT).expect("an answer to SIGHUP")
    };
    // The rules that marked the flows are gone, but the marks stay.
    assert_eq!(reload(MARKED), "reload: [nids] in place");
    // A broken rule is reported with its place, and the other rules replace the running ones.
    assert_eq!(reload(&format!("{MARKED}alert ip any any\n")), "reload: [nids] in place");
    assert_eq!(lines.recv_timeout(LIMIT).unwrap(), "reload: skipped, 1 in all:");
    assert!(lines.recv_timeout(LIMIT).unwrap().starts_with("rules:2:"));
    // A chain file with a mistake replaces nothing.
    demo.write("ids.toml", CHAIN.replace("[nids]\n", "[nids]\nwindow_kib = 1\n"));
    signal(&child, "HUP");
    let messages = || lines.recv_timeout(LIMIT).unwrap();
    while messages() != "reload: the previous version keeps running" {}
    signal(&child, "INT");
    wait(child).expect(130);
    let summary: Vec<String> = lines.iter().collect();
    let is_last = |line: &String| line.ends_with("1 of 2 rules active; 1 broken");
    assert!(
        summary.iter().any(is_last),
        "the summary is about the rules that ran last: {summary:?}"
    );
    let alerts = eve(&demo.read("a.json"));
    assert_eq!(alerts.len(), 3, "the second reload counted on");
    assert!(alerts.iter().all(|alert| alert["alert"]["signature_id"] == 2));
    let stats = stats::read(&demo, "s.json");
    assert_eq!(whole(&stats["chains"][0]["packets"]["overload"]), 0);
    let counters = &stats["chains"][0]["functions"][0]["counters"];
    assert_eq!(
        (whole(&counters["flows"]), whole(&counters["notes-unknown"])),
        (100, 0),
        "{counters}"
    );
}

/// A rule decides once about a flow, so there are always new ones.
#[test]
fn rules_that_reject_come_and_go_while_packets_flow() {
    let reject = |action: &str| format!("{action} udp any any -> any any (msg:\"udp\"; sid:3;)\n");
    let demo = with(&reject("alert"), "flows = 1000\nstream_memory_mib = 1\n");
    let run = "run ids.toml -q --lanes 2 --output none --stats s.json --socket c.sock \
         --input generate:packets=1000000000000,size=100,flows=1000000";
    let mut child = demo.start(run);
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 1);
    let sent = || {
        let stats = demo.warpline("ctl stats --socket c.sock --json").expect(0).stdout;
        let stats: Value = serde_json::from_slice(&stats).unwrap();
        let counters = &stats["chains"][0]["functions"][0]["counters"];
        counters["reject-unreachables"].as_u64().unwrap_or_default()
    };
    for (action, rejects) in [("reject", true), ("alert", false), ("rejectboth", true)] {
        demo.write("rules", reject(action));
        signal(&child, "HUP");
        assert_eq!(lines.recv_timeout(LIMIT).unwrap(), "reload: [nids] in place", "{action}");
        let begun = std::time::Instant::now();
        let mut last = sent();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = sent();
            if (now > last) == rejects {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "{action}: {now} answers after {last}");
            last = now;
        }
    }
    signal(&child, "INT");
    wait(child).expect(130);
    let chain = &stats::read(&demo, "s.json")["chains"][0];
    assert_eq!(whole(&chain["packets"]["overload"]), 0);
    assert_eq!(chain["packets"]["balanced"], true);
}
