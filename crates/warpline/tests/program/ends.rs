//! How a run ends: full disk, closed pipe, signals; and the memory that it takes meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Child, Demo, LIMIT, output_of, wait};
use crate::stats::whole;
use crate::{pcap, stats};

/// Sends a signal by its short name.
pub(crate) fn signal(child: &Child, name: &str) {
    let command = format!("kill -{name} {}", child.id());
    output_of(Command::new("sh").args(["-c", &command]));
}

/// Waits until packets go through: all threads are there, `more` beside those of one lane.
pub(crate) fn wait_until_running(demo: &Demo, child: &Child, more: usize) {
    let tasks = format!("/proc/{}/task", child.id());
    let started = Instant::now();
    let name = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    // Devices have threads of their own, earlier ones.
    let has_threads = || {
        let tasks: Vec<_> = fs::read_dir(&tasks).into_iter().flatten().flatten().collect();
        let sends = tasks.iter().filter_map(name).any(|name| name.trim() == "sender");
        sends && tasks.len() >= ONE_LANE + more
    };
    while !(demo.path("s.json").exists() && has_threads()) {
        assert!(started.elapsed() < LIMIT, "it does not begin");
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(200));
}

/// The main thread, one that writes messages, one that watches, one that reloads, one that reads,
/// one that works, one that sends.
const ONE_LANE: usize = 7;

/// A run that would not end by itself.
const ENDLESS: &str =
    "run chain.toml --stats s.json --input generate:packets=1000000000000,size=200";

#[test]
fn a_full_disk_is_reported_and_what_was_done_is_written() {
    let demo = Demo::new();
    for arguments in ["run chain.toml", "run chain.toml --lanes 4 --set chain.batch_packets=1"] {
        let ended =
            demo.warpline(&format!("{arguments} --output /dev/full --stats s.json")).expect(1);
        assert!(ended.stderr.contains("error: chain \"demo\": output: "), "{}", ended.stderr);
        assert!(ended.stderr.contains("no space left"), "{}", ended.stderr);
        let stats = stats::read(&demo, "s.json");
        let chain = &stats["chains"][0];
        let packets = &chain["packets"];
        assert!(whole(&packets["overload"]) == 0 && whole(&packets["unwritten"]) > 0, "{chain}");
        assert_eq!((&packets["sent"], &chain["bytes"]["sent"]), (&0.into(), &0.into()), "{chain}");
        assert_eq!((&packets["balanced"], &chain["ended"]), (&true.into(), &"error".into()));
        assert!(chain["errors"][0].as_str().unwrap().contains("no space left"));
    }
    let ended = demo.warpline("run chain.toml --output none --stats /dev/full").expect(1);
    assert!(ended.stderr.contains("statistics: no space left"), "{}", ended.stderr);
    // The traffic matters more than its copy, and continues.
    let tap = "run chain.toml --set chain.tap=/dev/full --stats s.json";
    let ended = demo.warpline(tap).expect(1);
    let why = "error: chain \"demo\": tap: ended after 0 frames: ";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    let stats = stats::read(&demo, "s.json");
    assert!(whole(&stats["chains"][0]["packets"]["sent"]) > 10_000);
}

/// With a limit on the file size, the file has exactly the packets reported as sent.
#[test]
fn unwritten_packets_are_not_counted_as_sent() {
    let demo = Demo::new();
    let program = env!("CARGO_BIN_EXE_warpline");
    for (name, blocks) in
        [("o.pcap", 3000), ("o.pcapng", 3000), ("o.pcap.gz", 500), ("o.pcap.zst", 500)]
    {
        let run = format!(
            "ulimit -f {blocks}; exec {program} run chain.toml --output {name} --stats s.json"
        );
        let ran = Command::new("sh").args(["-c", &run]).current_dir(demo.path(".")).output();
        let ran = ran.expect("a shell");
        let messages = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{name}: {messages}");
        assert!(messages.contains("output: file too large"), "{name}: {messages}");
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        let packets = &chain["packets"];
        assert!(whole(&packets["unwritten"]) > 0, "{name}: {chain}");
        let lost = (&packets["overload"], &packets["balanced"]);
        assert_eq!(lost, (&0.into(), &true.into()), "{name}: {chain}");
        if !name.ends_with("ng") {
            let written = match demo.read(name).len() {
                0 => 0,
                _ => {
                    // A file compressed by zstd lacks its end then, which causes a warning.
                    let copy = "run chain.toml --set chain.functions=[] --output b.pcap --input";
                    demo.warpline(&format!("{copy} {name}")).expect(0);
                    pcap::parse(&demo.read("b.pcap")).1.len()
                }
            };
            assert_eq!(whole(&packets["sent"]), written as u64, "{name} of {blocks} blocks");
        }
    }
}

