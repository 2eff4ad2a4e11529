//! `[backpressure]`: marks, mistakes, and the stages in the statistics.

use std::fs::Permissions;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

use crate::ends::signal;
use crate::harness::Demo;
use crate::harness::{LIMIT, wait};
use crate::reload::lines_of;
use crate::stats;

const CHAIN: &str = "[chain]\nfunctions = [\"digest\", \"count\"]\n\
    input = \"generate:packets=20000,size=64\"\n[digest]\nstage = \"own\"\n\
    [count]\nfunction = \"digest\"\nstage = \"own\"\n";

#[test]
fn marks_out_of_range_are_mistakes() {
    let demo = Demo::new();
    for (keys, message) in [
        ("high = 0.5", "c.toml:10:8: `high` is 0.5 launches; allowed are 1 to 6"),
        ("high = 7", "c.toml:10:8: `high` is 7 launches; allowed are 1 to 6"),
        ("low = 3", "c.toml:10:7: `low` is 3 launches; allowed are 0.001 to 2.8"),
        ("low = 0", "c.toml:10:7: `low` is 0 launches; allowed are 0.001 to 2.8"),
        ("high = -1", "c.toml:10:8: `high` is -1 launches"),
        ("high = inf", "c.toml:10:8: `high` must be a decimal number, found inf"),
        ("high = \"2\"", "c.toml:10:8: `high` must be a decimal number, found \"2\""),
        (
            "queue = 100",
            "error: c.toml: 1 mistake\nc.toml:10:9: `queue` is 100 launches; allowed are 1 to 64",
        ),
        (
            "queue = 0",
            "error: c.toml: 1 mistake\nc.toml:10:9: `queue` is 0 launches; allowed are 1 to 64",
        ),
        ("queue = 2\nhigh = 2.8", "`high` is 2.8 launches; allowed are 1 to 2"),
        ("mode = \"auto\"", "c.toml:10:8: `mode`"),
        ("hihg = 2", "c.toml:10:1: [backpressure] has no key `hihg`"),
    ] {
        demo.write("c.toml", format!("{CHAIN}[backpressure]\n{keys}\n"));
        let reported = demo.warpline("check c.toml").expect(2).stderr;
        assert!(reported.contains(message), "{keys}: {reported}");
    }
}

const LISTEN: &str = "listen = \"udp://127.0.0.1:7410\"";

#[test]
fn mistakes_about_linked_instances_are_refused() {
    let demo = Demo::new();
    for (name, len, mode) in [("key", 32, 0o600), ("short", 31, 0o600), ("open", 32, 0o640)] {
        demo.write(name, vec![7; len]);
        std::fs::set_permissions(demo.path(name), Permissions::from_mode(mode)).expect("a mode");
    }
    let address = "write an address and a port: udp://192.0.2.1:7410 or udp://[2001:db8::1]:7410";
    let upstream = "upstream = \"udp://127.0.0.1:7411\"";
    for (keys, message) in [
        (upstream, "c.toml:10:12: `upstream` requires `key`: a file with a key that both"),
        (LISTEN, "c.toml:10:10: `listen` requires `key`"),
        ("key = \"short\"", "c.toml:10:7: `key`: \"short\" has 31 bytes, a key has 32 at least"),
        ("key = \"open\"", "can't read \"open\": other users may use it (mode 640): chmod 600"),
        ("key = \"none\"", "c.toml:10:7: can't read \"none\": no such file"),
        ("listen = \"127.0.0.1:1\"", address),
        ("listen = \"udp://host:1\"", address),
        ("listen = \"udp://127.0.0.1:0\"", "port 0 is no port"),
        ("upstream = \"udp://0.0.0.0:1\"", "it names no instance"),
        (&format!("{LISTEN}\nkey = \"key\"\nmode = \"off\""), "`listen` requires mode = \"on\""),
    ] {
        demo.write("c.toml", format!("{CHAIN}[backpressure]\n{keys}\n"));
        let reported = demo.warpline("check c.toml").expect(2).stderr;
        assert!(reported.contains(message), "{keys}: {reported}");
    }
    let ports = "[chain]\nfunctions = [\"digest\"]\n[backpressure]\nkey = \"key\"\n\
        listen = \"udp://127.0.0.1:7410\"\n[[port]]\nname = \"a\"\nside = \"inside\"\n\
        device = \"generate:packets=1\"\nlisten = \"udp://0.0.0.0:7410\"\n";
    demo.write("c.toml", ports);
    let reported = demo.warpline("check c.toml").expect(2).stderr;
    let twice =
        "c.toml:10:10: `listen`: udp://127.0.0.1:7410 is used already; give it another port";
    assert!(reported.contains(twice), "{reported}");
}

