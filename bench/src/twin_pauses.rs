//! Pauses of a chain's stages on this machine, beside those of its simulation.

use serde_json::Value;

use crate::twin::{Chain, Twin};

/// Chains with a slow stage on the host device.
pub const CHAINS: [Chain; 3] = [
    &[("router", "cpu"), ("digest", "host")],
    &[("digest", "host"), ("flow_monitor", "cpu")],
    &[("nat", "host"), ("router", "cpu"), ("digest", "host")],
];

/// Loads around the simulated capacity.
pub const LOADS: [f64; 6] = [0.8, 0.9, 1.0, 1.1, 1.5, 2.0];

/// The pauses of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pauses {
    /// How often the source was paused, a second.
    pub source: f64,
    /// Parts of the run in which the source and each stage were paused.
    pub paused: Vec<(String, f64)>,
    /// The stage that limits the others.
    pub bottleneck: Option<String>,
}

impl Pauses {
    /// Of a chain in statistics, or in the output of `simulate`, over so many seconds.
    fn of(chain: &Value, seconds: f64) -> Self {
        let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
        let paused = |of: &Value| number(&of["paused_seconds"]) / seconds;
        let name = |of: &Value| of["name"].as_str().unwrap_or("?").to_owned();
        let source = ("source".to_owned(), paused(&chain["source"]));
        let stages = chain["stages"].as_array().into_iter().flatten();
        let stages = stages.map(|stage| (name(stage), paused(stage)));
        Self {
            source: number(&chain["source"]["pauses"]) / seconds,
            paused: std::iter::once(source).chain(stages).collect(),
            bottleneck: chain["bottleneck"].as_str().map(str::to_owned),
        }
    }

    /// The greatest difference of a paused part, in percent of the time, with its name.
    pub fn difference(&self, other: &Self) -> (f64, &str) {
        let each = self.paused.iter().zip(&other.paused);
        let each = each.map(|(own, other)| (100.0 * (other.1 - own.1), own.0.as_str()));
        let more = |one: (f64, _), other: (f64, _)| match other.0.abs() > one.0.abs() {
            true => other,
            false => one,
        };
        each.fold((0.0, "source"), more)
    }
}

impl Twin<'_> {
    /// The pauses of a run at so many packets a second, and those of its simulation.
    pub fn pauses(&self, chain: Chain, mpps: f64) -> [Pauses; 2] {
        let (real, simulated) = self.both(chain, mpps);
        let seconds = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
        let [real, simulated] = [
            (&real["chains"][0], "duration", &real["chains"][0]),
            (&simulated["chains"][0], "seconds", &simulated),
        ]
        .map(|(chain, key, of)| Pauses::of(chain, seconds(&of[key])));
        [real, simulated]
    }
}

/// All chains at all loads, line by line.
pub fn report(twin: &Twin<'_>) {
    println!("real | simulated: pauses of the source a second, percent of the time paused");
    for chain in CHAINS {
        let names: Vec<String> = chain.iter().map(|(name, on)| format!("{name} on {on}")).collect();
        let capacity = twin.capacity(chain);
        println!("{}: {:.0} kpps at most", names.join(", "), capacity * 1e3);
        for load in LOADS {
            let [real, simulated] = twin.pauses(chain, load * capacity);
            let (more, who) = real.difference(&simulated);
            let agrees = if real.bottleneck == simulated.bottleneck { "same" } else { "another" };
            println!(
                "  {load:.1} {} | {}; {who} {more:+.1}; {agrees} bottleneck",
                row(&real),
                row(&simulated)
            );
        }
    }
}

fn row(own: &Pauses) -> String {
    let paused = own.paused.iter().map(|(name, part)| format!("{name} {:.1}", 100.0 * part));
    let bottleneck = own.bottleneck.as_deref().unwrap_or("none");
    let paused: Vec<String> = paused.collect();
    format!("{:>7.0} {}, limit {bottleneck}", own.source, paused.join(" "))
}