/// Without an output nothing is sent.
#[test]
fn a_missing_output_is_reported() {
    let demo = Demo::new();
    for more in ["--output none", "--output none --lanes 3"] {
        let ended = demo.warpline(&format!("run chain.toml --stats s.json {more}")).expect(0);
        assert!(ended.stderr.contains("there is no output"), "{}", ended.stderr);
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        assert_eq!((&chain["packets"]["sent"], &chain["bytes"]["sent"]), (&0.into(), &0.into()));
        assert!(whole(&chain["packets"]["absorbed"]) > 10_000, "{chain}");
        assert_eq!(chain["ended"], "end of input");
    }
}

/// A thread that the system doesn't give: all that run end, and so does the program.
#[test]
fn threads_that_are_not_there_end_the_run_with_a_message() {
    let demo = Demo::new();
    let program = env!("CARGO_BIN_EXE_warpline");
    let is_root = output_of(Command::new("id").arg("-u")).trim() == "0";
    // The limit counts all that a user runs, and none of root's.
    let user = if is_root { "setpriv --reuid=39999 --clear-groups --" } else { "" };
    output_of(Command::new("chmod").args(["-R", "a+rwX"]).arg(demo.path(".")));
    for limit in 1..=6 {
        let run = format!(
            "exec {user} prlimit --nproc={limit} {program} run chain.toml --output none --lanes 2"
        );
        let child = Command::new("sh").args(["-c", &run]).current_dir(demo.path(".")).output();
        let ran = child.expect("a shell");
        let messages = String::from_utf8_lossy(&ran.stderr);
        assert!(!messages.contains("panicked"), "{limit}: {messages}");
        if is_root {
            assert_eq!(ran.status.code(), Some(1), "{limit}: {messages}");
            assert!(messages.contains("cannot spawn thread"), "{limit}: {messages}");
        }
    }
}

/// Standard error is a full pipe. Messages are lost, and a signal still ends the run.
#[test]
fn a_standard_error_that_nobody_reads_holds_up_no_signal() {
    let demo = Demo::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let fill = Command::new("cat").arg("/dev/zero").stdout(writer.try_clone().unwrap()).spawn();
    let mut fill = fill.expect("a process");
    sleep(Duration::from_millis(200));
    fill.kill().unwrap();
    fill.wait().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_warpline"))
        .args(ENDLESS.split(' '))
        .args(["--output", "none"])
        .current_dir(demo.path("."))
        .stderr(writer)
        .spawn();
    let mut run = Child::of(run.unwrap());
    wait_until_running(&demo, &run, 0);
    for name in ["USR2", "USR2", "HUP"] {
        signal(&run, name);
        sleep(Duration::from_millis(200));
    }
    signal(&run, "TERM");
    let asked = Instant::now();
    while run.try_wait().unwrap().is_none() {
        assert!(asked.elapsed() < LIMIT / 6, "it does not end");
        sleep(Duration::from_millis(5));
    }
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert!(whole(&stats::read(&demo, "s.json")["chains"][0]["packets"]["read"]) > 0);
    drop(reader);
}

/// A socket's name can't be written to. That chain can't start, and the other one's work is
/// reported.
#[test]
fn a_chain_that_can_not_start_takes_no_other_with_it() {
    let demo = Demo::new();
    let _socket = std::os::unix::net::UnixListener::bind(demo.path("socket")).unwrap();
    let file = "[[chain]]\nname = \"well\"\nfunctions = []\ninput = \"generate:packets=5\"\n\
                [[chain]]\nname = \"ill\"\nfunctions = [\"flow_monitor\"]\n\
                input = \"generate:packets=5\"\n[flow_monitor]\ncsv = \"socket\"\n";
    demo.write("two.toml", file);
    let ended = demo.warpline("run two.toml --stats s.json").expect(1);
    assert!(ended.stderr.contains("well: 5 packets"), "{}", ended.stderr);
    assert!(ended.stderr.contains("chain \"ill\""), "{}", ended.stderr);
    let stats = stats::read(&demo, "s.json");
    assert_eq!(stats["chains"].as_array().unwrap().len(), 1);
    assert_eq!(whole(&stats["chains"][0]["packets"]["read"]), 5);
}

