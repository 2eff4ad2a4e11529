//! `[placement]`: the device and launch size of each function with `device = "auto"`, chosen by a
//! profile of the machine when a chain file is read.
//!
//! Functions with another `device` stay there, and those without measurements stay on the CPU. The
//! choice considers both.

mod demands;
mod shown;

pub(crate) use shown::{NO_PROFILE, json, lines, should_say};

use std::sync::Arc;
use std::time::Duration;

use warpline_device::apart;
use warpline_engine::{Deployment, LaunchOptions, OnDevice, PlanOptions, Site};
use warpline_nf::Section;
use warpline_sched::Profile;
use warpline_sched::placement::{Placement, PlacementPolicy, PlacementProblem};

use self::demands::Demands;
use crate::chain_file::Loaded;
use crate::machine_profile::MachineProfile;
use crate::{device_keys, keys};

/// The table's name: no function can have it.
pub(crate) const TABLE: &str = "placement";

/// The policies that a chain file may name.
const POLICIES: [(&str, Policy); 6] = [
    ("throughput", Policy::Of(PlacementPolicy::Throughput)),
    ("latency", Policy::Of(PlacementPolicy::Latency)),
    ("energy", Policy::Of(PlacementPolicy::Energy)),
    ("cpu_only", Policy::Of(PlacementPolicy::CpuOnly)),
    ("device_only", Policy::Of(PlacementPolicy::DeviceOnly)),
    ("fixed", Policy::Fixed),
];
/// The load without `load_gbps`.
const LOAD_GBPS: f64 = 10.0;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Policy {
    Of(PlacementPolicy),
    /// `auto` is the CPU.
    Fixed,
}

/// The table.
#[derive(Debug)]
pub(crate) struct PlacementTable {
    policy: Policy,
    profile: Option<MachineProfile>,
    delay_us_max: Option<f64>,
    power_w_max: Option<f64>,
    load_gbps: f64,
    /// Whether devices that take the lanes' own cores may be chosen.
    cpu_devices: bool,
}

/// A function with `device = "auto"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Auto {
    pub(crate) launches: LaunchOptions,
    /// Whether the chain file sets the size and the deadline of launches.
    pub(crate) has_size: bool,
    pub(crate) has_delay: bool,
    pub(crate) in_place: bool,
    /// Whether the file or the command line names `auto`, which is the default.
    pub(crate) is_named: bool,
}

/// The choice for a chain.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    policy: &'static str,
    /// The number of the chain in the placement.
    chain: usize,
    load_gbps: f64,
    all: Arc<Choice>,
}

/// The choice for all chains of a file.
#[derive(Debug)]
struct Choice {
    placement: Placement,
    /// Devices by number.
    devices: Vec<String>,
    /// Functions that were never measured.
    unmeasured: Vec<String>,
}

