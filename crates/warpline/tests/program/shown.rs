//! Text that must not be shown: keys, in whatever way their file is named, and characters that move
//! a terminal's cursor.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::harness::Demo;
use crate::ipsec::{CBC, Site};

const KEY: &str = "00112233445566778899aabbccddeeff";

/// Where chains name files of text.
const NAMED: [(&str, &str); 8] = [
    ("nids", "rules"),
    ("nids", "snort_rules"),
    ("nids", "classification"),
    ("nids", "threshold"),
    ("router", "routes"),
    ("firewall", "rules"),
    ("nat", "rules"),
    ("load_balancer", "services"),
];

/// All that `check` and `run` print of a chain of one function, which takes `text` as its file
/// `key`.
fn printed(demo: &Demo, (function, key): (&str, &str), text: &str, mode: u32) -> String {
    let chain = format!("[chain]\nfunctions = [\"{function}\"]\n[{function}]\n{key} = \"named\"\n");
    demo.write("wrong.toml", chain);
    demo.write("named", text);
    fs::set_permissions(demo.path("named"), Permissions::from_mode(mode)).unwrap();
    let commands = ["check wrong.toml", "run wrong.toml --output none"];
    let all = commands.map(|command| {
        let ended = demo.warpline(command);
        format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr)
    });
    all.concat()
}

/// A file of keys named in the place of another shows none of its text, whatever its mode.
#[test]
fn no_mistake_shows_a_key() {
    let demo = Demo::new();
    let files = [
        format!("[sa.one]\nspi = 4097\nenc_key = \"{KEY}\"\nzonk {KEY} zonk\nplain zonk\n"),
        format!("[[sa]]\nname = \"zonk\"\nenc_key \"{KEY}\nzonk\n"),
        format!("sa = [{{ name = \"zonk\", auth_key = \"{KEY}\" }}]\nzonk\n"),
        format!("src 10.0.0.1 dst 10.0.0.2\n\tproto zonk\n\tenc cbc(aes) 0x{KEY}\nzonk\n"),
        format!("zonk\nadd 10.0.0.1 10.0.0.2 esp 0x201 -E aes 0x{KEY};\n"),
        format!("-----BEGIN PRIVATE KEY-----\n{KEY}\nzonk\n"),
        format!("[Interface]\nzonk\nPrivateKey = {KEY}zonk=\n"),
    ];
    for named in NAMED {
        for (file, mode) in files.iter().flat_map(|file| [(file, 0o600), (file, 0o644)]) {
            let text = printed(&demo, named, file, mode);
            assert!(!text.contains(&KEY[..8]) && !text.contains("zonk"), "{named:?}: {text}");
        }
    }
    // As the chain file itself.
    let text = demo.warpline("check named").expect(2).stderr;
    assert!(text.contains("named:2:") && !text.contains("zonk"), "{text}");
}

/// Rules of nftables with something unsupported. Names of fields are called `key` in them.
const NFT: &str = r#"{"nftables": [{"table": {"family": "inet", "name": "t", "handle": 1}},
 {"chain": {"family": "inet", "table": "t", "name": "forward", "handle": 1, "type": "filter",
  "hook": "forward", "prio": 0, "policy": "drop"}},
 {"rule": {"family": "inet", "table": "t", "chain": "forward", "handle": 2, "expr": [
  {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}},
  {"accept": null}]}},
 {"rule": {"family": "inet", "table": "t", "chain": "forward", "handle": 3, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "ttl"}}, "right": 5}},
  {"accept": null}]}}]}
"#;

/// Digits that could be a key are no secret in a file of rules, even where only its owner may read
/// that.
#[test]
fn mistakes_in_rules_show_their_text() {
    let demo = Demo::new();
    let word = "AbCdEfGh1234567890AbCdEfGh";
    let rule = |text: &str| format!("alert tcp any any -> any any ({text} sid:1;)\n");
    let lines = [
        (NAMED[0], rule(&format!("content:\"|{KEY}|;"))),
        (NAMED[0], rule(&format!("msg:\"-----BEGIN PRIVATE KEY----- psk={KEY};"))),
        (NAMED[0], format!("{KEY}\n")),
        (NAMED[1], rule(&format!("content:{word};"))),
        (NAMED[2], format!("config classification: {word},zonk\n")),
        (NAMED[4], format!("10.0.0.0/8 via {KEY}\n")),
        (NAMED[5], format!("accept tcp from {KEY}\n")),
        (NAMED[5], format!("# psk = {KEY}\nzonk {word}\n")),
        (NAMED[6], format!("*nat\n-A {KEY} -j MASQUERADE\n")),
        (NAMED[7], format!("{KEY}\n")),
    ];
    for (named, text) in &lines {
        for mode in [0o600, 0o644] {
            let shown = printed(&demo, *named, text, mode);
            let line = text.lines().last().unwrap();
            // Of long lines a part is shown.
            let line = &line[line.len().saturating_sub(40)..];
            assert!(shown.contains(line), "{named:?}: {line} in {shown}");
            assert!(!shown.contains("***") && !shown.contains("not shown"), "{named:?}: {shown}");
        }
    }
    for mode in [0o600, 0o644] {
        let shown = printed(&demo, NAMED[5], NFT, mode);
        assert!(shown.contains("`inet t forward` rule handle 3") && !shown.contains("***"));
        assert!(shown.contains("unsupported = \"skip\""), "{shown}");
    }
    demo.write(
        "wrong.toml",
        format!("[chain]\nfunctions = [\"digest\"]\n[digest]\nzonk = \"{KEY}\"\n"),
    );
    let shown = demo.warpline("check wrong.toml").expect(2).stderr;
    assert!(shown.contains(KEY), "{shown}");
    // A key that stands in the chain file is none of the text.
    demo.write(
        "wrong.toml",
        format!("[chain]\nfunctions = [\"digest\"]\n[digest]\nenc_key = \"{KEY}\"\n"),
    );
    let shown = demo.warpline("check wrong.toml").expect(2).stderr;
    assert!(!shown.contains(KEY) && shown.contains("wrong.toml:4:"), "{shown}");
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
        let reported = format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
        let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(
            !reported.contains(is_odd) && reported.contains("\\u001b"),
            "{command}: {reported}"
        );
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

/// Unreasonably large configurations are refused at a stated size, and quickly.
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
        (functions, "2:13: 100000 functions: a chain has 64 at most"),
        (keys, "60000 mistakes"),
        (tables, "60000 mistakes"),
        (name, "a name has 128 bytes at most"),
        (chains, "5000 chains: a file has 256 at most"),
        ("#".repeat((1 << 20) + 1), "it is larger than 1 MiB"),
    ] {
        demo.write("large.toml", text);
        let reported = demo.warpline("check large.toml").expect(2).stderr;
        assert!(reported.contains(why) && reported.len() < 100_000, "{why}: {}", reported.len());
    }
    let reported = demo.warpline("check /dev/zero").expect(2).stderr;
    assert!(reported.contains("it is larger than 1 MiB"), "{reported}");
    demo.write("zero.toml", "[chain]\nfunctions = [\"nids\"]\n[nids]\nrules = \"/dev/zero\"\n");
    let reported = demo.warpline("check zero.toml").expect(2).stderr;
    assert!(
        reported.contains("zero.toml:4:9: can't read \"/dev/zero\": it is larger than 64 MiB"),
        "{reported}"
    );
}
