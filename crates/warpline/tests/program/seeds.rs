//! The seed of a chain: all is the same under one, and one may be drawn at each start.

use crate::ends::signal;
use crate::harness::{Demo, wait};
use crate::stats;

/// Ports are handed out by shard and by hash, and the largest flows make room: all depends on the
/// seed.
const CHAIN: &str = "[chain]\nfunctions = [\"nat\", \"firewall\", \"flow_monitor\", \"nat\"]\n\
    [firewall]\nrules = \"rules\"\nestablished = true\nconnections = 640\n\
    [nat]\ninside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.9\"]\nbindings = 640\n\
    [flow_monitor]\ncsv = \"flows.csv\"\nflows = 640\n";

fn demo() -> Demo {
    let demo = Demo::new();
    demo.write("seeded.toml", CHAIN);
    demo.write("rules", "accept from any to any\n");
    demo.write("empty.toml", "[chain]\nfunctions = []\n");
    let made = "run empty.toml --output in.pcap \
         --input generate:packets=8000,flows=3000,size=100,protocol=mix";
    demo.warpline(made).expect(0);
    demo
}

/// All that a run leaves.
type Left = (Vec<u8>, Vec<u8>, serde_json::Value);

fn left(demo: &Demo) -> Left {
    let stats = stats::timeless(stats::read(demo, "s.json"));
    (demo.read("out.pcap"), demo.read("flows.csv"), stats)
}

fn run(demo: &Demo, more: &str) -> Left {
    demo.warpline(&format!("run seeded.toml --output out.pcap --stats s.json {more}")).expect(0);
    left(demo)
}

#[test]
fn a_seed_decides_and_nothing_else_does() {
    let demo = demo();
    let without = run(&demo, "--input in.pcap");
    assert_eq!(without.2["chains"][0]["seed"], 0);
    let mut all = vec![without.0];
    for seed in [0_u64, 1, 77, (1 << 53) - 1] {
        let own = format!("--input in.pcap --set chain.seed={seed}");
        let first = run(&demo, &own);
        assert_eq!(first.2["chains"][0]["seed"], seed);
        for more in ["--lanes 3 --set chain.batch_packets=7", "--lanes 2 --set nat.stage=own"] {
            let mut other = run(&demo, &format!("{own} {more}"));
            other.2["chains"][0]["lanes"] = first.2["chains"][0]["lanes"].clone();
            assert!(first == other, "seed {seed}, {more}");
        }
        all.push(first.0);
    }
    assert!(all[0] == all[1], "0 is the seed of files that have no other");
    for (place, bytes) in all[1..].iter().enumerate() {
        assert!(all[1..][..place].iter().all(|other| other != bytes), "outputs differ by seed");
    }
}

#[test]
fn a_random_seed_is_reported() {
    let demo = demo();
    let random = || {
        let run = "run seeded.toml --output out.pcap --stats s.json --input in.pcap \
             --set chain.seed=random";
        let ended = demo.warpline(run).expect(0);
        let left = left(&demo);
        let seed = left.2["chains"][0]["seed"].as_u64().unwrap();
        assert!(ended.stderr.contains(&format!("  seed {seed}\n")), "{}", ended.stderr);
        (seed, left)
    };
    let ((seed, first), (other, second)) = (random(), random());
    assert_ne!(seed, other);
    assert!(first.0 != second.0);
    // The run can be repeated.
    assert!(run(&demo, &format!("--input in.pcap --set chain.seed={seed}")) == first);
}

#[test]
fn seeds_out_of_range_are_reported() {
    let demo = demo();
    for seed in ["-1", "9007199254740992", "x"] {
        let run = format!("check seeded.toml --set chain.seed={seed}");
        let ended = demo.warpline(&run).expect(2);
        assert!(ended.stderr.contains("seed"), "{}", ended.stderr);
    }
}

/// The running seed stays through a reload, also a drawn one, whatever the file has.
#[test]
fn a_reload_keeps_the_seed() {
    let demo = demo();
    let mut child = demo
        .start("run seeded.toml --output none --stats s.json --input - --set chain.seed=random");
    let lines = crate::reload::lines_of(child.stderr.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &demo.read("in.pcap")).unwrap();
    crate::ends::wait_until_running(&demo, &child, 1);
    demo.write("rules", "drop from any to any\n");
    signal(&child, "HUP");
    let line = || lines.recv_timeout(crate::harness::LIMIT).unwrap();
    assert_eq!(line(), "reload: [firewall] in place");
    drop(stdin);
    wait(child).expect(0);
    demo.write("rules", "accept from any to any\n");
    demo.write("seeded.toml", CHAIN.replace("[chain]\n", "[chain]\nseed = 4\n"));
    let mut child = demo.start("run seeded.toml --output none --stats s.json --input -");
    let lines = crate::reload::lines_of(child.stderr.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &demo.read("in.pcap")).unwrap();
    crate::ends::wait_until_running(&demo, &child, 1);
    demo.write("seeded.toml", CHAIN.replace("[chain]\n", "[chain]\nseed = 5\n"));
    signal(&child, "HUP");
    let line = || lines.recv_timeout(crate::harness::LIMIT).unwrap();
    assert_eq!(line(), "reload: nothing changed");
    assert_eq!(line(), "reload: unchanged until a restart: seed");
    demo.write("rules", "drop from any to any\n");
    signal(&child, "HUP");
    assert_eq!(line(), "reload: [firewall] in place");
    assert_eq!(line(), "reload: unchanged until a restart: seed");
    drop(stdin);
    wait(child).expect(0);
    assert_eq!(stats::read(&demo, "s.json")["chains"][0]["seed"], 4);
}
