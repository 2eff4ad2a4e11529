//! From chains and a profile to a [`Scenario`]: places functions, plans their copies, and gives
//! each stage its costs. The decisions are those of `sched`.

mod place;
mod stages;
mod tenants;

use warpline_packet::Access;
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Mode, PauseMode};

use crate::load::Load;
use crate::model::{BusyReader, ChainModel, Cost, Scenario, ThreadWork};
use crate::profile_file::{ThreadTime, ThreadTimes, WorkFile};
use crate::traffic::{Arrivals, Traffic};
use crate::ways::Ways;
pub(crate) use place::Placed;
pub use tenants::{AskedSharing, AskedTenant};

/// A function of a chain.
#[derive(Clone, Debug)]
pub struct AskedFunction {
    /// The instance's name.
    pub name: String,
    /// The function's name, as the profile has it.
    pub kind: String,
    /// The device of the profile; `None` is chosen.
    pub device: Option<String>,
    /// Whether it has a stage of its own.
    pub own_stage: bool,
    /// Its launches.
    pub launches: AskedLaunches,
    /// The fields that it reads and writes.
    pub access: Access,
    /// Whether it is the second place of an instance, which takes the answers.
    pub is_second_place: bool,
    /// Whether it makes packets beside those that it gets.
    pub makes_packets: bool,
    /// Whether its kernels have findings.
    pub has_findings: bool,
}

/// Keys of a function's launches, where they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedLaunches {
    /// The most bytes of one.
    pub bytes: Option<u64>,
    /// The longest wait for packets.
    pub delay_ns: Option<u64>,
    /// The most in flight.
    pub in_flight: Option<usize>,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct AskedChain {
    /// Its name.
    pub name: String,
    /// In order.
    pub functions: Vec<AskedFunction>,
    /// How its copies are planned.
    pub mode: Mode,
    /// Whether queues pause the stages before them.
    pub pressure: PauseMode,
    /// Thousandths of a launch that a queue holds, if there are no pauses.
    pub queue: u32,
    /// Lanes that divide its traffic.
    pub lanes: usize,
    /// Packets of a batch.
    pub batch_packets: u64,
    /// The least packets of a launch by which the queue before the first stage is measured. That
    /// queue is between threads, so it is longer than others.
    pub first_launch_packets: u64,
    /// With routes, the functions that packets pass; without them, each passes all.
    pub ways: Option<Ways>,
    /// The tenant that it is, maybe with other chains; without one it is a tenant alone.
    pub tenant: Option<AskedTenant>,
}

/// The chains to simulate.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The costs.
    pub file: &'a WorkFile,
    /// The chains, each with the load.
    pub chains: Vec<AskedChain>,
    /// Their traffic.
    pub load: Load,
    /// Copies of all chains that share the devices.
    pub tenants: usize,
    /// Who gets a device next; without it launches follow each other.
    pub sharing: Option<AskedSharing>,
    /// How functions without a device are placed.
    pub placement: PlacementPolicy,
    /// The simulated time; that of a capture or of steps, or a second, unless stated.
    pub lasts_ns: Option<u64>,
    /// Of random numbers.
    pub seed: u64,
}

/// A scenario, and the decisions that led to it.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// To be run.
    pub scenario: Scenario,
    /// A line for each function: where it runs, and by which launches.
    pub decisions: Vec<String>,
    /// By chain of the scenario: its chain and its tenant.
    pub origins: Vec<(usize, usize)>,
    /// By device, the names of its tenants.
    pub tenants: Vec<Vec<String>>,
}

/// The longest that ingress keeps the first packet of a batch, unless the profile has it.
const BATCH_DELAY_NS: u64 = 20_000;
/// How long after its last rest a reader is busy, and the most by which it slows its lane down.
const BUSY_AFTER_NS: u64 = 1_000_000;
const FACTOR_MOST: f64 = 8.0;
const SECOND_NS: u64 = 1_000_000_000;

