//! Functions whose device the profile lacks. Their cost is unknown, and counts as an estimate.

use warpline_sched::work_profile::{CPU, Figures, Measurement, WorkProfile};

/// A function that stays on a device without measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) function: String,
    /// Why its cost is unknown, and the estimate.
    pub(crate) why: String,
}

/// Bits a second of a function if the profile has no measurement at all.
const NOTHING_KNOWN: f64 = 1e9;

/// The best measurement of a pair.
fn best(profile: &WorkProfile, is_of: impl Fn(&Measurement) -> bool) -> Option<Measurement> {
    let own = profile.measurements().filter(|one| one.beside.is_none() && is_of(one));
    own.max_by(|one, other| one.figures.bits_per_s.total_cmp(&other.figures.bits_per_s))
}

/// The estimate for `function` at the number `at`, on device `id`. It is the function's best on a
/// device of the profile. Without one, it is that of the slowest function on the CPU.
pub(super) fn estimate(
    profile: &WorkProfile,
    function: &str,
    (at, id): ((usize, usize), &str),
) -> (Measurement, Unknown) {
    let number = profile.functions().iter().position(|own| own == function);
    let own = number.and_then(|number| best(profile, |one| one.pair.0 == number));
    let slowest = || {
        let all = 0..profile.functions().len();
        let each = all.filter_map(|number| best(profile, |one| one.pair == (number, CPU)));
        each.min_by(|one, other| one.figures.bits_per_s.total_cmp(&other.figures.bits_per_s))
    };
    let (found, source) = match own {
        Some(own) => (Some(own), format!("its best on {}", profile.devices()[own.pair.1].name)),
        None => (slowest(), "the slowest function on cpu".into()),
    };
    let none = Figures { bits_per_s: NOTHING_KNOWN, latency_ns: 0.0, share: 1.0, weight: 1.0 };
    let found = found.unwrap_or_else(|| Measurement::alone(at, 256, 512, none));
    let why = format!(
        "the profile has no device {id:?}; it counts as {:.2} Gb/s, {source}",
        found.figures.bits_per_s / 1e9
    );
    // Real measurements count more.
    let figures = Figures { weight: 1e-9, ..found.figures };
    let own = Measurement { pair: at, beside: None, figures, ..found };
    (own, Unknown { function: function.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cost_is_an_estimate_with_its_source() {
        let mut profile = WorkProfile::new(&["nat", "nids", "ipsec"], &["cpu", "cuda:0"]);
        for (pair, launch, gbps) in
            [((0, 0), 256, 4.0), ((0, 1), 256, 1.0), ((0, 1), 4096, 20.0), ((1, 0), 256, 2.0)]
        {
            let figures =
                Figures { bits_per_s: gbps * 1e9, latency_ns: 1e4, share: 1.0, weight: 1.0 };
            profile.merge(&Measurement::alone(pair, launch, 512, figures)).expect("sound");
        }
        for (profile, function, gbps, source) in [
            (&profile, "nat", 20.0, "20.00 Gb/s, its best on cuda:0"),
            (&profile, "ipsec", 2.0, "2.00 Gb/s, the slowest function on cpu"),
            (&WorkProfile::new(&["nat"], &["cpu"]), "nat", 1.0, "1.00 Gb/s"),
        ] {
            let (one, unknown) = estimate(profile, function, ((7, 2), "cuda:1"));
            assert_eq!((one.pair, one.figures.bits_per_s), ((7, 2), gbps * 1e9), "{function}");
            assert!(unknown.why.contains(source), "{}", unknown.why);
            assert!(unknown.why.starts_with("the profile has no device \"cuda:1\""));
        }
    }
}
