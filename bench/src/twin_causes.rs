//! The costs that a simulation lacks, or has otherwise, by the statistics of the run beside it.

use serde_json::Value;

use crate::program::CoresUsed;

/// The part of the cores from which other processes disturb a run.
const OTHERS: f64 = 0.05;
/// The part of the cores from which a run's threads wait for each other.
const FULL: f64 = 0.85;
/// How far a time of the profile may be from that of the run, as a part of it.
const APART: f64 = 0.15;

/// The causes of differences, the largest first: cores that threads share, then the processor time
/// of a packet. `stats` are those of a chain, and `simulated` is the whole output.
pub(crate) fn causes(stats: &Value, simulated: &Value, used: &CoresUsed) -> Vec<String> {
    let CoresUsed { cores, own, others, .. } = used;
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
    all.extend(time_cause(stats, simulated, used));
    all
}

/// The processor time of a packet on all threads, if it is not that of the profile.
fn time_cause(stats: &Value, simulated: &Value, used: &CoresUsed) -> Option<String> {
    let packets = &stats["packets"];
    let here = used.seconds / (packets["read"].as_f64()? - packets["overload"].as_f64()?);
    let mpps = simulated["chains"][0]["rate"]["mpps"].as_f64()?;
    let there = simulated["cpu"]["cores"].as_f64()? / (mpps * 1e6);
    let is_apart = here.is_finite() && there.is_finite() && (there - here).abs() > APART * here;
    let [here_us, there_us] = [here, there].map(|seconds| seconds * 1e6);
    is_apart
        .then(|| format!("a packet takes {here_us:.3} us of all cores, simulated {there_us:.3}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cause_has_its_figures() {
        let stats = json!({ "packets": { "read": 1_200_000, "overload": 200_000 } });
        let simulated = |cores: f64| {
            json!({
                "chains": [{ "rate": { "mpps": 0.5 } }], "cpu": { "cores": cores },
            })
        };
        let of = |own, others, cores| {
            let used = CoresUsed { cores: 2.0, own, others, seconds: 0.2 };
            causes(&stats, &simulated(cores), &used)
        };
        assert_eq!(of(0.4, 0.0, 0.05), ["a packet takes 0.200 us of all cores, simulated 0.100"]);
        assert!(of(0.4, 0.0, 0.11).is_empty(), "a tenth apart");
        let all = of(0.8, 0.06, 0.05);
        assert_eq!(all[0], "other processes take 6 % of 2 cores");
        assert!(all[1].ends_with("share cores: they take 1.60 of 2") && all.len() == 3, "{all:?}");
    }
}
