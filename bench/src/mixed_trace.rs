//! Two chains under idle, bursty, small and large traffic: on each fixed placement, and where the
//! monitor places them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::program::Program;

/// A chain of one function, and the length of its frames.
struct Chain {
    function: &'static str,
    table: &'static str,
    len: u32,
}

const CHAINS: [Chain; 2] = [
    Chain { function: "router", table: "routes = \"routes\"\n", len: 64 },
    Chain { function: "digest", table: "", len: 1500 },
];

/// Seconds, and the load of both chains relative to the CPU's capacity for that chain alone.
const TRACE: [(u32, [f64; 2]); 6] = [
    (10, [0.01, 0.01]),
    (15, [0.02, 0.6]),
    (15, [0.5, 0.02]),
    (15, [0.02, 0.2]),
    (15, [0.2, 0.2]),
    (10, [0.01, 0.05]),
];

/// Devices of both functions.
const FIXED: [[&str; 2]; 4] = [["cpu", "cpu"], ["cpu", "host"], ["host", "cpu"], ["host", "host"]];

/// The aims of the monitor.
const POLICIES: [&str; 2] = ["throughput", "latency"];
/// The part of the packets that a placement carries unless it is overloaded.
const LOSSLESS: f64 = 0.95;

/// A placement or a policy with its outcome.
pub type Placed<T> = (T, Outcome);

/// The outcome of a run of the trace.
#[derive(Debug)]
pub struct Outcome {
    /// Packets that left, as a part of those that came, of all chains.
    pub carried: f64,
    /// The delay of a packet that 95 % of the packets do not exceed, by chain, in microseconds.
    pub p95_us: [f64; 2],
    /// Moves of functions.
    pub moves: u64,
    /// The longest stall of a lane by a move, in microseconds.
    pub stall_us: f64,
    /// Seconds of the processor that the monitor took, and seconds of the run.
    pub monitor_seconds: f64,
    /// The time that the run took.
    pub seconds: f64,
}

impl Outcome {
    /// The least delays and the most packets of both, and the most of all else.
    fn take_better(&mut self, other: Self) {
        self.carried = self.carried.max(other.carried);
        let delays = self.p95_us.iter_mut().zip(other.p95_us);
        delays.for_each(|(own, other)| *own = own.min(other));
        self.moves = self.moves.max(other.moves);
        self.stall_us = self.stall_us.max(other.stall_us);
        self.monitor_seconds = self.monitor_seconds.max(other.monitor_seconds);
    }
}

/// The trace on this machine.
pub struct MixedTrace<'a> {
    program: &'a Program,
    /// Gb/s that the CPU carries of each chain alone.
    capacity_gbps: [f64; 2],
}

impl<'a> MixedTrace<'a> {
    /// Measures the machine for `program`, which takes about a minute.
    ///
    /// # Panics
    /// The program fails.
    pub fn new(program: &'a Program) -> Self {
        program.write("routes", "0.0.0.0/0 192.0.2.1\n");
        program.run(&["profile", "--quick", "--out", "profile.json"]);
        let mut own = Self { program, capacity_gbps: [f64::NAN; 2] };
        own.capacity_gbps = [0, 1].map(|number| own.capacity(number));
        own
    }

    /// Gb/s that the CPU carries of each chain alone.
    pub fn capacity_gbps(&self) -> [f64; 2] {
        self.capacity_gbps
    }

