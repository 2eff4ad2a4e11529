//! `[placement]`: the device and launch size of each function with `device = "auto"`, chosen by a
//! profile of the machine when a chain file is read.
//!
//! Functions with another `device` stay there, and those without measurements stay on the CPU. The
//! choice considers both.

mod choice;
mod demands;
mod device_figures;
mod figures;
mod launches;
mod live;
mod live_power;
mod proposals;
mod shown;
mod terms;
mod unknown;
mod watched;

pub(crate) use choice::{Basis, Choice, Devices};
pub(crate) use launches::Launches;
pub(crate) use live::{LiveMonitor, monitor};
pub(crate) use proposals::{Move, Proposal, Proposals};
pub(crate) use shown::{NO_PROFILE, choice_json, cost, decided, json, lines, missed, should_say};
pub(crate) use terms::{Terms, terms};
pub(crate) use unknown::Unknown;

use std::sync::Arc;
use std::time::Duration;

use warpline_device::{Device, apart, apart_id};
use warpline_engine::{LaunchOptions, OnDevice, PlanOptions, Site};
use warpline_nf::Section;
use warpline_sched::Profile;
use warpline_sched::placement::PlacementPolicy;

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
    /// Whether the profile may be of another machine.
    is_foreign: bool,
    delay_us_max: Option<f64>,
    power_w_max: Option<f64>,
    load_gbps: f64,
    /// Whether devices that take the lanes' own cores may be chosen.
    cpu_devices: bool,
}

/// A function with `device = "auto"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Auto {
    pub(crate) launches: LaunchOptions,
    /// Whether the chain file sets the size and the deadline of launches.
    pub(crate) has_size: bool,
    pub(crate) has_delay: bool,
    pub(crate) in_place: bool,
    /// Whether the file or the command line names `auto`, which is the default.
    pub(crate) is_named: bool,
}

impl Auto {
    /// The function on `device`, with the launches that are decided, as far as the file leaves them
    /// open. There is room for the largest launch that may be chosen later.
    pub(crate) fn on_device(
        &self,
        device: &Arc<dyn Device>,
        decided: Option<Launches<'_>>,
        packet_len: u32,
    ) -> OnDevice {
        let mut launches = self.launches;
        if let Some(decided) = decided {
            if !self.has_size {
                launches.bytes = decided.packets_max as usize * packet_len as usize;
            }
            if !self.has_delay {
                launches.delay = decided.delay;
            }
            launches.lanes = decided.lanes;
        }
        launches.graphs &= device.description().has_graphs;
        let device = if self.in_place { Arc::clone(device) } else { apart(device) };
        OnDevice { device, launches, is_required: false }
    }

    /// Bytes and deadline of the launches that are decided, as far as the file leaves them open.
    fn target(&self, decided: &Launches<'_>, packet_len: u32) -> (usize, Duration) {
        let bytes = match self.has_size {
            true => self.launches.bytes,
            false => decided.packets as usize * packet_len as usize,
        };
        (bytes, if self.has_delay { self.launches.delay } else { decided.delay })
    }
}

/// The choice for a chain.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The number of the chain in the placement.
    chain: usize,
    all: Arc<Choice>,
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
        Self { policy, profile, is_foreign, delay_us_max, power_w_max, load_gbps, cpu_devices }
    }

    /// Whether functions with `device = "auto"` may run on devices.
    pub(crate) fn may_place(&self) -> bool {
        self.profile.is_some() && self.policy != Policy::Fixed
    }

    /// The policy's name.
    pub(crate) fn policy_name(&self) -> &'static str {
        let own = POLICIES.iter().find(|(_, policy)| *policy == self.policy);
        own.map_or("throughput", |(name, _)| name)
    }

    /// The longest delay of a packet, if it is limited.
    pub(crate) fn delay_us_max(&self) -> Option<f64> {
        self.delay_us_max
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
        if !self.may_place() || !chains.iter().any(|chain| chain.autos.iter().any(Option::is_some))
        {
            return Ok(());
        }
        let all: Vec<&Loaded> = chains.iter().collect();
        let Some(basis) = self.basis(&all, Devices::Here) else { return Ok(()) };
        let choice = Arc::new(basis.choose(self.load_gbps, basis.delay_us_max())?);
        for (number, chain) in chains.iter_mut().enumerate() {
            apply(chain, &choice, number);
            chain.chosen = Some(Chosen { chain: number, all: Arc::clone(&choice) });
        }
        Ok(())
    }
}

/// The device of a function, without the mark of copies.
fn device_of(site: &Site) -> &str {
    let id = site.device_id();
    id.strip_suffix(&apart_id("")).unwrap_or(id)
}

/// The policy of that name if the monitor decides by it.
pub(crate) fn monitored(name: &str) -> Option<PlacementPolicy> {
    use PlacementPolicy::{Energy, Latency, Throughput};
    [Throughput, Latency, Energy].into_iter().find(|policy| policy.name() == name)
}

/// Whether there is such a policy.
///
/// # Errors
/// There is none; with the names of all.
pub(crate) fn check_policy(name: &str) -> Result<(), String> {
    let names = POLICIES.map(|(own, _)| own);
    if names.contains(&name) {
        return Ok(());
    }
    Err(format!("there is no policy {name:?}; policies: {}", names.join(", ")))
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
    let plan = PlanOptions { aim: choice.placement.aims[number], ..chain.deployment.plan() };
    let mut sites = chain.deployment.sites().to_vec();
    let mut targets = Vec::new();
    for (position, (site, auto)) in sites.iter_mut().zip(&chain.autos).enumerate() {
        if let Some(auto) = auto {
            let own = choice.launches((number, position));
            let device = own.and_then(|own| device_keys::open(own.device).ok());
            site.on_device = device.map(|device| auto.on_device(&device, own, plan.packet_len));
            targets.extend(own.map(|own| (position, auto.target(&own, plan.packet_len))));
        }
    }
    let mut deployment = chain.deployment.on_sites(sites);
    deployment.set_plan(plan);
    for (position, (bytes, delay)) in targets {
        deployment.set_launches(position, bytes, delay);
    }
    chain.deployment = Arc::new(deployment);
}
