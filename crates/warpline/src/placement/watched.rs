//! A chain of the monitor, from one tick to the next.

use warpline_engine::{Deployment, MachineChain};
use warpline_sched::monitor::ChainObserved;
use warpline_sched::placement::ChainDemand;
use warpline_sched::work_profile::{Measurement, WorkProfile};

use super::device_figures::{busy, periods};
use super::device_of;
use super::figures::{ChainCounts, learned};
use crate::chain_file::Loaded;
use crate::machine_profile::CPU_NAME;

/// See the module.
pub(super) struct Watched {
    batch_packets: u32,
    seen: ChainCounts,
    pub(super) lanes: usize,
    /// The mean length of frames in the last period with packets.
    pub(super) mean_len: Option<f64>,
    /// By position, the function's device at the last tick.
    devices: Vec<String>,
}

/// A period of a chain.
pub(super) struct Period {
    pub(super) chain: ChainObserved,
    /// Of functions that were busy.
    pub(super) figures: Vec<Measurement>,
    /// The part of the time in which a stage had a launch in flight, with its device.
    pub(super) busy: Vec<(String, f64)>,
}

/// The profile by which functions and devices have numbers, and the devices of all chains' stages.
pub(super) struct Known<'a> {
    pub(super) profile: &'a WorkProfile,
    pub(super) devices: &'a [String],
    pub(super) in_use: &'a [String],
}

impl Watched {
    pub(super) fn new(loaded: &Loaded) -> Self {
        Self {
            batch_packets: loaded.settings.batch_packets as u32,
            seen: ChainCounts::default(),
            lanes: loaded.deployment.plan().lanes,
            mean_len: None,
            devices: Vec::new(),
        }
    }

    /// The period of `seconds` since the last call.
    pub(super) fn observe(
        &mut self,
        (live, deployment): (&MachineChain, &Deployment),
        demand: &ChainDemand,
        known: &Known<'_>,
        seconds: f64,
    ) -> Period {
        let report = live.control.snapshot(deployment).report;
        let seen = ChainCounts::of(&report.part);
        let period = seen.since(&self.seen);
        self.seen = seen;
        let len = period.bytes as f64 / period.read.max(1) as f64;
        self.mean_len = (period.read > 0).then_some(len).or(self.mean_len);
        let devices = deployment.sites().iter().map(|own| device_of(own).to_owned()).collect();
        let has_stayed = std::mem::replace(&mut self.devices, devices) == self.devices;
        let (mut figures, mut is_full) = (Vec::new(), false);
        // A period with a move measures two placements.
        if has_stayed {
            let on_devices = periods(deployment, known.in_use, &period, report.lanes);
            is_full = on_devices.iter().any(|one| one.is_full(seconds));
            figures.extend(on_devices.iter().filter_map(|one| {
                let own = &self.devices[one.position];
                let device = known.devices.iter().position(|name| name == own)?;
                one.learned(known.profile, (demand.functions[one.position], device), seconds)
            }));
            // On a device, the CPU's time is that of a part of the work.
            let functions = demand.functions.iter().zip(&period.functions).zip(&self.devices);
            let at = (self.batch_packets, len);
            let on_cpu = functions.filter(|(_, device)| *device == CPU_NAME);
            figures.extend(
                on_cpu.filter_map(|((&one, &work), _)| learned(known.profile, one, at, work)),
            );
        }
        let busy = busy(deployment, &period, (report.lanes, seconds));
        let is_paused = live.control.is_paused();
        let chain = period.observed(seconds, (report.lanes, is_full), is_paused);
        Period { chain, figures, busy }
    }
}
