//! The monitor: compares live rates with the profile once a tick, updates the profile, and decides
//! the placement again. It follows the monitor of `Pythia` (section IV) and adds bounds against
//! flapping.
//!
//! - New figures move an entry of the profile by at most a factor of two a tick, by weight of
//!   evidence. A paused period measures the traffic, not the device, so it is ignored. So is the
//!   throughput of a starved one; the time of its launches counts.
//! - A source that is held by pauses, or loses packets for want of room, shows an overload, even if
//!   the profile has none. After two ticks the figures of its chain count as slower, so that it may
//!   move.
//! - An overload that lasts two ticks leads to a placement that carries more at once.
//! - Otherwise a placement stays for [`MonitorSettings::stay_ns`]. Another one must then be better
//!   by [`MonitorSettings::gain`] at the highest rate in that time, or exceed fewer limits, for two
//!   ticks.
//! - If an overload soon undoes such a change, the next stay is twice as long, up to 16 times.
//! - A new policy applies at the next tick.
//! - Devices that refused a move are chosen again after the shortest stay, then after twice as long
//!   each time, up to 16 times.
//! - Launch sizes and deadlines follow the latest rates without a move ([`Monitor::launches`]).
//!
//! Placements are made for a load that is higher than the present one by a tenth.
//! A search that finds no change is repeated after the shortest stay, or if a rate moves by 5 %.

mod auto_batch;
mod decision;
mod demand;
mod held;
mod launches;
mod load;
mod refused;
mod renewed;
mod settings;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use auto_batch::{AutoBatch, BatchDecision, LaunchSize, Wait};
pub use decision::{Decision, Reason};
pub use demand::{ChainObserved, Observed};
pub use held::HeldSource;
pub use settings::{MonitorSettings, PlacementLimits};

use crate::placement::{
    ChainDemand, Missed, Placement, PlacementError, PlacementPolicy, PlacementProblem, Site,
};
use crate::work_profile::{Measurement, WorkProfile};
use demand::Demand;
use held::Slower;
use launches::{KnownLaunches, is_near};
use load::KnownLoad;
use refused::Refused;

/// The load for which placements are made, as a factor of the present one.
const HEADROOM: f64 = 1.1;
/// Ticks for which an overload or a better placement must last.
const CONFIRMED: u32 = 2;
/// A share of flows that moves by less is no reason to change anything.
const SHARE_MOVED: f64 = 0.05;
/// A rate that moves by less is no reason to search again.
const RATE_MOVED: f64 = 0.05;
/// The longest stay, as a factor of the shortest.
const STAYS_MAX: u64 = 16;

/// See the module. One [`handle_tick`](Self::handle_tick) every [`MonitorSettings::tick_ns`].
#[derive(Debug)]
pub struct Monitor {
    settings: MonitorSettings,
    limits: PlacementLimits,
    profile: WorkProfile,
    slower: Slower,
    demand: Demand,
    policy: PlacementPolicy,
    placed: Option<Placed>,
    /// The placement before the last decision, until the next tick.
    former: Option<Former>,
    refused: Option<Refused>,
    decision: Option<Decision>,
    /// Why it decides at the next tick.
    asked: Option<Reason>,
    overloaded_ticks: u32,
    better_ticks: u32,
    /// The present stay, as a factor of the shortest.
    stays: u64,
    settled: Option<Settled>,
    searches: u64,
    known_load: Option<KnownLoad>,
    known_launches: Option<KnownLaunches>,
    next_tick_ns: u64,
}

#[derive(Debug)]
struct Placed {
    placement: Placement,
    since_ns: u64,
    reason: Reason,
}

/// The placement before a decision, if there was one.
#[derive(Debug)]
struct Former(Option<Placed>);

/// A search that found no change.
#[derive(Debug)]
struct Settled {
    reason: Reason,
    rates: Vec<f64>,
    now_ns: u64,
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
            slower: Slower::default(),
            demand: Demand::new(chains, window),
            policy,
            placed: None,
            former: None,
            refused: None,
            decision: None,
            asked: None,
            overloaded_ticks: 0,
            better_ticks: 0,
            stays: 1,
            settled: None,
            searches: 0,
            known_load: None,
            known_launches: None,
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

    /// How often it searched for a placement.
    pub fn searches(&self) -> u64 {
        self.searches
    }

    /// When the next tick is due.
    pub fn poll_timeout(&self) -> u64 {
        self.next_tick_ns
    }

    /// Decides by this policy at the next tick.
    pub fn handle_policy(&mut self, policy: PlacementPolicy) {
        self.asked = Some(Reason::Policy);
        self.refused = None;
        self.known_launches = None;
        self.policy = policy;
    }

