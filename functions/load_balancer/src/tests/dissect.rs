//! Tunnels as tshark sees them. Skipped where it is not installed, unless `WARPLINE_REQUIRE_PEERS`
//! is 1.

use std::process::Command;

use super::tunnels::{CASES, IPIP, SOURCES, packet_of};
use super::*;

/// A capture of Ethernet frames, classic format, in this machine's byte order.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x4_0000, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for frame in frames {
        let len = frame.len() as u32;
        [1, 0, len, len].iter().for_each(|word: &u32| bytes.extend(word.to_ne_bytes()));
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn tshark_finds_the_packet_in_the_packet() {
    let has = Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success());
    if !has {
        let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "tshark is required and not installed");
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let mut harness = balancer(SOURCES, IPIP);
    let frames: Vec<Vec<u8>> = CASES
        .iter()
        .map(|(client, vip)| send(&mut harness, 1, &packet_of(client, vip)).bytes)
        .collect();
    let path = std::env::temp_dir().join(format!("warpline-ipip-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(&frames)).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&path).args(["-n", "-T", "fields", "-E", "occurrence=a"]);
    for protocol in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in ["frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"] {
        command.args(["-e", field]);
    }
    for field in
        ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "_ws.malformed"]
    {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    // A checksum that is right has status 1.
    let expected = [
        vec![
            "eth:ethertype:ip:ip:tcp",
            "10.9.9.9,198.51.100.7",
            "10.0.0.1,192.0.2.10",
            "",
            "",
            "1,1",
            "1",
            "",
            "",
        ],
        vec![
            "eth:ethertype:ipv6:ip:udp",
            "198.51.100.7",
            "192.0.2.11",
            "2001:db8:a::9",
            "2001:db8:b::1",
            "1",
            "",
            "1",
            "",
        ],
        vec![
            "eth:ethertype:ipv6:ipv6:tcp",
            "",
            "",
            "2001:db8:a::9,2001:db8:f::7",
            "2001:db8:b::2,2001:db8::10",
            "",
            "1",
            "",
            "",
        ],
    ];
    let start = |line: &[&str]| line[0].split(":data").next().unwrap_or_default().to_owned();
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line[0].starts_with(&start(expected)), "{line:?}");
        assert_eq!(line[1..], expected[1..]);
    }
}
