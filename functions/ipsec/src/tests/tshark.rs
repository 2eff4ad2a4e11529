//! Tshark authenticates, deciphers and dissects packets sealed here.
//!
//! Skipped without tshark, unless `WARPLINE_REQUIRE_PEERS` is 1. It doesn't support extended
//! sequence numbers.

use std::process::Command;

use super::gateway::{Files, SaText};
use super::peers::{PORTS, Shown, every_sa, hex, is_there};

/// An SA as a line of tshark's table of them.
fn row(sa: &SaText) -> String {
    let cipher = match sa.suite.cipher {
        "aes-cbc" => "AES-CBC [RFC3602]",
        "aes-ctr" => "AES-CTR [RFC3686]",
        "aes-gcm" => "AES-GCM with 16 octet ICV [RFC4106]",
        _ => "NULL",
    };
    let auth = match sa.suite.auth {
        "hmac-sha1-96" => "HMAC-SHA-1-96 [RFC2404]",
        "hmac-sha2-256-128" => "HMAC-SHA-256-128 [RFC4868]",
        _ => "NULL",
    };
    let ([src, dst], [enc_key, auth_key]) = (sa.peers, sa.keys());
    let version = if src.contains(':') { "IPv6" } else { "IPv4" };
    let key = |key: String| if key == "0x" { String::new() } else { key };
    let (enc_key, auth_key, spi) = (key(enc_key), key(auth_key), sa.spi);
    let fields = [version, src, dst, &format!("0x{spi:08x}"), cipher, &enc_key, auth, &auth_key];
    format!("uat:esp_sa:{}", fields.map(|field| format!("\"{field}\"")).join(","))
}

/// A pcap file of IP packets.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0, 0, 4, 0, 101, 0, 0, 0]);
    for packet in packets {
        let len = (packet.len() as u32).to_le_bytes();
        file.extend([[0; 4], [0; 4], len, len].concat());
        file.extend(packet);
    }
    file
}

/// Fields that tshark prints of every packet; [`expected`] has their values.
const FIELDS: [&str; 12] = [
    "_ws.malformed",
    "_ws.expert.message",
    "esp.spi",
    "esp.icv_good",
    "esp.icv_bad",
    "esp.pad",
    "esp.protocol",
    "ip.checksum.status",
    "udp.srcport",
    "udp.dstport",
    "udp.checksum.status",
    "echo.data",
];

const OPTIONS: [&str; 4] = [
    "esp.enable_encryption_decode:TRUE",
    "esp.enable_authentication_check:TRUE",
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
];

/// Its expected output for the sealed `packet`: of the outer header first, if both have a field.
fn expected(shown: &Shown, packet: &[u8]) -> String {
    let is_tunnel = shown.sa.mode == "tunnel";
    let [outer_is_v4, inner_is_v4] =
        [shown.sa.peers[0], shown.inner[0]].map(|address| !address.contains(':'));
    let protocol = match (is_tunnel, inner_is_v4) {
        (true, true) => "0x04",
        (true, false) => "0x29",
        (false, _) => "0x11",
    };
    // 1 is good, 3 is missing: UDP around ESP has no checksum over IPv4 (RFC 3948, 2.1).
    let v4_headers = usize::from(outer_is_v4) + usize::from(is_tunnel && inner_is_v4);
    let in_udp = |outside: &str, inside: &str| {
        if shown.encap { format!("{outside},{inside}") } else { inside.to_owned() }
    };
    let header_len = if inner_is_v4 { 20 } else { 40 };
    // RFC 4303, 2.4: 1, 2, 3 and so on, up to a multiple of the block with the two bytes after it.
    let carried = packet.len() - if is_tunnel { 0 } else { header_len };
    let block = if shown.sa.suite.cipher == "aes-cbc" { 16 } else { 4 };
    let padding: Vec<u8> =
        (1..).take((carried + 2).next_multiple_of(block) - carried - 2).collect();
    let payload = &packet[header_len + 8..];
    let [src, dst] = PORTS.map(|port| port.to_string());
    let values: [String; FIELDS.len()] = [
        String::new(),
        String::new(),
        format!("0x{:08x}", shown.sa.spi),
        "1".into(),
        "0".into(),
        hex(&padding),
        protocol.into(),
        vec!["1"; v4_headers].join(","),
        in_udp("4500", &src),
        in_udp("4500", &dst),
        in_udp(if outer_is_v4 { "3" } else { "1" }, "1"),
        hex(payload),
    ];
    values.join("\t")
}

#[test]
fn tshark_opens_what_is_sealed() {
    if !is_there("tshark", Command::new("tshark").arg("--version")) {
        return;
    }
    let shown = every_sa();
    let sealed: Vec<Vec<u8>> = shown.iter().flat_map(Shown::sealed).collect();
    let files = Files::new();
    let path = files.0.join("sealed.pcap");
    std::fs::write(&path, pcap(&sealed)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-n", "-T", "fields"]);
    tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    tshark.args(OPTIONS.iter().flat_map(|option| ["-o", option]));
    shown.iter().for_each(|shown| {
        tshark.args(["-o", &row(&shown.sa)]);
    });
    let output = tshark.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = text.lines().collect();
    let packets = |shown: &Shown| -> Vec<_> {
        shown.packets().iter().map(|packet| expected(shown, packet)).collect()
    };
    let expected: Vec<String> = shown.iter().flat_map(packets).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{FIELDS:?}");
    }
}