#[test]
fn a_reader_that_went_away_is_no_mistake() {
    let demo = Demo::new();
    for arguments in ["functions", "functions nat", "check chain.toml", "demo again"] {
        let mut child = demo.start(arguments);
        // Closed before the program's first output, or soon after.
        drop(child.stdout.take());
        let ended = wait(child).expect(0);
        assert_eq!(ended.stderr, "", "{arguments}");
    }
}

#[test]
fn a_closed_pipe_ends_the_run_cleanly() {
    let demo = Demo::new();
    for input in ["capture.pcap", "generate:packets=1000000000000,size=1500"] {
        let mut child =
            demo.start(&format!("run chain.toml --output - --stats s.json --input {input}"));
        let mut head = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut head).unwrap();
        let ended = wait(child).expect(0);
        assert!(
            ended.stderr.contains("warning: output: the reader closed the pipe"),
            "{}",
            ended.stderr
        );
        stats::read(&demo, "s.json");
    }
}

#[test]
fn a_signal_drains_and_everything_is_written() {
    let demo = Demo::new();
    for (name, more) in [
        ("INT", ""),
        ("TERM", "--lanes 4"),
        ("INT", "--lanes 2 --set nat.stage=own --set chain.functions=[\"nat\"]"),
        ("TERM", "--output - --set chain.functions=[]"),
    ] {
        let _ = fs::remove_file(demo.path("s.json"));
        let child = demo.start(&format!("{ENDLESS} {more}"));
        wait_until_running(&demo, &child, 0);
        signal(&child, name);
        // To a pipe: the program waits in a write until someone reads.
        let status = if name == "INT" { 130 } else { 143 };
        let ended = wait(child).expect(status);
        assert!(ended.stderr.contains(&format!("ended by SIG{name}")), "{}", ended.stderr);
        let stats = stats::read(&demo, "s.json");
        assert_eq!(stats["chains"][0]["ended"], "signal");
        let sent = whole(&stats["chains"][0]["packets"]["sent"]) as usize;
        let capture = if ended.stdout.is_empty() { demo.read("out.pcap") } else { ended.stdout };
        assert_eq!(pcap::parse(&capture).1.len(), sent, "{name} {more}");
        assert!(whole(&stats["chains"][0]["packets"]["read"]) > 0);
    }
}

/// Someone presses Ctrl-C while nothing comes in.
#[test]
fn a_signal_ends_a_run_whose_input_is_silent() {
    let demo = Demo::new();
    let capture = demo.read("capture.pcap");
    let mut child = demo.start("run chain.toml --stats s.json --input -");
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &capture[..100_000]).unwrap();
    wait_until_running(&demo, &child, 1);
    signal(&child, "INT");
    wait(child).expect(130);
    let packets = &stats::read(&demo, "s.json")["chains"][0]["packets"];
    assert!(whole(&packets["read"]) > 0 && whole(&packets["sent"]) > 0, "{packets}");
}

/// Of two rounds at least, a line a device and one of the CPU.
#[test]
fn watched_devices_are_read_until_a_signal_or_until_nobody_reads() {
    let demo = Demo::new();
    for (arguments, round) in [
        ("devices --watch", |line: &str| line.contains(" s  cpu ")),
        ("devices --watch --json", |line: &str| line.starts_with("{\"schema\":1,\"seconds\":")),
    ] as [(&str, fn(&str) -> bool); 2]
    {
        for by_signal in [true, false] {
            let mut child = demo.start(arguments);
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let rounds = lines.by_ref().filter(|line| round(line.as_ref().unwrap()));
            assert_eq!(rounds.take(2).count(), 2, "{arguments}");
            if by_signal {
                signal(&child, "INT");
                lines.for_each(drop);
            } else {
                drop(lines);
            }
            assert_eq!(wait(child).expect(0).stderr, "", "{arguments}");
        }
    }
}

