//! Mistakes in `[[port]]`: each has a place and a text to write.

use super::{demo, port};

const CHAIN: &str = "[chain]\nfunctions = []\n";

/// The device of port "wan" on line 10, keys from line 11 on, and the report.
const DEVICES: &[[&str; 3]] = &[
    [
        "af_packet:a/b",
        "",
        "10:10: `device`: an interface has a name of 1 to 15 bytes: af_packet:eth0",
    ],
    [
        "af_packet:eth0,promiscuous=no",
        "",
        "10:10: `device`: \"promiscuous=no\": write true or false",
    ],
    [
        "af_packet:eth0,queue_mib=0",
        "",
        "10:10: `device`: \"queue_mib=0\": write a number from 1 to 1024",
    ],
    ["wan.pcap", "queue_mib = 8", "11:13: `queue_mib` requires af_packet:IF as `device`"],
    [
        "af_packet:eth0",
        "queues = 17",
        "11:10: `queues` must be a whole number from 1 to 16, found 17",
    ],
    ["af_xdp:eth0", "queues = 2", "11:10: `queues` requires af_packet:IF as `device`"],
    ["af_xdp:eth0", "queue_mib = 8", "11:13: `queue_mib` requires af_packet:IF as `device`"],
    [
        "af_xdp:eth0,mode=fast",
        "",
        "10:10: `device`: \"mode=fast\": the modes are copy, zerocopy, auto",
    ],
    ["-", "", "10:10: `device`: a port reads a file, not standard input"],
    ["missing.pcap", "", "10:10: `device`: can't read \"missing.pcap\": no such file or directory"],
    ["none", "interface = 0", "11:13: `interface` requires a capture file as `device`"],
    [
        "wan.pcap",
        "interface = -1",
        "11:13: `interface` must be a whole number from 0 to 65535 or a name, found -1",
    ],
    [
        "lan.pcap",
        "",
        "10:10: ports \"lan\" and \"wan\" read lan.pcap: each needs the interface that feeds it, \
         such as interface = 0",
    ],
    ["none", "output = \"-\"", "11:10: `output`: a port writes to a file, not to standard output"],
    ["none", "speed = 3", "11:1: [[port]] has no key `speed`"],
];

/// Checks that `check` and `run` report this for a chain of `tables`.
fn refuses(tables: &str, reported: &str) {
    let demo = demo();
    demo.write("c.toml", tables);
    let checked = demo.warpline("check c.toml").expect(2);
    let has_it = checked.stderr.contains(&format!("c.toml:{reported}\n"));
    assert!(has_it, "{tables}\n{}", checked.stderr);
    assert_eq!(demo.warpline("run c.toml").expect(2).stderr, checked.stderr);
}

/// Port "lan".
fn lan() -> String {
    port("lan", "inside", "lan.pcap", "")
}

/// Port "wan".
fn wan() -> String {
    port("wan", "outside", "wan.pcap", "")
}

#[test]
fn devices_of_ports() {
    for [device, more, reported] in DEVICES {
        let second = port("wan", "outside", device, &format!("{more}\n"));
        refuses(&format!("{CHAIN}{}{second}", lan()), reported);
    }
}

#[test]
fn names_and_sides_of_ports() {
    for (second, reported) in [
        (
            port("lan", "outside", "none", ""),
            "8:8: two ports are called \"lan\"; write name = \"lan-2\"",
        ),
        (
            "[[port]]\nname = \"wan\"\ndevice = \"none\"\n".to_owned(),
            "7:1: [[port]] needs `side`: \"inside\" or \"outside\"",
        ),
        (
            port("wan", "left", "none", ""),
            "9:8: `side` must be \"inside\" or \"outside\", found \"left\"",
        ),
        (
            port("w n", "outside", "none", ""),
            "8:8: `name`: a port's name has 1 to 128 of the characters a-z, A-Z, 0-9 and ._:@-",
        ),
    ] {
        refuses(&format!("{CHAIN}{}{second}", lan()), reported);
    }
}

#[test]
fn ports_of_a_chain() {
    let [lan, wan] = [lan(), wan()];
    for (tables, reported) in [
        (
            format!("{CHAIN}input = \"lan.pcap\"\n{lan}{wan}"),
            "3:9: `input` conflicts with [[port]]: name the capture as a port's `device`",
        ),
        (format!("{CHAIN}ports = [\"lan\"]\n{lan}{wan}"), "8:1: port \"wan\" is in no chain"),
        (
            format!("{CHAIN}ports = [\"lan\", \"wn\", \"wan\"]\n{lan}{wan}"),
            "3:9: there is no port \"wn\"; did you mean \"wan\"? ports: lan, wan",
        ),
        (
            format!("{CHAIN}ports = [\"lan\", \"wan\", \"lan\"]\n{lan}{wan}"),
            "3:9: port \"lan\" is named twice in `ports`",
        ),
        (
            format!("{CHAIN}{lan}{wan}{}", port("dmz", "inside", "none", "")),
            "1:1: a chain with more than two ports needs a router",
        ),
        (
            format!("{CHAIN}{}", port("lan", "inside", "none", "")),
            "1:1: no port of the chain has packets: each `device` is \"none\"",
        ),
        (format!("{CHAIN}[port]\nname = \"lan\"\n"), "3:1: `[port]` is one table of a list"),
        (
            format!("{CHAIN}{lan}{wan}")
                .replace("lan.pcap", "lan.pcap,pace=3")
                .replace("wan.pcap", "wan.pcap,pace=2"),
            "7:1: the ports of a chain share a pace: pace=3 is given before",
        ),
    ] {
        refuses(&tables, reported);
    }
}
