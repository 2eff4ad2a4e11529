//! Where files are: relative to the chain file, and none two things at once.

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::Demo;
use crate::stats;

#[test]
fn paths_are_relative_to_the_chain_file_or_to_where_one_types() {
    let demo = Demo::new();
    demo.warpline("run chain.toml").expect(0);
    let expected = demo.read("out.pcap");
    demo.warpline("demo inner/place").expect(0);
    let run = "run inner/place/chain.toml --set chain.tap=tap.pcap";
    demo.warpline(&format!("{run} --stats here.json --alerts here.jsonl")).expect(0);
    assert!(demo.read("inner/place/out.pcap") == expected);
    assert!(demo.read("inner/place/tap.pcap").len() > expected.len());
    stats::read(&demo, "here.json");
    demo.read("here.jsonl");
    // Paths on the command line are relative to the current folder.
    demo.warpline("run inner/place/chain.toml --input capture.pcap --output here.pcap").expect(0);
    assert!(demo.read("here.pcap") == expected);
    // Absolute paths stay as they are.
    let absolute = demo.path("absolute.pcap");
    let set = format!("run inner/place/chain.toml --set chain.output={}", absolute.display());
    demo.warpline(&set).expect(0);
    assert!(demo.read("absolute.pcap") == expected);
    demo.warpline("check inner/place/chain.toml").expect(0);
}

#[test]
fn no_file_is_two_things() {
    let demo = Demo::new();
    fs::hard_link(demo.path("capture.pcap"), demo.path("hard.pcap")).unwrap();
    symlink("capture.pcap", demo.path("soft.pcap")).unwrap();
    fs::create_dir(demo.path("folder")).unwrap();
    symlink(".", demo.path("here")).unwrap();
    // A link to a file that does not exist yet.
    symlink("later.json", demo.path("dangling")).unwrap();
    let capture = demo.read("capture.pcap");
    let texts = ["chain.toml", "firewall.rules", "routes.txt", "neighbours.txt"];
    let before = texts.map(|name| demo.read(name));
    for (options, reported) in [
        ("--output capture.pcap", "both the input and the output"),
        ("--output ./capture.pcap", "both the input and the output"),
        ("--output folder/../capture.pcap", "both the input and the output"),
        ("--output hard.pcap", "both the input and the output"),
        ("--output soft.pcap", "both the input and the output"),
        ("--output here/capture.pcap", "both the input and the output"),
        ("--set chain.output=soft.pcap", "both the input and the output"),
        ("--input hard.pcap,pace=2 --output soft.pcap", "both the input and the output"),
        ("--stats capture.pcap", "both the input and the statistics"),
        ("--alerts hard.pcap", "both the input and the alerts"),
        ("--stats out.pcap", "both the output and the statistics"),
        ("--stats here/out.pcap", "both the output and the statistics"),
        ("--output - --alerts -", "standard output is both the output and the alerts"),
        ("--stats x --alerts ./x", "both the alerts and the statistics"),
        ("--stats later.json --alerts dangling", "both the alerts and the statistics"),
        ("--set chain.tap=capture.pcap", "both the input and the tap"),
        ("--set chain.tap=out.pcap", "both the output and the tap"),
        ("--output chain.toml", "both the chain file and the output"),
        ("--stats chain.toml", "both the chain file and the statistics"),
        ("--output firewall.rules", "both the file of [firewall] and the output"),
        ("--stats here/routes.txt", "both the file of [router] and the statistics"),
        ("--set chain.tap=neighbours.txt", "both the file of [router] and the tap"),
        (
            "--set flow_monitor.ipfix=capture.pcap",
            "both the input and the file that [flow_monitor]",
        ),
        (
            "--set flow_monitor.csv=folder/../hard.pcap",
            "both the input and the file that [flow_mon",
        ),
        ("--set flow_monitor.csv=out.pcap", "both the output and the file that [flow_monitor] wri"),
        ("--set flow_monitor.csv=chain.toml", "both the chain file and the file that [flow_monit"),
        (
            "--set flow_monitor.ipfix=routes.txt",
            "both the file of [router] and the file that [flow",
        ),
        (
            "--set flow_monitor.ipfix=f --set flow_monitor.csv=here/f",
            "used twice as the file that [flow_monitor] writes",
        ),
        (
            "--set flow_monitor.csv=f --stats f",
            "both the file that [flow_monitor] writes and the st",
        ),
        (
            "--set flow_monitor.csv=f --set chain.tap=f",
            "the file that [flow_monitor] writes and the",
        ),
    ] {
        let ended = demo.warpline(&format!("run chain.toml {options}")).expect(2);
        assert!(ended.stderr.contains(reported), "{options}: {}", ended.stderr);
        assert!(demo.read("capture.pcap") == capture, "{options}");
        assert!(texts.map(|name| demo.read(name)) == before, "{options}");
        assert!(!demo.path("out.pcap").exists(), "{options}");
    }
    assert!(!demo.path("f").exists());
    // A function's output of an earlier run does not count as an input.
    for _ in 0..2 {
        demo.warpline("run chain.toml --set flow_monitor.csv=flows.csv").expect(0);
    }
    fs::remove_file(demo.path("out.pcap")).unwrap();
    // Devices may have several purposes.
    let nulls = "--output /dev/null --stats /dev/null --alerts /dev/null";
    demo.warpline(&format!("run chain.toml {nulls}")).expect(0);
}
