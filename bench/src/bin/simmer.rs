//! Simmer's chain of three functions on one device, by offered load: with backpressure and without
//! (table 2, figures 2 and 6 to 10). Costs per packet are the paper's (table 1), times ten, so that
//! two cores can offer the load; rates are shown in the paper's terms.
//!
//! `simmer [--quick] [--json FILE]`

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use warpline_bench::busy_chain::{Case, Counted};
use warpline_bench::record::Record;
use warpline_engine::PressureOptions;
use warpline_sched::{PauseMode, Route, RouteFrom, RouteTo, RoutedFunction, Routes, Watermarks};

/// Costs here are the paper's times this, and rates are the paper's divided by it.
const SCALE: f64 = 10.0;
/// Table 1: microseconds for a packet of 1472 bytes.
const TABLE_1: [f64; 3] = [0.04, 1.63, 0.52];
const LEN: usize = 1472;
const LAUNCH_PACKETS: usize = 1024;

/// Offered load of the paper's table 2, from its drops and their share (Mpps), and its drops of the
/// second function (kpps), by frame length.
const TABLE_2: [(usize, f64, f64); 4] =
    [(128, 1.22, 48.82), (256, 1.63, 97.65), (1024, 1.42, 510.52), (1472, 1.50, 722.33)];

struct Bench {
    lasts: Duration,
    record: RefCell<Record>,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let lasts = Duration::from_millis(if quick { 500 } else { 3_000 });
    let record = RefCell::new(Record::of_arguments("simmer"));
    let bench = Bench { lasts, record };
    bench.by_load();
    bench.table_2();
    bench.by_watermark(("figure 6", "three kinds"), &hetero(LEN));
    bench.by_watermark(("figure 7", "NF-2 three times"), &alike(1, LEN));
    bench.by_watermark(("section 4.2", "NF-1 three times"), &alike(0, LEN));
    bench.by_watermark(("section 4.2", "NF-3 three times"), &alike(2, LEN));
    bench.shares();
    bench.by_length(("figure 9", "three kinds"), hetero, false);
    bench.by_length(("figure 9", "NF-2 three times"), |len| alike(1, len), false);
    bench.by_length(("figure 10", "three kinds"), hetero, true);
    bench.by_length(("figure 10", "NF-2 three times"), |len| alike(1, len), true);
    bench.record.into_inner().write();
}

/// Costs in nanoseconds for frames of `len` bytes. The router's is constant; those of functions
/// that read payloads are proportional to the length.
fn cost(number: usize, len: usize) -> f64 {
    let share = if number == 0 { 1.0 } else { len as f64 / LEN as f64 };
    TABLE_1[number] * 1_000.0 * SCALE * share
}

fn hetero(len: usize) -> (Vec<f64>, usize) {
    ((0..3).map(|number| cost(number, len)).collect(), len)
}

fn alike(number: usize, len: usize) -> (Vec<f64>, usize) {
    (vec![cost(number, len); 3], len)
}

#[derive(Clone, Copy)]
enum On {
    Vanilla,
    Default,
    /// The high mark in launches; the low one is the same, as in the paper.
    At(f64),
}

impl Bench {
    fn run(&self, chain: &(Vec<f64>, usize), mpps: f64, on: On) -> Counted {
        self.run_routed(chain, mpps, on, None)
    }

    fn run_routed(
        &self,
        (costs, len): &(Vec<f64>, usize),
        mpps: f64,
        on: On,
        routes: Option<Arc<Routes>>,
    ) -> Counted {
        let default = PressureOptions::default();
        let pressure = match on {
            On::Vanilla => PressureOptions { mode: PauseMode::Off, ..default },
            On::Default => default,
            On::At(mark) => {
                let mark = (mark * 1_000.0) as i64;
                let marks = Watermarks::checked(mark, mark, default.queue).expect("marks");
                PressureOptions { mode: PauseMode::On(marks), ..default }
            }
        };
        let case = Case {
            costs_ns: costs.clone(),
            routes,
            frame_len: *len,
            launch_packets: LAUNCH_PACKETS,
            rate_pps: mpps * 1e6 / SCALE,
            lasts: self.lasts,
            pressure,
            policy: None,
        };
        case.run()
    }

