//! Functions that were never measured where they stay. Their cost is unknown, and counts as an
//! estimate.

use warpline_sched::work_profile::{CPU, Figures, Measurement, WorkProfile};

/// A function that stays on a device without measurements of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) function: String,
    /// Why its cost is unknown, and the estimate.
    pub(crate) why: String,
}

/// Where a function stays.
pub(super) struct Place<'a> {
    /// Its number, and that of the device.
    pub(super) at: (usize, usize),
    /// The device.
    pub(super) id: &'a str,
    /// Whether the profile has the device.
    pub(super) is_known: bool,
}

/// Bits a second of a function if the profile has no measurement at all.
const NOTHING_KNOWN: f64 = 1e9;

/// The best measurement of a pair.
fn best(profile: &WorkProfile, is_of: impl Fn(&Measurement) -> bool) -> Option<Measurement> {
    let own = profile.measurements().filter(|one| one.beside.is_none() && is_of(one));
    own.max_by(|one, other| one.figures.bits_per_s.total_cmp(&other.figures.bits_per_s))
}

/// The estimate for `function`. On the CPU it is the slowest function that was measured there, as
/// kernels are no guide to it. Elsewhere it is the function's best on a device of the profile.
/// Either stands in for the other.
pub(super) fn estimate(
    profile: &WorkProfile,
    function: &str,
    place: &Place<'_>,
) -> (Measurement, Unknown) {
    let number = profile.functions().iter().position(|own| own == function);
    let own = || {
        let own = number.and_then(|number| best(profile, |one| one.pair.0 == number))?;
        let device = &profile.devices()[own.pair.1].name;
        Some((own, format!(", its best on {device}")))
    };
    let slowest = || {
        let all = 0..profile.functions().len();
        let each = all.filter_map(|number| best(profile, |one| one.pair == (number, CPU)));
        let slowest =
            each.min_by(|one, other| one.figures.bits_per_s.total_cmp(&other.figures.bits_per_s));
        slowest.map(|one| (one, ", the slowest function on cpu".into()))
    };
    let Place { at, id, is_known } = *place;
    let found = match at.1 {
        CPU => slowest().or_else(own),
        _ => own().or_else(slowest),
    };
    let none = Figures { bits_per_s: NOTHING_KNOWN, latency_ns: 0.0, share: 1.0, weight: 1.0 };
    let found = found.unwrap_or_else(|| {
        (Measurement::alone(at, 256, 512, none), ", as nothing was measured".into())
    });
    let (found, source): (Measurement, String) = found;
    let lacks = match is_known {
        true => format!("it was never measured on {id}"),
        false => format!("the profile has no device {id:?}"),
    };
    let gbps = found.figures.bits_per_s / 1e9;
    let why = format!("{lacks}; it counts as {gbps:.2} Gb/s{source}");
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
        let (known, empty) = (&profile, &WorkProfile::new(&["nat"], &["cpu"]));
        let lacks = "the profile has no device \"cuda:1\"; it counts as";
        let never = "it was never measured on";
        for (profile, function, device, id, gbps, why) in [
            (known, "nat", 2, "cuda:1", 20.0, format!("{lacks} 20.00 Gb/s, its best on cuda:0")),
            (
                known,
                "ipsec",
                2,
                "cuda:1",
                2.0,
                format!("{lacks} 2.00 Gb/s, the slowest function on cpu"),
            ),
            (empty, "nat", 2, "cuda:1", 1.0, format!("{lacks} 1.00 Gb/s, as nothing was measured")),
            (
                known,
                "nids",
                1,
                "cuda:0",
                2.0,
                format!("{never} cuda:0; it counts as 2.00 Gb/s, its best on cpu"),
            ),
            (
                known,
                "ipsec",
                0,
                "cpu",
                2.0,
                format!("{never} cpu; it counts as 2.00 Gb/s, the slowest function on cpu"),
            ),
            (
                known,
                "digest",
                0,
                "cpu",
                2.0,
                format!("{never} cpu; it counts as 2.00 Gb/s, the slowest function on cpu"),
            ),
        ] {
            let place = Place { at: (7, device), id, is_known: device < 2 };
            let (one, unknown) = estimate(profile, function, &place);
            assert_eq!((one.pair, one.figures.bits_per_s), ((7, device), gbps * 1e9), "{function}");
            assert_eq!(unknown.why, why);
        }
    }
}