impl PlacementTable {
    /// Reads the table.
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        section.refuse_all_but(&keys::names(keys::PLACEMENT));
        let policy = section.choice("policy", &POLICIES, POLICIES[0].1.clone());
        let is_foreign = section.boolean("foreign_profile", false);
        let is_device_only = policy == Policy::Of(PlacementPolicy::DeviceOnly);
        let cpu_devices = section.boolean("cpu_devices", is_device_only);
        let mut limit = |key: &str| {
            let given = section.has(key).then(|| section.decimal(key, 1.0));
            if given.is_some_and(|value| !(value > 0.0 && value <= 1e12)) {
                section.mistake(key, format!("`{key}` must be above 0 and at most 10^12"));
            }
            given
        };
        let (delay_us_max, power_w_max) = (limit("delay_us_max"), limit("power_w_max"));
        let load_gbps = limit("load_gbps").unwrap_or(LOAD_GBPS);
        let profile = profile(section, is_foreign);
        Self { policy, profile, delay_us_max, power_w_max, load_gbps, cpu_devices }
    }

    /// Whether functions with `device = "auto"` may run on devices.
    pub(crate) fn may_place(&self) -> bool {
        self.profile.is_some() && self.policy != Policy::Fixed
    }

    /// Whether there should be a profile and is none.
    pub(crate) fn lacks_profile(&self) -> bool {
        let needs = !matches!(self.policy, Policy::Fixed | Policy::Of(PlacementPolicy::CpuOnly));
        needs && self.profile.is_none()
    }

    /// The copy speeds of the profile.
    pub(crate) fn speeds(&self) -> Option<&Profile> {
        self.profile.as_ref().map(|profile| &profile.speeds)
    }

    /// Places the functions of `chains`.
    ///
    /// # Errors
    /// The chains do not fit the profile.
    pub(crate) fn place(&self, chains: &mut [Loaded]) -> Result<(), String> {
        let Some(profile) = self.profile.as_ref().filter(|_| self.may_place()) else {
            return Ok(());
        };
        let Policy::Of(policy) = &self.policy else { return Ok(()) };
        if !chains.iter().any(|chain| chain.autos.iter().any(Option::is_some)) {
            return Ok(());
        }
        let demands = Demands::of(profile, chains, (self.load_gbps, self.cpu_devices));
        let placement = PlacementProblem {
            profile: &demands.work,
            chains: &demands.chains,
            policy: policy.clone(),
            delay_ns_max: self.delay_us_max.map(|us| us * 1e3),
            power_w_max: self.power_w_max,
            lanes_max: chains.iter().map(|chain| chain.settings.lanes).max().unwrap_or(1),
        };
        let placement = placement.place().map_err(|why| why.to_string())?;
        let choice = Arc::new(Choice {
            placement,
            devices: demands.devices(),
            unmeasured: demands.unmeasured,
        });
        for (number, chain) in chains.iter_mut().enumerate() {
            apply(chain, &choice, number);
            let (policy, load_gbps) = (policy.name(), self.load_gbps);
            chain.chosen = Some(Chosen { policy, chain: number, load_gbps, all: choice.clone() });
        }
        Ok(())
    }
}

/// The profile that the table names.
fn profile(section: &mut Section<'_>, is_foreign: bool) -> Option<MachineProfile> {
    let file = section.file("profile")?;
    match MachineProfile::parse(&file.text, is_foreign) {
        Ok(profile) => Some(profile),
        Err(why) => {
            let help = "`warpline profile --out FILE` makes one of this machine";
            section.mistake("profile", format!("`profile`: {}: {why}; {help}", file.name));
            None
        }
    }
}

/// Moves the functions of a chain to their chosen devices.
fn apply(chain: &mut Loaded, choice: &Choice, number: usize) {
    let PlanOptions { packet_len, .. } = chain.deployment.plan();
    let mut sites = chain.deployment.sites().to_vec();
    for (position, (site, auto)) in sites.iter_mut().zip(&chain.autos).enumerate() {
        if let Some(auto) = auto {
            site.on_device = on_device(choice, (number, position), auto, packet_len);
        }
    }
    chain.deployment = Arc::new(moved(&chain.deployment, sites));
}

fn on_device(
    choice: &Choice,
    (chain, position): (usize, usize),
    auto: &Auto,
    packet_len: u32,
) -> Option<OnDevice> {
    let own = choice.placement.sites[chain][position];
    // The engine gives a function to one device, so the larger share of flows decides.
    if own.cpu_share > 0.5 {
        return None;
    }
    let device = device_keys::open(&choice.devices[own.device]).ok()?;
    let mut launches = auto.launches;
    if !auto.has_size {
        launches.bytes = own.launch_packets as usize * packet_len as usize;
    }
    if !auto.has_delay {
        launches.delay = Duration::from_nanos(own.deadline_ns.clamp(0.0, 1e10) as u64);
    }
    launches.graphs &= device.description().has_graphs;
    let device = if auto.in_place { device } else { apart(&device) };
    Some(OnDevice { device, launches, is_required: false })
}

fn moved(old: &Deployment, sites: Vec<Site>) -> Deployment {
    let mut deployment = Deployment::new(Arc::clone(old.chain()), sites);
    deployment.set_plan(old.plan());
    deployment.set_profile(old.profile().clone());
    deployment
}
