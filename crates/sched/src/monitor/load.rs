//! The load of the present placement, and the measurements that it follows from.

use std::collections::BTreeMap;

use super::{ChainObserved, HEADROOM, Monitor, Observed, RATE_MOVED};
use crate::placement::{ChainDemand, Placement, PlacementError, Site};
use crate::work_profile::{CPU, Figures, Measurement, Power, WorkPair};

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

    /// Takes a figure of a function in a chain that ran all the time. Of a chain that waited for
    /// input it takes the time of launches alone.
    pub(super) fn learn(&mut self, new: &Measurement, chains: &[ChainObserved]) {
        let of_function =
            |(demand, _): &(&ChainDemand, &ChainObserved)| demand.functions.contains(&new.pair.0);
        let own = || self.demand.chains().iter().zip(chains).filter(of_function);
        let is_any = |state| own().any(|(_, chain)| chain.observed == state);
        let is_running = is_any(Observed::Running);
        if !is_running && !is_any(Observed::Starved) {
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
        if !is_running {
            return self.profile.merge_latency(&new);
        }
        // An unsound figure changes nothing.
        let _ = self.profile.merge(&new);
        self.slower.forget(pair);
        let rate = |figures: Option<Figures>| figures.map_or(0.0, |figures| figures.bits_per_s);
        self.change_throughput(pair, rate(alone(self)) / rate(old));
    }

    /// The mean power of a device in a period, and the part of it in which the device worked. Moves
    /// the profile's power by a tenth of the difference, and by at most a factor of two. A device
    /// whose power the profile lacks stays unknown.
    pub fn handle_power(&mut self, device: usize, watts: f64, load: f64) {
        const PART: f64 = 0.1;
        /// Loads that say enough about the power of a device that is busy, or idle.
        const BUSY: f64 = 0.2;
        const IDLE: f64 = 0.02;
        let Some(own) = self.profile.devices().get(device) else { return };
        let Power { idle_w: Some(idle), busy_w: Some(busy) } = own.power else { return };
        let is_sound = watts.is_finite() && watts >= 0.0 && (0.0..=1.0).contains(&load);
        let towards = |old: f64, new: f64| old + (new.clamp(old / 2.0, old * 2.0) - old) * PART;
        let (idle, busy) = match () {
            () if !is_sound => return,
            () if load >= BUSY => (idle, towards(busy, idle + (watts - idle) / load).max(idle)),
            () if load <= IDLE => (towards(idle, watts).min(busy), busy),
            () => return,
        };
        self.profile.set_power(device, Power { idle_w: Some(idle), busy_w: Some(busy) });
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
