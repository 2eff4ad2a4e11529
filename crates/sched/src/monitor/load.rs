//! The load of the present placement, and the measurements that it follows from.

use std::collections::BTreeMap;

use super::{ChainObserved, HEADROOM, Monitor, Observed, RATE_MOVED};
use crate::placement::{ChainDemand, Placement, PlacementError, Site};
use crate::work_profile::{CPU, Figures, Measurement, WorkPair};

/// Rates that change by parts that differ by less than this change in proportion.
const PROPORTION: f64 = 1.05;

/// A load that was computed for these rates.
#[derive(Debug)]
pub(super) struct KnownLoad {
    rates: Vec<f64>,
    load: f64,
    /// The factors by which learned throughputs have changed since.
    changes: BTreeMap<WorkPair, f64>,
}

impl Monitor {
    /// The highest load of a device at the latest rates. It is computed anew unless all rates
    /// changed in proportion, because each chain loads other devices, or if measurements changed.
    /// Larger launches take less time for each packet, so a load grows by less than the rates.
    /// Therefore it is computed anew, too, before it counts as an overload or as the end of one.
    pub(super) fn present_load(&mut self) -> f64 {
        let Some(placed) = &self.placed else { return 0.0 };
        let rates = self.demand.latest();
        if let Some(part) = self.known_load.as_ref().and_then(|known| known.part(&rates)) {
            return part;
        }
        let Ok(fixed) = self.fixed(&placed.placement, &rates) else { return 0.0 };
        let load = fixed.figures.load / HEADROOM;
        self.known_load = Some(KnownLoad { rates, load, changes: BTreeMap::new() });
        load
    }

    /// The devices of `old` at other rates, with the launches that the policy chooses there. The
    /// function that is divided between the CPU and a device keeps its share.
    pub(super) fn fixed(
        &self,
        old: &Placement,
        rates: &[f64],
    ) -> Result<Placement, PlacementError> {
        let at = |device: fn(&Site) -> usize| {
            let of_chain = |sites: &Vec<Site>| sites.iter().map(device).collect();
            self.solve(Some(old.sites.iter().map(of_chain).collect()), rates)
        };
        let mut new = at(|site| site.device)?;
        if let Some(split) = old.sites.iter().flatten().find(|site| is_split(site)) {
            let on_cpu = at(|site| if is_split(site) { CPU } else { site.device })?;
            new.figures.divide(&on_cpu.figures, split.cpu_share);
        }
        Ok(new)
    }

    /// Takes a figure of a function in a chain that ran all the time.
    pub(super) fn learn(&mut self, new: &Measurement, chains: &[ChainObserved]) {
        let is_running = |(demand, chain): (&ChainDemand, &ChainObserved)| {
            chain.observed == Observed::Running && demand.functions.contains(&new.pair.0)
        };
        if !self.demand.chains().iter().zip(chains).any(is_running) {
            return;
        }
        let mut new = *new;
        let (pair, launch_packets, packet_len) = (new.pair, new.launch_packets, new.packet_len);
        let alone = |own: &Self| own.profile.alone(pair, launch_packets, packet_len);
        let old = alone(self);
        if let (Some(old), None) = (old, new.beside) {
            let bounded = |new: f64, old: f64| new.clamp(old / 2.0, old * 2.0);
            new.figures.bits_per_s = bounded(new.figures.bits_per_s, old.bits_per_s);
            new.figures.latency_ns = bounded(new.figures.latency_ns, old.latency_ns);
        }
        // An unsound figure changes nothing.
        let _ = self.profile.merge(&new);
        self.slower.forget(pair);
        let rate = |figures: Option<Figures>| figures.map_or(0.0, |figures| figures.bits_per_s);
        self.change_throughput(pair, rate(alone(self)) / rate(old));
    }

    /// The throughput of `pair` changed by `factor`. The load is computed anew if all changes since
    /// it was computed come to 5 %.
    fn change_throughput(&mut self, pair: WorkPair, factor: f64) {
        let Some(known) = &mut self.known_load else { return };
        let change = known.changes.entry(pair).or_insert(1.0);
        *change *= factor;
        let is_near = (*change - 1.0).abs() <= RATE_MOVED;
        if !is_near {
            self.known_load = None;
        }
    }
}

/// Whether the CPU and a device share the flows.
fn is_split(site: &Site) -> bool {
    site.cpu_share > 0.0 && site.cpu_share < 1.0
}

impl KnownLoad {
    /// The load at other rates, if they are in proportion.
    fn part(&self, rates: &[f64]) -> Option<f64> {
        let parts = self.rates.iter().zip(rates);
        let parts: Vec<f64> = parts.filter(|(old, new)| old != new).map(|(o, n)| n / o).collect();
        let all_moved = parts.len() == rates.len();
        let most = parts.iter().copied().fold(if all_moved { 0.0 } else { 1.0 }, f64::max);
        let least = parts.iter().copied().fold(if all_moved { f64::MAX } else { 1.0 }, f64::min);
        let load = self.load * most;
        let is_known = most.is_finite() && most <= least * PROPORTION;
        (is_known && (load > 1.0) == (self.load > 1.0)).then_some(load)
    }
}