    /// Gain and drops by offered load, beside the closed form for one work-conserving device.
    fn by_load(&self) {
        println!("\nGain by offered load, three kinds, {LEN} B");
        println!(
            "{:>8} {:>9} {:>9} {:>7} {:>7}  {:>22} {:>12}",
            "offered",
            "vanilla",
            "paused",
            "gain",
            "closed",
            "vanilla drops by NF",
            "paused inside"
        );
        for mpps in [0.2, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0] {
            let chain = hetero(LEN);
            let [vanilla, paused] = [On::Vanilla, On::Default].map(|on| self.run(&chain, mpps, on));
            println!(
                "{mpps:8.2} {:9.3} {:9.3} {:>7} {:>7}  {:>22} {:12}",
                mega(&vanilla),
                mega(&paused),
                percent(paused.sent_pps() / vanilla.sent_pps() - 1.0),
                percent(closed_form(mpps)),
                drops(&vanilla),
                paused.drops_inside(),
            );
        }
    }

    /// Table 2 and figure 2: drops of each function without pauses.
    fn table_2(&self) {
        println!("\nTable 2, figure 2: without pauses, drops and throughput of each NF");
        println!(
            "{:>6} {:>8}  {:>26} {:>16}  {:>24}",
            "bytes", "offered", "drops (kpps) by NF", "paper, NF-2", "throughput (Mpps) by NF"
        );
        for (len, mpps, paper) in TABLE_2 {
            let vanilla = self.run(&hetero(len), mpps, On::Vanilla);
            let kilo =
                |count: &u64| format!("{:.1}", *count as f64 / vanilla.seconds / 1e3 * SCALE);
            let each = |counts: &[u64]| counts.iter().map(kilo).collect::<Vec<_>>().join(" ");
            let rates: Vec<String> = vanilla
                .processed
                .iter()
                .map(|count| format!("{:.3}", *count as f64 / vanilla.seconds / 1e6 * SCALE))
                .collect();
            println!(
                "{len:6} {mpps:8.2}  {:>26} {paper:16.2}  {:>24}",
                each(&vanilla.drops),
                rates.join(" ")
            );
        }
    }

    /// Throughput and drops by the high mark.
    fn by_watermark(&self, (figure, name): (&str, &str), chain: &(Vec<f64>, usize)) {
        let add = |mark: Option<f64>, counted: &Counted| {
            let lost: Vec<f64> = lost(counted);
            self.record.borrow_mut().add(json!({
                "figure": "by threshold",
                "chain": name,
                "mark": mark,
                "mpps": mega(counted),
                "drops_percent": lost,
                "drops_at_first_percent": lost.first(),
            }));
        };
        let sum: f64 = chain.0.iter().sum();
        // Twice the capacity of the device.
        let mpps = 2.0 * 1e3 / sum * SCALE;
        println!("\n{figure}: {name}, {} B, {mpps:.2} Mpps offered (twice the capacity)", chain.1);
        println!(
            "{:>8} {:>9} {:>7} {:>22}  of {:.3} Mpps possible",
            "mark",
            "Mpps",
            "gain",
            "drops by NF",
            1e3 / sum * SCALE
        );
        let marks = [1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 4.0];
        let vanilla = self.run(chain, mpps, On::Vanilla);
        println!("{:>8} {:9.3} {:>7} {:>22}", "vanilla", mega(&vanilla), "", drops(&vanilla));
        add(None, &vanilla);
        for mark in marks {
            let paused = self.run(chain, mpps, On::At(mark));
            let gain = paused.sent_pps() / vanilla.sent_pps() - 1.0;
            println!(
                "{mark:8.1} {:9.3} {:>7} {:>22}",
                mega(&paused),
                percent(gain),
                drops(&paused)
            );
            add(Some(mark), &paused);
        }
    }

