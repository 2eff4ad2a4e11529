//! Any bytes that clients send to the control socket, and the answers.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use warpline::fuzzing::{self, Chain};

const FILE: &str = "[[chain]]\nname = \"edge\"\nfunctions = [\"firewall\"]\n\
    [[chain]]\nname = \"lab & co\"\nfunctions = [\"digest\"]\n[firewall]\nrules = \"rules\"\n";

/// Statuses of answers: of the server itself, and of requests that it can read.
const STATUSES: [&str; 8] = ["200", "400", "404", "405", "409", "414", "431", "501"];

/// Built once: the chains do not change.
fn chains() -> &'static [Chain] {
    static CHAINS: OnceLock<Vec<Chain>> = OnceLock::new();
    CHAINS.get_or_init(|| {
        let files = [("rules", "accept from any to any\n")];
        let read = fuzzing::read(FILE, &files, &[], warpline_functions::FUNCTIONS);
        read.unwrap_or_else(|mistakes| panic!("{mistakes}"))
    })
}

fuzz_target!(|request: &[u8]| {
    let answers = fuzzing::ask(chains(), request);
    if answers.is_empty() {
        return;
    }
    let answers = String::from_utf8(answers).expect("text");
    let head = answers.strip_prefix("HTTP/1.").expect("an answer of HTTP/1");
    assert!(STATUSES.contains(&&head[2..5]), "{}", answers.lines().next().unwrap_or_default());
    // Several requests have several answers; of one alone the body is JSON, or the summary.
    let Some((head, body)) = answers.split_once("\r\n\r\n") else { return };
    let is_json = head.to_ascii_lowercase().contains("content-type: application/json");
    if is_json && answers.matches("HTTP/1.").count() == 1 && !request.starts_with(b"HEAD") {
        let value: Value = serde_json::from_str(body).expect("JSON");
        let is_fine = head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.0 200");
        assert_eq!(is_fine, value.get("error").is_none(), "{head}: {value}");
    }
});
