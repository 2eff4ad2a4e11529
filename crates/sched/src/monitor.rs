//! The monitor: compares live rates with the profile once a tick, updates the profile, and decides
//! the placement again. It follows the monitor of `Pythia` (section IV) and adds bounds against
//! flapping.
//!
//! - New figures move an entry of the profile by at most a factor of two a tick, by weight of
//!   evidence. A paused or starved period measures the traffic, not the device, so it is ignored.
//! - An overload that lasts two ticks leads to a placement that carries more at once.
//! - Otherwise a placement stays for [`MonitorSettings::stay_ns`]. Another one must then be better
//!   by [`MonitorSettings::gain`] at the highest rate in that time, for two ticks.
//! - If an overload soon undoes such a change, the next stay is twice as long, up to 16 times.
//! - A new policy applies at the next tick.
//!
//! Placements are made for a load that is higher than the present one by a tenth.

mod auto_batch;
mod demand;
#[cfg(test)]
mod tests;

pub use auto_batch::{AutoBatch, BatchDecision, LaunchSize, Wait};
pub use demand::{ChainObserved, Observed};

use crate::placement::{
    ChainDemand, Placement, PlacementError, PlacementPolicy, PlacementProblem, Site,
};
use crate::work_profile::{Measurement, WorkProfile};
use demand::Demand;

/// The load for which placements are made, as a factor of the present one.
const HEADROOM: f64 = 1.1;
/// Ticks for which an overload or a better placement must last.
const CONFIRMED: u32 = 2;
/// A share of flows that moves by less is no reason to change anything.
const SHARE_MOVED: f64 = 0.05;
/// The longest stay, as a factor of the shortest.
const STAYS_MAX: u64 = 16;

/// When the monitor decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonitorSettings {
    /// Time between ticks.
    pub tick_ns: u64,
    /// How long a placement stays, unless it is overloaded.
    pub stay_ns: u64,
    /// The part by which another placement must be better.
    pub gain: f64,
}

impl Default for MonitorSettings {
    fn default() -> Self {
        Self { tick_ns: 1_000_000_000, stay_ns: 10_000_000_000, gain: 0.1 }
    }
}

/// The limits of placements; see [`PlacementProblem`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacementLimits {
    /// The longest delay of a packet.
    pub delay_ns_max: Option<f64>,
    /// The most power of all devices.
    pub power_w_max: Option<f64>,
    /// Lanes of the CPU.
    pub lanes_max: usize,
}

/// Why the placement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There was none.
    Start,
    /// The policy changed.
    Policy,
    /// The last one did not carry the load.
    Overload,
    /// This one is better.
    Better,
}

/// See the module. One [`handle_tick`](Self::handle_tick) every [`MonitorSettings::tick_ns`].
#[derive(Debug)]
pub struct Monitor {
    settings: MonitorSettings,
    limits: PlacementLimits,
    profile: WorkProfile,
    demand: Demand,
    policy: PlacementPolicy,
    placed: Option<Placed>,
    policy_changed: bool,
    overloaded_ticks: u32,
    better_ticks: u32,
    /// The present stay, as a factor of the shortest.
    stays: u64,
    next_tick_ns: u64,
}

#[derive(Debug)]
struct Placed {
    placement: Placement,
    /// Packets a second of all chains for which it was made.
    packets_per_s: f64,
    since_ns: u64,
    reason: Reason,
}

impl Monitor {
    /// One without a placement. The first tick makes it.
    pub fn new(
        settings: MonitorSettings,
        limits: PlacementLimits,
        policy: PlacementPolicy,
        profile: WorkProfile,
        chains: Vec<ChainDemand>,
    ) -> Self {
        let window = (settings.stay_ns / settings.tick_ns.max(1)).clamp(1, 1024) as usize;
        Self {
            settings,
            limits,
            profile,
            demand: Demand::new(chains, window),
            policy,
            placed: None,
            policy_changed: false,
            overloaded_ticks: 0,
            better_ticks: 0,
            stays: 1,
            next_tick_ns: 0,
        }
    }

    /// The profile with all updates.
    pub fn profile(&self) -> &WorkProfile {
        &self.profile
    }

    /// The present placement.
    pub fn placement(&self) -> Option<&Placement> {
        self.placed.as_ref().map(|placed| &placed.placement)
    }

    /// When the next tick is due.
    pub fn poll_timeout(&self) -> u64 {
        self.next_tick_ns
    }

    /// Another policy, from the next tick.
    pub fn handle_policy(&mut self, policy: PlacementPolicy) {
        self.policy_changed |= policy != self.policy;
        self.policy = policy;
    }

    /// A period of all chains, and the figures of functions in it. Rates of figures are those at
    /// full use: the live rate over the share of time that the function took. Gives the reason if
    /// the placement changed.
    ///
    /// # Errors
    /// There is no placement; the present one stays.
    pub fn handle_tick(
        &mut self,
        chains: &[ChainObserved],
        figures: &[Measurement],
        now_ns: u64,
    ) -> Result<Option<Reason>, PlacementError> {
        self.next_tick_ns = now_ns.saturating_add(self.settings.tick_ns);
        self.demand.observe(chains);
        for figure in figures {
            self.learn(figure, chains);
        }
        let reason = self.urgent();
        let (next, reason) = match reason {
            Some(reason) => (Some(self.place(self.demand.latest())?), reason),
            None => (self.better(now_ns)?, Reason::Better),
        };
        let Some((placement, packets_per_s)) = next else { return Ok(None) };
        self.policy_changed = false;
        if self.placement().is_some_and(|old| is_alike(&old.sites, &placement.sites)) {
            return Ok(None);
        }
        (self.overloaded_ticks, self.better_ticks) = (0, 0);
        self.back_off(reason, now_ns);
        self.placed = Some(Placed { placement, packets_per_s, since_ns: now_ns, reason });
        Ok(Some(reason))
    }

