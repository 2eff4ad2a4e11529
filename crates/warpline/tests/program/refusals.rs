//! A run that is refused, exit status 2, has touched nothing.

use std::collections::BTreeMap;
use std::fs;

use crate::harness::Demo;
use crate::pcap;

/// Every file of the folder, by name.
fn files(demo: &Demo) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(demo.path("")).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    files.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

/// `check` refuses what `run` would, at its place in the chain file, and touches nothing either.
#[test]
fn check_refuses_what_run_refuses() {
    let demo = Demo::new();
    fs::create_dir(demo.path("folder")).unwrap();
    demo.write("rules", "alert ip any any -> any any (sid:1;)\n");
    demo.write("in.pcap", pcap::capture(3, &[]));
    demo.write("empty.pcap", "");
    std::os::unix::fs::symlink("in.pcap", demo.path("link.pcap")).unwrap();
    let one =
        |keys: &str| format!("[chain]\nfunctions = [\"nids\"]\n{keys}[nids]\nrules = \"rules\"\n");
    let two = |first: &str, second: &str| {
        let chain = |name, keys| format!("[[chain]]\nname = \"{name}\"\nfunctions = []\n{keys}");
        chain("a", first) + &chain("b", second)
    };
    let input = "input = \"in.pcap\"\n";
    let cases = [
        (
            one(&format!("{input}output = \"in.pcap\"\n")),
            "4:10",
            "in.pcap is both the input and the output",
        ),
        (
            one(&format!("{input}output = \"./folder/../in.pcap\"\n")),
            "4:10",
            "is both the input and the output",
        ),
        (
            one(&format!("{input}output = \"link.pcap\"\n")),
            "4:10",
            "link.pcap is both the input and the output",
        ),
        (
            one(&format!("{input}tap = \"in.pcap\"\n")),
            "4:7",
            "in.pcap is both the input and the tap",
        ),
        (
            one(&format!("{input}output = \"o.pcap\"\ntap = \"o.pcap\"\n")),
            "5:7",
            "o.pcap is both the output and the tap",
        ),
        (one(&format!("{input}output = \"rules\"\n")), "", "rules"),
        (
            one(&format!("{input}output = \"gone/o.pcap\"\n")),
            "4:10",
            "gone/o.pcap: no such file or directory",
        ),
        (
            one(&format!("{input}output = \"rules/o.pcap\"\n")),
            "4:10",
            "rules/o.pcap: not a directory",
        ),
        (one(&format!("{input}output = \"folder.pcap/\"\n")), "4:10", "is a directory"),
        (one("input = \"empty.pcap\"\n"), "3:9", "empty.pcap: at byte 0: the input is empty"),
        (one("input = \"gone.pcap\"\n"), "3:9", "no such file"),
        (one(&format!("{input}tap = \"-\"\n")), "4:7", "not standard output"),
        (one(input) + "eve = \"-\"\n", "6:7", "standard output is for --output and --alerts"),
        (
            one(input) + "eve = \"in.pcap\"\n",
            "6:7",
            "in.pcap is both the input and the file that [nids] writes",
        ),
        (
            one(input) + "eve = \"rules\"\n",
            "6:7",
            "rules is both the file of [nids] and the file that [nids] writes",
        ),
        (
            one(input).replace("\"rules\"", "[\"rules\"]") + "eve = \"rules\"\n",
            "6:7",
            "rules is both the file of [nids]",
        ),
        (one(input) + "eve = \"gone/eve\"\n", "6:7", "gone/eve: no such file or directory"),
        (
            two(&format!("{input}output = \"o.pcap\"\n"), &format!("{input}output = \"o.pcap\"\n")),
            "10:10",
            "o.pcap is used twice as the output",
        ),
        (
            two(&format!("{input}output = \"-\"\n"), &format!("{input}output = \"-\"\n")),
            "10:10",
            "standard output is used twice as the output",
        ),
        (
            two("input = \"-\"\n", "input = \"/dev/stdin\"\n"),
            "8:9",
            "/dev/stdin is used twice as the input",
        ),
        (
            two(&format!("{input}output = \"-\"\n"), &format!("{input}output = \"/dev/stdout\"\n")),
            "10:10",
            "/dev/stdout is used twice as the output",
        ),
    ];
    for (chain, place, why) in cases {
        demo.write("ids.toml", &chain);
        let before = files(&demo);
        let ended = demo.warpline("check ids.toml");
        assert_eq!(ended.status, Some(2), "{chain}");
        let reported = ended.stderr;
        let place = format!("ids.toml:{place}{}", if place.is_empty() { "" } else { ":" });
        assert!(reported.contains(&place) && reported.contains(why), "{chain}\n{reported}");
        let reported = demo.warpline("run ids.toml").expect(2).stderr;
        assert!(reported.contains(&place) && reported.contains(why), "{chain}\n{reported}");
        assert!(files(&demo) == before, "{chain}");
    }
    // An option without effect causes a warning.
    demo.write(
        "ids.toml",
        one(input).replace("\"nids\"]", "]").replace("[nids]\nrules = \"rules\"\n", ""),
    );
    for command in ["check ids.toml --device host", "run ids.toml --device host"] {
        let reported = demo.warpline(command).expect(0).stderr;
        assert!(
            reported.contains("--device host: no function in this chain has kernels"),
            "{reported}"
        );
    }
    assert!(
        demo.warpline("run ids.toml --stats -")
            .expect(2)
            .stderr
            .contains("--stats must be the name")
    );
}

