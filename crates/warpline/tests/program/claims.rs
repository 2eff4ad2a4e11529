//! One file or stream is never two things, whatever names it goes by.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::harness::{Demo, output_of};

/// A folder in which streams and files have further names.
fn named_twice() -> Demo {
    let demo = Demo::new();
    symlink("/dev/stdout", demo.path("out.link")).unwrap();
    symlink("out.link", demo.path("out.link.link")).unwrap();
    fs::hard_link(demo.path("capture.pcap"), demo.path("hard.pcap")).unwrap();
    output_of(Command::new("mkfifo").arg(demo.path("pipe")));
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpu = cpu.map(|(_, name)| name.trim());
    let profile = serde_json::json!({ "schema": 2, "cpu": cpu, "devices": [] });
    demo.write("profile.json", profile.to_string());
    let chain = String::from_utf8(demo.read("chain.toml")).unwrap();
    demo.write("profiled.toml", chain + "\n[plan]\nprofile = \"profile.json\"\n");
    demo
}

#[test]
fn no_stream_or_file_is_two_things() {
    let demo = named_twice();
    let inputs = ["capture.pcap", "chain.toml", "sensor.rules", "profile.json"];
    let before = inputs.map(|name| demo.read(name));
    for (arguments, reported) in [
        (
            "chain.toml --output - --alerts /dev/stdout",
            "/dev/stdout is both the output and the alerts",
        ),
        ("chain.toml --output /dev/stdout --alerts -", "standard output is both the output and"),
        (
            "chain.toml --output /dev/fd/1 --alerts /proc/self/fd/1",
            "is both the output and the alerts",
        ),
        (
            "chain.toml --output /proc/thread-self/fd/1 --alerts -",
            "is both the output and the alerts",
        ),
        (
            "chain.toml --output /dev/../dev/fd/1 --stats /dev/stdout",
            "the output and the statistics",
        ),
        ("chain.toml --output out.link --alerts -", "standard output is both the output and"),
        ("chain.toml --output - --alerts out.link.link", "out.link.link is both the output and"),
        ("chain.toml --output - --set chain.tap=out.link", "is both the output and the tap"),
        (
            "chain.toml --output - --set nids.fast_log=/dev/fd/1",
            "is both the output and the file that [nids] writes",
        ),
        (
            "chain.toml --set nids.fast_log=x --set nids.eve=./x",
            "`fast_log` and `eve` name the same file",
        ),
        ("chain.toml --output pipe --alerts ./pipe", "pipe is both the output and the alerts"),
        ("chain.toml --input pipe --output pipe", "pipe is both the input and the output"),
        ("chain.toml --input hard.pcap --output capture.pcap", "both the input and the output"),
        ("chain.toml --output hard.pcap", "hard.pcap is both the input and the output"),
        ("chain.toml --stats chain.toml", "is both the chain file and the statistics"),
        ("chain.toml --alerts sensor.rules", "is both the file of [nids] and the alerts"),
        ("profiled.toml --stats profile.json", "is both the file of [plan] and the statistics"),
    ] {
        let ended = demo.warpline(&format!("run {arguments}")).expect(2);
        assert!(ended.stderr.contains(reported), "{arguments}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments}");
    }
    for (shell, reported) in [
        ("run chain.toml --output - --alerts o > o", "o is both the output and the alerts"),
        ("run chain.toml --output - > capture.pcap", "standard output is both the input and"),
        ("run chain.toml --input - --output hard.pcap < capture.pcap", "the input and the output"),
    ] {
        let whole = demo.read("capture.pcap");
        let run = format!("exec {} {shell}", env!("CARGO_BIN_EXE_warpline"));
        let ran = Command::new("sh").args(["-c", &run]).current_dir(demo.path(".")).output();
        let ran = ran.expect("a shell");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.code() == Some(2) && said.contains(reported), "{shell}: {said}");
        demo.write("capture.pcap", whole);
    }
    assert_eq!(inputs.map(|name| demo.read(name)), before);
}

