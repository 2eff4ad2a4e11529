//! Commands and options that are right.

use serde_json::Value;

use crate::harness::{Demo, wait};
use crate::stats::whole;
use crate::{pcap, stats};

/// Packets of the demo's capture.
const DEMO_PACKETS: u64 = 12_703;

#[test]
fn functions_and_check_and_demo_write_to_standard_output() {
    let demo = Demo::new();
    for (arguments, reported) in [
        ("functions", &["firewall ", "nat ", "router ", "warpline functions NAME"][..]),
        ("functions firewall", &["Keys of every function", "classbench_action", "table-full"]),
        ("functions nat", &["RFC 4787", "ports-exhausted", "Fields"]),
        ("functions router", &["longest match", "icmp_rate_pps", "no-neighbour"]),
        (
            "check chain.toml",
            &["chain \"demo\" is fine", "steering", "firewall on cpu", "in each of 64 shards"],
        ),
        ("check chain.toml", &["rules   9 of 9 rules active", "matcher "]),
        ("check chain.toml --set nat.stage=own", &["stage 3"]),
        ("devices", &["cpu energy: "]),
        ("devices --json", &["{\"schema\":1,\"devices\":[", "\"missing\":["]),
        ("demo again/and/again", &["again/and/again/chain.toml", "12703 packets"]),
        ("--help", &["Usage: warpline", "functions"]),
        ("run --help", &["--alerts", "--stats", "--lanes", "--device", "--set"]),
        ("--version", &["warpline "]),
    ] {
        let ended = demo.warpline(arguments).expect(0);
        let stdout = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.stderr, "", "{arguments}");
        for reported in reported {
            assert!(
                stdout.contains(reported),
                "{arguments}: {reported:?} is missing from\n{stdout}"
            );
        }
    }
    assert_eq!(demo.read("again/and/again/capture.pcap"), demo.read("capture.pcap"));
}

#[test]
fn without_a_chain_file_the_bundled_demo_runs() {
    let demo = Demo::new();
    demo.warpline("run chain.toml").expect(0);
    let ended = demo.warpline("run --output bundled.pcap --stats s.json --alerts a.json").expect(0);
    assert!(ended.stdout.is_empty());
    assert!(ended.stderr.starts_with("demo: 12,703 packets, "), "{}", ended.stderr);
    // The file that the bundled chain names is not written unless it is asked for.
    assert!(demo.read("bundled.pcap") == demo.read("out.pcap"));
    assert!(demo.read("a.json").starts_with(b"{\"timestamp\":"), "its sensor alerts");
    let silent = "run gateway.toml --alerts b.json";
    let ended = demo.warpline(silent).expect(0);
    assert_eq!(demo.read("b.json"), b"");
    assert!(
        ended.stderr.ends_with("no function in this chain raises alerts\n"),
        "{}",
        ended.stderr
    );
    let stats = stats::read(&demo, "s.json");
    assert_eq!(stats["chains"][0]["name"], "demo");
    assert_eq!(stats["chains"][0]["packets"]["read"], DEMO_PACKETS);
    let names = stats["chains"][0]["functions"].as_array().unwrap();
    let names: Vec<&Value> = names.iter().map(|f| &f["name"]).collect();
    let chain = [
        "nat:1",
        "load_balancer:1",
        "flow_monitor",
        "nids",
        "firewall",
        "digest",
        "router",
        "ipcomp",
        "load_balancer:2",
        "nat:2",
    ];
    assert_eq!(names, chain);
}

#[test]
fn standard_output_is_the_capture_and_nothing_else() {
    let demo = Demo::new();
    demo.warpline("run chain.toml").expect(0);
    let expected = demo.read("out.pcap");
    for arguments in ["run chain.toml --output -", "run chain.toml --output - --device cpu"] {
        let ended = demo.warpline(arguments).expect(0);
        assert!(ended.stdout == expected, "{} bytes", ended.stdout.len());
        assert!(ended.stderr.starts_with("demo: "), "{}", ended.stderr);
        // No bar in a pipe: no carriage return, no escape sequence.
        assert!(!ended.stderr.contains(['\r', '\u{1b}', '%']) || !ended.stderr.contains('\r'));
    }
    // A capture on standard input as well: the program as a filter.
    let ended =
        demo.warpline_with("run chain.toml --input - --output -", &demo.read("capture.pcap"));
    assert!(ended.expect(0).stdout == expected);
}

