//! The basis of the monitor's decisions, which a reload may replace.

use warpline_sched::monitor::PlacementLimits;
use warpline_sched::placement::{ChainDemand, PlacementPolicy};
use warpline_sched::work_profile::WorkProfile;

use super::{Auto, Devices, monitored};
use crate::chain_file::Loaded;

/// Policy, limits, profile, and the functions with `device = "auto"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(super) policy: PlacementPolicy,
    pub(super) limits: PlacementLimits,
    pub(super) work: WorkProfile,
    pub(super) demands: Vec<ChainDemand>,
    /// Devices by number.
    pub(super) devices: Vec<String>,
    /// By chain and position.
    pub(super) autos: Vec<Vec<Option<Auto>>>,
}

impl Terms {
    /// The lanes of a run stay as they are.
    pub(super) fn keep_lanes(&mut self, old: &Self) {
        self.limits.lanes_max = old.limits.lanes_max;
    }
}

/// Those of `chains`, if a profile chose devices for them and the policy leaves a choice.
pub(crate) fn terms(chains: &[&Loaded]) -> Option<Terms> {
    let first = chains.first()?;
    let chosen = first.chosen.as_ref()?;
    let basis = first.table.basis(chains, Devices::Here)?;
    let policy = monitored(basis.policy.name())?;
    let limits = PlacementLimits {
        delay_ns_max: basis.delay_us_max.map(|us| us * 1e3),
        power_w_max: basis.power_w_max,
        lanes_max: basis.lanes_max,
        cores: basis.demands.cores,
    };
    let demands = basis.demands.at(chosen.all.load_gbps);
    let devices = basis.demands.devices();
    let autos = chains.iter().map(|chain| chain.autos.clone()).collect();
    Some(Terms { policy, limits, work: basis.demands.work, demands, devices, autos })
}
