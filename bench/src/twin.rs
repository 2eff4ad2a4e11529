//! Runs beside their simulations: a chain on this machine at a load, and the same chain in virtual
//! time by this machine's profile.

use std::fmt::Write as _;

use serde_json::Value;

use crate::program::{CoresUsed, Program};
use crate::twin_causes::causes;

/// A chain, by functions and their devices.
pub type Chain = &'static [(&'static str, &'static str)];

/// The chains.
pub const CHAINS: [Chain; 20] = [
    &[("router", "cpu")],
    &[("firewall", "cpu")],
    &[("nat", "cpu")],
    &[("load_balancer", "cpu")],
    &[("flow_monitor", "cpu")],
    &[("digest", "cpu")],
    &[("router", "cpu"), ("firewall", "cpu")],
    &[("nat", "cpu"), ("router", "cpu"), ("flow_monitor", "cpu")],
    &[("router", "host")],
    &[("firewall", "host")],
    &[("nat", "host")],
    &[("digest", "host")],
    &[("router", "opencl:0")],
    &[("nat", "opencl:0")],
    &[("digest", "opencl:0")],
    &[("load_balancer", "opencl:0")],
    &[("router", "cpu"), ("digest", "host")],
    &[("nat", "opencl:0"), ("router", "cpu")],
    &[("nat", "host"), ("router", "cpu"), ("digest", "host")],
    &[("firewall", "host"), ("router", "host"), ("flow_monitor", "cpu")],
];

/// Loads, as parts of the simulated capacity, or of the generator's rate if that is less.
pub const LOADS: [f64; 5] = [0.1, 0.3, 0.6, 0.9, 1.5];

/// Runs of `profile` at most.
const PROFILE_RUNS: usize = 4;
/// Runs of a pair at most, and the part of the cores that other processes may take. Of several runs
/// the quietest counts.
const RUNS: usize = 3;
const OTHERS: f64 = 0.03;
/// Bytes of a frame: a length that the profile has.
const LEN: u32 = 1024;
/// Seconds of a run.
const SECONDS: u32 = 2;
/// The longest wait for a launch by default, in microseconds.
const DEADLINE_US: f64 = 100.0;

/// Figures of a run or of its simulation.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Packets a second that went through.
    pub mpps: f64,
    /// Launches on devices.
    pub launches: f64,
    /// Packets lost, as a part of those offered.
    pub drops: f64,
    /// The median delay.
    pub p50_us: f64,
}

impl Figures {
    /// Those of `other` that are too far from these: throughput and launches by 10 %, losses by 2 %
    /// of the packets, the median delay by 25 % and a deadline.
    fn misses(&self, other: &Self) -> Vec<&'static str> {
        let part = |a: f64, b: f64| (b - a).abs() / a.max(f64::MIN_POSITIVE);
        let delay_us = (other.p50_us - self.p50_us).abs();
        let checks = [
            ("throughput", part(self.mpps, other.mpps) > 0.1),
            ("launches", part(self.launches, other.launches) > 0.1),
            ("drops", (other.drops - self.drops).abs() > 0.02),
            ("p50", delay_us > (0.25 * self.p50_us).max(DEADLINE_US)),
        ];
        checks.into_iter().filter(|(_, is_missed)| *is_missed).map(|(name, _)| name).collect()
    }
}

/// A run beside its simulation.
#[derive(Clone, Debug)]
pub struct Pair {
    /// On this machine.
    pub real: Figures,
    /// On this machine once more.
    pub again: Figures,
    /// In virtual time, at the load that the run had.
    pub simulated: Figures,
    /// During the run.
    pub used: CoresUsed,
    /// Costs that the simulation lacks, or has otherwise, each with its figures.
    pub causes: Vec<String>,
}

impl Pair {
    /// Figures of the simulation that are too far from those of the run.
    pub fn misses(&self) -> Vec<&'static str> {
        self.real.misses(&self.simulated)
    }

    /// Whether a second run is as near to the first one as a simulation must be.
    pub fn repeats(&self) -> bool {
        self.real.misses(&self.again).is_empty()
    }
}

/// The machine with its profile.
pub struct Twin<'a> {
    program: &'a Program,
    /// Packets a second that a chain without functions gets from the generator.
    generated_mpps: f64,
}

impl<'a> Twin<'a> {
    /// Measures the machine, which takes about a minute.
    ///
    /// # Panics
    /// The program fails.
    pub fn new(program: &'a Program) -> Self {
        program.write("routes", "0.0.0.0/1 192.0.2.1\n128.0.0.0/1 192.0.2.2\n");
        let mut rules = String::new();
        for i in 0..999 {
            let (high, low, port) = (i / 256, i % 256, i + 1);
            let _ = writeln!(rules, "drop tcp from 172.16.{high}.{low} to any port {port}");
        }
        program.write("rules", &(rules + "accept from any to any\n"));
        program.write("services", "vip 198.18.255.1 udp 53\n  backend 192.0.2.10\n");
        // A profile takes a minute at most. On a slow machine, further runs complete it.
        for _ in 0..PROFILE_RUNS {
            program.run(&["profile", "--quick", "--out", "profile.json"]);
            if program.json("profile.json")["unfinished"].is_null() {
                break;
            }
        }
        let mut own = Self { program, generated_mpps: f64::NAN };
        own.write(&[]);
        let input = format!("generate:packets=5000000,size={LEN},flows=1000,payload=text");
        program.run(&["run", "chain.toml", "--input", &input, "--stats", "s.json"]);
        own.generated_mpps = number(&program.json("s.json")["chains"][0]["rate"]["mpps"]);
        own
    }

