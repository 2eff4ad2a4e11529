//! The costs that a simulation lacks, or has otherwise, by the statistics of the run beside it.

use serde_json::Value;

use crate::program::CoresUsed;

/// The part of the cores from which other processes disturb a run.
const OTHERS: f64 = 0.05;
/// The part of the cores from which a run's threads wait for each other.
const FULL: f64 = 0.85;
/// How far a time of the profile may be from that of the run, as a part of it.
const APART: f64 = 0.15;

/// The causes of differences, the largest first: cores that threads share, then times of packets. `stats` and `simulated` are those of a chain.
pub(crate) fn causes(stats: &Value, simulated: &Value, used: &CoresUsed) -> Vec<String> {
    let CoresUsed { cores, own, others } = used;
    let mut all = Vec::new();
    if *others > OTHERS {
        let others = 100.0 * others;
        all.push(format!("other processes take {others:.0} % of {cores:.0} cores"));
    }
    if own + others > FULL {
        let own = own * cores;
        all.push(format!(
            "reader, lane, sender and kernels share cores: they take {own:.2} of {cores:.0}"
        ));
    }
    let list = |of: &Value| of["stages"].as_array().cloned().unwrap_or_default();
    let virtual_stages = list(simulated);
    for stage in list(stats) {
        let twin = virtual_stages.iter().find(|one| one["name"] == stage["name"]);
        all.extend(twin.and_then(|twin| stage_cause(stats, &stage, twin)));
    }
    all
}

/// A stage on the CPU whose time of a packet is not that of the profile.
fn stage_cause(stats: &Value, stage: &Value, twin: &Value) -> Option<String> {
    if stage["device"] != "cpu" {
        return None;
    }
    let name = stage["name"].as_str()?;
    let own = stats["functions"].as_array()?.iter();
    let names = stage["functions"].as_array()?;
    let own: Vec<&Value> = own.filter(|one| names.contains(&one["name"])).collect();
    let busy: f64 = own.iter().filter_map(|one| one["busy_seconds"].as_f64()).sum();
    let here = busy / own.first()?["packets_in"].as_f64()?;
    let there = twin["work_seconds"].as_f64()? / twin["processed"].as_f64()?;
    let is_apart = here.is_finite() && there.is_finite() && (there - here).abs() > APART * here;
    let [here_us, there_us] = [here, there].map(|seconds| seconds * 1e6);
    is_apart.then(|| format!("a packet of {name} takes {here_us:.3} us, simulated {there_us:.3}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cause_has_its_figures() {
        let stats = json!({
            "functions": [{ "name": "nat", "packets_in": 1_000_000, "busy_seconds": 0.2 }],
            "stages": [
                { "name": "nat", "functions": ["nat"], "device": "cpu", "launches": 0 },
                { "name": "digest", "functions": ["digest"], "device": "host", "launches": 100,
                  "device_seconds": 0.1 },
            ],
        });
        let simulated = json!({ "stages": [
            { "name": "nat", "processed": 500_000, "work_seconds": 0.05, "launches": 9 },
            { "name": "digest", "processed": 500_000, "work_seconds": 0.105, "launches": 100 },
        ]});
        let of = |own, others| causes(&stats, &simulated, &CoresUsed { cores: 2.0, own, others });
        assert_eq!(of(0.4, 0.0), ["a packet of nat takes 0.200 us, simulated 0.100"]);
        let all = of(0.8, 0.06);
        assert_eq!(all[0], "other processes take 6 % of 2 cores");
        assert!(all[1].ends_with("share cores: they take 1.60 of 2") && all.len() == 3, "{all:?}");
    }
}
