//! Every command that README and the book show, run in the order of its page.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Programs that pages use besides ours.
const PEERS: [&str; 4] = ["tshark", "jq", "nfcapd", "nfdump"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs/src", "docs/src/guide", "docs/src/reference"] {
        let files = fs::read_dir(root().join(folder)).expect("the book");
        let files = files.map(|file| file.expect("a file").path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|kind| kind == "md")));
    }
    pages.sort();
    pages
}

/// The commands of a page's `sh` blocks. `make run` builds and writes the demo; here the demo is
/// enough.
fn commands(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let all: Vec<String> = blocks.map(|block| format!("{block}\n")).collect();
    all.concat().replace("make run\n", "warpline demo target/demo > /dev/null\n")
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

/// Whether this process may make network namespaces with interfaces.
fn has_namespaces() -> bool {
    let mut link = Command::new("unshare");
    link.args(["--net", "ip", "link", "add", "name", "a", "type", "veth", "peer", "name", "b"]);
    link.output().is_ok_and(|output| output.status.success())
}

#[test]
fn shown_commands_work() {
    let missing: Vec<&str> = PEERS.into_iter().filter(|peer| !is_installed(peer)).collect();
    if !missing.is_empty() {
        assert!(std::env::var_os("WARPLINE_REQUIRE_PEERS").is_none(), "{missing:?} are missing");
        return;
    }
    let mut count = 0;
    for page in pages() {
        let commands = commands(&fs::read_to_string(&page).expect("a page"));
        if commands.is_empty() {
            continue;
        }
        count += 1;
        let folder = TempDir::new().expect("a folder");
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).expect("a folder");
        symlink(env!("CARGO_BIN_EXE_warpline"), programs.join("warpline")).expect("a link");
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = programs.display();
        // Programs in the background would hold the output open after a command that fails.
        let ends = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT";
        let script = format!("set -e\n{ends}\nexport PATH={programs}:{path}\n{commands}");
        let mut shell = Command::new("timeout");
        shell.arg("120");
        if commands.contains("sudo ") {
            // The page makes interfaces: it gets a network namespace of its own.
            if !has_namespaces() {
                continue;
            }
            let sudo = folder.path().join("programs/sudo");
            fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("a program");
            fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("its mode");
            shell.args(["unshare", "--net"]);
        }
        shell.args(["bash", "-c", &script]).current_dir(folder.path());
        let output = shell.output().expect("a shell");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{}:\n{text}", page.display());
    }
    assert!(count >= 8, "{count} pages have commands");
}

/// The guide's commands make a package of the workspace from the template.
#[test]
fn the_template_is_copied_by_the_shown_commands() {
    let page = root().join("docs/src/guide/own-function.md");
    let page = fs::read_to_string(page).expect("a page");
    let mut blocks = page.split("```text\n").filter_map(|rest| rest.split("\n```").next());
    let block = blocks.find(|block| block.starts_with("cp -r ")).expect("commands");
    let shown: Vec<&str> = block.lines().filter(|line| !line.starts_with("cargo ")).collect();
    let root = root().canonicalize().expect("the repository");
    let folder = TempDir::new().expect("a folder");
    for name in ["crates", "functions", "bench"] {
        symlink(root.join(name), folder.path().join(name)).expect("a link");
    }
    let files = "cp -r \"$0/examples\" \"$0/Cargo.toml\" \"$0/Cargo.lock\" .\n";
    let script = format!("set -e\n{files}{}", shown.join("\n"));
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &script]).arg(&root).current_dir(folder.path());
    assert!(shell.status().expect("a shell").success(), "{script}");
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let output = cargo.current_dir(folder.path()).output().expect("cargo");
    let about = String::from_utf8_lossy(&output.stdout);
    assert!(about.contains("\"warpline-my-guard\""), "{}", String::from_utf8_lossy(&output.stderr));
    let left = Command::new("grep")
        .args(["-rE", "ttl[-_]guard|TtlGuard", "examples/my_guard"])
        .current_dir(folder.path())
        .output();
    assert_eq!(String::from_utf8_lossy(&left.expect("grep").stdout), "");
}

/// README and the book name files that exist.
#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let target = page.parent().expect("a folder").join(file);
            assert!(target.exists(), "{}: {link}", page.display());
        }
    }
}
