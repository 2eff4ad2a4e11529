//! Every command that README and the book show, run in the order of its page, and the output that
//! a page shows after its commands. `UPDATE_DOCS=1` writes that output.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Programs that pages use besides ours.
const PEERS: [&str; 6] = ["tshark", "jq", "nfcapd", "nfdump", "iptables", "logrotate"];
/// Pages whose commands have a test of their own.
const APART: [&str; 2] = ["own-function.md", "service.md"];
/// Separates the output of a page's blocks of commands.
const NEXT: &str = "\x1e\n";

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

fn read(page: &str) -> String {
    fs::read_to_string(root().join("docs/src").join(page)).expect("a page")
}

/// Commands of a page, and the output that the page shows after them.
struct Block<'a> {
    commands: &'a str,
    shown: Option<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for fenced in page.split("```").skip(1).step_by(2) {
        if let Some(commands) = fenced.strip_prefix("sh\n") {
            blocks.push(Block { commands, shown: None });
        } else if let Some(shown) = fenced.strip_prefix("text\n") {
            blocks.last_mut().expect("commands before their output").shown = Some(shown);
        }
    }
    blocks
}

/// A script of all blocks. `make run` builds and writes the demo; here the demo is enough.
fn script(blocks: &[Block<'_>]) -> String {
    // Programs in the background would hold the output open after a command that fails.
    let ends = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT";
    let mut script = format!("set -e\nexec 2>&1\n{ends}\n");
    for block in blocks {
        let commands = block.commands.replace("make run\n", "warpline demo target/demo\n");
        let _ = write!(script, "printf '\\x1e\\n'\n{commands}");
    }
    script
}

/// Whether tshark warns that it has root's rights.
fn is_warning(line: &str) -> bool {
    line.starts_with("Running as user")
}

/// Lines of output without what differs from run to run: times, rates, sizes of a machine's tables.
fn stable(text: &str) -> Vec<&str> {
    let varies = |line: &str| {
        ["pps", " s, ", " in ", " %", "latency", " lane"].iter().any(|part| line.contains(part))
    };
    let lines = text.lines().filter(|line| !is_warning(line));
    lines.map(|line| if varies(line) { "(varies)" } else { line }).collect()
}

pub(crate) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

/// Whether all peers are here. Some runs require them.
fn has_peers() -> bool {
    let missing: Vec<&str> = PEERS.into_iter().filter(|peer| !is_installed(peer)).collect();
    let may_miss = std::env::var_os("WARPLINE_REQUIRE_PEERS").is_none();
    assert!(missing.is_empty() || may_miss, "{missing:?} are missing");
    missing.is_empty()
}

/// Whether this process may run a command in namespaces of these kinds.
fn may_unshare(kinds: &[&str], command: &str) -> bool {
    let mut shell = Command::new("unshare");
    shell.args(kinds).args(["sh", "-c", command]);
    shell.output().is_ok_and(|output| output.status.success())
}

/// A folder, and in it one of programs that come first in a page's `PATH`.
fn folder_with_programs() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_warpline"), programs.join("warpline")).expect("a link");
    let sudo = programs.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("a program");
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("its mode");
    folder
}

/// The output of a script in a folder, in namespaces of these kinds. It must succeed.
fn output_of(script: &str, folder: &Path, namespaces: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", folder.join("programs").display());
    let mut shell = Command::new("timeout");
    shell.arg("120");
    if !namespaces.is_empty() {
        shell.arg("unshare").args(namespaces);
    }
    shell.args(["bash", "-c", script]).current_dir(folder).env("PATH", path).env("TZ", "UTC");
    let output = shell.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{text}\n{errors}");
    text
}

