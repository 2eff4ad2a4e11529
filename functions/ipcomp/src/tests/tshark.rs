//! Compressed packets as tshark dissects and decompresses them.
//!
//! Skipped where tshark is not installed, unless `WARPLINE_REQUIRE_PEERS` is 1.

use std::process::Command;

use super::cases::{Case, content, extension, udp};
use super::{compressor, send};

fn has_tshark() -> bool {
    let has = Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success());
    let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(has || !required, "tshark is required and not installed");
    has
}

/// A pcap file of Ethernet frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for frame in frames {
        let len = (frame.len() as u32).to_le_bytes();
        file.extend([[0; 4], [0; 4], len, len].concat());
        file.extend(frame);
    }
    file
}

#[test]
fn tshark_sees_ipcomp_and_what_is_in_it() {
    if !has_tshark() {
        return;
    }
    let body = udp(&content(700, 3));
    let headers = [extension(0, 1), extension(43, 3)];
    let cases = [
        Case::v4(&[], 17, &body),
        Case::v4(&[1, 1, 1, 0], 17, &body),
        Case::v6(&[], 0, 17, &body),
        Case::v6(&headers, 0, 17, &body),
    ];
    let mut here = compressor("");
    let frames: Vec<Vec<u8>> = cases.iter().map(|case| send(&mut here, case).bytes).collect();
    let path = std::env::temp_dir().join(format!("warpline-ipcomp-{}.pcap", std::process::id()));
    std::fs::write(&path, pcap(&frames)).unwrap();
    let fields = ["ipcomp.flags", "ipcomp.cpi", "udp.dstport", "udp.length", "_ws.malformed"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    tshark.args(["-e", "ip.checksum.status"]).args(fields.iter().flat_map(|field| ["-e", field]));
    let out = tshark.output().unwrap();
    let _ = std::fs::remove_file(&path);
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // 1: the IPv4 header checksum is good.
    let inside = "0x00\t0x0002\t5001\t708\t";
    assert_eq!(lines, ["1\t", "1\t", "\t", "\t"].map(|start| format!("{start}{inside}")));
}
