//! The monitor of a run: each second it decides the placement again, by the live rates.
//!
//! The thread for reloads carries its decisions out. While functions stay where a client placed
//! them, it only observes.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use warpline_engine::MachineChain;
use warpline_sched::monitor::{ChainObserved, Monitor, MonitorSettings};
use warpline_sched::placement::Site;
use warpline_sched::work_profile::Measurement;

use super::device_figures::in_use;
use super::device_of;
use super::launches::{Launches, delay, lanes_of, launch_max};
use super::live_power::{LivePower, PowerSeen};
use super::proposals::{Move, Proposal, Refusal};
use super::terms::{Terms, terms};
use super::watched::{Known, Period, Watched};
use crate::chain_file::Loaded;
use crate::ctl::{Live, Renewed};
use crate::moves;
use crate::reload::LOOK_EVERY;

/// See the module.
pub(crate) struct LiveMonitor {
    monitor: Monitor,
    policy: &'static str,
    terms: Terms,
    /// Whether a reload left it no choice.
    is_off: bool,
    chains: Vec<Watched>,
    power: LivePower,
}

/// The monitor for a run of `chains`, if a profile chose devices for them and the policy leaves a
/// choice.
pub(crate) fn monitor(chains: &[&Loaded]) -> Option<LiveMonitor> {
    let placement = chains.first()?.chosen.as_ref()?.all.placement.clone();
    let terms = terms(chains)?;
    let watched = chains.iter().map(|loaded| Watched::new(loaded));
    let Terms { policy, limits, work, demands, .. } = terms.clone();
    let name = policy.name();
    let mut monitor = Monitor::new(MonitorSettings::default(), limits, policy, work, demands);
    monitor.handle_placement(placement, 0);
    let (power, chains) = (LivePower::open(&terms.devices), watched.collect());
    Some(LiveMonitor { monitor, policy: name, terms, is_off: false, chains, power })
}

