//! Warpline as a gateway beside the Linux kernel as one: the same rules and conversations, packet
//! by packet (`tools/gateway_peer`).
//!
//! Skipped where the test may not make network namespaces. Skipped without iptables too, unless
//! `WARPLINE_REQUIRE_PEERS` is 1.

#![expect(clippy::print_stderr, reason = "a test")]

use std::process::Command;

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/gateway_peer/compare.py");

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

fn has_peer() -> bool {
    if !runs("unshare", &["--net", "ip", "link"]) {
        eprintln!("skipped: no rights to make a network namespace");
        return false;
    }
    let has = runs("unshare", &["--net", "iptables", "-S"]) && runs("python3", &["--version"]);
    let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(has || !required, "iptables and python3 are required and do not run");
    if !has {
        eprintln!("skipped: iptables or python3 does not run");
    }
    has
}

#[test]
fn the_kernels_gateway_does_the_same() {
    if !has_peer() {
        return;
    }
    for (lanes, seed) in [("1", "1"), ("2", "2")] {
        let mut command = Command::new("python3");
        command.args(["-B", TOOL, env!("CARGO_BIN_EXE_warpline"), "--packets", "4000"]);
        let output = command.args(["--lanes", lanes, "--seed", seed]).output().expect("a process");
        let [reported, errors] =
            [&output.stdout, &output.stderr].map(|t| String::from_utf8_lossy(t));
        assert!(output.status.success(), "{reported}\n{errors}");
    }
}
