//! Hostile surroundings: odd characters, long names, little memory, few descriptors. And mistakes
//! as programs read them.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Demo, wait};
use crate::ipsec::{CBC, Site};

const MARK: &str = "\u{feff}";

/// Editors on Windows begin a text with a byte order mark.
#[test]
fn a_byte_order_mark_begins_any_file() {
    let demo = Demo::new();
    let files = demo.path(".").read_dir().unwrap().map(|file| file.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    for name in files.iter().filter(|name| *name != "capture.pcap") {
        let text = String::from_utf8(demo.read(name)).unwrap();
        demo.write(name, format!("{MARK}{}", text.replace('\n', "\r\n")));
    }
    demo.warpline("run chain.toml --output marked.pcap").expect(0);
    demo.warpline("run gateway.toml").expect(0);
    assert!(
        demo.read("marked.pcap") == {
            let plain = Demo::new();
            plain.warpline("run chain.toml --output marked.pcap").expect(0);
            plain.read("marked.pcap")
        }
    );
    let site = Site::with(CBC);
    let sas = String::from_utf8(site.read("out.sas")).unwrap();
    site.write_secret("out.sas", &format!("{MARK}{sas}"));
    site.warpline("check seal.toml").expect(0);
    // A mistake stands where an editor shows it.
    demo.write("bad.toml", format!("{MARK}[chain]\nlanes = 1\n"));
    let reported = demo.warpline("check bad.toml").expect(2).stderr;
    assert!(reported.contains("bad.toml:1:1: [chain] needs `functions`"), "{reported}");
    demo.write("bad.toml", b"\xff\xfe[\0c\0");
    let reported = demo.warpline("check bad.toml").expect(2).stderr;
    assert!(reported.contains("it is UTF-16 text; save it as UTF-8"), "{reported}");
}

/// Nothing that is echoed moves a cursor, turns the direction of writing, or fills the screen.
#[test]
fn quoted_input_is_escaped_and_short() {
    let demo = Demo::new();
    let odd = "\x1b]0;x\x07\u{202e}\u{2066}\u{2028}\u{e0041}";
    let long = "n".repeat(100_000);
    demo.write("odd.toml", format!("[chain]\nfunctions = [\"{}\"]\n", "n".repeat(900_000)));
    demo.write("key.toml", format!("[chain]\nfunctions = []\n{} = 1\n", "k".repeat(900_000)));
    let named = format!(
        "[chain]\nfunctions = [\"{0}\"]\n[{0}]\nfunction = \"digest\"\n",
        "i".repeat(400_000)
    );
    demo.write("named.toml", named);
    let commands = [
        odd.into(),
        format!("run --{odd}"),
        format!("run chain.toml --lanes {odd}"),
        format!("check {odd}"),
        format!("functions {odd}"),
        format!("run chain.toml --input {odd}"),
        format!("run chain.toml --device {odd}"),
        format!("run chain.toml --set {odd}"),
        format!("plan chain.toml --explain {odd}"),
        long.clone(),
        format!("check {long}"),
        format!("functions {long}"),
        format!("run chain.toml --lanes {long}"),
        format!("run chain.toml --set {long}"),
        format!("run chain.toml --input {long}"),
        format!("run chain.toml --input generate:{long}=1"),
        "check odd.toml".into(),
        "check odd.toml --json".into(),
        "check key.toml".into(),
        "check named.toml".into(),
    ];
    for command in commands {
        let ended = demo.warpline(&command).expect(2);
        let reported = format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
        let is_odd = |c: char| {
            c.is_control() && c != '\n'
                || ['\u{202e}', '\u{2066}', '\u{2028}', '\u{e0041}'].contains(&c)
        };
        let command: String = command.chars().take(60).collect();
        assert!(!reported.contains(is_odd), "{command}: {reported:?}");
        assert!(
            !reported.is_empty() && reported.len() < 20_000,
            "{command}: {} bytes",
            reported.len()
        );
    }
    let odd = odd.replace(';', ",");
    let rule = format!("alert ip any any -> any any (msg:\"a{odd}b\"; sid:1;)\n");
    demo.write("rules", rule);
    demo.write(
        "ids.toml",
        "[chain]\nfunctions = [\"nids\"]\n[nids]\nrules = \"rules\"\nfast_log = \"fast.log\"\n",
    );
    demo.warpline("run ids.toml --output none --input generate:packets=1,size=100").expect(0);
    let line = String::from_utf8(demo.read("fast.log")).unwrap();
    assert!(line.contains("] a ]0,x     b [**]"), "{line:?}");
    assert!(line.lines().count() == 1 && line.matches(char::is_control).count() == 1, "{line:?}");
}

/// Each mistake with its file, line, column, message and what is allowed.
#[test]
fn mistakes_are_reported_to_programs() {
    let demo = Demo::new();
    demo.write("bad.rules", "accept tcp from any to any\nacept udp\n");
    let chain = "[chain]\nfunctions = [\"firewall\"]\nlanes = 65\ncolour = 1\n[firewall]\n\
                 rules = \"bad.rules\"\ndefault = \"perhaps\"\nestablished = \"no\"\n";
    demo.write("bad.toml", chain);
    let ended = demo.warpline("check bad.toml --json").expect(2);
    assert_eq!(ended.stderr, "");
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let listed = json["mistakes"]["listed"].as_array().unwrap();
    assert_eq!((json["schema"].as_u64(), json["mistakes"]["count"].as_u64()), (Some(1), Some(5)));
    for (file, line, column, message, allowed) in [
        ("bad.toml", 3, 9, "`lanes` must be a whole", "a whole number from 1 to 64"),
        ("bad.toml", 4, 1, "[chain] has no key `colour`", "its keys: name, functions, input"),
        ("bad.rules", 2, 1, "", "accept"),
        ("bad.toml", 7, 11, "found \"perhaps\"", "\"drop\""),
        ("bad.toml", 8, 15, "`established` must be true", "true or false"),
    ] {
        let is_it = |one: &&Value| {
            let text = |key: &str| one[key].as_str().unwrap_or_default();
            text("file") == file
                && (one["line"].as_u64(), one["column"].as_u64()) == (Some(line), Some(column))
                && text("message").contains(message)
                && text("allowed").contains(allowed)
        };
        assert!(listed.iter().any(|one| is_it(&one)), "{message} is missing from {json:#}");
    }
    // Whatever is wrong.
    for (arguments, place, message) in [
        ("check gone.toml --json", Value::Null, "can't read gone.toml: no such file"),
        ("check chain.toml --json --device cuda:99", Value::Null, "no device \"cuda:99\""),
        ("check same.toml --json", 4.into(), "is both the input and the output"),
    ] {
        let same = "[chain]\nfunctions = []\ninput = \"capture.pcap\"\noutput = \"capture.pcap\"\n";
        demo.write("same.toml", same);
        let ended = demo.warpline(arguments).expect(2);
        let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let one = &json["mistakes"]["listed"][0];
        assert_eq!((&one["line"], ended.stderr.as_str()), (&place, ""), "{json}");
        assert!(one["message"].as_str().unwrap().contains(message), "{json}");
    }
}

/// Runs the program after a command of the shell, which sets limits.
fn limited(demo: &Demo, limit: &str, arguments: &str) -> (Option<i32>, String) {
    let run = format!("{limit}; exec {} {arguments}", env!("CARGO_BIN_EXE_warpline"));
    let mut command = Command::new("sh");
    let ran = command.args(["-c", &run]).current_dir(demo.path(".")).env_remove("RUST_BACKTRACE");
    let ran = ran.output().expect("a shell");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// With any amount of memory the program runs, or ends in order with a message.
#[test]
fn too_little_memory_is_reported() {
    let demo = Demo::new();
    let mut refused = 0;
    for mib in (60..1300).step_by(62) {
        let limit = format!("ulimit -v {}", mib << 10);
        let (status, reported) = limited(&demo, &limit, "run chain.toml --output none");
        // Below that the system can't load the program.
        let begins = status != Some(127) && !reported.contains("shared libraries");
        refused += usize::from(begins && status == Some(1));
        assert!(!begins || matches!(status, Some(0 | 1)), "{mib} MiB: {status:?} {reported}");
        assert!(status != Some(1) || reported.contains("error: "), "{mib} MiB: {reported}");
        assert!(!reported.contains("panicked"), "{mib} MiB: {reported}");
    }
    assert!(refused > 1, "no limit was too low");
}

/// A table that is too large for the memory is named.
#[test]
fn a_table_without_memory_is_named() {
    let demo = Demo::new();
    let nat = "[chain]\nfunctions = [\"nat\"]\n[nat]\ninside = \"10.0.0.0/8\"\n\
               outside = \"203.0.113.0/24\"\n";
    let firewall = "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nestablished = true\n\
                    rules = \"rules\"\n";
    demo.write("rules", "accept any from 0.0.0.0/0 to 0.0.0.0/0\n");
    for (chain, key, most, table) in [
        (nat, "nat.bindings", 1 << 22, "`nat` (4194304 bindings)"),
        (firewall, "firewall.connections", 1 << 24, "`firewall` (16777216 connections)"),
    ] {
        demo.write("large.toml", chain);
        let input = "--lanes 1 --input generate:packets=10 --output none";
        let small = format!("run large.toml {input} --set {key}=65536");
        let (status, reported) = limited(&demo, "ulimit -v 1000000", &small);
        assert_eq!(status, Some(0), "{reported}");
        let large = format!("run large.toml {input} --set {key}={most}");
        let (status, reported) = limited(&demo, "ulimit -v 1000000", &large);
        assert_eq!(status, Some(1), "{reported}");
        let expected = format!("error: out of memory for the tables of {table}: ");
        assert!(reported.contains(&expected), "{reported}");
    }
}

/// With few descriptors a run lacks files. It reports that, and no unrelated error.
#[test]
fn few_descriptors_are_reported() {
    let demo = Demo::new();
    for count in 4..24 {
        let run = "run chain.toml --output o.pcap --stats s.json --alerts a.json \
                   --set nids.fast_log=fast.log --set flow_monitor.csv=flows.csv";
        let (status, reported) = limited(&demo, &format!("ulimit -n {count}"), run);
        let lacks =
            reported.contains("too many open files") || reported.contains("cannot spawn thread");
        assert!(matches!(status, Some(0..=2)), "{count}: {status:?} {reported}");
        assert!(status == Some(0) || lacks, "{count}: {reported}");
        assert!(
            !reported.contains("no function in this chain raises alerts"),
            "{count}: {reported}"
        );
    }
}

/// `check` reports the memory reserved and in use; a run takes no more than that.
#[test]
fn memory_in_use_is_as_foreseen() {
    let demo = Demo::new();
    demo.write("plain.toml", "[chain]\nfunctions = [\"digest\"]\n");
    let foreseen = |lanes: usize| {
        let set = format!("--set chain.lanes={lanes}");
        let text = demo.warpline(&format!("check plain.toml {set}")).expect(0).stdout;
        let text = String::from_utf8(text).unwrap();
        // Lines end where they are full.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(" MiB reserved, about ") && text.contains(" MiB in use"), "{text}");
        let json = demo.warpline(&format!("check plain.toml --json {set}")).expect(0).stdout;
        let json: Value = serde_json::from_slice(&json).unwrap();
        let memory = &json["chains"][0]["memory"];
        (memory["all"].as_u64().unwrap() >> 10, memory["in_use"]["all"].as_u64().unwrap() >> 10)
    };
    let peak_kib = |lanes: usize| {
        let mut child = demo.start(&format!(
            "run plain.toml --output none --lanes {lanes} \
             --input generate:packets=100000,size=1500,flows=1000"
        ));
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let now = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            peak = peak.max(now.unwrap_or(0_u64));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        wait(child).expect(0);
        peak
    };
    let (few, many) = (peak_kib(2), peak_kib(18));
    let ((_, in_few), (reserved, in_many)) = (foreseen(2), foreseen(18));
    let (taken, foreseen) = (many.saturating_sub(few), in_many - in_few);
    assert!(reserved > 3 * in_many, "{reserved} KiB reserved, {in_many} KiB in use");
    assert!(taken < foreseen + foreseen / 2, "{taken} KiB taken, {foreseen} KiB foreseen");
    assert!(taken > foreseen / 10, "{taken} KiB taken, {foreseen} KiB foreseen");
}

/// A chain may make many notes of each packet: `check` counts their room by itself.
#[test]
fn room_for_notes_is_not_reserved() {
    let demo = Demo::new();
    let text = demo.warpline("check chain.toml").expect(0).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains(" MiB in use, at most ") && text.contains(" MiB with all notes"),
        "{text}"
    );
    let json = demo.warpline("check chain.toml --json").expect(0).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    let memory = |key: &str| json["chains"][0]["memory"][key].as_u64().unwrap();
    assert!(memory("notes") > 256 << 20 && memory("lane") < 128 << 20, "{json}");
    assert_eq!(memory("at_most"), memory("lanes") * (memory("lane") + memory("notes")));
}

/// `check -v` builds the state and reports its huge pages, as a run does at its end.
#[test]
fn huge_pages_are_reported() {
    let demo = Demo::new();
    let set = "--set nat.bindings=1048576";
    let text = demo.warpline(&format!("check chain.toml -v {set}")).expect(0).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(" MB in huge pages for tables, "), "{text}");
    let quiet = demo.warpline(&format!("check chain.toml {set}")).expect(0).stdout;
    assert!(!String::from_utf8(quiet).unwrap().contains("huge pages"));
    let json = demo.warpline(&format!("check chain.toml -v --json {set}")).expect(0).stdout;
    let checked: Value = serde_json::from_slice(&json).unwrap();
    let run = "run chain.toml --output none --alerts a.json --stats s.json";
    demo.warpline(&format!("{run} {set}")).expect(0);
    let ran: Value = serde_json::from_slice(&demo.read("s.json")).unwrap();
    for json in [checked, ran] {
        let pages = &json["chains"][0]["huge_pages"];
        let bytes = |of: &str, key: &str| pages[of][key].as_u64().unwrap();
        // The indexes of a million bindings are touched when they are built.
        assert!(bytes("tables", "resident_bytes") >= 32 << 20, "{pages}");
        assert!(bytes("arena", "resident_bytes") >= 1 << 20, "{pages}");
        for of in ["tables", "arena"] {
            assert!(bytes(of, "huge_bytes") <= bytes(of, "resident_bytes"), "{pages}");
        }
    }
}