/// Keys set on the command line, and their effect on the demo's chain.
#[test]
fn keys_are_set_from_the_command_line() {
    let demo = Demo::new();
    demo.write("all.rules", "accept from any to any\n");
    let dropped = |function: usize, reason: &'static str| {
        move |stats: &Value| {
            let drops = &stats["chains"][0]["functions"][function]["drops"];
            drops[reason].as_u64()
        }
    };
    let counted = |function: usize, name: &'static str| {
        move |stats: &Value| stats["chains"][0]["functions"][function]["counters"][name].as_u64()
    };
    let lanes = |stats: &Value| stats["chains"][0]["lanes"].as_u64();
    type Count<'a> = Box<dyn Fn(&Value) -> Option<u64> + 'a>;
    let cases: Vec<(&str, Count<'_>, u64)> = vec![
        ("", Box::new(dropped(4, "rule")), 80),
        ("--set firewall.default=accept", Box::new(dropped(4, "default")), 0),
        ("--set firewall.default=\"accept\"", Box::new(dropped(4, "default")), 0),
        ("--set firewall.rules=all.rules", Box::new(dropped(4, "rule")), 0),
        ("--set firewall.non_ip=accept", Box::new(dropped(6, "non-ip")), 70),
        (
            "--set nat.inside=[\"10.2.0.0/16\",\"10.3.0.0/16\"] --set nat.forwards=[]",
            Box::new(dropped(0, "table-full")),
            0,
        ),
        ("--set nat.bindings=64", Box::new(counted(0, "evicted-udp")), 1),
        ("--set router.icmp=off", Box::new(|s| s["chains"][0]["packets"]["generated"].as_u64()), 0),
        (
            "--set chain.functions=[]",
            Box::new(|s| s["chains"][0]["packets"]["absorbed"].as_u64()),
            DEMO_PACKETS,
        ),
        ("--set chain.functions=[\"nat\",\"firewall\",\"router\",\"nat\"]", Box::new(lanes), 1),
        ("--set chain.lanes=3", Box::new(lanes), 3),
        ("--set chain.lanes=3 --lanes 2", Box::new(lanes), 2),
        (
            "--set chain.batch_packets=1 --set chain.queue_batches=1 --set chain.arena_mib=2",
            Box::new(lanes),
            1,
        ),
        ("--set nat.stage=own --set nat.launch_batches=64", Box::new(lanes), 1),
        // The last one counts.
        ("--set chain.lanes=x --set chain.lanes=4", Box::new(lanes), 4),
        (
            "--set chain.name=a\u{b7}b",
            Box::new(|s| Some(u64::from(s["chains"][0]["name"] == "a b"))),
            1,
        ),
    ];
    for (set, count, expected) in cases {
        let arguments = format!("run chain.toml --output none --stats s.json {set}");
        demo.warpline(&arguments).expect(0);
        let stats = stats::read(&demo, "s.json");
        let found = count(&stats).unwrap();
        if set.contains("bindings=64") {
            assert!(found >= expected, "{set}: {found}");
        } else {
            assert_eq!(found, expected, "{set}");
        }
    }
}

#[test]
fn the_generator_makes_what_is_asked_for() {
    let demo = Demo::new();
    for (settings, packets, len) in [
        ("generate:packets=1000,size=64", 1000, Some(64)),
        ("generate:packets=500,size=1514,flows=3,zipf=1.1,seed=7", 500, Some(1514)),
        ("generate:packets=300,size=imix,payload=text", 300, None),
        ("generate:packets=200,size=100,rate_gbps=0.01,on_full=drop", 200, Some(100)),
        ("generate:packets=100,size=200,ip=6,protocol=tcp,payload=planted:abc", 100, Some(200)),
        ("generate:packets=0", 0, None),
    ] {
        let arguments =
            format!("run chain.toml --set chain.functions=[] --input {settings} --stats s.json");
        demo.warpline(&arguments).expect(0);
        let (link, records) = pcap::parse(&demo.read("out.pcap"));
        let lost = whole(&stats::read(&demo, "s.json")["chains"][0]["packets"]["overload"]);
        assert_eq!((link, records.len() as u64 + lost), (1, packets), "{settings}");
        assert!(records.iter().all(|r| len.is_none_or(|len| r.bytes.len() == len)), "{settings}");
        demo.warpline(&format!("{arguments} --output again.pcap")).expect(0);
        let same = demo.read("again.pcap") == demo.read("out.pcap");
        assert!(same || lost > 0, "{settings}: a seed gives the same packets");
    }
}

