//! Mistakes in chain files: all of them at once, each with its place, its line and what is allowed.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use crate::harness::Demo;

/// Checks `text` as a chain file and runs it: both must print the same, and nothing else.
#[track_caller]
fn refused(demo: &Demo, text: impl AsRef<[u8]>) -> String {
    demo.write("bad.toml", text);
    let checked = demo.warpline("check bad.toml").expect(2);
    let run = demo.warpline("run bad.toml --stats s.json --alerts a.jsonl").expect(2);
    assert_eq!(checked.stderr, run.stderr);
    assert!(checked.stdout.is_empty() && run.stdout.is_empty());
    assert!(["out.pcap", "s.json", "a.jsonl"].iter().all(|name| !demo.path(name).exists()));
    run.stderr
}

const EVERYTHING: &str = r#"
[chain]
functions = ["nat", "wall", "router", "digest", "digest", "tele"]
input = "generate:packets=-1,colour=red"
output = 5
impair = "drop=2"
lanes = 65
batch_packets = "many"
colour = "red"

[wall]
function = "firewall"
rules = "bad.rules"
default = "reject"
connections = 1
established = true
tcp_loose = "yes"

[nat]
inside = ["10.1.0.1/16", "10.0.0.0/8"]
ports = "0-5"
bindings = 6.5
launch_batches = 2

[router]
routes = "missing.txt"
mac = "02:00"
icmp_rate_pps = -1

[idle]
function = "nat"
"#;