    /// Figure 8: the bottleneck's part of all launches, and of device time.
    fn shares(&self) {
        println!("\nFigure 8: NF-2's part of launches, and of device time");
        for len in [128, 512, 1024, 1472] {
            let chain = hetero(len);
            let mpps = 2.0 * 1e3 / chain.0.iter().sum::<f64>() * SCALE;
            let of = |on| {
                let counted = self.run(&chain, mpps, on);
                let all: u64 = counted.launches.iter().sum();
                (counted.launches[1] as f64 / all as f64, counted.shares[1])
            };
            let (vanilla, paused) = (of(On::Vanilla), of(On::Default));
            println!(
                "{len:6} B  vanilla {:.2} of launches, {:.2} of time; paused {:.2}, {:.2}",
                vanilla.0, vanilla.1, paused.0, paused.1
            );
        }
    }

    /// Figures 9 and 10: throughput by frame length, twice the capacity offered.
    fn by_length(
        &self,
        (figure, name): (&str, &str),
        chain: impl Fn(usize) -> (Vec<f64>, usize),
        dynamic: bool,
    ) {
        println!("\n{figure}, {name}");
        println!("{:>6} {:>8} {:>9} {:>9} {:>7}", "bytes", "offered", "vanilla", "paused", "gain");
        for len in [128, 256, 512, 1024, 1472] {
            let chain = chain(len);
            let sum: f64 = chain.0.iter().sum();
            // Half of the packets skip the first function.
            let each = if dynamic { sum - chain.0[0] / 2.0 } else { sum };
            let mpps = 2.0 * 1e3 / each * SCALE;
            let routes = || dynamic.then(|| Arc::new(skipping_first()));
            let run = |on| self.run_routed(&chain, mpps, on, routes());
            let (vanilla, paused) = (run(On::Vanilla), run(On::Default));
            println!(
                "{len:6} {mpps:8.2} {:9.3} {:9.3} {:>7}",
                mega(&vanilla),
                mega(&paused),
                percent(paused.sent_pps() / vanilla.sent_pps() - 1.0)
            );
            self.record.borrow_mut().add(json!({
                "figure": figure,
                "chain": name,
                "bytes": len,
                "offered_mpps": mpps,
                "vanilla_mpps": mega(&vanilla),
                "paused_mpps": mega(&paused),
            }));
        }
    }
}

/// Half of the destinations go past the first function.
fn skipping_first() -> Routes {
    let route = |from, to, destination: Option<&str>| Route {
        from,
        destination: destination.and_then(|text| text.parse().ok()),
        to,
    };
    let routes = [
        route(RouteFrom::Ingress(None), RouteTo::Function(0), None),
        route(RouteFrom::Ingress(None), RouteTo::Function(1), Some("0.0.0.0/1")),
        route(RouteFrom::Function(0), RouteTo::Function(1), None),
        route(RouteFrom::Function(1), RouteTo::Function(2), None),
        route(RouteFrom::Function(2), RouteTo::Egress, None),
    ];
    Routes::new(&[(); 3].map(|()| RoutedFunction::default()), 0, &routes)
        .expect("routes without a mistake")
}

/// Throughput with pauses over that without, minus one: NF-1 takes its part of all packets first.
fn closed_form(mpps: f64) -> f64 {
    let [first, second, third] = TABLE_1;
    let rest = second + third;
    let vanilla = ((1.0 - first * mpps) / rest).min(mpps);
    let paused = (1.0 / (first + rest)).min(mpps);
    paused / vanilla - 1.0
}

/// Mpps in the paper's terms.
fn mega(counted: &Counted) -> f64 {
    counted.sent_pps() / 1e6 * SCALE
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Percent of the packets offered, lost before each function.
fn lost(counted: &Counted) -> Vec<f64> {
    counted.drops.iter().map(|drops| 100.0 * *drops as f64 / counted.offered as f64).collect()
}

/// The same as text.
fn drops(counted: &Counted) -> String {
    let all: Vec<String> = lost(counted).iter().map(|one| format!("{one:.1}")).collect();
    all.join(" / ") + " %"
}
