//! `[arbiter]` and `[[tenant]]`: mistakes, and the shares in the statistics.

use serde_json::Value;

use crate::devices::has_host;
use crate::harness::Demo;
use crate::stats;

/// Two chains of one device; each has its own input, tenant and output.
const CHAINS: &str = "\
[[chain]]
name = \"one\"
functions = [\"digest\"]
input = \"generate:packets=20000,size=200\"
output = \"one.pcap\"
tenant = \"a\"

[[chain]]
name = \"two\"
functions = [\"count\"]
input = \"generate:packets=10000,size=600,seed=2\"
output = \"two.pcap\"
tenant = \"b\"

[digest]
on_duplicate = \"tag\"
device = \"host\"

[count]
function = \"digest\"
device = \"host\"
in_place = false
";

fn tenant(name: &str, keys: &str) -> String {
    format!("[[tenant]]\nname = {name:?}\ndevice = \"host\"\n{keys}\n")
}

#[test]
fn mistakes_of_tenants_are_named() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let (a, b) = (tenant("a", ""), tenant("b", ""));
    let mut failed = Vec::new();
    for (tables, messages) in [
        (a.clone(), &["c.toml:13:10: there is no tenant \"b\"; tenants: \"a\""][..]),
        (format!("{a}{a}{b}"), &["two tenants are called \"a\""]),
        (format!("{a}{b}{}", tenant("c", "")), &["tenant \"c\" has no chain"]),
        (
            format!("{a}{}", tenant("b", "background = \"matmul\"")),
            &["tenant \"b\" has background work and a chain"],
        ),
        (format!("{}{b}", tenant("a", "slots = 0")), &["c.toml:26:9: `slots`", "1 to 256"]),
        (
            format!("{}{b}", tenant("a", "memory_mib = 9000000")),
            &["the tenants of host may have 9000000 MiB together"],
        ),
        (
            format!("{}{b}", tenant("a", "profile = \"1q\"")),
            &["all tenants of a device have a `profile`, or none has"],
        ),
        (
            format!("{}{}", tenant("a", "profile = \"1q\""), tenant("b", "profile = \"2q\"")),
            &["profiles 1q and 2q cannot share a device"],
        ),
        (
            format!(
                "{}{}",
                tenant("a", "profile = \"2q\"\nslots = 9"),
                tenant("b", "profile = \"2q\"")
            ),
            &["profile 2q allows at most 8 slots, found 10"],
        ),
        (
            format!("{}{}", tenant("a", "profile = \"16q\""), tenant("b", "profile = \"16q\"")),
            &["profile 16q allows at most 1 tenants, found 2"],
        ),
        (format!("{}{b}", tenant("a", "profile = \"3q\"")), &["there is no \"3q\"; allowed: 1q"]),
        (
            format!("{a}{b}[arbiter]\npolicy = \"fair\""),
            &["`policy`", "best_effort", "rate_proportional"],
        ),
        (format!("{a}{b}[arbiter]\nslice_ms = 31"), &["`slice_ms`", "1 to 30"]),
        (format!("{a}{b}[arbiter]\nslots = 1"), &["tenants have 2 slots of a device that has 1"]),
        (format!("{a}{b}[arbiter]\nslots = 257"), &["`slots`", "1 to 256"]),
        (format!("{a}{b}[tenant]\nname = \"c\""), &["duplicate key"]),
        (
            format!("{a}[[tenant]]\nname = \"b\"\ndevice = \"cuda:77\""),
            &["`device`: no device \"cuda:77\""],
        ),
        (format!("{a}[[tenant]]\nname = \"b\""), &["`device`"]),
        (format!("{a}{}", tenant("b", "memroy_mib = 1")), &["`memroy_mib`"]),
    ] {
        demo.write("c.toml", format!("{CHAINS}{tables}\n"));
        let ended = demo.warpline("check c.toml").expect(2).stderr;
        let missing = messages.iter().filter(|message| !ended.contains(**message));
        failed.extend(missing.map(|message| format!("{message:?} is not in:\n{ended}")));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    demo.write("c.toml", format!("{}{a}", CHAINS.replace("tenant = \"b\"\n", "")));
    let ended = demo.warpline("check c.toml").expect(2).stderr;
    assert!(ended.contains("tenants share host, and the chain names none of them"), "{ended}");
    assert!(ended.contains("allowed: \"a\""), "{ended}");
    demo.write(
        "c.toml",
        format!("{}{a}{b}", CHAINS.replace("device = \"host\"\nin_place = false", "")),
    );
    let ended = demo.warpline("check c.toml").expect(2).stderr;
    assert!(ended.contains("tenant \"b\" shares host, and no function is there"), "{ended}");
    demo.write("c.toml", format!("{CHAINS}{a}{b}[arbiter]\npolicy = \"fair\""));
    let ended = demo.warpline("check c.toml").expect(2).stderr;
    assert!(ended.contains(": 1 mistake\n"), "no other one follows from it: {ended}");
    demo.write("c.toml", format!("{CHAINS}{a}{}", tenant("b", "memory_mib = 1")));
    let ended = demo.warpline("check c.toml").expect(2).stderr;
    assert!(ended.contains("tenant \"b\" may have 1 MiB of host, and its chains need"), "{ended}");
}

/// Whatever the policy, chains send the packets that they send without tenants.
#[test]
fn chains_of_tenants_send_the_same_packets() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let alone = CHAINS.replace("tenant = \"a\"\n", "").replace("tenant = \"b\"\n", "");
    demo.write("c.toml", &alone);
    demo.warpline("run c.toml --stats s.json").expect(0);
    assert_eq!(stats::read(&demo, "s.json")["shared_devices"], Value::Array(Vec::new()));
    let expected = ["one.pcap", "two.pcap"].map(|file| demo.read(file));
    for policy in ["best_effort", "equal_share", "fixed_share", "rate_proportional"] {
        let tenants = [
            tenant("a", "memory_mib = 2000"),
            tenant("b", "slots = 2"),
            tenant("noise", "background = \"matmul\""),
        ];
        let arbiter = format!("[arbiter]\npolicy = {policy:?}\nslice_ms = 1\n");
        demo.write("c.toml", format!("{CHAINS}{}{arbiter}", tenants.concat()));
        let ended = demo.warpline("run c.toml --stats s.json").expect(0);
        assert!(ended.stderr.contains(&format!("host: shared by {policy}")), "{}", ended.stderr);
        for (file, expected) in ["one.pcap", "two.pcap"].iter().zip(&expected) {
            assert!(demo.read(file) == *expected, "{policy}: {file} differs");
        }
        let shared = stats::read(&demo, "s.json")["shared_devices"][0].clone();
        assert_eq!((&shared["policy"], &shared["slots"]), (&policy.into(), &4.into()), "{shared}");
        let tenants = shared["tenants"].as_array().expect("tenants");
        let names: Vec<_> = tenants.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "noise"]);
        let share: f64 = tenants.iter().filter_map(|one| one["share"].as_f64()).sum();
        assert!(share <= 1.000_01, "{share}");
        for one in tenants {
            assert!(one["launches"].as_u64() > Some(0), "{one}");
            assert_eq!(one["lost"], 0, "{one}");
        }
        assert_eq!(tenants[0]["chains"][0], "one");
    }
}

/// With `[arbiter]` alone, each stage on the device is a tenant.
#[test]
fn stages_are_tenants_without_tables() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.write(
        "c.toml",
        "[chain]\nfunctions = [\"digest\", \"count\"]\ninput = \"generate:packets=5000\"\n\
         [digest]\ndevice = \"host\"\nstage = \"own\"\n\
         [count]\nfunction = \"digest\"\ndevice = \"host\"\nstage = \"own\"\n\
         [arbiter]\npolicy = \"rate_proportional\"\n",
    );
    let reported = demo.warpline("check c.toml").expect(0);
    let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert!(
        reported.contains("host: shared by rate_proportional: digest (1 slot), count (1 slot)"),
        "{reported}"
    );
    demo.warpline("run c.toml --stats s.json").expect(0);
    let shared = stats::read(&demo, "s.json")["shared_devices"][0].clone();
    for one in shared["tenants"].as_array().expect("tenants") {
        assert!(one["launches"].as_u64() > Some(0), "{one}");
    }
}