    /// Mpps that the simulation carries of a chain at most, up to two thirds of the generator's
    /// rate.
    pub fn capacity(&self, chain: Chain) -> f64 {
        self.write(chain);
        let most = self.simulated(&format!("constant:gbps=1000,size={LEN}"));
        number(&most["chains"][0]["rate"]["mpps"]).min(self.generated_mpps / 1.5)
    }

    /// Two runs at so many packets a second, and the simulation.
    pub fn pair(&self, chain: Chain, mpps: f64) -> Pair {
        self.write(chain);
        let (stats, used) = self.quietest(mpps);
        let (again, _) = self.quietest(mpps);
        let simulated = self.simulation(mpps);
        let [stats, again] = [&stats, &again].map(|all| &all["chains"][0]);
        let own = virtual_figures(&simulated["chains"][0], &device_stages(stats));
        let causes = causes(stats, &simulated, &used);
        Pair { real: real(stats), again: real(again), simulated: own, used, causes }
    }

    /// The statistics of a run, and the output of its simulation.
    pub(crate) fn both(&self, chain: Chain, mpps: f64) -> (Value, Value) {
        self.write(chain);
        (self.ran(mpps).0, self.simulation(mpps))
    }

    /// The statistics of a run. It is made again if other processes are busy.
    fn quietest(&self, mpps: f64) -> (Value, CoresUsed) {
        let mut best = self.ran(mpps);
        for _ in 1..RUNS {
            if best.1.others <= OTHERS {
                break;
            }
            let again = self.ran(mpps);
            if again.1.others < best.1.others {
                best = again;
            }
        }
        best
    }

    fn ran(&self, mpps: f64) -> (Value, CoresUsed) {
        let input = format!(
            "generate:seconds={SECONDS},size={LEN},flows=1000,payload=text,rate_gbps={:.6},\
             on_full=drop",
            gbps(mpps)
        );
        let run = ["run", "chain.toml", "--input", &input, "--stats", "s.json"];
        let used = self.program.used(&run);
        (self.program.json("s.json"), used)
    }

    fn simulation(&self, mpps: f64) -> Value {
        self.simulated(&format!("constant:gbps={:.6},size={LEN}", gbps(mpps)))
    }

    fn simulated(&self, load: &str) -> Value {
        let seconds = SECONDS.to_string();
        let options = ["--profile", "profile.json", "--load", load, "--seconds", &seconds];
        self.program.printed(&[&["simulate", "chain.toml"], &options[..], &["--json"]].concat())
    }

    fn write(&self, chain: Chain) {
        let names: Vec<String> = chain.iter().map(|(name, _)| format!("{name:?}")).collect();
        let mut text = format!("[chain]\nlanes = 1\nfunctions = [{}]\n", names.join(", "));
        for (name, device) in chain {
            let table = match *name {
                "router" => "routes = \"routes\"",
                "firewall" => "rules = \"rules\"\ndefault = \"drop\"\nestablished = true",
                "nat" => "inside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.0/30\"]",
                "load_balancer" => "services = \"services\"",
                _ => "",
            };
            let _ = writeln!(text, "[{name}]\ndevice = \"{device}\"\n{table}");
        }
        self.program.write("chain.toml", &text);
    }
}

fn gbps(mpps: f64) -> f64 {
    mpps * f64::from(LEN) * 8.0 / 1e3
}

fn number(of: &Value) -> f64 {
    of.as_f64().expect("a number")
}

fn device_stages(chain: &Value) -> Vec<&str> {
    let stages = chain["stages"].as_array().into_iter().flatten();
    stages.filter(|stage| stage["device"] != "cpu").filter_map(|one| one["name"].as_str()).collect()
}

fn real(chain: &Value) -> Figures {
    let packets = &chain["packets"];
    let read = number(&packets["read"]);
    let lost = number(&packets["overload"]);
    let seconds = number(&chain["duration"]);
    Figures {
        // There is no output, so packets are absorbed.
        mpps: (read - lost) / 1e6 / seconds,
        launches: number(&chain["transfers"]["launches"]) / seconds,
        drops: lost / read,
        p50_us: number(&chain["latency_us"]["p50"]),
    }
}

/// `stages` are those on devices. Launches are counted after a tenth of the time, as rates are.
fn virtual_figures(chain: &Value, stages: &[&str]) -> Figures {
    let packets = &chain["packets"];
    let own = chain["stages"].as_array().into_iter().flatten();
    let own = own.filter(|stage| stage["name"].as_str().is_some_and(|name| stages.contains(&name)));
    let launches: f64 = own.map(|stage| number(&stage["launches"])).sum();
    let lost = number(&packets["held_back"]) + number(&packets["dropped"]);
    Figures {
        mpps: number(&chain["rate"]["mpps"]),
        launches: launches / (0.9 * f64::from(SECONDS)),
        drops: lost / number(&packets["offered"]),
        p50_us: number(&chain["latency_us"]["p50"]),
    }
}