    /// The mean length of a chain's frames in the period that comes next, in bytes.
    pub fn handle_packet_len(&mut self, chain: usize, bytes: u32) {
        if bytes > 0 && self.demand.observe_len(chain, bytes) {
            (self.known_load, self.known_launches, self.settled) = (None, None, None);
        }
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
        self.observe(chains, figures);
        self.accept();
        let held: Vec<_> = chains.iter().map(|chain| chain.held).collect();
        self.handle_held(&held, now_ns);
        let urgent = self.urgent(now_ns);
        let rates = match urgent {
            Some(_) => self.demand.latest(),
            None => self.demand.peak(),
        };
        let reason = urgent.unwrap_or(Reason::Better);
        let is_due = urgent.is_some() || self.has_stayed(now_ns);
        if !is_due || self.is_settled(reason, &rates, now_ns) {
            return Ok(None);
        }
        self.searches += 1;
        self.known_load = None;
        let next = match urgent {
            Some(Reason::Overload) => self.relief(&rates)?,
            Some(_) => Some(self.solve(None, &rates)?),
            None => self.better(&rates)?,
        };
        let is_asked = self.asked.take().is_some();
        let next = next.filter(|next| self.may_move(next, now_ns));
        let Some(placement) = next else {
            let is_undecided = self.better_ticks == 1 || is_asked;
            self.settled = (!is_undecided).then_some(Settled { reason, rates, now_ns });
            return Ok(None);
        };
        self.settled = None;
        self.decision = Some(self.explain(reason, &placement, &rates));
        (self.overloaded_ticks, self.better_ticks) = (0, 0);
        self.back_off(reason, now_ns);
        let placed = Placed { placement, since_ns: now_ns, reason };
        self.former = Some(Former(self.placed.replace(placed)));
        Ok(Some(reason))
    }

    /// Takes a period of all chains and learns from it, without a decision.
    pub fn observe(&mut self, chains: &[ChainObserved], figures: &[Measurement]) {
        self.demand.observe(chains);
        for figure in figures {
            self.learn(figure, chains);
        }
    }

    /// Whether to decide now, regardless of how long the placement stayed.
    fn urgent(&mut self, now_ns: u64) -> Option<Reason> {
        if self.placed.is_none() {
            return Some(Reason::Start);
        }
        let is_full = self.present_load() > 1.0;
        let is_over = is_full || self.slower.is_any_held();
        self.overloaded_ticks = if is_over { self.overloaded_ticks + 1 } else { 0 };
        let is_overloaded = is_full && self.overloaded_ticks >= CONFIRMED;
        self.asked
            .or_else(|| self.refused_request(now_ns))
            .or(is_overloaded.then_some(Reason::Overload))
    }

    fn stay_ns(&self) -> u64 {
        self.settings.stay_ns.saturating_mul(self.stays)
    }

    fn has_stayed(&self, now_ns: u64) -> bool {
        let since = self.placed.as_ref().map_or(now_ns, |placed| placed.since_ns);
        now_ns.saturating_sub(since) >= self.stay_ns()
    }

    /// Stays longer after a change for the better that an overload undoes.
    fn back_off(&mut self, reason: Reason, now_ns: u64) {
        let Some(placed) = &self.placed else { return };
        if reason == Reason::Overload && placed.reason == Reason::Better {
            let is_soon = now_ns.saturating_sub(placed.since_ns) <= self.stay_ns();
            self.stays = if is_soon { (2 * self.stays).min(STAYS_MAX) } else { 1 };
        }
    }

    /// Whether the last search found no change, a short time ago at nearly the same rates.
    fn is_settled(&self, reason: Reason, rates: &[f64], now_ns: u64) -> bool {
        self.asked.is_none()
            && self.settled.as_ref().is_some_and(|last| {
                last.reason == reason
                    && !self.is_retry_due(last.now_ns, now_ns)
                    && now_ns.saturating_sub(last.now_ns) < self.settings.stay_ns
                    && is_near(&last.rates, rates)
            })
    }

    /// A placement that carries all packets at `rates`, or clearly more than the present one.
    fn relief(&self, rates: &[f64]) -> Result<Option<Placement>, PlacementError> {
        let Some(placed) = &self.placed else { return Ok(None) };
        let other = self.solve(None, rates)?;
        let own = self.fixed(&placed.placement, rates)?.figures.load;
        let load = other.figures.load;
        Ok((load <= 1.0 || load < own * (1.0 - self.settings.gain)).then_some(other))
    }

    /// A placement that has been better at `rates` for long enough.
    fn better(&mut self, rates: &[f64]) -> Result<Option<Placement>, PlacementError> {
        let Some(placed) = &self.placed else { return Ok(None) };
        let other = self.solve(None, rates)?;
        let own = self.fixed(&placed.placement, rates)?;
        let exceeded = |one: &Placement| {
            let limits = one.missed.iter().filter(|missed| **missed != Missed::Load);
            limits.count()
        };
        let gains = match exceeded(&other).cmp(&exceeded(&own)) {
            Ordering::Less => true,
            Ordering::Equal => self.value(&other) < self.value(&own) * (1.0 - self.settings.gain),
            Ordering::Greater => false,
        };
        let is_better = gains && !is_alike(&placed.placement.sites, &other.sites);
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

    /// The best placement at `rates`, on these devices if they are given.
    fn solve(
        &self,
        devices: Option<Vec<Vec<usize>>>,
        rates: &[f64],
    ) -> Result<Placement, PlacementError> {
        let chains = self.demand.at(rates, HEADROOM);
        let only = |own: Vec<usize>| own.into_iter().map(|device| vec![device]).collect();
        let PlacementLimits { delay_ns_max, power_w_max, lanes_max, cores } = self.limits;
        let problem = PlacementProblem {
            profile: &self.effective(),
            chains: &chains,
            policy: self.policy.clone(),
            devices: devices.map(|all| all.into_iter().map(only).collect()),
            delay_ns_max,
            power_w_max,
            lanes_max,
            cores,
        };
        problem.place()
    }
}

/// Whether functions and flows stay where they are. Launch sizes may differ.
fn is_alike(old: &[Vec<Site>], new: &[Vec<Site>]) -> bool {
    let mut pairs = old.iter().flatten().zip(new.iter().flatten());
    pairs.all(|(old, new)| {
        old.device == new.device && (old.cpu_share - new.cpu_share).abs() < SHARE_MOVED
    })
}