    /// Takes a figure of a function in a chain that ran all the time.
    fn learn(&mut self, new: &Measurement, chains: &[ChainObserved]) {
        let is_running = |(demand, chain): (&ChainDemand, &ChainObserved)| {
            chain.observed == Observed::Running && demand.functions.contains(&new.pair.0)
        };
        if !self.demand.chains().iter().zip(chains).any(is_running) {
            return;
        }
        let mut new = *new;
        let old = self.profile.alone(new.pair, new.launch_packets, new.packet_len);
        if let (Some(old), None) = (old, new.beside) {
            let bounded = |new: f64, old: f64| new.clamp(old / 2.0, old * 2.0);
            new.figures.bits_per_s = bounded(new.figures.bits_per_s, old.bits_per_s);
            new.figures.latency_ns = bounded(new.figures.latency_ns, old.latency_ns);
        }
        // An unsound figure changes nothing.
        let _ = self.profile.merge(&new);
    }

    /// Whether to decide now, regardless of how long the placement stayed.
    fn urgent(&mut self) -> Option<Reason> {
        let Some(placed) = &self.placed else { return Some(Reason::Start) };
        let load = placed.placement.figures.load * self.demand.total() / placed.packets_per_s;
        self.overloaded_ticks = if load > 1.0 { self.overloaded_ticks + 1 } else { 0 };
        match (self.policy_changed, self.overloaded_ticks >= CONFIRMED) {
            (true, _) => Some(Reason::Policy),
            (_, true) => Some(Reason::Overload),
            _ => None,
        }
    }

    fn stay_ns(&self) -> u64 {
        self.settings.stay_ns.saturating_mul(self.stays)
    }

    /// Stays longer after a change for the better that an overload undoes.
    fn back_off(&mut self, reason: Reason, now_ns: u64) {
        let Some(placed) = &self.placed else { return };
        if reason == Reason::Overload && placed.reason == Reason::Better {
            let is_soon = now_ns.saturating_sub(placed.since_ns) <= self.stay_ns();
            self.stays = if is_soon { (2 * self.stays).min(STAYS_MAX) } else { 1 };
        }
    }

    /// A placement that has been better for long enough.
    fn better(&mut self, now_ns: u64) -> Result<Option<(Placement, f64)>, PlacementError> {
        let Some(placed) = &self.placed else { return Ok(None) };
        let stayed_ns = now_ns.saturating_sub(placed.since_ns);
        if stayed_ns < self.stay_ns() {
            return Ok(None);
        }
        let other = self.place(self.demand.peak())?;
        let own = self.fixed(&placed.placement, self.demand.peak())?;
        let is_better = !is_alike(&placed.placement.sites, &other.0.sites)
            && self.value(&other.0) < self.value(&own) * (1.0 - self.settings.gain);
        self.better_ticks = if is_better { self.better_ticks + 1 } else { 0 };
        Ok((self.better_ticks >= CONFIRMED).then_some(other))
    }

    /// The figure that the policy minimises.
    fn value(&self, placement: &Placement) -> f64 {
        match self.policy {
            PlacementPolicy::Energy => placement.figures.power_w.unwrap_or(f64::MAX),
            PlacementPolicy::Latency => placement.figures.delay_ns,
            _ => placement.figures.load,
        }
    }

    fn place(&self, rates: Vec<f64>) -> Result<(Placement, f64), PlacementError> {
        self.solve(self.policy.clone(), rates)
    }

    /// The present devices at other rates.
    fn fixed(&self, old: &Placement, rates: Vec<f64>) -> Result<Placement, PlacementError> {
        let devices = |sites: &Vec<Site>| sites.iter().map(|site| site.device).collect();
        let fixed = PlacementPolicy::Fixed(old.sites.iter().map(devices).collect());
        Ok(self.solve(fixed, rates)?.0)
    }

    fn solve(
        &self,
        policy: PlacementPolicy,
        rates: Vec<f64>,
    ) -> Result<(Placement, f64), PlacementError> {
        let chains = self.demand.at(&rates, HEADROOM);
        let PlacementLimits { delay_ns_max, power_w_max, lanes_max } = self.limits;
        let profile = &self.profile;
        let chains = &chains;
        let problem =
            PlacementProblem { profile, chains, policy, delay_ns_max, power_w_max, lanes_max };
        Ok((problem.place()?, rates.iter().sum::<f64>() * HEADROOM))
    }
}

/// Whether functions and flows stay where they are. Launch sizes may differ.
fn is_alike(old: &[Vec<Site>], new: &[Vec<Site>]) -> bool {
    let mut pairs = old.iter().flatten().zip(new.iter().flatten());
    pairs.all(|(old, new)| {
        old.device == new.device && (old.cpu_share - new.cpu_share).abs() < SHARE_MOVED
    })
}