impl LiveMonitor {
    /// The aim of its decisions.
    pub(crate) fn policy(&self) -> &'static str {
        self.policy
    }

    /// The basis of its decisions.
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Takes what a reload or a client changed.
    fn take_changes(&mut self, live: &Live, now: Duration) {
        let now_ns = now.as_nanos() as u64;
        if let Some(Renewed(terms)) = live.take_terms() {
            self.is_off = terms.is_none();
            if let Some(terms) = terms {
                self.renew(terms);
                live.proposals().follow(self.policy);
                self.monitor.handle_devices(self.sites(live.chains()).as_deref(), now_ns);
            }
        }
        if live.take_moved_in_part() && !live.is_by_hand() {
            self.monitor.handle_devices(self.sites(live.chains()).as_deref(), now_ns);
        }
        if let Some(policy) = live.take_policy() {
            self.policy = policy.name();
            live.proposals().follow(self.policy);
            self.monitor.handle_devices(self.sites(live.chains()).as_deref(), now_ns);
            self.monitor.handle_policy(policy);
        }
    }

    /// A client's policy stays unless the file names another one than before.
    fn renew(&mut self, mut terms: Terms) {
        terms.keep_lanes(&self.terms);
        if terms.policy != self.terms.policy {
            self.policy = terms.policy.name();
            self.monitor.handle_policy(terms.policy.clone());
        }
        let Terms { work, limits, demands, .. } = terms.clone();
        self.monitor.handle_profile(work, limits, demands);
        if terms.devices != self.terms.devices {
            self.power = LivePower::open(&terms.devices);
        }
        self.terms = terms;
    }

    /// Decides once a second until the run is over. A wake-up ends it at once.
    pub(crate) fn serve(mut self, live: &Live) {
        let tick = Duration::from_nanos(MonitorSettings::default().tick_ns);
        let (started, mut last) = (Instant::now(), Instant::now());
        while !live.machine().is_over() {
            let since = last.elapsed();
            if since < tick {
                thread::park_timeout(tick - since);
                continue;
            }
            last = Instant::now();
            let now = started.elapsed();
            self.take_changes(live, now);
            let (observed, figures) = self.observe(live.chains(), since);
            if self.is_off || live.is_by_hand() {
                self.monitor.observe(&observed, &figures);
            } else if let Some(mut proposal) = self.decide(live.chains(), &observed, &figures, now)
            {
                let result = carry_out(live, proposal.moves.clone());
                proposal.refused = result.err().map(|why| self.refusal(why, now));
                live.proposals().add(proposal);
            }
            self.follow_rates(live.chains());
        }
    }

    /// Sets the launches of functions that are where the placement has them.
    fn follow_rates(&mut self, chains: &[Arc<MachineChain>]) {
        let sites = self.monitor.launches().map(<[_]>::to_vec).unwrap_or_default();
        let all = sites.iter().zip(chains).zip(&self.chains).zip(&self.terms.autos);
        for (((sites, live), watched), autos) in all {
            let deployment = live.deployment();
            let both = sites.iter().zip(deployment.sites()).zip(autos).enumerate();
            for (position, ((site, own), auto)) in both {
                let (Some(auto), Some(len)) = (auto, watched.mean_len) else { continue };
                let device = self.device(site, watched.lanes);
                if own.on_device.is_some() && device_of(own) == device {
                    let decided = Launches {
                        device: &device,
                        packets: site.launch_packets,
                        packets_max: site.launch_packets,
                        delay: delay(site.deadline_ns),
                        lanes: usize::MAX,
                    };
                    let (bytes, delay) = auto.target(&decided, len as u32);
                    deployment.set_launches(position, bytes, delay);
                }
            }
        }
    }

    /// The devices on which functions are, and the share of flows that the CPU takes. `None` if the
    /// profile lacks one.
    fn sites(&self, chains: &[Arc<MachineChain>]) -> Option<Vec<Vec<(usize, f64)>>> {
        let of_chain = |(live, watched): (&Arc<MachineChain>, &Watched)| {
            let deployment = live.deployment();
            let of = |site: &warpline_engine::Site| {
                let mut devices = self.terms.devices.iter();
                let device = devices.position(|name| name == device_of(site))?;
                let lanes = own_lanes(site).min(watched.lanes) as f64;
                Some((device, 1.0 - lanes / watched.lanes.max(1) as f64))
            };
            deployment.sites().iter().map(of).collect()
        };
        chains.iter().zip(&self.chains).map(of_chain).collect()
    }

    /// A move that was refused at `now`.
    fn refusal(&mut self, why: String, now: Duration) -> Refusal {
        let wait_ns = self.monitor.handle_refusal(now.as_nanos() as u64);
        Refusal { why, retry_s: wait_ns as f64 / 1e9 }
    }

    /// The chains in a period of `since`, and figures of functions that were busy in it.
    fn observe(
        &mut self,
        chains: &[Arc<MachineChain>],
        since: Duration,
    ) -> (Vec<ChainObserved>, Vec<Measurement>) {
        let seconds = since.as_secs_f64();
        let deployments: Vec<_> = chains.iter().map(|live| live.deployment()).collect();
        let (in_use, devices) = (in_use(&deployments), &self.terms.devices);
        let known = Known { profile: self.monitor.profile(), devices, in_use: &in_use };
        let both = self.chains.iter_mut().zip(&self.terms.demands);
        let both = both.zip(chains.iter().zip(&deployments));
        let periods: Vec<Period> = both
            .map(|((watched, demand), (live, own))| {
                watched.observe((live, own), demand, &known, seconds)
            })
            .collect();
        let busy = |device: &String| {
            let all = periods.iter().flat_map(|period| &period.busy);
            all.filter(|own| own.0 == *device).map(|own| own.1).fold(0.0, f64::max)
        };
        let busy: Vec<f64> = devices.iter().map(busy).collect();
        for PowerSeen { device, watts, load } in self.power.read(&busy) {
            self.monitor.handle_power(device, watts, load);
        }
        for (chain, watched) in self.chains.iter().enumerate() {
            let len = watched.mean_len.unwrap_or(0.0).round() as u32;
            self.monitor.handle_packet_len(chain, len);
        }
        let observed = periods.iter().map(|period| period.chain).collect();
        (observed, periods.into_iter().flat_map(|period| period.figures).collect())
    }

    /// Decides after a period.
    fn decide(
        &mut self,
        chains: &[Arc<MachineChain>],
        observed: &[ChainObserved],
        figures: &[Measurement],
        now: Duration,
    ) -> Option<Proposal> {
        // Without a placement for the new rates the last one stays.
        let changed = self.monitor.handle_tick(observed, figures, now.as_nanos() as u64);
        changed.ok().flatten()?;
        self.proposal(chains, now)
    }

    /// The last decision, beside the devices on which functions are.
    fn proposal(&self, chains: &[Arc<MachineChain>], now: Duration) -> Option<Proposal> {
        let decision = self.monitor.decision()?.clone();
        let placement = self.monitor.placement()?;
        let mut moves = Vec::new();
        let described = self.chains.iter().zip(&self.terms.demands).zip(&self.terms.autos);
        let all = placement.sites.iter().zip(chains).zip(described);
        for ((sites, live), ((watched, demand), autos)) in all {
            let deployment = live.deployment();
            let all = sites.iter().zip(deployment.instances()).zip(autos).enumerate();
            for (position, ((site, (instance, own)), _)) in
                all.filter(|(_, (_, auto))| auto.is_some())
            {
                let (from, to) = (device_of(own), self.device(site, watched.lanes));
                let lanes = lanes_of(site, watched.lanes);
                if (from, own_lanes(own)) != (&*to, lanes) {
                    moves.push(Move {
                        chain: live.name.clone(),
                        function: instance.name.clone(),
                        from: from.into(),
                        to,
                        launch_packets: site.launch_packets,
                        launch_packets_max: launch_max(
                            self.monitor.profile(),
                            demand.functions[position],
                            site,
                            demand.packet_len,
                        ),
                        delay: delay(site.deadline_ns),
                        lanes,
                    });
                }
            }
        }
        let deciding = decision.deciding.map(|own| {
            let function = chains.get(own.chain).and_then(|live| {
                Some(live.deployment().chain().instances.get(own.position)?.name.clone())
            });
            (function.unwrap_or_default(), own.chosen.bits_per_s, own.other.bits_per_s)
        });
        Some(Proposal { seconds: now.as_secs_f64(), decision, moves, refused: None, deciding })
    }

    /// The device of a site.
    fn device(&self, site: &Site, lanes: usize) -> String {
        self.terms.devices[site.device_with(lanes)].clone()
    }
}

/// The lanes of a function that use its device; 0 on the CPU.
fn own_lanes(site: &warpline_engine::Site) -> usize {
    site.on_device.as_ref().map_or(0, |on| on.launches.lanes)
}

/// Moves functions, which the thread for reloads does.
fn carry_out(live: &Live, moves: Vec<Move>) -> Result<(), String> {
    if moves.is_empty() {
        return Ok(());
    }
    let result = live.ask_move(moves::Move::Proposed(moves));
    loop {
        match result.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result.map(drop),
            Err(RecvTimeoutError::Timeout) if !live.machine().is_over() => {}
            Err(_) => return Err("the chains have ended".into()),
        }
    }
}
