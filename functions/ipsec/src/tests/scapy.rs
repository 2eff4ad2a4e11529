//! Scapy's ESP opens packets sealed here, and the reverse.
//!
//! Skipped without scapy, unless `WARPLINE_REQUIRE_PEERS` is 1. Scapy 2.5 supports extended
//! sequence numbers with AES-GCM only: its HMACs leave the upper half out, against RFC 4303, 2.2.1.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::peers::{SEQUENCE, Shown, every_sa, hex, is_there};

/// The interpreter that has scapy with its ciphers: the first of that name, or the system's.
fn python() -> Option<&'static str> {
    const HAS: &str = "import scapy.layers.ipsec, cryptography";
    let imports = |python: &&str| {
        let output = Command::new(python).args(["-c", HAS]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(imports);
    is_there("scapy", Command::new(found.unwrap_or("python3")).args(["-c", HAS])).then_some(found?)
}

/// All that scapy can do.
fn shown() -> Vec<Shown> {
    let all = every_sa();
    let is_gcm = |shown: &&Shown| shown.sa.suite.cipher == "aes-gcm" && !shown.encap;
    let with_esn = all.iter().filter(is_gcm).map(|shown| {
        let mut shown = shown.clone();
        let high = 0x8000_0005;
        let sequence = u64::from(high) << 32 | u64::from(SEQUENCE);
        shown.high = Some(high);
        shown.sa.more = format!("esn = true\nsequence = {sequence}");
        shown
    });
    let with_esn: Vec<Shown> = with_esn.collect();
    all.into_iter().chain(with_esn).collect()
}

/// An SA and packets of it, as the script takes them.
fn request(shown: &Shown, packets: &[Vec<u8>]) -> Value {
    let sa = &shown.sa;
    let cipher = match sa.suite.cipher {
        "aes-cbc" => "AES-CBC",
        "aes-ctr" => "AES-CTR",
        "aes-gcm" => "AES-GCM",
        _ => "NULL",
    };
    let auth = match sa.suite.auth {
        "hmac-sha1-96" => "HMAC-SHA1-96",
        "hmac-sha2-256-128" => "SHA2-256-128",
        _ => "NULL",
    };
    let [enc_key, auth_key] = sa.keys().map(|key| key[2..].to_owned());
    json!({
        "spi": sa.spi,
        "first": SEQUENCE + 1,
        "high": shown.high,
        "cipher": cipher,
        "enc_key": enc_key,
        "auth": auth,
        "auth_key": auth_key,
        "peers": sa.peers,
        "tunnel": sa.mode == "tunnel",
        "encap": shown.encap,
        "packets": packets.iter().map(|packet| hex(packet)).collect::<Vec<_>>(),
    })
}

/// The bytes that a text gives in hex, or its own where it is something else.
fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Scapy's results for the packets of every SA.
fn ask(python: &str, task: &str, sas: &[Value]) -> Vec<Vec<Vec<u8>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/peers/scapy_esp.py");
    let mut command = Command::new(python);
    command.arg(script).arg(task).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It reads all before it writes anything.
    let text = serde_json::to_vec(sas).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answer: Vec<Vec<String>> = serde_json::from_slice(&output.stdout).unwrap();
    answer.iter().map(|packets| packets.iter().map(|packet| unhex(packet)).collect()).collect()
}

fn assert_same(shown: &Shown, found: &[Vec<u8>]) {
    let expected = shown.packets();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let text = String::from_utf8_lossy(found);
        assert!(found == expected, "{shown:?}\n{}\nis\n{}\n{text}", hex(expected), hex(found));
    }
}

#[test]
fn scapy_opens_what_is_sealed() {
    let Some(python) = python() else { return };
    let shown = shown();
    let sealed: Vec<Value> = shown.iter().map(|shown| request(shown, &shown.sealed())).collect();
    let opened = ask(python, "open", &sealed);
    assert_eq!(opened.len(), shown.len());
    shown.iter().zip(&opened).for_each(|(shown, opened)| assert_same(shown, opened));
}

/// IVs are random here, of counter modes too.
#[test]
fn packets_that_scapy_sealed_are_opened() {
    let Some(python) = python() else { return };
    let shown = shown();
    let plain: Vec<Value> = shown.iter().map(|shown| request(shown, &shown.packets())).collect();
    let sealed = ask(python, "seal", &plain);
    assert_eq!(sealed.len(), shown.len());
    for (shown, sealed) in shown.iter().zip(&sealed) {
        assert_same(shown, &shown.opened(sealed));
    }
}