#[test]
fn all_mistakes_are_reported_at_once() {
    let demo = Demo::new();
    demo.write("bad.rules", "accept tcp from any to any\nacept udp\n\naccept tcp prot 80\n");
    let reported = refused(&demo, EVERYTHING);
    for place in [
        "bad.toml:4:9: `input`: column 18: `packets` can't be \"-1\"",
        "bad.toml:4:9: `input`: column 21: `colour` is not a setting",
        "bad.toml:5:10: `output` must be a string, found a number",
        "bad.toml:6:10: `impair`: column 6: `drop` can't be \"2\"; allowed: 0 to 1",
        "bad.toml:7:9: `lanes` must be a whole number from 1 to 64, found 65",
        "bad.toml:8:17: `batch_packets` must be a whole number from 1 to 1024, found \"many\"",
        "bad.toml:9:1: [chain] has no key `colour`",
        "bad.toml:3:49: \"digest\" is in the chain twice, and `digest` has one place only",
        "bad.toml:3:59: unknown function \"tele\"",
        "= functions: ",
        "bad.rules:2:1:",
        "bad.rules:4:",
        "bad.toml:14:11: `default` must be \"drop\" or \"accept\", found \"reject\"",
        "bad.toml:15:15: `connections` must be a whole number from 64 to",
        "bad.toml:17:13: `tcp_loose` must be true or false, found a string",
        "bad.toml:20:11: `inside`: \"10.1.0.1/16\": address has bits set after the prefix length",
        "bad.toml:21:9: `ports`",
        "bad.toml:22:12: `bindings` must be a whole number from 64 to 4194304, found 6.5",
        "bad.toml:23:18: `launch_batches` requires `stage = \"own\"`",
        "bad.toml:26:10: can't read \"missing.txt\": no such file or directory",
        "bad.toml:27:7: `mac`: \"02:00\"",
        "bad.toml:28:17: `icmp_rate_pps` must be a whole number",
        "bad.toml:30:2: [idle] is in no chain",
        // The line, and what is allowed.
        "    9 | colour = \"red\"\n      | ^^^^^^\n      = its keys: name, functions, input,",
        "    2 | acept udp\n      | ^^^^^\n",
    ] {
        assert!(reported.contains(place), "{place:?} is missing from\n{reported}");
    }
    assert!(reported.starts_with("error: bad.toml: "), "{reported}");
    let places: Vec<(u32, u32)> = reported
        .lines()
        .filter_map(|line| {
            let mut numbers = line.strip_prefix("bad.toml:")?.split(':').map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
        .collect();
    assert!(places.len() > 15 && places.is_sorted(), "{places:?}");
}

/// Files with one mistake each, and the expected message.
#[test]
fn chain_files_with_one_mistake() {
    let demo = Demo::new();
    let chain = "[chain]\nfunctions = []\ninput = \"capture.pcap\"\n";
    for (text, reported) in [
        ("", &["bad.toml: [chain] is missing"][..]),
        ("# nothing\n", &["[chain] is missing", "begins with [chain]"]),
        ("chain = 3\n", &["bad.toml:1:9: `chain` is a table"]),
        ("chain = [3]\n", &["bad.toml:1:10: `chain` is a table"]),
        ("[chain]\ninput = \"capture.pcap\"\n", &["bad.toml:1:1: [chain] needs `functions`"]),
        ("[chain]\nfunctions = 3\n", &["bad.toml:2:13: `functions` must be a list of strings"]),
        ("[chain]\nfunctions = [3]\n", &["bad.toml:2:14: `functions` must be a list of strings"]),
        ("[chain]\nfunctions = [\"\"]\n", &["unknown function \"\""]),
        ("[chain]\nfunctions = [\"chain\"]\n", &["unknown function \"chain\""]),
        (
            "[chain]\nfunctions = [\"nat\"]\nnat = 3\n",
            &["[nat] needs `inside`", "[chain] has no key `nat`"],
        ),
        ("nat = 3\n[chain]\nfunctions = [\"nat\"]\n", &["bad.toml:1:7: `nat` is a table"]),
        ("stray = 3\n[chain]\nfunctions = []\n", &["bad.toml:1:1: `stray` is in no table"]),
        (
            "[chain]\nfunctions = []\n[nat]\n",
            &["bad.toml:3:2: [nat] is in no chain", "= add \"nat\" to `functions` of a chain"],
        ),
        (
            "[chain]\nfunctions = [\"nat\"]\n[nat]\nfunction = \"gnat\"\n",
            &["bad.toml:4:12: unknown function \"gnat\"; did you mean \"nat\"? functions: "],
        ),
        (
            "[[chain]]\nfunctions = []\n[[chain]]\nfunctions = []\n",
            &["bad.toml:3:1: two chains are called \"chain\""],
        ),
        // TOML itself: every error of the file.
        ("[chain\nfunctions = [\n", &["bad.toml:1:7:", "bad.toml:2:"]),
        ("[chain]\nfunctions = []\nlanes = = 1\nname = 'x\n", &["bad.toml:3:9:", "bad.toml:4:"]),
        (
            "[chain]\nfunctions = [\"digest\"\ninput = \"capture.pcap\"\n[digest]\n",
            &["bad.toml: 1 mistake\nbad.toml:3:1: no comma, and no end of the array or inline"],
        ),
        ("[chain]\nfunctions = []\nlanes = 1\nlanes = 2\n", &["bad.toml:4:1: duplicate key"]),
        ("[chain]\nfunctions = []\n[chain]\n", &["bad.toml:3:2: duplicate key"]),
        // Ports.
        (&chain.replace("capture.pcap", ""), &["bad.toml:3:9: `input`: the input has no name"]),
        (
            &chain.replace("capture.pcap", "no.pcap"),
            &["bad.toml:3:9: `input`: can't read \"no.pcap\": no such file"],
        ),
        (&chain.replace("pcap", "pcap,pace=x"), &["bad.toml:3:9: `input`: pace=x: not a number"]),
        (
            &chain.replace("pcap", "pcap,pace=0"),
            &["bad.toml:3:9: `input`: pace 0 is not a positive"],
        ),
        (&format!("{chain}output = \"\"\n"), &["bad.toml:4:10: `output`: the output has no name"]),
        (
            &format!("{chain}output = \"generate:packets=5\"\n"),
            &["bad.toml:4:10: `output`: the generator is an input"],
        ),
        (
            "[chain]\nfunctions = [\"router\"]\n[router]\nicmp_rate_pps = 5\n",
            &["bad.toml:4:17: `icmp_rate_pps` requires icmp = \"on\""],
        ),
        (&format!("{chain}tap = 1\n"), &["bad.toml:4:7: `tap` must be a string"]),
        // Cores.
        (&format!("{chain}cores = \"\"\n"), &["bad.toml:4:9: `cores`: \"\": no core is listed"]),
        (&format!("{chain}cores = \"5-2\"\n"), &["`cores`: \"5-2\": 5-2 runs backwards"]),
        (
            &format!("{chain}cores = 2\n"),
            &["bad.toml:4:9: `cores` must be a string, found a number"],
        ),
        (
            &format!("{chain}cores = \"4,2\"\nlanes = 3\n"),
            &["bad.toml:5:9: `lanes` asks for 3, and `cores` names 2: a lane has one"],
        ),
        (
            "[[chain]]\nname = \"a\"\nfunctions = []\ncores = \"2-5\"\n\
             [[chain]]\nname = \"b\"\nfunctions = []\ncores = \"6,4\"\n",
            &["bad.toml:8:9: `cores`: chain \"a\" names core 4, too"],
        ),
    ] {
        let all = refused(&demo, text);
        for reported in reported {
            assert!(all.contains(reported), "{text:?}: {reported:?} is missing from\n{all}");
        }
    }
}

#[test]
fn a_chain_without_input_is_checked_with_a_warning() {
    let demo = Demo::new();
    demo.write("c.toml", "[chain]\nfunctions = [\"digest\"]\n");
    let stderr = demo.warpline("check c.toml").expect(0).stderr;
    assert!(stderr.contains("warning: c.toml: chain \"chain\" has no input"), "{stderr}");
    let stdout = demo.warpline("check c.toml --json").expect(0).stdout;
    assert!(String::from_utf8_lossy(&stdout).contains("has no input"));
    let chain = |name: &str| format!("[[chain]]\nname = \"{name}\"\nfunctions = []\n");
    demo.write("c.toml", chain("a") + "input = \"capture.pcap\"\n" + &chain("b") + &chain("c"));
    let stderr = demo.warpline("check c.toml").expect(2).stderr;
    assert!(stderr.starts_with("error: c.toml: 2 mistakes\nc.toml: chain \"b\" has no input"));
}

#[test]
fn a_chain_that_makes_too_many_packets_names_its_makers() {
    let demo = Demo::new();
    demo.write("routes", "default via 10.0.0.1 dev wan\n");
    let names: Vec<String> = (0..64).map(|number| format!("r{number}")).collect();
    let tables = names.iter().map(|name| {
        format!(
            "[{name}]\nfunction = \"router\"\nroutes = \"routes\"\nicmp = \"on\"\n\
             icmp_src_v4 = \"192.0.2.1\"\n"
        )
    });
    let chain = format!("[chain]\nfunctions = {names:?}\n{}", tables.collect::<String>());
    let all = refused(&demo, chain);
    let makers = names.join("], [");
    assert!(all.contains("one packet could become") && all.contains(&makers), "{all}");
}

#[test]
fn functions_that_can_only_drop_are_remarked() {
    let demo = Demo::new();
    demo.write("routes", "# none yet\n");
    demo.write("services", "vip 203.0.113.80 tcp 80\nbackend 10.0.0.1 weight 0\n");
    for (function, key, reported) in [
        ("router", "routes", "routes: it has no routes: each packet is dropped as no-route"),
        ("load_balancer", "services", "services:1:1: no backend takes connections"),
    ] {
        let chain = format!("[chain]\nfunctions = [{function:?}]\n");
        let chain = format!("{chain}[{function}]\n{key} = {key:?}\n");
        demo.write("c.toml", chain);
        let text = String::from_utf8(demo.warpline("check c.toml").expect(0).stdout).unwrap();
        assert!(text.contains(reported), "{function}: {text}");
    }
}

#[test]
fn a_firewall_without_rules_is_remarked() {
    let demo = Demo::new();
    demo.write("rules", "# none yet\n");
    let wall = "[chain]\nfunctions = [\"firewall\"]\ninput = \"generate:packets=1\"\n\
                [firewall]\nrules = \"rules\"\ndefault = \"accept\"\n";
    demo.write("wall.toml", wall);
    let checked = demo.warpline("check wall.toml").expect(0);
    let text = String::from_utf8(checked.stdout).unwrap();
    assert!(text.contains("rules: it has no rules"), "{text}");
    assert!(text.contains("decides on all packets: accept"), "{text}");
}

#[test]
fn files_that_can_not_be_read() {
    let demo = Demo::new();
    File::create(demo.path("huge")).unwrap().set_len((1 << 30) + 1).unwrap();
    demo.write("latin1", b"accept tcp # caf\xe9\n");
    demo.write("empty", "");
    demo.write("locked", "");
    fs::set_permissions(demo.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let wall = |rules: &str| {
        format!("[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"{rules}\"\n")
    };
    for (rules, reported) in [
        ("latin1", "bad.toml:4:9: can't read \"latin1\": byte 16 is not UTF-8 text"),
        (".", "bad.toml:4:9: can't read \".\": it is a folder"),
        ("", "bad.toml:4:9: can't read \"\": the name is empty"),
        ("none", "bad.toml:4:9: can't read \"none\": no such file or directory"),
        ("empty/x", "can't read \"empty/x\": not a directory"),
    ] {
        let all = refused(&demo, wall(rules));
        assert!(all.contains(reported), "{rules}: {all}");
    }
    // A user who may read everything may read this too.
    if File::open(demo.path("locked")).is_err() {
        let all = refused(&demo, wall("locked"));
        assert!(all.contains("can't read \"locked\": permission denied"), "{all}");
    }
    let all = refused(&demo, b"[chain]\nname = \"\xff\"\n");
    assert!(all.contains("can't read bad.toml: byte 16 is not UTF-8 text"), "{all}");
    demo.write("huge.toml", wall("huge"));
    let ended = demo.warpline("check huge.toml").expect(2);
    let reported = "huge.toml:4:9: can't read \"huge\": it is larger than 1024 MiB";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    for command in ["check .", "run latin1", "check latin1"] {
        let ended = demo.warpline(command).expect(2);
        assert!(ended.stderr.contains("can't read "), "{}", ended.stderr);
    }
}

#[test]
fn a_file_of_mistakes_is_counted() {
    let demo = Demo::new();
    demo.write("bad.rules", "acept\n".repeat(1000));
    let wall = "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"bad.rules\"\n";
    let all = refused(&demo, wall);
    assert!(all.starts_with("error: bad.toml: 1000 mistakes\nbad.rules:1:1: "), "{all}");
    assert!(all.contains("bad.rules:10:1: ") && !all.contains("bad.rules:11:1: "));
    assert!(all.trim_end().ends_with("... and 990 more: `...`: not an action"), "{all}");
}

/// No function: packets pass. No newline, Windows line ends, a byte order mark: still TOML.
#[test]
fn chain_files_that_are_fine() {
    let demo = Demo::new();
    for text in [
        "[chain]\nfunctions = []\ninput = \"capture.pcap\"\noutput = \"out.pcap\"",
        "[chain]\r\nfunctions = []\r\ninput = 'capture.pcap'\r\noutput = 'out.pcap'\r\n",
        "\u{feff}chain = { functions = [], input = \"capture.pcap\", output = \"out.pcap\" }\n",
    ] {
        demo.write("fine.toml", text);
        demo.warpline("check fine.toml").expect(0);
        demo.warpline("run fine.toml").expect(0);
        assert!(demo.read("out.pcap").len() == demo.read("capture.pcap").len());
    }
}

/// Tables of functions, for chains that name some of them.
const TABLES: [(&str, &str); 7] = [
    ("firewall", "rules = \"rules\"\nestablished = true\n"),
    ("plain", "function = \"firewall\"\nrules = \"rules\"\n"),
    ("nat", "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n"),
    ("load_balancer", "services = \"services.txt\"\n"),
    ("router", "routes = \"routes.txt\"\n"),
    ("nids", "rules = \"sensor.rules\"\n"),
    ("ipcomp", "level = 2\n"),
];

/// A chain of these functions over no packets.
fn chain_of(functions: &[&str]) -> String {
    let own = TABLES.iter().filter(|(name, _)| functions.contains(name));
    let own: String = own.map(|(name, keys)| format!("[{name}]\n{keys}")).collect();
    format!("[chain]\nfunctions = {functions:?}\ninput = \"generate:packets=0\"\n{own}")
}

/// Orders that packets of both directions can't pass, each with the order to write.
#[test]
fn orders_that_can_not_work_say_what_to_write() {
    let demo = Demo::new();
    demo.write("rules", "accept from any to any\n");
    let (outside, before) =
        ("`firewall` tracks connections", "`router` routes packets before `nat`");
    let two = "write functions = [\"nat\", \"firewall\", \"router\", \"nat\"]";
    for (functions, reported) in [
        (&["firewall", "nat", "router"][..], &["bad.toml:2:13: ", outside, two][..]),
        (&["nat", "firewall", "router"], &[outside, two]),
        (&["nat", "nat", "firewall", "router"], &[outside, two]),
        (&["firewall", "nat", "router", "nat"], &[outside, two]),
        (&["router", "nat"], &[before, "write functions = [\"nat\", \"router\", \"nat\"]"]),
        (
            &["firewall", "load_balancer"],
            &["write functions = [\"load_balancer\", \"firewall\", \"load_balancer\"]"],
        ),
        (
            &["ipcomp", "router", "ipcomp", "nat"],
            &[before, "write functions = [\"nat\", \"ipcomp\", \"router\", \"ipcomp\", \"nat\"]"],
        ),
        (
            &["nat", "load_balancer", "nat", "load_balancer"],
            &[
                "the places of `nat` and `load_balancer` alternate",
                "write functions = [\"nat\", \"load_balancer\", \"load_balancer\", \"nat\"]",
            ],
        ),
        (
            &["load_balancer", "nat", "firewall", "router", "load_balancer", "nat"],
            &[
                "the places of `load_balancer` and `nat` alternate",
                "write functions = [\"load_balancer\", \"nat\", \"firewall\", \"router\", \
                 \"nat\", \"load_balancer\"]",
            ],
        ),
        (&["nat", "nat", "nat"], &["bad.toml:2:28: \"nat\" has more than two places", "nat-2"]),
        (&["nids", "nids"], &["bad.toml:2:22: \"nids\" is in the chain twice", "nids-2"]),
    ] {
        let stderr = refused(&demo, chain_of(functions));
        for reported in reported {
            assert!(
                stderr.contains(reported),
                "{functions:?}: {reported:?} is missing from\n{stderr}"
            );
        }
    }
    for functions in [
        &["nat", "firewall", "router", "nat"][..],
        &["nat", "router"],
        &["plain", "nat", "router"],
        &["load_balancer", "nat", "firewall", "router", "nat", "load_balancer"],
    ] {
        demo.write("good.toml", chain_of(functions));
        demo.warpline("check good.toml").expect(0);
    }
}

/// It has no form for programs, so the message names the command that has one.
#[test]
fn rules_of_nft_without_json_are_named() {
    let demo = Demo::new();
    let warning = "# Warning: table ip nat is managed by iptables-nft, do not touch!\n";
    demo.write("rules", format!("{warning}table ip nat {{\n\tchain POSTROUTING {{\n\t}}\n}}\n"));
    for (function, format) in [("firewall", ""), ("firewall", "nft"), ("nat", ""), ("nat", "nft")] {
        let key = if format.is_empty() { "" } else { "format = \"nft\"\n" };
        demo.write(
            "c.toml",
            format!(
                "[chain]\nfunctions = [\"{function}\"]\n[{function}]\nrules = \"rules\"\n{key}"
            ),
        );
        let reported = demo.warpline("check c.toml").expect(2).stderr;
        let expected =
            "rules:2:1: is in the language of `nft`; write the output of `nft -j list ruleset`";
        assert!(reported.contains(expected), "{function} {format}: {reported}");
        assert!(reported.contains("c.toml: 1 mistake\n"), "{reported}");
    }
}

/// Each skipped route counts, and none is said to be dropped that is left out.
#[test]
fn skipped_routes_are_counted() {
    let demo = Demo::new();
    let routes = "default via 192.0.2.1\n10.1.0.0/16 encap ip id 1 via 192.0.2.3\n\
        multicast 10.2.0.0/16 dev eth0\n10.3.0.0/16 via 192.0.2.2 table 100\n";
    demo.write("routes", routes);
    let chain = "[chain]\nfunctions = [\"router\"]\n[router]\nroutes = \"routes\"\n";
    demo.write("skip.toml", chain);
    let reported = demo.warpline("check skip.toml").expect(2).stderr;
    assert!(reported.contains("leaves out routes of tables other than `main`"), "{reported}");
    let skip = "--set router.unsupported=skip";
    let checked = demo.warpline(&format!("check skip.toml {skip}")).expect(0).stdout;
    let checked = String::from_utf8(checked).unwrap();
    for text in [
        "2 routes are not supported: their packets",
        "the first is `10.1.0.0/16 encap ip id 1 via 192.0.2.3`",
        "routes of other tables are left out: 1",
    ] {
        assert!(checked.contains(text), "{text}: {checked}");
    }
    let run = format!("run skip.toml {skip} --input generate:packets=9,size=100 --output none");
    let reported = demo.warpline(&run).expect(0).stderr;
    assert!(reported.contains("skipped 3 unsupported lines"), "{reported}");
}
