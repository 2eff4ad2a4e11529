//! The runs of the GPU IDS framework with `nids`: seven loads on the CPU, and with eight launch
//! sizes on a device. They give figures 5 to 8 and tables 2 and 3, with the paper's numbers beside
//! them.
//!
//! `ids_buffers [DEVICE]`: the device is `host` unless given. The program is `warpline` beside this
//! bench (`cargo build --release -p warpline`). As in the paper, four threads inspect, a launch
//! waits for 500 ms at most, and there are 16 streams.

use serde_json::Value;
use warpline_bench::program::Program;

/// Table 1 of the paper: traffic in Mb/s, and buffers in KiB. The CPU has no buffer.
const MBPS: [u32; 7] = [10, 50, 100, 200, 400, 800, 1000];
const BUFFERS: [Option<u32>; 9] = [
    None,
    Some(256),
    Some(512),
    Some(1024),
    Some(2048),
    Some(4096),
    Some(8192),
    Some(16_384),
    Some(32_768),
];
const DELAYS_MS: [f64; 4] = [50.0, 100.0, 250.0, 500.0];
const SECONDS: f64 = 3.0;
const LANES: f64 = 4.0;

/// The figures of one run.
struct Run {
    /// Percent of the packets.
    lost: f64,
    mbps: f64,
    /// Percent of four threads.
    cpu: f64,
    /// Percent of the time in which launches were in flight, of all lanes.
    device: f64,
    p50_ms: f64,
}

fn main() {
    let device = std::env::args().nth(1).unwrap_or_else(|| "host".into());
    let program = Program::beside();
    program.write("rules", &rules());
    let grid: Vec<Vec<Run>> = MBPS
        .iter()
        .map(|&mbps| BUFFERS.iter().map(|&kib| run(&program, &device, mbps, kib)).collect())
        .collect();
    let paper = program.printed(&["reproduce", "gpu-ids-framework", "--simulated", "--json"]);
    let of = |id: &str, buffer: usize, load: usize| number(&paper, id, buffer, load);
    figure("figure 5: % lost", &grid, |one| one.lost, |b, l| of("fig5", b, l));
    figure(
        "figure 6: Mb/s that went through",
        &grid,
        |one| one.mbps,
        |b, l| match l {
            6 => of("fig6", 0, b),
            _ => None,
        },
    );
    figure("figure 7: % of four threads", &grid, |one| one.cpu, |b, l| of("fig7", b, l));
    figure(
        "figure 8: % of the device's time",
        &grid,
        |one| one.device,
        |b, l| b.checked_sub(1).and_then(|b| of("fig8", b, l)),
    );
    figure("median delay in ms", &grid, |one| one.p50_ms, |_, _| None);
    table_2(&grid, |b, l| of("table2", b, l));
    table_3(&grid, |load, delay| of("table3", load, delay));
}

/// Rules of the kind that the paper has: one literal each.
fn rules() -> String {
    let rule = |at: u32| {
        format!(
            "alert udp any any -> any any (msg:\"{at}\"; content:\"needle-{at:04}\"; sid:{};)\n",
            at + 1
        )
    };
    (0..1000).map(rule).collect()
}

fn run(program: &Program, device: &str, mbps: u32, kib: Option<u32>) -> Run {
    let on = kib.map_or("device = \"cpu\"\n".into(), |kib| {
        format!(
            "device = \"{device}\"\nlaunch_kib = {kib}\nlaunch_delay_us = 500000\nstreams = 16\n"
        )
    });
    let text = format!(
        "[chain]\nlanes = {LANES}\nfunctions = [\"nids\"]\n[nids]\nrules = \"rules\"\n{on}"
    );
    program.write("chain.toml", &text);
    let input = format!(
        "generate:seconds={SECONDS},size=1500,flows=1000,payload=text,rate_gbps={},\
         on_full=drop,ring=0",
        f64::from(mbps) / 1e3
    );
    let arguments = ["run", "chain.toml", "--input", &input, "--stats", "s.json"];
    let processor = program.timed(&arguments, None);
    let stats = program.json("s.json");
    let chain = &stats["chains"][0];
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    let (read, lost) = (number(&chain["packets"]["read"]), number(&chain["packets"]["overload"]));
    let seconds = number(&chain["duration"]);
    let stages = chain["stages"].as_array().into_iter().flatten();
    let busy: f64 = stages
        .filter(|stage| stage["device"] != "cpu")
        .map(|stage| number(&stage["device_seconds"]))
        .sum();
    Run {
        lost: 100.0 * lost / read,
        mbps: (read - lost) * 1500.0 * 8.0 / 1e6 / seconds,
        cpu: 100.0 * processor / seconds / LANES,
        device: 100.0 * busy / seconds / LANES,
        p50_ms: number(&chain["latency_us"]["p50"]) / 1e3,
    }
}

