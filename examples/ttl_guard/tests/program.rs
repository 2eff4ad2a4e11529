//! The program with the function in a chain: on the CPU, on a device, and as `check --strict` sees
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;

const CHAIN: &str = "[chain]\nfunctions = [\"ttl_guard\", \"digest\"]\n[ttl_guard]\nleast = 64\n";

fn program(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpline-ttl-guard"));
    let output = command.args(arguments).current_dir(folder).output().expect("the program");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ttl-guard");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("chain.toml"), CHAIN).expect("a file");
    folder
}

#[test]
fn the_function_runs_in_a_chain() {
    let folder = folder();
    let generated = "generate:packets=1000,flows=10,seed=1";
    for device in ["cpu", "host"] {
        let stats = format!("stats-{device}.json");
        let options = ["--device", device, "--output", "none", "--stats", &stats];
        let (is_fine, text) = program(
            &folder,
            &[&["run", "chain.toml", "--input", generated], &options[..]].concat(),
        );
        // The host device needs a C compiler.
        if device == "host" && text.contains("no C compiler") {
            continue;
        }
        assert!(is_fine, "{device}: {text}");
        let stats = std::fs::read_to_string(folder.join(&stats)).expect("statistics");
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        let function = &stats["chains"][0]["functions"][0];
        assert_eq!(function["name"], "ttl_guard");
        assert_eq!(function["packets_in"], 1000, "{function:#}");
    }
    let (is_fine, text) = program(&folder, &["check", "chain.toml", "--strict"]);
    assert!(is_fine, "{text}");
    let (is_fine, text) = program(&folder, &["functions"]);
    assert!(is_fine && text.contains("ttl_guard") && text.contains("router"), "{text}");
}
