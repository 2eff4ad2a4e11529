//! A bound that no placement can beat, for searches that do not try all.

use super::items::{Choice, Item};
use super::{PlacementFigures, PlacementPolicy, PlacementProblem};
use crate::work_profile::{Beside, CPU};

/// The part by which the policy's figure exceeds a bound without copies, waits and mixes.
pub(super) fn gap(
    problem: &PlacementProblem<'_>,
    items: &[Item],
    figures: &PlacementFigures,
) -> f64 {
    let (figure, bound) = match problem.policy {
        PlacementPolicy::Latency => (figures.delay_ns, delay_ns(problem, items)),
        PlacementPolicy::Energy => {
            match (figures.power_w, problem.profile.devices()[CPU].power.idle_w) {
                (Some(power), Some(idle)) => (power, idle),
                _ => return f64::INFINITY,
            }
        }
        _ => (figures.load, load(problem, items)),
    };
    if figure <= bound { 0.0 } else { (figure - bound) / bound }
}

fn delay_ns(problem: &PlacementProblem<'_>, items: &[Item]) -> f64 {
    let of = |chain: usize| -> f64 {
        let own = items.iter().filter(|item| item.chain == chain);
        own.map(|item| least(item, Choice::least_latency_ns)).sum()
    };
    (0..problem.chains.len()).map(of).fold(0.0, f64::max)
}

/// The heaviest function alone, or all work spread evenly.
fn load(problem: &PlacementProblem<'_>, items: &[Item]) -> f64 {
    let of = |item: &Item| {
        let rate = problem.chains[item.chain].packets_per_s * 1e-9;
        least(item, |one| {
            rate * one.packet_ns * overlap(problem, items, item, one) / problem.width(one.device)
        })
    };
    let loads: Vec<f64> = items.iter().map(of).collect();
    let spread = loads.iter().sum::<f64>() / problem.profile.devices().len() as f64;
    loads.into_iter().fold(spread, f64::max)
}

fn least(item: &Item, figure: impl Fn(&Choice) -> f64) -> f64 {
    item.choices.iter().map(figure).fold(f64::INFINITY, f64::min)
}

/// The least part of its time that a function can take beside others. A device may do two things
/// at once better than one after the other.
fn overlap(problem: &PlacementProblem<'_>, items: &[Item], item: &Item, choice: &Choice) -> f64 {
    let sizes = (choice.packets, problem.chains[item.chain].packet_len);
    let added = |other: &Item, count: u32| {
        let others = [Beside { function: other.function, count }];
        let pair = (item.function, choice.device);
        (problem.profile.slow_down(pair, sizes, &others).factor - 1.0) / f64::from(count)
    };
    let counts = 1..items.len().max(2) as u32;
    let all = items.iter().flat_map(|other| counts.clone().map(move |count| added(other, count)));
    all.fold(1.0, f64::min)
}