#[test]
fn a_refused_run_touches_nothing() {
    let demo = Demo::new();
    for name in ["out.pcap", "tap.pcap", "s.json", "a.jsonl", "f.csv"] {
        demo.write(name, format!("{name} of yesterday"));
    }
    demo.write("empty.pcap", "");
    demo.write("garbage.pcap", [7; 1000]);
    let whole = pcap::capture(1, &[]);
    demo.write("short.pcap", &whole[..20]);
    demo.write("version.pcap", [&whole[..4], &[9], &whole[5..]].concat());
    demo.write("gzip.pcap", [0x1f, 0x8b, 8, 0, 0]);
    demo.write("ng.pcapng", [0x0a, 0x0d, 0x0d, 0x0a, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5]);
    let before = files(&demo);
    let all = "run chain.toml --set chain.tap=tap.pcap --set flow_monitor.csv=f.csv --stats s.json \
               --alerts a.jsonl";
    for (options, reported) in [
        // The command line.
        ("--lanes 0", "not a number from 1 to 64"),
        ("--lanes four", "not a number from 1 to 64"),
        ("--lanes=-1", "invalid value '-1'"),
        ("--lanes two", "invalid value 'two'"),
        ("--cores", "a value is required for '--cores"),
        ("--cores 5-2", "--cores:1:11: `cores`: \"5-2\": 5-2 runs backwards"),
        ("--cores 1023", "chain \"demo\": lane 0 can't run on core 1023: there is no such core"),
        ("--lanes 2 --cores 0", "--lanes:1:11: `lanes` asks for 2, and `cores` names 1"),
        ("--set chain.cores=\"0\" --lanes 2", "--lanes:1:11: `lanes` asks for 2"),
        ("--set chain.cores=0", "--set:1:11: `cores` must be a string, found a number"),
        ("--device cuda:99", "no device \"cuda:99\""),
        ("--device", "a value is required for '--device"),
        ("--colour red", "unexpected argument '--colour'"),
        ("second.toml", "unexpected argument 'second.toml'"),
        ("--stats again.json", "cannot be used multiple times"),
        // Inputs.
        ("--input nothing.pcap", "nothing.pcap: no such file or directory"),
        ("--input .", "is a directory"),
        ("--input chain.toml/x", "not a directory"),
        ("--input \u{b7}", "no such file"),
        ("--input empty.pcap", "empty.pcap: at byte 0: the input is empty, not a capture"),
        ("--input garbage.pcap", "begins with bytes 07 07 07 07"),
        ("--input short.pcap", "pcap header cut short: 20 of 24 bytes"),
        ("--input version.pcap", "at byte 4: pcap version 9.4 is not supported"),
        ("--input gzip.pcap", "at byte 5: gzip data cut short in the capture's header"),
        ("--input ng.pcapng", "ng.pcapng: at byte"),
        ("--input -", "standard input: at byte 0: the input is empty"),
        ("--input capture.pcap,pace=fast", "pace=fast: not a number"),
        ("--input capture.pcap,pace=0", "pace 0 is not a positive number"),
        ("--input capture.pcap,pace=-1", "pace -1 is not a positive number"),
        ("--input capture.pcap,pace=inf", "pace inf is not a positive number"),
        ("--input generate:packets=many,colour=red,size", "column 23: `colour` is not a setting"),
        ("--input generate:size=5", "allowed: 42 (the headers) to"),
        ("--input generate:packets=1,packets=2", "is there twice"),
        ("--input generator:packets=1", "no such file"),
        // Outputs.
        ("--output missing/out.pcap", "output missing/out.pcap: no such file or directory"),
        ("--output .", "output .: is a directory"),
        ("--output out.pcap.xz", ".xz is not written; .pcap and .pcapng are, each also with .gz"),
        ("--set chain.output=a.pcap.bz2", "`output`: .bz2 is not written"),
        ("--set chain.tap=a.lz4", "`tap`: .lz4 is not written"),
        ("--output none,size_mib=1", "\"none\" takes no settings"),
        ("--output=-,every_s=60", "\"-\" takes no settings"),
        ("--annotate", "--annotate: comments go into a pcapng file"),
        ("--set chain.tap=missing/tap.pcap", "tap: ./missing/tap.pcap: no such file or directory"),
        ("--set chain.impair=drop=2", "`drop` can't be \"2\"; allowed: 0 to 1"),
        // Outputs of functions.
        (
            "--set flow_monitor.csv=missing/f",
            "[flow_monitor]: ./missing/f: no such file or directory",
        ),
        ("--set flow_monitor.ipfix=.", "[flow_monitor]: ./.: is a directory"),
        // --set.
        ("--set nat", "--set nat: not of the form TABLE.KEY=VALUE"),
        ("--set bindings=1", "not of the form TABLE.KEY=VALUE"),
        ("--set nat.=1", "not of the form TABLE.KEY=VALUE"),
        ("--set .bindings=1", "not of the form TABLE.KEY=VALUE"),
        ("--set ips.rules=x", "--set: [ips] is in no chain"),
        ("--set nat.colour=red", "--set:1:1: [nat] has no key `colour`"),
        (
            "--set nat.bindings=63",
            "--set:1:14: `bindings` must be a whole number from 64 to 4194304",
        ),
        ("--set nat.bindings=99999999999999999999", "`bindings` must be a whole number"),
        ("--set nat.inside=[1]", "`inside` must be a list of strings"),
        ("--set chain.lanes=0", "--set:1:11: `lanes` must be a whole number from 1 to 64"),
        (
            "--set chain.functions=[\"nat\",\"nat\",\"nat\"]",
            "\"nat\" has more than two places in the chain",
        ),
        (
            "--set router.routes=missing.txt",
            "can't read \"missing.txt\": no such file or directory",
        ),
        ("--set ipcomp.device=cuda:0", "the function has no kernels for \"cuda:0\""),
        ("--set nat.launch_batches=2", "`launch_batches` requires `stage = \"own\"`"),
    ] {
        let ended = demo.warpline(&format!("{all} {options}")).expect(2);
        assert!(ended.stderr.starts_with("error: "), "{options}: {}", ended.stderr);
        assert!(ended.stderr.contains(reported), "{options}: {}", ended.stderr);
        assert!(ended.stdout.is_empty());
        let after = files(&demo);
        assert!(after.keys().eq(before.keys()), "{options}: {:?}", after.keys());
        for (name, bytes) in &before {
            assert!(after[name] == *bytes, "{options}: {name} has changed");
        }
    }
    // The last file that is opened is as good a reason as the first.
    for options in
        ["--stats missing/s.json", "--alerts missing/a.jsonl", "--alerts . --stats s.json"]
    {
        let ended = demo.warpline(&format!("run chain.toml {options}")).expect(2);
        assert!(ended.stderr.contains("directory"), "{options}: {}", ended.stderr);
        assert!(files(&demo) == before, "{options}");
        fs::rename(demo.path("out.pcap"), demo.path("away")).unwrap();
        demo.warpline(&format!("run chain.toml {options}")).expect(2);
        assert!(!demo.path("out.pcap").exists(), "{options} leaves an empty capture");
        fs::rename(demo.path("away"), demo.path("out.pcap")).unwrap();
    }
}

#[test]
fn commands_that_are_wrong() {
    let demo = Demo::new();
    for (arguments, reported) in [
        ("", "Usage: warpline <COMMAND>"),
        ("walk", "unrecognized subcommand 'walk'"),
        ("check", "<CHAIN>"),
        ("check missing.toml", "can't read missing.toml: no such file or directory"),
        ("check .", "can't read .: it is a folder"),
        ("run missing.toml", "can't read missing.toml: no such file or directory"),
        ("functions teleport", "functions: "),
        ("demo", "<FOLDER>"),
    ] {
        let ended = demo.warpline(arguments).expect(2);
        assert!(ended.stderr.contains(reported), "{arguments}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments}");
    }
    // A folder that can't be made is no mistake in what was typed alone: the command failed.
    let ended = demo.warpline("demo chain.toml/x").expect(1);
    assert!(ended.stderr.contains("not a directory"), "{}", ended.stderr);
}