    /// The fixed placements, and those of the monitor by policy: the best figures of `runs` each,
    /// in turn. A fixed placement that loses packets runs once.
    pub fn in_turn(
        &self,
        runs: usize,
    ) -> (Vec<Placed<[&'static str; 2]>>, Vec<Placed<&'static str>>) {
        let mut fixed: Vec<Placed<_>> = Vec::new();
        let mut monitored: Vec<Placed<_>> = Vec::new();
        for _ in 0..runs {
            for (at, devices) in FIXED.into_iter().enumerate() {
                match fixed.get_mut(at) {
                    None => fixed.push((devices, self.run(devices, ""))),
                    Some((_, best)) if best.carried > LOSSLESS => {
                        best.take_better(self.run(devices, ""));
                    }
                    Some(_) => {}
                }
            }
            for (at, policy) in POLICIES.into_iter().enumerate() {
                let own = self.monitored(policy);
                match monitored.get_mut(at) {
                    None => monitored.push((policy, own)),
                    Some((_, best)) => best.take_better(own),
                }
            }
        }
        (fixed, monitored)
    }

    fn monitored(&self, policy: &str) -> Outcome {
        let placement = format!(
            "[placement]\npolicy = \"{policy}\"\nprofile = \"profile.json\"\n\
             cpu_devices = true\nload_gbps = {}\n",
            self.capacity_gbps[0].min(self.capacity_gbps[1]) / 50.0
        );
        self.run(["auto"; 2], &placement)
    }

    /// Gb/s of a chain on one lane of the CPU, as fast as it can.
    fn capacity(&self, number: usize) -> f64 {
        let Chain { function, table, len } = CHAINS[number];
        let traffic = format!("generate:packets=3000000,size={len}");
        let text = format!(
            "[chain]\nfunctions = [\"{function}\"]\ninput = \"{traffic}\"\nlanes = 1\n\
             [{function}]\ndevice = \"cpu\"\n{table}"
        );
        self.program.write("one.toml", &text);
        self.program.run(&["run", "one.toml", "--stats", "s.json"]);
        self.program.json("s.json")["chains"][0]["rate"]["gbps"].as_f64().expect("a rate")
    }

    fn run(&self, devices: [&str; 2], placement: &str) -> Outcome {
        let mut text = String::from(placement);
        for ((number, chain), device) in (0..).zip(&CHAINS).zip(devices) {
            let Chain { function, table, len } = chain;
            let capacity = self.capacity_gbps[number];
            let step = |(seconds, parts): &(u32, [f64; 2])| {
                format!("{:.6}@{seconds}", parts[number] * capacity)
            };
            let rates = TRACE.iter().map(step).collect::<Vec<_>>().join("|");
            let seconds: u32 = TRACE.iter().map(|(seconds, _)| seconds).sum();
            let _ = write!(
                text,
                "[[chain]]\nname = \"{function}\"\nfunctions = [\"{function}\"]\nlanes = 1\n\
                 input = \"generate:seconds={seconds},size={len},rate_gbps={rates},on_full=drop\"\n\
                 [{function}]\ndevice = \"{device}\"\n{table}"
            );
        }
        self.program.write("two.toml", &text);
        let run = ["run", "two.toml", "--stats", "s.json"];
        self.outcome(self.program.timed(&run, Some("placement")))
    }

    fn outcome(&self, monitor_seconds: f64) -> Outcome {
        let stats = self.program.json("s.json");
        let chains = stats["chains"].as_array().expect("chains");
        let number = |of: &Value| of.as_f64().expect("a number");
        let sum = |key: &str| chains.iter().map(|one| number(&one["packets"][key])).sum::<f64>();
        let moves = chains.iter().filter_map(|one| one["moves"]["count"].as_u64()).sum();
        let stalls = chains.iter().filter_map(|one| one["moves"]["stall_us_max"].as_f64());
        let stall_us = stalls.fold(0.0, f64::max);
        let mut p95_us = [0.0; 2];
        for (own, chain) in p95_us.iter_mut().zip(chains) {
            *own = number(&chain["latency_us"]["p95"]);
        }
        // There is no output.
        let carried = sum("absorbed") / sum("read");
        let seconds = TRACE.iter().map(|(seconds, _)| f64::from(*seconds)).sum();
        Outcome { carried, p95_us, moves, stall_us, monitor_seconds, seconds }
    }
}
