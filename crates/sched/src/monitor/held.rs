//! Chains whose source is held by pauses. They are overloaded, even if the profile has room.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{HEADROOM, Monitor, STAYS_MAX};
use crate::placement::Placement;
use crate::work_profile::{CPU, WorkPair, WorkProfile};

/// A source that waited, or lost packets, because the chain was paused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldSource {
    /// The share of the period for which it was held.
    pub share: f64,
    /// Packets a second that the chain took.
    pub carried_per_s: f64,
}

/// A source that is held for longer may have any number of packets.
const SHARE_MAX: f64 = 0.9;
/// Figures are at most so many times too good.
const TOO_GOOD_MAX: f64 = 64.0;
/// Loads of held chains above this are right.
const NEAR_FULL: f64 = 0.95;
/// Ticks of a placement before pauses say something about it.
const TICKS: u64 = 2;

impl HeldSource {
    /// Packets a second that it would have given without pauses.
    pub(super) fn wanted_per_s(&self) -> f64 {
        self.carried_per_s / (1.0 - self.share.clamp(0.0, SHARE_MAX))
    }
}

/// How much slower functions are on devices than the profile says, as factors of their throughput.
#[derive(Debug, Default)]
pub(super) struct Slower {
    factors: BTreeMap<WorkPair, f64>,
    since_ns: u64,
}

impl Slower {
    /// A figure of it was measured.
    pub(super) fn forget(&mut self, pair: WorkPair) {
        self.factors.remove(&pair);
    }

    pub(super) fn clear(&mut self) {
        self.factors.clear();
    }
}

impl Monitor {
    /// The profile, with the figures of functions that held a source. Pauses measure no figure, so
    /// the profile itself stays as it is.
    pub(super) fn effective(&self) -> Cow<'_, WorkProfile> {
        match self.slower.factors.is_empty() {
            true => Cow::Borrowed(&self.profile),
            false => Cow::Owned(self.profile.slowed(&self.slower.factors)),
        }
    }

    /// A chain whose source is held carries as much as it can. If its devices have a lower load by
    /// the profile, their figures are too good. They are corrected by a factor of two a tick at
    /// most, and the correction ends after the longest stay.
    pub(super) fn handle_held(&mut self, held: &[Option<HeldSource>], now_ns: u64) {
        let longest_ns = STAYS_MAX.saturating_mul(self.settings.stay_ns);
        if now_ns.saturating_sub(self.slower.since_ns) > longest_ns {
            self.slower.clear();
        }
        let Some(placed) = &self.placed else { return };
        let is_new = now_ns.saturating_sub(placed.since_ns) < TICKS * self.settings.tick_ns;
        if is_new || held.iter().all(Option::is_none) {
            return;
        }
        let mut rates = self.demand.latest();
        for (rate, held) in rates.iter_mut().zip(held) {
            *rate = held.map_or(*rate, |held| held.carried_per_s);
        }
        let Ok(carried) = self.fixed(&placed.placement, &rates) else { return };
        let chains = held.iter().enumerate().filter(|(_, held)| held.is_some());
        let too_good: Vec<(WorkPair, f64)> = chains
            .flat_map(|(chain, _)| {
                let pairs = self.pairs(&placed.placement, chain);
                let load = pairs.iter().map(|pair| load(&carried, pair.1)).fold(0.0, f64::max);
                pairs.into_iter().map(move |pair| (pair, load))
            })
            .collect();
        for (pair, load) in too_good.into_iter().filter(|(_, load)| *load < NEAR_FULL) {
            let factor = self.slower.factors.entry(pair).or_insert(1.0);
            *factor = (*factor * load.max(0.5)).max(1.0 / TOO_GOOD_MAX);
            self.slower.since_ns = now_ns;
            (self.known_load, self.known_launches, self.settled) = (None, None, None);
        }
    }

    /// The functions of a chain on the devices that they use, each once.
    fn pairs(&self, placement: &Placement, chain: usize) -> Vec<WorkPair> {
        let functions = self.demand.chains().get(chain).map_or(&[][..], |own| &own.functions);
        let sites = placement.sites.get(chain).into_iter().flatten();
        let mut pairs = Vec::new();
        for (&function, site) in functions.iter().zip(sites) {
            pairs.push((function, site.device));
            if site.cpu_share > 0.0 {
                pairs.push((function, CPU));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// The load of a device or of its link.
fn load(placement: &Placement, device: usize) -> f64 {
    let of = |loads: &[f64]| loads.get(device).copied().unwrap_or(0.0);
    of(&placement.figures.loads).max(of(&placement.figures.link_loads)) / HEADROOM
}
