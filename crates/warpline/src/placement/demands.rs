//! Chains in the form that a placement needs.

use warpline_engine::{Deployment, Instance, Site, planned};
use warpline_sched::placement::ChainDemand;
use warpline_sched::work_profile::{Beside, CPU, Measurement, WorkProfile};

use super::unknown::{Place, Unknown, estimate};
use super::{Auto, device_of};
use crate::chain_file::Loaded;
use crate::device_keys;
use crate::machine_profile::MachineProfile;

/// A function by its name, and the device that it must stay on.
type FixedFunction = (String, Option<usize>);

/// The loads and devices of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Of each chain.
    pub(super) load_gbps: f64,
    /// Whether devices that run on the CPU's own cores may be chosen.
    pub(super) cpu_devices: bool,
    /// Whether devices of the profile may be chosen that are not here.
    pub(super) absent_devices: bool,
}

/// See the module.
pub(super) struct Demands {
    /// The measurements of the kinds of functions there are, on devices of this machine.
    pub(super) work: WorkProfile,
    pub(super) chains: Vec<ChainDemand>,
    /// Cores of the machine; `usize::MAX` if the profile lacks them.
    pub(super) cores: usize,
    /// Functions that were never measured where they stay.
    pub(super) unknown: Vec<Unknown>,
}

impl Demands {
    pub(super) fn of(profile: &MachineProfile, chains: &[&Loaded], scope: Scope) -> Self {
        let ids = devices(profile, chains);
        let kinds_of = |chain: &&Loaded| kinds(&ids, chain);
        let of_chains: Vec<Vec<FixedFunction>> = chains.iter().map(kinds_of).collect();
        let mut kinds: Vec<FixedFunction> = of_chains.iter().flatten().cloned().collect();
        kinds.sort();
        kinds.dedup();
        let threads = profile.threads();
        let cores = threads.as_ref().map_or(usize::MAX, |own| own.cores as usize);
        let mut work = work(profile, &ids, &kinds, scope);
        for number in (1..ids.len()).filter(|&at| runs_on_cpu(profile, (at, &ids[at]), scope)) {
            let own = threads.as_ref().map_or(0, |own| own.threads_of(number));
            work.set_cores(number, own as u32);
        }
        let unknown = fill_unknown(&mut work, profile, &kinds);
        let number = |kind: &FixedFunction| kinds.binary_search(kind).unwrap_or_default();
        let demand = |(chain, own): (&&Loaded, &Vec<FixedFunction>)| {
            let functions = own.iter().map(number).collect();
            let own = demand((profile, &ids), chain, functions, scope.load_gbps);
            let threads_ns = threads.as_ref().map_or(0.0, |all| all.packet_ns(own.packet_len));
            ChainDemand { threads_ns, ..own }
        };
        let chains = chains.iter().zip(&of_chains).map(demand).collect();
        Self { work, chains, cores, unknown }
    }

    /// The chains, each with `load_gbps`.
    pub(super) fn at(&self, load_gbps: f64) -> Vec<ChainDemand> {
        let with = |chain: &ChainDemand| ChainDemand {
            packets_per_s: packets_per_s(load_gbps, chain.packet_len),
            ..chain.clone()
        };
        self.chains.iter().map(with).collect()
    }

    /// Devices by number.
    pub(super) fn devices(&self) -> Vec<String> {
        self.work.devices().iter().map(|device| device.name.clone()).collect()
    }
}

/// The devices of the profile, then those that it lacks and functions stay on.
fn devices(profile: &MachineProfile, chains: &[&Loaded]) -> Vec<String> {
    let mut ids: Vec<String> =
        profile.work.devices().iter().map(|device| device.name.clone()).collect();
    for chain in chains {
        for (site, auto) in chain.deployment.sites().iter().zip(&chain.autos) {
            let id = device_of(site);
            if auto.is_none() && !ids.iter().any(|own| own == id) {
                ids.push(id.to_owned());
            }
        }
    }
    ids
}

/// The functions of a chain. Without kernels, or without a choice, one must stay where it is.
fn kinds(ids: &[String], chain: &Loaded) -> Vec<FixedFunction> {
    let all = chain.deployment.instances().zip(&chain.autos);
    let kind = |((instance, site), auto): ((&Instance, &Site), &Option<Auto>)| {
        let stays = match auto {
            Some(_) => None,
            None => ids.iter().position(|id| id == device_of(site)),
        };
        (instance.definition.name.to_owned(), stays)
    };
    all.map(kind).collect()
}