/// The page with the output that its commands printed.
fn updated(page: &str, blocks: &[Block<'_>], printed: &[&str]) -> String {
    let mut page = page.to_owned();
    for (block, printed) in blocks.iter().zip(printed) {
        // Times alone are no reason to change a page.
        let shown = block.shown.filter(|shown| stable(shown) != stable(printed));
        let Some(shown) = shown else { continue };
        let printed = printed.lines().filter(|line| !is_warning(line));
        let printed: String = printed.map(|line| format!("{line}\n")).collect();
        let [shown, printed] = [shown, &printed].map(|text| format!("```text\n{text}```"));
        page = page.replacen(&shown, &printed, 1);
    }
    page
}

#[test]
fn shown_commands_work() {
    if !has_peers() {
        return;
    }
    let mut count = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        let blocks = blocks(&page);
        let has_own_test = APART.iter().any(|name| path.ends_with(name));
        if blocks.is_empty() || has_own_test {
            continue;
        }
        // A page that makes interfaces gets a network namespace of its own.
        let makes_interfaces = blocks.iter().any(|block| block.commands.contains("sudo "));
        let links = "ip link add name a type veth peer name b";
        if makes_interfaces && !may_unshare(&["--net"], links) {
            continue;
        }
        count += 1;
        let folder = folder_with_programs();
        let namespaces: &[&str] = if makes_interfaces { &["--net"] } else { &[] };
        let text = output_of(&script(&blocks), folder.path(), namespaces);
        let printed: Vec<&str> = text.split(NEXT).skip(1).collect();
        assert_eq!(printed.len(), blocks.len(), "{}", path.display());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, updated(&page, &blocks, &printed)).expect("a page");
            continue;
        }
        for (block, printed) in blocks.iter().zip(printed) {
            let Some(shown) = block.shown else { continue };
            let [shown, printed] = [shown, printed].map(stable);
            let page = path.display();
            assert_eq!(shown, printed, "{page}: `UPDATE_DOCS=1 cargo test shown` writes it");
        }
    }
    assert!(count >= 8, "{count} pages have commands");
}

/// The unit starts as its user with its rights, is reloaded, and logrotate rotates its files.
#[test]
fn the_commands_of_a_service_work() {
    // Folders of the system get a layer that ends with the namespace.
    let layers = "for at in etc usr/bin usr/sbin run var; do\n\
                  mkdir -p layers/$at/upper layers/$at/work\n\
                  mount -t overlay -o lowerdir=/$at,upperdir=layers/$at/upper,\
                  workdir=layers/$at/work none /$at\ndone\n";
    let layers = format!("mount -t tmpfs none layers\n{layers}");
    let namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let folder = folder_with_programs();
    let prepare = format!("set -e\ncd {}\nmkdir -p layers\n{layers}", folder.path().display());
    if !has_peers() || !may_unshare(&namespaces, &prepare) {
        eprintln!("skipped: no peers, or no overlays in namespaces");
        return;
    }
    let systemctl = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/systemctl.sh");
    symlink(systemctl, folder.path().join("programs/systemctl")).expect("a link");
    fs::create_dir_all(folder.path().join("target/release")).expect("a folder");
    let program = folder.path().join("target/release/warpline");
    symlink(env!("CARGO_BIN_EXE_warpline"), program).expect("a link");
    symlink(root().join("share").canonicalize().expect("units"), folder.path().join("share"))
        .expect("a link");

    let (guide, outputs) = (read("guide/service.md"), read("reference/outputs.md"));
    let shown = script(&blocks(&guide));
    let rotation = outputs.split("```conf\n").nth(1).and_then(|rest| rest.split("```").next());
    let rotation = rotation.expect("a configuration of logrotate");
    let link = "ip link add lan type veth peer name lan-host\nip link set lan up\n";
    let rotate = format!(
        "install -d /etc/logrotate.d /var/lib/logrotate\n\
         cat > /etc/logrotate.d/warpline <<'END'\n{rotation}END\n\
         logrotate -f /etc/logrotate.d/warpline\ncd /var/log/warpline\n\
         for _ in $(seq 200); do [ -e flows.csv ] && break; sleep 0.1; done\n\
         pid=$(cat /run/warpline.pid)\nprintf '\\x1e\\n'\nls\n\
         stat -c %U flows.csv /proc/$pid\nsed -n 's/^CapEff://p' /proc/$pid/status\n"
    );
    let text = output_of(&format!("{prepare}{link}{shown}{rotate}"), folder.path(), &namespaces);
    let [_, status, rotated] = text.split(NEXT).collect::<Vec<_>>().try_into().expect("3 parts");
    assert!(status.contains("running"), "{status}");
    // The process reports the reload when it comes to it.
    let rotated = rotated.replace("reload: nothing changed\n", "");
    let expected = "flows.csv\nflows.csv.1\nwarpline\nwarpline\n\t0000000000000000\n";
    assert_eq!(rotated, expected);
}

/// The guide's commands make a package of the workspace from the template.
#[test]
fn the_template_is_copied_by_the_shown_commands() {
    let page = read("guide/own-function.md");
    let blocks = blocks(&page);
    let block = blocks.iter().find(|block| block.commands.starts_with("cp -r "));
    let commands = block.expect("commands").commands.lines();
    let shown: Vec<&str> = commands.filter(|line| !line.starts_with("cargo ")).collect();
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
