//! The whole program beside the same chain over packets in memory: what a user sees, and what a
//! lane can do.
//!
//! `whole_program [OTHER]`: the program is `warpline` beside this bench (`cargo build --release -p
//! warpline`). OTHER is another build of it, whose rounds come in turn with ours. Each figure is
//! the best of some rounds, of the packets alone: what the statistics call the duration. The
//! capture is in the page cache. Frames have 64 bytes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use warpline_bench::chains::{deploy, seconds_in_memory};
use warpline_bench::memory::Frames;

const ROUNDS: usize = 7;
const PACKETS: u64 = 4_000_000;

/// A chain of one function, and how many flows its packets have.
struct Case {
    function: &'static str,
    table: &'static str,
    flows: u32,
}

const CASES: [Case; 7] = [
    Case { function: "empty", table: "", flows: 1_000 },
    Case { function: "router", table: "routes = \"routes\"\n", flows: 1_000 },
    Case { function: "firewall", table: "rules = \"rules\"\n", flows: 1_000 },
    Case { function: "nat", table: NAT, flows: 1_000 },
    Case { function: "nat", table: NAT, flows: 1_000_000 },
    Case {
        function: "firewall",
        table: "rules = \"rules\"\nestablished = true\nconnections = 2097152\n",
        flows: 1_000_000,
    },
    Case { function: "flow_monitor", table: "flows = 2097152\n", flows: 1_000_000 },
];

const NAT: &str = "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/24\"]\nbindings = 2097152\n";

/// Where packets come from and go to.
#[derive(Clone, Copy)]
enum Way {
    CaptureToNothing,
    GeneratorToNothing,
    CaptureToFile,
}

const WAYS: [(Way, &str); 3] = [
    (Way::CaptureToNothing, "capture"),
    (Way::GeneratorToNothing, "generate:"),
    (Way::CaptureToFile, "to a file"),
];

fn main() {
    let beside = std::env::current_exe().expect("a path").with_file_name("warpline");
    let programs: Vec<PathBuf> =
        [beside].into_iter().chain(std::env::args().nth(1).map(PathBuf::from)).collect();
    let folder = std::env::temp_dir().join(format!("warpline-whole-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    write_files(&folder);
    println!("Mpps{:>22}  memory  {}", "", WAYS.map(|(_, name)| format!("{name:>24}")).concat());
    for case in &CASES {
        println!("{}", row(case, &programs, &folder));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Writes 10,000 routes and 1,000 rules. The last rule accepts all.
fn write_files(folder: &Path) {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut routes = String::from("0.0.0.0/0 192.0.2.1\n");
    let mut prefixes: Vec<u64> =
        (0..10_000).map(|_| (draw(126) + 1) << 16 | draw(1 << 16)).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    for prefix in prefixes {
        let [_, a, b, c] = (prefix as u32).to_be_bytes();
        let _ = writeln!(routes, "{a}.{b}.{c}.0/24 192.0.2.{}", draw(200) + 1);
    }
    let mut rules = String::new();
    for number in 0..999 {
        let verb = if number % 2 == 0 { "drop" } else { "accept" };
        let (a, b, c, port) = (draw(256), draw(256), draw(256), draw(65_535) + 1);
        let _ = writeln!(rules, "{verb} tcp from 10.{a}.{b}.0/24 to 172.16.{c}.0/24 port {port}");
    }
    rules += "accept any from 0.0.0.0/0 to 0.0.0.0/0\n";
    std::fs::write(folder.join("routes"), routes).expect("room for the routes");
    std::fs::write(folder.join("rules"), rules).expect("room for the rules");
}

/// The figures of a case: ours, and how many times that of the other program it is.
fn row(case: &Case, programs: &[PathBuf], folder: &Path) -> String {
    let Case { function, table, flows } = case;
    let traffic = format!("packets={PACKETS},size=64,flows={flows},seed=7");
    let frames = [Arc::new(Frames::generate(&traffic))];
    let in_memory = deploy(function, table, folder);
    let memory = (0..ROUNDS).map(|_| seconds_in_memory(&in_memory, &frames, PACKETS));
    let memory = PACKETS as f64 / memory.fold(f64::INFINITY, f64::min) / 1e6;
    let functions = if *function == "empty" { "" } else { &format!("\"{function}\"") };
    let mut text = format!("[chain]\nfunctions = [{functions}]\n");
    if !functions.is_empty() {
        let _ = write!(text, "[{function}]\n{table}");
    }
    std::fs::write(folder.join("chain.toml"), text).expect("room for the chain");
    let capture = folder.join("in.pcap");
    let copied = Command::new(&programs[0])
        .args(["run", "--input", &format!("generate:{traffic}"), "--output"])
        .arg(&capture)
        .arg(empty_chain(folder))
        .stdout(Stdio::null())
        .status();
    assert!(copied.expect("the program").success());
    let mut line = format!("{function:<13} {flows:>9} flows {memory:>6.1}  ");
    for (way, _) in WAYS {
        let mut best = vec![0_f64; programs.len()];
        for _ in 0..ROUNDS {
            for (program, best) in programs.iter().zip(&mut best) {
                *best = best.max(mpps(program, folder, way, &traffic));
            }
        }
        let other =
            best.get(1).map_or(String::new(), |other| format!(" ({:.2} x)", best[0] / other));
        let _ = write!(line, "{:>24}", format!("{:.1}{other}", best[0]));
    }
    line
}

fn empty_chain(folder: &Path) -> PathBuf {
    let path = folder.join("empty.toml");
    std::fs::write(&path, "[chain]\nfunctions = []\n").expect("room for the chain");
    path
}

/// The rate that a run of `program` reports.
fn mpps(program: &Path, folder: &Path, way: Way, traffic: &str) -> f64 {
    let (stats, output) = (folder.join("stats.json"), folder.join("out.pcap"));
    let input = match way {
        Way::GeneratorToNothing => format!("generate:{traffic}"),
        _ => folder.join("in.pcap").display().to_string(),
    };
    let to = if matches!(way, Way::CaptureToFile) { output.as_os_str() } else { "none".as_ref() };
    let mut command = Command::new(program);
    command.arg("run").arg(folder.join("chain.toml")).args(["--lanes", "1", "--input", &input]);
    command.arg("--output").arg(to).arg("--stats").arg(&stats).stdout(Stdio::null());
    assert!(command.status().expect("the program").success(), "{command:?}");
    let _ = std::fs::remove_file(&output);
    let stats = std::fs::read(&stats).expect("statistics");
    let stats: serde_json::Value = serde_json::from_slice(&stats).expect("statistics");
    let chain = &stats["chains"][0];
    assert_eq!(chain["packets"]["read"].as_u64(), Some(PACKETS));
    chain["rate"]["mpps"].as_f64().expect("a rate")
}
