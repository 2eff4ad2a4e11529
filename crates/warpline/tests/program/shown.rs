//! What is not shown: keys, whatever a file of them is named as, and what would move a terminal's cursor.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::harness::Demo;
use crate::ipsec::{CBC, Site};

const KEY: &str = "00112233445566778899aabbccddeeff";

/// A file of keys that is named as a file of anything else is told of without a byte of it.
#[test]
fn no_mistake_shows_a_key() {
    let demo = Demo::new();
    let keys = format!("[sa.one]\nspi = 4097\nenc_key = \"{KEY}\"\nzonk {KEY} zonk\nplain zonk\n");
    for (function, key) in [
        ("nids", "rules"),
        ("nids", "snort_rules"),
        ("nids", "classification"),
        ("nids", "threshold"),
        ("router", "routes"),
        ("firewall", "rules"),
        ("nat", "rules"),
        ("load_balancer", "services"),
    ] {
        let chain =
            format!("[chain]\nfunctions = [\"{function}\"]\n[{function}]\n{key} = \"keys\"\n");
        demo.write("wrong.toml", chain);
        for (mode, may_show) in [(0o600, false), (0o644, true)] {
            demo.write("keys", &keys);
            fs::set_permissions(demo.path("keys"), Permissions::from_mode(mode)).unwrap();
            for command in ["check wrong.toml", "run wrong.toml --output none"] {
                let ended = demo.warpline(command);
                let told = format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
                assert!(!told.contains(&KEY[..8]), "{function}.{key}: {told}");
                assert!(may_show || !told.contains("zonk"), "{function}.{key}: {told}");
            }
        }
    }
    // As the chain file itself.
    fs::set_permissions(demo.path("keys"), Permissions::from_mode(0o600)).unwrap();
    let told = demo.warpline("check keys").expect(2).stderr;
    assert!(told.contains("keys:4:") && !told.contains("zonk"), "{told}");
}

#[test]
fn no_text_moves_the_cursor() {
    let demo = Demo::new();
    let rules =
        "alert ip any any -> any any (msg:\"\x1b[2Jgone\u{9b}1m\"; sid:1;)\nalert \x1b[31m tcp\n";
    demo.write("rules", rules);
    let chain =
        "[chain]\nname = \"a\\u001b[2J\"\nfunctions = [\"nids\"]\n[nids]\nrules = \"rules\"\n";
    demo.write("ids.toml", chain);
    let all = [
        "check ids.toml",
        "check ids.toml --json",
        "run ids.toml --output none --input generate:packets=9,size=100",
        "check \x1b[2J.toml",
        "check ids.toml --set nids.\x1b[2J=1",
    ];
    for command in all {
        let ended = demo.warpline(command);
        let told = format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
        let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!told.contains(is_odd) && told.contains("\\u001b"), "{command}: {told}");
    }
    let json = demo.warpline("check ids.toml --json").expect(0).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["chains"][0]["name"], "a\x1b[2J");
}

/// A program that holds keys leaves no core, however it dies.
#[test]
fn keys_are_in_no_core() {
    let site = Site::with(CBC);
    let command = "ulimit -c unlimited; exec \"$0\" run seal.toml --output none --stats s.json \
                   --input generate:packets=1000000000000,rate_gbps=0.001";
    let mut child = Command::new("sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_warpline")])
        .current_dir(site.path(""))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while !site.path("s.json").exists() && started.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(
        Command::new("kill").args(["-ABRT", &child.id().to_string()]).status().unwrap().success()
    );
    let status = child.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false));
}

/// What no one writes by hand is refused at a stated size, and soon.
#[test]
fn configurations_have_bounds() {
    let demo = Demo::new();
    let many = |count: usize, what: fn(usize) -> String| (0..count).map(what).collect::<String>();
    let functions = format!("[chain]\nfunctions = [{}]\n", many(100_000, |_| "\"digest\",".into()));
    let keys = format!("[chain]\nfunctions = []\n{}", many(60_000, |n| format!("k{n}=1\n")));
    let tables = format!("[chain]\nfunctions = []\n{}", many(60_000, |n| format!("[k{n}]\n")));
    let name = format!("[chain]\nname = \"{}\"\nfunctions = []\n", "x".repeat(500_000));
    let chains = many(5000, |n| format!("[[chain]]\nname = \"{n}\"\nfunctions = []\n"));
    for (text, why) in [
        (functions, "2:13: 100000 functions: a chain has 256 at most"),
        (keys, "60000 mistakes"),
        (tables, "60000 mistakes"),
        (name, "a name has 128 bytes at most"),
        (chains, "5000 chains: a file has 256 at most"),
        ("#".repeat((1 << 20) + 1), "it is larger than 1 MiB"),
    ] {
        demo.write("large.toml", text);
        let told = demo.warpline("check large.toml").expect(2).stderr;
        assert!(told.contains(why) && told.len() < 100_000, "{why}: {}", told.len());
    }
    let told = demo.warpline("check /dev/zero").expect(2).stderr;
    assert!(told.contains("it is larger than 1 MiB"), "{told}");
    demo.write("zero.toml", "[chain]\nfunctions = [\"nids\"]\n[nids]\nrules = \"/dev/zero\"\n");
    let told = demo.warpline("check zero.toml").expect(2).stderr;
    assert!(
        told.contains("zero.toml:4:9: can't read \"/dev/zero\": it is larger than 64 MiB"),
        "{told}"
    );
}