/// A drawing, and a capture for `check --strict`, are files like all others.
#[test]
fn other_commands_overwrite_nothing_that_the_chain_names() {
    let demo = named_twice();
    let names = ["chain.toml", "capture.pcap", "sensor.rules", "routes.txt", "profile.json"];
    let before = names.map(|name| demo.read(name));
    for name in ["profiled.toml", "capture.pcap", "hard.pcap", "sensor.rules", "./routes.txt"] {
        let reported = demo.warpline(&format!("plan profiled.toml --svg {name}")).expect(2).stderr;
        assert!(reported.contains("and the drawing"), "{name}: {reported}");
    }
    demo.warpline("plan chain.toml --svg drawn.svg").expect(0);
    assert!(demo.read("drawn.svg").starts_with(b"<svg"));
    let strict = "check chain.toml --strict --input hard.pcap --set nids.eve=capture.pcap";
    let reported = demo.warpline(strict).expect(2).stderr;
    assert!(reported.contains("is both the input and the file that [nids] writes"), "{reported}");
    assert_eq!(names.map(|name| demo.read(name)), before);
}

/// A shell that continues a file keeps what it has, whichever name standard output goes by.
#[test]
fn standard_output_is_continued() {
    let demo = named_twice();
    let shell = |text: &str| {
        let text = text.replace("warpline", env!("CARGO_BIN_EXE_warpline"));
        output_of(Command::new("sh").args(["-ec", &text]).current_dir(demo.path(".")))
    };
    for (command, name, begins) in [
        ("run chain.toml --output", "/dev/stdout", &b"\x4d\x3c\xb2\xa1"[..]),
        ("run chain.toml --output", "out.link.link", b"\x4d\x3c\xb2\xa1"),
        ("run chain.toml --alerts", "/dev/stdout", b"{\"timestamp"),
        ("run chain.toml --set", "nids.fast_log=/dev/fd/1", b"01/05/2026"),
        ("run chain.toml --set", "flow_monitor.csv=/proc/self/fd/1", b""),
        ("run chain.toml --stats", "out.link", b"{\n"),
        ("plan chain.toml --svg", "/dev/stdout", b"<svg"),
    ] {
        let line = format!("warpline {command} {name}");
        shell(&format!("echo before > to; {line} 2> /dev/null >> to; echo after >> to"));
        let appended = demo.read("to");
        shell(&format!("{{ echo before; {line} 2> /dev/null; echo after; }} > to"));
        let shared = demo.read("to");
        for whole in [&appended, &shared] {
            let made = whole.strip_prefix(b"before\n").and_then(|to| to.strip_suffix(b"after\n"));
            let made = made.unwrap_or_else(|| panic!("{line}: {:?}", &whole[..20]));
            assert!(made.starts_with(begins) && made.len() > 10, "{line}: {} bytes", made.len());
        }
    }
    shell("echo before > to; warpline run chain.toml --alerts /dev/fd/5 2> /dev/null 5>> to");
    assert!(demo.read("to").starts_with(b"before\n{"));
    let reported = demo.warpline("run chain.toml --output /dev/stdout,size_mib=1").expect(2).stderr;
    assert!(reported.contains("no new file can follow"), "{reported}");
}

/// A number that no parent passed is never one of the program's own files, such as its input.
#[test]
fn descriptors_of_the_program_itself_are_refused() {
    let demo = Demo::new();
    let whole = demo.read("capture.pcap");
    let names = ["--alerts N", "--stats N", "--output N", "--input N", "--set nids.fast_log=N"];
    for (number, what) in (3..10).flat_map(|number| names.map(|name| (number, name))) {
        let what = what.replace('N', &format!("/dev/fd/{number}"));
        let closed = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
        let run = format!(
            "exec {} run chain.toml --output none {what} {closed}",
            env!("CARGO_BIN_EXE_warpline")
        );
        let run = if what.contains("--output") { run.replace("--output none ", "") } else { run };
        let ran = Command::new("sh").args(["-c", &run]).current_dir(demo.path(".")).output();
        let ran = ran.expect("a shell");
        let reported = String::from_utf8_lossy(&ran.stderr).into_owned();
        let why = format!("descriptor {number} was not open at the start");
        assert!(ran.status.code() == Some(2) && reported.contains(&why), "{what}: {reported}");
        assert!(demo.read("capture.pcap") == whole, "{what} changed the input");
    }
}