impl Asked<'_> {
    /// Makes the scenario.
    ///
    /// # Errors
    /// A function or device that the profile does not have, named.
    pub fn assemble(&self) -> Result<Assembled, String> {
        self.check_tenants()?;
        let natural_ns = self.natural_ns();
        let lasts_ns = self.lasts_ns.or(natural_ns).unwrap_or(SECOND_NS);
        let mut scenario = Scenario::new(lasts_ns, self.seed);
        if natural_ns.is_some() {
            scenario.warm_up_ns = 0;
        }
        // A capture is often shorter than the delay of its packets.
        let is_capture = matches!(self.load.traffic.arrivals, Arrivals::Replay(_));
        scenario.measures_drain = is_capture && self.lasts_ns.is_none();
        let placed = place::place(self)?;
        let decisions = place::decisions(self, &placed);
        let count = self.chains.len() * self.tenants;
        let (seats, _) = self.seats();
        scenario.cpu_power = self.file.work.devices()[0].power;
        scenario.lanes = 0;
        if let Some(times) = &self.file.threads {
            scenario.cores = Some(times.cores.into());
            scenario.lane_wake_ns = times.lane.wake_ns as u64;
            scenario.timer_late_ns = times.timer_late_ns.iter().map(|&ns| ns as u64).collect();
            scenario.wake_late_ns = times.wake_late_ns as u64;
            scenario.ring_ns = times.ring_ns as u64;
            let devices = 1..self.file.work.devices().len();
            scenario.device_threads = devices.map(|at| times.threads_of(at)).collect();
            // One reads for each chain, and one sends.
            scenario.threads = 2 * count;
        }
        let mut origins = Vec::new();
        for tenant in 0..self.tenants {
            for (number, chain) in self.chains.iter().enumerate() {
                let user = tenant * self.chains.len() + number;
                for lane in 0..chain.lanes.max(1) {
                    let own = (scenario.lanes, user, seats[user]);
                    let placed = placed[number].of_lane(lane, chain.lanes.max(1));
                    let model = self.chain(chain, &placed, own, lane)?;
                    scenario.chains.push(model);
                    scenario.lanes += 1;
                    origins.push((number, tenant));
                }
            }
        }
        let (devices, tenants) = self.devices(&mut scenario.chains);
        scenario.devices = devices;
        Ok(Assembled { scenario, decisions, origins, tenants })
    }

    /// The length of traffic that has an end.
    fn natural_ns(&self) -> Option<u64> {
        match &self.load.traffic.arrivals {
            Arrivals::Replay(all) => Some(all.last().map_or(1, |(at_ns, _)| at_ns + 1)),
            Arrivals::Steps(steps) => Some(steps.iter().map(|(ns, _)| ns).sum()),
            _ => None,
        }
    }

    fn chain(
        &self,
        chain: &AskedChain,
        placed: &Placed,
        (lane, user, seat): (usize, usize, usize),
        number: usize,
    ) -> Result<ChainModel, String> {
        let times = self.file.threads.as_ref();
        let rate = self.packets_per_s();
        let rest_ns = match self.load.batch {
            Some(batch) => Some((batch - 1.0) * 1e9 / rate.max(1e-3)),
            None => times.and_then(|times| times.rest_ns(rate)),
        };
        Ok(ChainModel {
            name: chain.name.clone(),
            traffic: divided(&self.load.traffic, number, chain.lanes.max(1)),
            batch_packets: chain.batch_packets,
            batch_delay_ns: rest_ns.map_or(BATCH_DELAY_NS, |rest_ns| rest_ns as u64),
            stages: stages::stages(self, chain, placed, (lane, seat))?,
            pressure: chain.pressure,
            queue: match chain.pressure {
                PauseMode::Off => chain.queue,
                // It waits at its marks before.
                PauseMode::On(_) => u32::MAX,
            },
            full_drops: false,
            signal_ns: 0,
            source_waits: self.load.waits,
            ring: self.ring(),
            reader: times.map(|times| {
                let read = self.read_time(times, placed);
                let busy = self.busy_reader(times, placed);
                ThreadWork { busy, ..thread_work(2 * user, &read) }
            }),
            sender: times.map(|times| thread_work(2 * user + 1, &times.send)),
            unrouted: chain.ways.as_ref().map_or(0.0, Ways::unrouted),
        })
    }
}

impl Asked<'_> {
    /// Packets that may wait before a source that loses others. A reader that rests finds the
    /// packet for which it wakes.
    fn ring(&self) -> Option<u64> {
        let least = u64::from(self.file.threads.is_some());
        Some(self.load.ring.max(least)).filter(|ring| !self.load.waits && *ring > 0)
    }

    /// The time of reading beside the functions of a chain: that with the one that delays it most.
    fn read_time(&self, times: &ThreadTimes, placed: &Placed) -> ThreadTime {
        let len = u64::from(self.packet_len());
        let pairs = placed.functions.iter().zip(&placed.sites);
        let with = pairs.filter_map(|(&function, site)| times.with((function, site.device)));
        let all = with.map(|one| one.read).chain([times.read.cost]);
        let cost = all.max_by(|one, other| one.ps(1, len).total_cmp(&other.ps(1, len)));
        ThreadTime { cost: cost.unwrap_or_default(), ..times.read }
    }
}

impl Asked<'_> {
    /// The costs of a reader that never rests and of its lane, by the function that delays the
    /// reader most.
    fn busy_reader(&self, times: &ThreadTimes, placed: &Placed) -> Option<BusyReader> {
        let len = u64::from(self.packet_len());
        let pairs = placed.functions.iter().zip(&placed.sites);
        let with = pairs.filter_map(|(&function, site)| times.with((function, site.device)));
        let ps = |cost: Cost| cost.ps(1, len);
        let most = with.max_by(|one, other| ps(one.full[0]).total_cmp(&ps(other.full[0])))?;
        let factor = ps(most.full[1]) / ps(most.lane).max(1.0);
        let lane_factor = factor.clamp(1.0 / FACTOR_MOST, FACTOR_MOST);
        Some(BusyReader { after_ns: BUSY_AFTER_NS, cost: most.full[0], lane_factor })
    }
}

fn thread_work(thread: usize, time: &ThreadTime) -> ThreadWork {
    ThreadWork { thread, cost: time.cost, wake_ns: time.wake_ns as u64, busy: None }
}

/// The part of lane `number` of `lanes`.
fn divided(traffic: &Traffic, number: usize, lanes: usize) -> Traffic {
    let part = |rate: f64| rate / lanes as f64;
    let arrivals = match &traffic.arrivals {
        Arrivals::Constant(rate) => Arrivals::Constant(part(*rate)),
        Arrivals::Poisson(rate) => Arrivals::Poisson(part(*rate)),
        Arrivals::OnOff { rate, on_ns, off_ns } => {
            Arrivals::OnOff { rate: part(*rate), on_ns: *on_ns, off_ns: *off_ns }
        }
        Arrivals::Steps(steps) => {
            Arrivals::Steps(steps.iter().map(|&(ns, rate)| (ns, part(rate))).collect())
        }
        Arrivals::Replay(all) => {
            Arrivals::Replay(all.iter().skip(number).step_by(lanes).copied().collect())
        }
    };
    Traffic { arrivals, size: traffic.size }
}
