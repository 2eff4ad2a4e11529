//! Chains without room for all their packets. They are overloaded, even if the profile has room.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{HEADROOM, Monitor, STAYS_MAX};
use crate::placement::Placement;
use crate::work_profile::{CPU, WorkPair, WorkProfile};

/// A source that waited for a paused chain, or lost packets for want of room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldSource {
    /// The share of the period for which it waited, or the share of packets that it lost.
    pub share: f64,
    /// Packets a second that the chain took.
    pub carried_per_s: f64,
}

/// A source that is held for longer may have any number of packets.
const SHARE_MAX: f64 = 0.9;
/// Figures are at most so many times too good. They lack the work of a lane itself, which is many
/// times that of a cheap function.
const TOO_GOOD_MAX: f64 = 4096.0;
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

/// How much slower functions are on devices than the profile says.
#[derive(Debug, Default)]
pub(super) struct Slower {
    corrections: BTreeMap<WorkPair, Correction>,
    /// By chain, the load of its devices at the last tick as corrected, if its source was held.
    held: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug)]
struct Correction {
    /// Of the throughput.
    factor: f64,
    since_ns: u64,
}

impl Slower {
    /// A figure of it was measured.
    pub(super) fn forget(&mut self, pair: WorkPair) {
        self.corrections.remove(&pair);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a source was held at the last tick.
    pub(super) fn is_any_held(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }
}

impl Monitor {
    /// The profile, with the figures of functions that held a source. Pauses measure no figure, so
    /// the profile itself stays as it is.
    pub(super) fn effective(&self) -> Cow<'_, WorkProfile> {
        if self.slower.corrections.is_empty() {
            return Cow::Borrowed(&self.profile);
        }
        let factors = self.slower.corrections.iter().map(|(&pair, own)| (pair, own.factor));
        Cow::Owned(self.profile.slowed(&factors.collect()))
    }

    /// A chain whose source is held for two ticks carries as much as it can. If its devices have a
    /// lower load by the profile, their figures are too good, and are corrected. If the chain
    /// carries more later, the correction was too much. It ends after the longest stay.
    ///
    /// A lane may lack time because others use the cores. Then devices that share these lack it,
    /// too. So they get the correction of the CPU.
    pub(super) fn handle_held(&mut self, held: &[Option<HeldSource>], now_ns: u64) {
        let longest_ns = STAYS_MAX.saturating_mul(self.settings.stay_ns);
        let is_recent = |own: &Correction| now_ns.saturating_sub(own.since_ns) <= longest_ns;
        if self.slower.corrections.values().any(|own| !is_recent(own)) {
            self.slower.corrections.retain(|_, own| is_recent(own));
            (self.known_load, self.known_launches, self.settled) = (None, None, None);
        }
        let before = std::mem::take(&mut self.slower.held);
        let Some(placed) = &self.placed else { return };
        let is_new = now_ns.saturating_sub(placed.since_ns) < TICKS * self.settings.tick_ns;
        let is_right = self.slower.corrections.is_empty() && held.iter().all(Option::is_none);
        if is_new || is_right {
            return;
        }
        let mut rates = self.demand.latest();
        for (rate, held) in rates.iter_mut().zip(held) {
            *rate = held.map_or(*rate, |held| held.carried_per_s);
        }
        let Ok(carried) = self.fixed(&placed.placement, &rates) else { return };
        let mut changes = BTreeMap::new();
        for (chain, held) in held.iter().enumerate() {
            let pairs = self.pairs(&placed.placement, chain);
            let loads = pairs.iter().map(|pair| self.load(&carried, chain, pair.1));
            let load = loads.fold(0.0, f64::max);
            let before = before.get(chain).copied().flatten();
            let most = before.map(|before| load.max(before)).filter(|most| *most < NEAR_FULL);
            let change = if held.is_some() { most } else { Some(load).filter(|load| *load > 1.0) };
            self.slower.held.push(held.map(|_| load / change.unwrap_or(1.0)));
            let Some(by) = change else { continue };
            let pairs = pairs.iter().flat_map(|&pair| self.with_those_on_cores(pair));
            changes.extend(pairs.map(|pair| (pair, by)));
        }
        self.correct(&changes, now_ns);
    }

    /// Corrects the throughput of pairs by these factors.
    fn correct(&mut self, changes: &BTreeMap<WorkPair, f64>, now_ns: u64) {
        for (&pair, change) in changes {
            let none = Correction { factor: 1.0, since_ns: now_ns };
            let old = self.slower.corrections.get(&pair).copied().unwrap_or(none);
            let factor = (old.factor * change).clamp(1.0 / TOO_GOOD_MAX, 1.0);
            if factor == old.factor {
                continue;
            }
            let since_ns = if factor < old.factor { now_ns } else { old.since_ns };
            self.slower.corrections.insert(pair, Correction { factor, since_ns });
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

    /// A pair; if it is on the CPU, also the pairs on devices that share its cores.
    fn with_those_on_cores(&self, pair: WorkPair) -> impl Iterator<Item = WorkPair> + use<'_> {
        let devices = self.profile.devices().iter().enumerate();
        let on_cores = devices.filter(|(_, device)| device.cores > 0);
        let others = on_cores.map(move |(at, _)| (pair.0, at)).filter(move |_| pair.1 == CPU);
        std::iter::once(pair).chain(others)
    }

    /// The load of a device, of its link, or of the cores that it uses. On the CPU it is that of a
    /// chain's lanes.
    fn load(&self, placement: &Placement, chain: usize, device: usize) -> f64 {
        let of = |loads: &[f64], at: usize| loads.get(at).copied().unwrap_or(0.0);
        let figures = &placement.figures;
        let own = match device {
            CPU => of(&figures.lane_loads, chain),
            _ => of(&figures.loads, device).max(of(&figures.link_loads, device)),
        };
        let is_on_cores = device == CPU || self.profile.devices()[device].cores > 0;
        let cores = if is_on_cores { figures.cores_load } else { 0.0 };
        own.max(cores) / HEADROOM
    }
}