/// A number of the paper: point `point` of series `series` of an entry.
fn number(paper: &Value, item: &str, series: usize, point: usize) -> Option<f64> {
    fn find<'a>(value: &'a Value, id: &str) -> Option<&'a Value> {
        match value {
            Value::Object(own) if own.get("id").is_some_and(|own| own == id) => Some(value),
            Value::Object(own) => own.values().find_map(|one| find(one, id)),
            Value::Array(all) => all.iter().find_map(|one| find(one, id)),
            _ => None,
        }
    }
    let entry = find(paper, &format!("gpu-ids-framework/{item}"))?;
    entry["series"][series]["points"][point]["paper"].as_f64()
}

fn name(buffer: usize) -> String {
    BUFFERS[buffer].map_or("CPU".into(), |kib| format!("{kib} KiB"))
}

/// A value by buffer and traffic; the paper's follows in brackets.
fn figure(
    title: &str,
    grid: &[Vec<Run>],
    value: impl Fn(&Run) -> f64,
    paper: impl Fn(usize, usize) -> Option<f64>,
) {
    head(title, &MBPS.map(|mbps| format!("{mbps} Mb/s")));
    for buffer in 0..BUFFERS.len() {
        let runs = grid.iter().map(|row| &row[buffer]).enumerate();
        let cells = runs.map(|(load, run)| cell(value(run), paper(buffer, load)));
        println!("{:<10}{}", name(buffer), cells.collect::<String>());
    }
}

/// The delay on the CPU relative to that with each buffer.
fn table_2(grid: &[Vec<Run>], paper: impl Fn(usize, usize) -> Option<f64>) {
    head("table 2: speed-up of the delay", &MBPS.map(|mbps| format!("{mbps} Mb/s")));
    for buffer in 1..BUFFERS.len() {
        let speed_ups = grid.iter().map(|row| row[0].p50_ms / row[buffer].p50_ms).enumerate();
        let cells = speed_ups.map(|(load, own)| cell(own, paper(buffer - 1, load)));
        println!("{:<10}{}", name(buffer), cells.collect::<String>());
    }
}

/// The largest buffer without loss whose median delay is within the limit; 0 is the CPU.
fn table_3(grid: &[Vec<Run>], paper: impl Fn(usize, usize) -> Option<f64>) {
    head("table 3: KiB; 0 is the CPU", &DELAYS_MS.map(|ms| format!("{ms} ms")));
    for (load, row) in grid.iter().enumerate() {
        let best = |limit_ms: f64| {
            let fits = |run: &Run| run.lost == 0.0 && run.p50_ms <= limit_ms;
            let buffer = (1..BUFFERS.len()).rev().find(|&buffer| fits(&row[buffer]));
            f64::from(buffer.and_then(|buffer| BUFFERS[buffer]).unwrap_or(0))
        };
        let cells = DELAYS_MS.iter().enumerate();
        let cells = cells.map(|(delay, limit)| cell(best(*limit), paper(load, delay)));
        println!("{:<10}{}", format!("{} Mb/s", MBPS[load]), cells.collect::<String>());
    }
}

fn head(title: &str, columns: &[String]) {
    let columns: String = columns.iter().map(|column| format!("{column:>18}")).collect();
    println!("\n{title}; the paper's in brackets\n{:<10}{columns}", "");
}

fn cell(own: f64, paper: Option<f64>) -> String {
    let paper = paper.map_or(String::new(), |paper| format!(" ({paper})"));
    format!("{:>18}", format!("{own:.2}{paper}"))
}