/// Two packets a tenth of a second apart, at their own pace, then four times as fast.
#[test]
fn a_capture_keeps_its_pace_where_it_is_asked_to() {
    let demo = Demo::new();
    // Without `nids`, which holds the first frames until it has decided about checksums.
    demo.write("paced.toml", "[chain]\nfunctions = []\n");
    let frames = [0, 400_000_000].map(|at| pcap::Record::new(at, pcap::udp(10, |_| {})));
    let file = pcap::capture(1, &frames);
    demo.write("slow.pcap", &file);
    for (input, seconds) in [
        // At least about as long as asked; how much longer is the machine's business.
        ("slow.pcap", 0.0..20.0),
        ("slow.pcap,pace=1", 0.3..20.0),
        ("-,pace=4.0", 0.05..20.0),
        ("slow.pcap,pace=1e9", 0.0..20.0),
    ] {
        let run = format!("run paced.toml --output none --stats s.json --input={input}");
        demo.warpline_with(&run, &file).expect(0);
        let stats = stats::read(&demo, "s.json");
        let duration = stats["chains"][0]["duration"].as_f64().unwrap();
        assert!(seconds.contains(&duration), "{input}: {duration} s");
        assert_eq!(stats["chains"][0]["packets"]["read"], 2);
    }
}

#[test]
fn several_chains_run_side_by_side() {
    let demo = Demo::new();
    let table = |name: &str, rest: &str| format!("[[chain]]\nname = \"{name}\"\n{rest}\n");
    let file = table("left", "functions = [\"fw\"]\ninput = \"capture.pcap\"\noutput = \"l.pcap\"")
        + &table(
            "right",
            "functions = []\ninput = \"generate:packets=77\"\noutput = \"r.pcap\"\nlanes = 2",
        )
        + &table("none", "functions = []\ninput = \"generate:packets=5\"")
        + "[fw]\nfunction = \"firewall\"\nrules = \"firewall.rules\"\n";
    demo.write("several.toml", file);
    let ended = demo.warpline("run several.toml --stats s.json").expect(0);
    assert!(
        ended.stderr.contains("left: 12,703 packets") && ended.stderr.contains("right: 77 packets")
    );
    let stats = stats::read(&demo, "s.json");
    let chains = stats["chains"].as_array().unwrap();
    let read =
        |at: usize| (chains[at]["name"].as_str().unwrap(), whole(&chains[at]["packets"]["read"]));
    assert_eq!([read(0), read(1), read(2)], [("left", DEMO_PACKETS), ("right", 77), ("none", 5)]);
    assert_eq!(chains[0]["functions"][0]["name"], "fw");
    let sent = whole(&chains[0]["packets"]["sent"]);
    assert_eq!(pcap::parse(&demo.read("l.pcap")).1.len() as u64, sent);
    assert_eq!(pcap::parse(&demo.read("r.pcap")).1.len(), 77);
    // One port can't be that of several chains.
    let ended = demo.warpline("run several.toml --output none").expect(2);
    assert!(ended.stderr.contains("several chains"), "{}", ended.stderr);
}

#[test]
fn two_instances_of_a_function_have_tables_of_their_own() {
    let demo = Demo::new();
    demo.write(
        "two.toml",
        "[chain]\nfunctions = [\"firewall\", \"second wall\"]\n\
        input = \"capture.pcap\"\n[firewall]\nrules = \"firewall.rules\"\n\
        [\"second wall\"]\nfunction = \"firewall\"\nrules = \"web.rules\"\n",
    );
    demo.write("web.rules", "accept tcp from any to 203.0.113.17\n");
    demo.warpline("run two.toml --stats s.json --set second\u{b7}wall.non_ip=accept").expect(0);
    let stats = stats::read(&demo, "s.json");
    let functions = &stats["chains"][0]["functions"];
    assert_eq!(functions[1]["name"], "second wall");
    assert_eq!(functions[0]["packets_out"], functions[1]["packets_in"]);
    assert!(
        whole(&functions[1]["drops"]["default"]) > 0 && whole(&functions[1]["packets_out"]) > 0
    );
}

