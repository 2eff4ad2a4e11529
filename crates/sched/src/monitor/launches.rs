//! Launch sizes and deadlines that follow the rates, on the devices of the present placement.

use super::{Monitor, RATE_MOVED, is_alike};
use crate::placement::Site;

/// The rates for which launches were last chosen, and the sites.
#[derive(Debug)]
pub(super) struct KnownLaunches {
    rates: Vec<f64>,
    sites: Vec<Vec<Site>>,
}

impl Monitor {
    /// The sites of the present placement with the launches that the policy chooses at the latest
    /// rates: table 3 of the GPU IDS framework as a live decision. It chooses again when a rate
    /// moved by 5 % or functions moved. `None` without a placement.
    pub fn launches(&mut self) -> Option<&[Vec<Site>]> {
        let placed = &self.placed.as_ref()?.placement;
        let rates = self.demand.latest();
        let is_known = self.known_launches.as_ref().is_some_and(|known| {
            is_alike(&known.sites, &placed.sites) && is_near(&known.rates, &rates)
        });
        if !is_known {
            let mut sites = self.fixed(placed, &rates).ok()?.sites;
            let both = sites.iter_mut().flatten().zip(placed.sites.iter().flatten());
            both.for_each(|(new, old)| new.cpu_share = old.cpu_share);
            self.known_launches = Some(KnownLaunches { rates, sites });
        }
        self.known_launches.as_ref().map(|known| known.sites.as_slice())
    }
}

/// Whether no rate differs by more than is a reason to decide again.
pub(super) fn is_near(old: &[f64], new: &[f64]) -> bool {
    old.iter().zip(new).all(|(&old, &new)| (new - old).abs() <= RATE_MOVED * old)
}
