//! A choice of devices for all chains of a file.

use warpline_sched::placement::{Placement, PlacementPolicy, PlacementProblem};
use warpline_sched::work_profile::CPU;

use super::demands::{Demands, Scope};
use super::launches::{Launches, delay, lanes_of, launch_max};
use super::{PlacementTable, Policy, Unknown};
use crate::chain_file::Loaded;

/// The devices that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// Those of this machine.
    Here,
    /// Those of the profile, if it may be of another machine.
    OfProfile,
}

/// The input of choices.
pub(crate) struct Basis {
    pub(super) demands: Demands,
    pub(super) policy: PlacementPolicy,
    pub(super) delay_us_max: Option<f64>,
    pub(super) power_w_max: Option<f64>,
    pub(super) lanes_max: usize,
    /// By chain.
    pub(super) lanes: Vec<usize>,
}

/// The choice for all chains of a file.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) policy: &'static str,
    pub(crate) load_gbps: f64,
    pub(crate) placement: Placement,
    /// By chain and position, the packets of the largest launch that may be chosen later.
    launches_max: Vec<Vec<u32>>,
    /// By chain.
    lanes: Vec<usize>,
    /// Devices by number.
    pub(crate) devices: Vec<String>,
    /// Functions that were never measured where they stay.
    pub(crate) unknown: Vec<Unknown>,
}

impl PlacementTable {
    /// The input for choices of `chains`, if there is a profile. With `fixed` as the policy it is
    /// that of `throughput`.
    pub(crate) fn basis(&self, chains: &[&Loaded], devices: Devices) -> Option<Basis> {
        let policy = match &self.policy {
            Policy::Of(policy) => policy.clone(),
            Policy::Fixed => PlacementPolicy::Throughput,
        };
        let scope = Scope {
            load_gbps: self.load_gbps,
            cpu_devices: self.cpu_devices,
            absent_devices: devices == Devices::OfProfile && self.is_foreign,
        };
        let lanes: Vec<usize> = chains.iter().map(|chain| chain.deployment.plan().lanes).collect();
        let cores = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        Some(Basis {
            demands: Demands::of(self.profile.as_ref()?, chains, scope),
            policy,
            delay_us_max: self.delay_us_max,
            power_w_max: self.power_w_max,
            lanes_max: lanes.iter().sum::<usize>().clamp(1, cores),
            lanes,
        })
    }
}

impl Basis {
    /// The longest delay that the table allows.
    pub(crate) fn delay_us_max(&self) -> Option<f64> {
        self.delay_us_max
    }

    /// The choice for chains that get `load_gbps` each.
    ///
    /// # Errors
    /// The chains do not fit the profile.
    pub(crate) fn choose(
        &self,
        load_gbps: f64,
        delay_us_max: Option<f64>,
    ) -> Result<Choice, String> {
        let chains = self.demands.at(load_gbps);
        let problem = PlacementProblem {
            profile: &self.demands.work,
            chains: &chains,
            policy: self.policy.clone(),
            devices: None,
            delay_ns_max: delay_us_max.map(|us| us * 1e3),
            power_w_max: self.power_w_max,
            lanes_max: self.lanes_max,
            cores: self.demands.cores,
        };
        let placement = problem.place().map_err(|why| why.to_string())?;
        let launches_max = placement.sites.iter().zip(&chains).map(|(sites, demand)| {
            let sites = sites.iter().zip(&demand.functions);
            sites
                .map(|(site, &one)| launch_max(problem.profile, one, site, demand.packet_len))
                .collect()
        });
        Ok(Choice {
            policy: self.policy.name(),
            load_gbps,
            launches_max: launches_max.collect(),
            lanes: self.lanes.clone(),
            placement,
            devices: self.demands.devices(),
            unknown: self.demands.unknown.clone(),
        })
    }
}

impl Choice {
    /// The device of a function, by number.
    pub(crate) fn device(&self, (chain, position): (usize, usize)) -> usize {
        self.placement.sites[chain][position].device_with(self.lanes[chain])
    }

    /// The lanes in which a function is on its device.
    pub(crate) fn device_lanes(&self, (chain, position): (usize, usize)) -> usize {
        self.placement.sites[chain][position].device_lanes(self.lanes[chain])
    }

    /// Device and launches of a function: `None` on the CPU. The engine gives a function to one
    /// device.
    pub(crate) fn launches(&self, (chain, position): (usize, usize)) -> Option<Launches<'_>> {
        let own = self.placement.sites[chain][position];
        let device = self.device((chain, position));
        (device != CPU).then(|| Launches {
            device: &self.devices[device],
            packets: own.launch_packets,
            packets_max: self.launches_max[chain][position],
            delay: delay(own.deadline_ns),
            lanes: lanes_of(&own, self.lanes[chain]),
        })
    }
}