/// A few bytes that unpack to very many are refused before they fill the memory.
#[test]
fn packed_files_have_bounds() {
    let demo = Demo::new();
    demo.write("routed.toml", "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\n");
    for pack in ["gzip -9", "bzip2 -9"] {
        // 200 MB in members of 1 MB, as packing all of it takes longer than the checks.
        let lines = format!("yes '192.0.2.0/24 198.51.100.1' | head -c 1000000 | {pack} > member");
        let make = format!("{lines} && for _ in $(seq 200); do cat member; done > routes");
        let made = Command::new("sh").args(["-c", &make]).current_dir(demo.path(".")).status();
        if !made.expect("a shell").success() || demo.read("routes").is_empty() {
            continue;
        }
        let (status, reported) = limited(&demo, "ulimit -v 300000", "check routed.toml");
        assert_eq!(status, Some(2), "{pack}: {reported}");
        assert!(reported.contains("it unpacks to more than"), "{pack}: {reported}");
    }
    // A capture is read as it is unpacked, whatever it unpacks to.
    let make = "head -c 24 capture.pcap | gzip > bomb.pcap.gz && \
        head -c 1000000 /dev/zero | gzip -9 > zeros && \
        for _ in $(seq 300); do cat zeros; done >> bomb.pcap.gz";
    let made = Command::new("sh").args(["-c", make]).current_dir(demo.path(".")).status();
    assert!(made.expect("a shell").success());
    let run = "run chain.toml --set chain.functions=[] --output none --input bomb.pcap.gz";
    let (status, reported) = limited(&demo, "ulimit -v 400000", run);
    assert_eq!(status, Some(0), "{reported}");
}