/// The measurements of `kinds` on devices in `scope`. Devices whose kernels run on the CPU are left
/// to functions that the file puts there, if they may not be chosen.
fn work(
    profile: &MachineProfile,
    ids: &[String],
    kinds: &[FixedFunction],
    scope: Scope,
) -> WorkProfile {
    let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
    let devices = profile.work.devices();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut work = WorkProfile::new(&names, &ids);
    for (number, device) in devices.iter().enumerate() {
        work.set_power(number, device.power);
    }
    let Scope { cpu_devices, absent_devices, .. } = scope;
    let is_known = |device: usize| device_keys::description(ids[device]).is_some();
    let is_here = |device: usize| device == CPU || absent_devices || is_known(device);
    let runs_on_cpu = |device: usize| runs_on_cpu(profile, (device, ids[device]), scope);
    let is_free = |device: usize| device == CPU || cpu_devices || !runs_on_cpu(device);
    let of = |function: usize| {
        let name = &profile.work.functions()[function];
        kinds.iter().enumerate().filter(move |(_, kind)| kind.0 == *name)
    };
    for one in profile.work.measurements().filter(|one| is_here(one.pair.1)) {
        let own = of(one.pair.0).filter(|(_, kind)| match kind.1 {
            Some(at) => at == one.pair.1,
            None => is_free(one.pair.1),
        });
        for (function, _) in own {
            let beside: Vec<Option<Beside>> = match one.beside {
                None => vec![None],
                Some(Beside { function: other, count }) => {
                    of(other).map(|(function, _)| Some(Beside { function, count })).collect()
                }
            };
            for beside in beside {
                // Measurements of a profile are sound.
                let _ = work.merge(&Measurement { pair: (function, one.pair.1), beside, ..one });
            }
        }
    }
    work
}

/// Whether the kernels of a device run on the CPU's own cores: by the profile if that may be of
/// another machine.
fn runs_on_cpu(profile: &MachineProfile, (number, id): (usize, &str), scope: Scope) -> bool {
    let is_profiled = number < profile.work.devices().len();
    match scope.absent_devices && is_profiled {
        true => profile.runs_on_cpu(number),
        false => device_keys::description(id).is_none_or(|about| about.runs_on_cpu),
    }
}

/// Gives functions without measurements an estimate, on the device where they stay.
fn fill_unknown(
    work: &mut WorkProfile,
    profile: &MachineProfile,
    kinds: &[FixedFunction],
) -> Vec<Unknown> {
    let known = profile.work.devices().len();
    let mut all = Vec::new();
    for (function, (name, stays)) in kinds.iter().enumerate() {
        let mut devices = 0..work.devices().len();
        if devices.any(|device| !work.launch_sizes((function, device)).is_empty()) {
            continue;
        }
        let device = stays.unwrap_or(CPU);
        let id = work.devices()[device].name.clone();
        let place = Place { at: (function, device), id: &id, is_known: device < known };
        let (one, unknown) = estimate(&profile.work, name, &place);
        // A profile's measurements are sound, and so are estimates from them.
        let _ = work.merge(&one);
        all.push(unknown);
    }
    all
}

/// A chain, with a link for each device that has its own memory.
fn demand(
    (profile, ids): (&MachineProfile, &[String]),
    chain: &Loaded,
    functions: Vec<usize>,
    load_gbps: f64,
) -> ChainDemand {
    let deployment = &chain.deployment;
    let options = deployment.plan();
    let mut plan = planned(&on_cpu(chain), options).problem;
    plan.links.clear();
    let mut links = Vec::new();
    let known = profile.work.devices().len();
    for (number, id) in ids.iter().enumerate() {
        let is_in_place = match number < known {
            true => profile.is_in_place(number),
            false => device_keys::description(id).is_some_and(|about| about.shares_host_memory),
        };
        let link = (!is_in_place).then(|| {
            plan.links.push(profile.speeds.costs(id, chain.settings.lanes));
            plan.links.len() - 1
        });
        links.push(link);
    }
    let packet_len = options.packet_len;
    let packets_per_s = packets_per_s(load_gbps, packet_len);
    let (lanes, threads_ns) = (options.lanes, 0.0);
    ChainDemand { functions, plan, links, packets_per_s, packet_len, lanes, threads_ns }
}

fn packets_per_s(load_gbps: f64, packet_len: u32) -> f64 {
    load_gbps * 1e9 / 8.0 / f64::from(packet_len)
}

/// The chain on the CPU, where each function is one of the plan.
fn on_cpu(chain: &Loaded) -> Deployment {
    chain.deployment.on_sites(Vec::new())
}
