//! How to divide a GPU between virtual machines that run the chains of a file, by "Network
//! functions in virtualized GPU environment" (2020): the scheduler and the profile of section VI,
//! and the limits of section III.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};
use warpline_device::{Device, apart};
use warpline_engine::{Deployment, OnDevice, demands};
use warpline_sched::{Gpu, Policy, VgpuProfile};

use super::{Advice, launch_packets, packet_len};
use crate::chain_file::Loaded;
use crate::device_keys;
use crate::filled::filled;

const SCHEDULER: Policy = Policy::BestEffort;
const WHY_SCHEDULER: &str = "Best effort runs kernels of one machine while another copies; equal \
    and fixed share leave those slices unused. Total throughput of all machines, relative to one: \
    equal share 148 % (IPsec) and 182 % (NIDS), best effort 256 % and 288 %";
const WHY_PROFILE: &str =
    "the smallest with enough memory, because throughput grew with the number of machines";

/// The advice.
pub(super) struct Shares {
    need: Need,
    gpus: Vec<Share>,
}

/// The device memory of all chains with all functions that have kernels on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Bytes(u64),
    /// No function has kernels.
    Nothing,
    /// There is no device here to ask.
    Unknown,
}

/// The profiles for one GPU.
struct Share {
    gpu: Gpu,
    timed: Option<&'static VgpuProfile>,
    instance: Option<&'static VgpuProfile>,
}

pub(super) fn advise(chains: &[Loaded], advice: &Advice) -> Shares {
    let need = need(chains, advice);
    let Need::Bytes(bytes) = need else { return Shares { need, gpus: Vec::new() } };
    let share = |gpu| Share {
        gpu,
        timed: VgpuProfile::smallest(gpu, bytes),
        instance: VgpuProfile::smallest_instance(gpu, bytes),
    };
    Shares { need, gpus: Gpu::ALL.map(share).into() }
}

fn need(chains: &[Loaded], advice: &Advice) -> Need {
    if !chains.iter().any(|loaded| loaded.autos.iter().any(Option::is_some)) {
        return Need::Nothing;
    }
    let Some(device) = device_keys::all().first().map(apart) else { return Need::Unknown };
    let numbered = chains.iter().enumerate();
    let moved = numbered.map(|(chain, loaded)| on_device(loaded, (chain, advice), &device));
    let moved: Vec<Deployment> = moved.collect();
    let all = demands(moved.iter().zip(chains.iter().map(|loaded| &loaded.settings)));
    // Packets may take half of the memory (`Demand::fits`).
    let bytes = all.iter().map(|one| (2 * one.mirrors).max(one.mirrors + one.others));
    Need::Bytes(bytes.sum())
}

/// The chain with all functions that have kernels on `device`, in the largest launches of `advice`.
fn on_device(
    loaded: &Loaded,
    (chain, advice): (usize, &Advice),
    device: &Arc<dyn Device>,
) -> Deployment {
    let largest = advice.choices.iter().filter_map(|choice| launch_packets(choice, chain)).max();
    let bytes = largest.map(|packets| packets as usize * packet_len(loaded) as usize);
    let mut sites = loaded.deployment.sites().to_vec();
    for (site, auto) in sites.iter_mut().zip(&loaded.autos) {
        site.on_device = auto.map(|auto| {
            let mut launches = auto.launches;
            launches.bytes = bytes.unwrap_or(launches.bytes).max(launches.bytes);
            launches.graphs = false;
            OnDevice { device: Arc::clone(device), launches, is_required: false }
        });
    }
    loaded.deployment.on_sites(sites)
}

/// The limits of section III, each with its consequence for chains that need `bytes`.
fn limits(shares: &Shares, bytes: u64) -> [(&'static str, String); 5] {
    let counts = shares.gpus.iter().filter_map(|share| {
        let own = share.timed?;
        Some(format!("{} on {} with {}", own.slots_max, share.gpu.name(), own.name))
    });
    let counts: Vec<String> = counts.collect();
    let most = match counts.is_empty() {
        true => "no profile here has enough memory".into(),
        false => {
            let counts = counts.join(", ");
            format!("at most {counts}, idle ones included, since memory is reserved")
        }
    };
    let mib = bytes.div_ceil(1 << 20);
    [
        (
            "the profile of a machine is set while it is off",
            format!("set it for the lanes and arena_mib to come; these need {mib} MiB"),
        ),
        (
            "another scheduler needs a restart of the host",
            "set it first; between chains of one process, `policy` in [arbiter] needs a restart of \
             the process alone"
                .into(),
        ),
        (
            "no more machines start than the profile has virtual GPUs",
            most,
        ),
        (
            "all machines of a GPU have one profile",
            "the machine that needs the most memory decides; MIG instances may differ".into(),
        ),
        (
            "no unified memory and no CUDA profilers in a machine",
            "chains copy by plans and use neither; `warpline profile` in the machine measures them"
                .into(),
        ),
    ]
}

/// The width of reports.
const COLUMNS: usize = 80;

pub(super) fn text(shares: &Shares) -> String {
    let mut text = String::from("virtual GPUs\n");
    let bytes = match shares.need {
        Need::Bytes(bytes) => bytes,
        Need::Nothing => return text + "  none needed: no function has kernels\n",
        Need::Unknown => return text + "  no device here by which to compute the memory\n",
    };
    let why = format!("{}: {WHY_SCHEDULER}", SCHEDULER.name());
    text += &filled("  scheduler ", &why, 4, COLUMNS);
    let mib = bytes.div_ceil(1 << 20);
    let needs = format!("Each virtual machine needs {mib} MiB, plus the memory of its driver");
    text += &filled("  profile: ", &format!("{WHY_PROFILE}. {needs}"), 4, COLUMNS);
    for Share { gpu, timed, instance } in &shares.gpus {
        let one = |own: &VgpuProfile| {
            format!("{}, {} GB, {} machines at most", own.name, own.memory_gb, own.slots_max)
        };
        let timed = timed.map_or("no profile has enough memory".into(), one);
        let _ = writeln!(text, "    {}: {timed}", gpu.name());
        if let Some(own) = instance {
            let _ = writeln!(text, "      as MIG instances, without a scheduler: {}", one(own));
        }
    }
    text += "  limits\n";
    for (number, (limit, here)) in limits(shares, bytes).iter().enumerate() {
        let first = format!("    {}. ", number + 1);
        text += &filled(&first, &format!("{limit}: {here}"), first.len(), COLUMNS);
    }
    text
}

pub(super) fn json(shares: &Shares) -> Value {
    let Need::Bytes(bytes) = shares.need else { return Value::Null };
    let profile = |own: &&VgpuProfile| {
        let VgpuProfile { name, memory_gb, slots_max, .. } = own;
        json!({ "name": name, "memory_gb": memory_gb, "machines_max": slots_max })
    };
    let gpu = |share: &Share| {
        json!({
            "gpu": share.gpu.name(),
            "profile": share.timed.as_ref().map(profile),
            "instance": share.instance.as_ref().map(profile),
        })
    };
    let limit = |(limit, here): &(&str, String)| json!({ "limit": limit, "here": here });
    json!({
        "scheduler": SCHEDULER.name(),
        "scheduler_reason": WHY_SCHEDULER,
        "profile_reason": WHY_PROFILE,
        "memory_bytes": bytes,
        "gpus": shares.gpus.iter().map(gpu).collect::<Vec<_>>(),
        "limits": limits(shares, bytes).iter().map(limit).collect::<Vec<_>>(),
    })
}
