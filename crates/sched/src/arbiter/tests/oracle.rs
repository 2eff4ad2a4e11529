//! The shares that tenants should get, as a fluid: a device divided at every moment, without
//! slices, launches or debts.

use super::Policy;

/// A tenant as the oracle sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) slots: usize,
    pub(super) present: bool,
    /// The part of the device that it can use; 1 or more if it always has work.
    pub(super) demand: f64,
}

/// The part of the device that each tenant gets, of one with `slots`.
pub(super) fn shares(policy: Policy, slots: usize, wishes: &[Wish]) -> Vec<f64> {
    let demand = |wish: &Wish| if wish.present { wish.demand } else { 0.0 };
    let part = |wish: &Wish, of: usize| demand(wish).min(wish.slots as f64 / of as f64);
    match policy {
        Policy::FixedShare => wishes.iter().map(|wish| part(wish, slots)).collect(),
        Policy::EqualShare => {
            let present = wishes.iter().filter(|wish| wish.present).map(|wish| wish.slots).sum();
            wishes.iter().map(|wish| part(wish, present)).collect()
        }
        Policy::BestEffort => {
            let weighted = |wish: &Wish| (demand(wish), wish.slots as f64);
            fill(&wishes.iter().map(weighted).collect::<Vec<_>>())
        }
        Policy::RateProportional => {
            fill(&wishes.iter().map(|wish| (demand(wish), demand(wish))).collect::<Vec<_>>())
        }
    }
}

/// Water filling: raises a common level until the device is full or each demand is satisfied. A
/// tenant gets the level times its weight, at most its demand.
fn fill(tenants: &[(f64, f64)]) -> Vec<f64> {
    let at = |level: f64| tenants.iter().map(move |&(demand, weight)| demand.min(level * weight));
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match at(middle).sum::<f64>() < 1.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    at(low).collect()
}

#[test]
fn water_finds_its_level() {
    let wish = |slots, demand| Wish { slots, present: true, demand };
    let close = |found: Vec<f64>, expected: &[f64]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    };
    let wishes =
        [wish(1, 0.1), wish(1, 9.0), wish(2, 9.0), Wish { present: false, ..wish(1, 9.0) }];
    close(shares(Policy::BestEffort, 10, &wishes), &[0.1, 0.3, 0.6, 0.0]);
    close(shares(Policy::EqualShare, 10, &wishes), &[0.1, 0.25, 0.5, 0.0]);
    close(shares(Policy::FixedShare, 10, &wishes), &[0.1, 0.1, 0.2, 0.0]);
    close(shares(Policy::RateProportional, 10, &[wish(1, 0.3), wish(9, 1.2)]), &[0.2, 0.8]);
    close(shares(Policy::BestEffort, 10, &[wish(1, 0.3), wish(1, 0.2)]), &[0.3, 0.2]);
}