/// A run that can't listen touches no file.
#[test]
fn an_address_in_use_is_refused() {
    let demo = Demo::new();
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = taken.local_addr().expect("its address");
    demo.write("key", [7; 32]);
    std::fs::set_permissions(demo.path("key"), Permissions::from_mode(0o600)).expect("a mode");
    let keys = format!("[backpressure]\nkey = \"key\"\nlisten = \"udp://{address}\"\n");
    demo.write("c.toml", format!("{CHAIN}{keys}"));
    let reported = demo.warpline("run c.toml --output out.pcap --stats s.json").expect(2).stderr;
    let place = format!("c.toml:11:10: udp://{address}: address already in use; choose another");
    assert!(reported.to_lowercase().contains(&place), "{reported}");
    assert!(!demo.path("out.pcap").exists() && !demo.path("s.json").exists());
    drop(taken);
    demo.warpline("run c.toml --output out.pcap --stats s.json").expect(0);
    let peer = &stats::read(&demo, "s.json")["chains"][0]["peers"][0];
    assert_eq!((peer["side"].as_str(), peer["sent"].as_u64()), (Some("downstream"), Some(0)));
}

#[test]
fn a_reload_keeps_the_marks() {
    let demo = Demo::new();
    demo.write("c.toml", format!("{CHAIN}[backpressure]\nstart = \"paused\"\n"));
    let mut child = demo.start("run c.toml");
    let lines = lines_of(child.stderr.take().expect("stderr"));
    let line = || lines.recv_timeout(LIMIT).expect("a message");
    assert!(line().ends_with("SIGUSR2 resumes it"));
    demo.write("c.toml", format!("{CHAIN}[backpressure]\nhigh = 1.5\n"));
    signal(&child, "HUP");
    assert_eq!(line(), "reload: nothing changed");
    let expected = "reload: unchanged until a restart: [backpressure] high, [backpressure] low, \
         [backpressure] start";
    assert_eq!(line(), expected);
    signal(&child, "INT");
    wait(child).expect(130);
}

#[test]
fn stages_are_in_the_statistics() {
    let demo = Demo::new();
    for (keys, high) in [("", Some(2.8)), ("high = 1.5\n", Some(1.5)), ("mode = \"off\"\n", None)] {
        demo.write("c.toml", format!("{CHAIN}[backpressure]\n{keys}"));
        demo.warpline("run c.toml --output out.pcap --stats s.json").expect(0);
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        let stages = chain["stages"].as_array().expect("stages");
        let names: Vec<&str> = stages.iter().filter_map(|stage| stage["name"].as_str()).collect();
        assert_eq!(names, ["digest", "count"]);
        for stage in stages {
            assert_eq!(stage["queue"]["high"].as_f64(), high);
            assert!(stage["launches"].as_u64() > Some(0), "{stage}");
        }
        // Without pauses a slow output makes the last queue drop.
        let drops: u64 = stages.iter().filter_map(|stage| stage["drops"].as_u64()).sum();
        assert!(drops == 0 || high.is_none(), "{chain}");
        let share: f64 = stages.iter().filter_map(|stage| stage["launch_share"].as_f64()).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        assert_eq!(chain["packets"]["sent"].as_u64(), Some(20_000 - drops));
        assert_eq!(chain["packets"]["overload"], drops);
    }
}

/// A chain that starts paused reads nothing until SIGUSR2 resumes it, and the next one pauses it.
#[test]
fn a_chain_that_starts_paused_waits_for_a_signal() {
    let demo = Demo::new();
    demo.write("c.toml", format!("{CHAIN}[backpressure]\nstart = \"paused\"\n"));
    let mut child = demo.start("run c.toml --output out.pcap --stats s.json");
    let lines = lines_of(child.stderr.take().expect("stderr"));
    let line = || lines.recv_timeout(LIMIT).expect("a message");
    assert_eq!(line(), "chain \"chain\" starts paused; SIGUSR2 resumes it");
    signal(&child, "USR2");
    assert_eq!(line(), "resumed: chains read packets again");
    wait(child).expect(0);
    let chain = &stats::read(&demo, "s.json")["chains"][0];
    assert_eq!(chain["packets"]["sent"], 20_000);

    // Paused again, it ends when it is asked to.
    let mut child = demo.start("run c.toml --output out.pcap --stats s.json");
    let lines = lines_of(child.stderr.take().expect("stderr"));
    lines.recv_timeout(LIMIT).expect("a message");
    signal(&child, "INT");
    wait(child).expect(130);
    assert_eq!(stats::read(&demo, "s.json")["chains"][0]["packets"]["read"], 0);
}