/// The first signal can't end it, since its output is not read; the second does.
#[test]
fn a_second_signal_ends_it_at_once() {
    let demo = Demo::new();
    let run = format!("{ENDLESS} --output - --set chain.functions=[] --socket s");
    let mut child = demo.start(&run);
    let stdout = child.stdout.take();
    wait_until_running(&demo, &child, 0);
    signal(&child, "INT");
    let started = Instant::now();
    let status = || String::from_utf8(demo.warpline("ctl status --socket s").stdout).unwrap();
    while !status().contains("stopping") {
        assert!(started.elapsed() < LIMIT, "the first signal stops it");
    }
    assert!(child.try_wait().unwrap().is_none(), "it can't have written everything");
    signal(&child, "INT");
    wait(child).expect(1);
    drop(stdout);
    let text = fs::read_to_string(demo.path("s.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    let chain = &stats["chains"][0];
    assert_eq!((&chain["ended"], &chain["packets"]["balanced"]), (&"signal".into(), &true.into()));
    assert!(whole(&chain["packets"]["in_flight"]) > 0, "{chain}");
}

/// A chain that had ended keeps its counts where another one can't end.
#[test]
fn a_second_signal_leaves_what_ended_as_it_was() {
    let demo = Demo::new();
    output_of(Command::new("mkfifo").arg(demo.path("f")));
    let chains = "[[chain]]\nname = \"stuck\"\nfunctions = []\noutput = \"f\"\n\
        input = \"generate:packets=1000000,rate_gbps=40,on_full=drop,ring=32\"\n\
        [[chain]]\nname = \"done\"\nfunctions = [\"digest\"]\noutput = \"none\"\n\
        input = \"generate:packets=50000,rate_gbps=40,on_full=drop,ring=32\"\n";
    demo.write("two.toml", chains);
    let child = demo.start("run two.toml --quiet --socket s --stats s.json");
    // It is open, and never read.
    let mut how = fs::OpenOptions::new();
    let _pipe = how.read(true).write(true).open(demo.path("f")).unwrap();
    let stats = |text: &[u8]| serde_json::from_slice(text).unwrap_or(serde_json::Value::Null);
    let started = Instant::now();
    let shown = loop {
        let state = demo.warpline("ctl status --json --socket s").stdout;
        if stats(&state)["chains"][1]["state"] == "ended" {
            break stats(&demo.warpline("ctl stats --json --socket s").stdout)["chains"][1].clone();
        }
        assert!(started.elapsed() < LIMIT, "one chain ends");
    };
    signal(&child, "TERM");
    while !String::from_utf8_lossy(&demo.warpline("ctl status --socket s").stdout)
        .contains("stopping")
    {
        assert!(started.elapsed() < LIMIT, "the first signal stops the other one");
    }
    signal(&child, "TERM");
    wait(child).expect(1);
    let all = stats(&fs::read(demo.path("s.json")).unwrap());
    let [stuck, done] = [0, 1].map(|at| &all["chains"][at]);
    assert_eq!(stuck["ended"], "signal");
    for count in ["in_flight", "overload"] {
        assert!(whole(&stuck["packets"][count]) > 0, "{count}: {stuck}");
    }
    assert!(whole(&done["packets"]["overload"]) > 0, "{done}");
    assert_eq!(done["ended"], "end of input", "{done}");
    assert_eq!(done["packets"], shown["packets"], "as it was shown");
    assert_eq!(whole(&done["packets"]["read"]), 50_000);
    assert_eq!(whole(&done["functions"][0]["packets_in"]), whole(&done["packets"]["absorbed"]));
}

/// To open a pipe without waiting, on Linux.
const O_NONBLOCK: i32 = 0o4000;

/// A reload reads a pipe whose writer writes nothing.
#[test]
fn a_signal_ends_a_run_whose_reload_waits() {
    let demo = Demo::new();
    let child = demo.start(&format!("{ENDLESS} --output none"));
    wait_until_running(&demo, &child, 0);
    fs::remove_file(demo.path("firewall.rules")).unwrap();
    output_of(Command::new("mkfifo").arg(demo.path("firewall.rules")));
    signal(&child, "HUP");
    // A pipe takes a writer once a reader waits for one.
    let mut how = fs::OpenOptions::new();
    how.write(true).custom_flags(O_NONBLOCK);
    let started = Instant::now();
    let _writer = loop {
        if let Ok(writer) = how.open(demo.path("firewall.rules")) {
            break writer;
        }
        assert!(started.elapsed() < LIMIT, "the reload reads it");
        sleep(Duration::from_millis(5));
    };
    signal(&child, "TERM");
    wait(child).expect(143);
    assert_eq!(stats::read(&demo, "s.json")["chains"][0]["ended"], "signal");
}

#[test]
fn memory_does_not_grow_with_the_input() {
    let demo = Demo::new();
    let peak_kib = |packets: u64| {
        let mut child = demo.start(&format!(
            "run chain.toml --output none --input generate:packets={packets},size=1000"
        ));
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let now = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            peak = peak.max(now.unwrap_or(0_u64));
            sleep(Duration::from_millis(2));
        }
        wait(child).expect(0);
        peak
    };
    let (short, long) = (peak_kib(200_000), peak_kib(1_000_000));
    assert!(short > 1000, "{short} KiB can't be the truth");
    assert!(long < short + short / 10 + 4096, "200 MB: {short} KiB, 1 GB: {long} KiB");
}