#[test]
fn a_tap_sees_what_comes_in_and_impairments_are_reported() {
    let demo = Demo::new();
    demo.write(
        "tap.toml",
        "[chain]\nfunctions = []\ninput = \"capture.pcap\"\noutput = \"out.pcap\"\n\
        tap = \"tap.pcap\"\nimpair = \"drop=0.25,duplicate=0.1,seed=3\"\n",
    );
    let ended = demo.warpline("run tap.toml --stats s.json").expect(0);
    let (_, before) = pcap::parse(&demo.read("capture.pcap"));
    let (_, tapped) = pcap::parse(&demo.read("tap.pcap"));
    assert!(demo.read("tap.pcap") == demo.read("out.pcap"), "the empty chain passes packets on");
    let share = tapped.len() as f64 / before.len() as f64;
    assert!((0.78..0.88).contains(&share), "{share} of the packets");
    assert!(tapped.iter().all(|packet| before.contains(packet)));
    let stats = stats::read(&demo, "s.json");
    let warning = stats["chains"][0]["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("impair") && ended.stderr.contains(&warning), "{warning}");
    // Both can be set, and unset the other way round.
    demo.warpline("run tap.toml --set chain.impair=drop=1 --set chain.tap=other.pcap").expect(0);
    assert_eq!(demo.read("other.pcap").len(), 24, "no packet, a file header all the same");
}

/// A paced run is stopped at once although its next packet is an hour away.
#[test]
fn a_stop_does_not_wait_for_the_next_packet() {
    let demo = Demo::new();
    let frames = [0, 3_600_000_000_000].map(|at| pcap::Record::new(at, pcap::udp(10, |_| {})));
    demo.write("slow.pcap", pcap::capture(1, &frames));
    let child = demo.start("run chain.toml --input slow.pcap,pace=1 --stats s.json");
    crate::ends::wait_until_running(&demo, &child, 0);
    crate::ends::signal(&child, "INT");
    wait(child).expect(130);
    assert_eq!(stats::read(&demo, "s.json")["chains"][0]["packets"]["read"], 1);
    assert_eq!(pcap::parse(&demo.read("out.pcap")).1.len(), 1);
}

/// By default lines of 80 columns at most, and no counters or tables; all of them with -v, and
/// nothing with -q.
#[test]
fn the_summary_is_as_long_as_asked() {
    let demo = Demo::new();
    let usual = demo.warpline("run chain.toml").expect(0).stderr;
    assert!(usual.lines().all(|line| line.chars().count() <= 80), "{usual}");
    assert!(!usual.contains("counted") && !usual.contains("top_"), "{usual}");
    assert!(usual.contains("firewall: default 536") && usual.contains("  alerts "), "{usual}");
    let verbose = demo.warpline("run chain.toml -v").expect(0).stderr;
    assert!(verbose.contains("counted") && verbose.contains("top_flows"), "{verbose}");
    assert_eq!(demo.warpline("run chain.toml -q").expect(0).stderr, "");
    let both = demo.warpline("run chain.toml -q -v").expect(2).stderr;
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_run_can_stop_after_some_packets() {
    let demo = Demo::new();
    demo.warpline("run chain.toml -c 100 -r capture.pcap -w first.pcap --stats s.json").expect(0);
    let stats = stats::read(&demo, "s.json");
    assert_eq!(stats["chains"][0]["packets"]["read"], 100);
    assert_eq!(stats["chains"][0]["ended"], "end of input");
}

#[test]
fn completions_and_the_manual_page_have_every_option() {
    let demo = Demo::new();
    let man = String::from_utf8(demo.warpline("man").expect(0).stdout).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = demo.warpline(&format!("completions {shell}")).expect(0).stdout;
        let script = String::from_utf8(script).unwrap();
        for option in ["annotate", "input", "lanes", "quiet", "packet-len", "strict"] {
            assert!(script.contains(option), "{shell}: {option}");
            assert!(man.contains(&option.replace('-', "\\-")), "{option}");
        }
        // Modes, policies, functions and devices.
        for value in ["share_all", "rate_proportional", "device_only", "flow_monitor", "opencl"] {
            assert!(script.contains(value), "{shell}: {value}");
        }
    }
    assert!(man.starts_with(".ie"), "{}", &man[..80]);
    assert_eq!(demo.warpline("completions tcsh").expect(2).stdout, b"");
}

#[test]
fn names_that_were_mistyped_get_a_suggestion() {
    let demo = Demo::new();
    demo.write(
        "typo.toml",
        "[chain]\nfunctions = [\"rooter\", \"nat\"]\n[nat]\ninsde = [\"10.0.0.0/8\"]\n",
    );
    let reported = demo.warpline("check typo.toml").expect(2).stderr;
    assert!(reported.contains("did you mean \"router\"?"), "{reported}");
    assert!(reported.contains("did you mean \"inside\"?"), "{reported}");
    let reported = demo.warpline("functions firewal").expect(2).stderr;
    assert!(reported.contains("did you mean \"firewall\"?"), "{reported}");
}
