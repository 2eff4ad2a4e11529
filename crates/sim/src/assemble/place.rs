//! The device and launch size of each function: those of the chain file, or of a placement.

use warpline_packet::{Binding, Field, FieldSet};
use warpline_sched::placement::{
    ChainDemand, PlacementError, PlacementPolicy, PlacementProblem, Site,
};
use warpline_sched::work_profile::CPU;
use warpline_sched::{Aim, PlannedFunction, Problem, Profile, RowBytes, Widths};

use super::{Asked, AskedChain, AskedFunction, AskedLaunches};
use crate::Ways;
use crate::traffic::Arrivals;

/// Bytes of a launch's table for each packet, in each direction.
const ROW: RowBytes = RowBytes { there: 16.0, back: 16.0 };
/// How long a launch waits for packets, and its bytes, unless a placement decides.
const DELAY_NS: f64 = 100_000.0;
const LAUNCH_BYTES: u32 = 1 << 20;

/// Where the functions of a chain run.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// By function: its index in the profile.
    pub(crate) functions: Vec<usize>,
    pub(crate) sites: Vec<Site>,
    /// Its plan's input, with the devices of `sites`.
    pub(crate) problem: Problem,
}

impl Placed {
    /// As a lane has it. Flows are divided by lanes: the last ones have divided functions on the
    /// CPU.
    pub(crate) fn of_lane(&self, lane: usize, lanes: usize) -> Self {
        let mut own = self.clone();
        for (site, planned) in own.sites.iter_mut().zip(&mut own.problem.functions) {
            if site.device != CPU && lane >= site.device_lanes(lanes) {
                *site = Site { device: CPU, deadline_ns: 0.0, cpu_share: 1.0, ..*site };
                planned.device = None;
            }
        }
        own
    }
}

/// Places all chains.
pub(super) fn place(asked: &Asked<'_>) -> Result<Vec<Placed>, String> {
    let work = &asked.file.work;
    let names: Vec<&str> = work.devices().iter().map(|device| device.name.as_str()).collect();
    let mut demands = Vec::new();
    let mut fixed = Vec::new();
    for chain in &asked.chains {
        let functions = chain.functions.iter().map(|one| function_of(asked, &one.name, &one.kind));
        let functions: Vec<usize> = functions.collect::<Result<_, _>>()?;
        let mut devices = Vec::new();
        for (one, &function) in chain.functions.iter().zip(&functions) {
            devices.push(match one.device.as_deref() {
                None | Some("auto") => None,
                Some(name) => Some(device_of(asked, &one.name, name, function, &names)?),
            });
        }
        fixed.push(devices);
        demands.push(demand(asked, chain, functions));
    }
    let (sites, aims) = sites(asked, &demands, &fixed)?;
    let links = links(asked);
    let placed = demands.into_iter().zip(sites).zip(aims).map(|((demand, sites), aim)| {
        let mut problem = Problem { aim, ..demand.plan };
        for (function, site) in problem.functions.iter_mut().zip(&sites) {
            function.device = links[site.device];
        }
        Placed { functions: demand.functions, sites, problem }
    });
    Ok(placed.collect())
}

/// The function of the profile: that of the instance's name, or of its kind.
fn function_of(asked: &Asked<'_>, name: &str, kind: &str) -> Result<usize, String> {
    let own = asked.file.work.functions();
    let bare = name.split(':').next().unwrap_or(name);
    let found = [bare, kind].iter().find_map(|name| own.iter().position(|other| other == name));
    found.ok_or_else(|| format!("the profile has no function {kind:?}; it has: {}", own.join(", ")))
}

fn device_of(
    asked: &Asked<'_>,
    name: &str,
    device: &str,
    function: usize,
    names: &[&str],
) -> Result<usize, String> {
    let found = names.iter().position(|own| *own == device).ok_or_else(|| {
        format!("{name}: the profile has no device {device:?}; it has: {}", names.join(", "))
    })?;
    match asked.file.work.launch_sizes((function, found)).is_empty() {
        true => Err(format!("{name}: the profile has no measurement of it on {device:?}")),
        false => Ok(found),
    }
}

/// By device: its link's index in plans.
fn links(asked: &Asked<'_>) -> Vec<Option<usize>> {
    let mut count = 0;
    let mut next = |has_link: bool| {
        count += usize::from(has_link);
        has_link.then(|| count - 1)
    };
    asked.file.links.iter().map(|link| next(link.is_some())).collect()
}

fn demand(asked: &Asked<'_>, chain: &AskedChain, functions: Vec<usize>) -> ChainDemand {
    let len = asked.packet_len();
    let gather = asked.file.gather;
    let profile = Profile { links: asked.file.links.iter().flatten().cloned().collect(), gather };
    let with_links = asked.file.work.devices().iter().zip(&asked.file.links);
    let costs = with_links.filter(|(_, link)| link.is_some());
    let costs = costs.map(|(device, _)| profile.costs(&device.name, chain.lanes.max(1)));
    let planned = chain.functions.iter().enumerate().map(|(at, one)| {
        let mut function =
            PlannedFunction { row: ROW, ..PlannedFunction::new(&one.name, &one.access, None) };
        if chain.ways.as_ref().is_some_and(|ways| ways.parts_after(at)) {
            // The lane looks the next function up.
            function.after.needs = function.after.needs | FieldSet::of(&[Field::DstAddr]);
        }
        function
    });
    let gathered = Binding::stageable();
    ChainDemand {
        plan: Problem {
            functions: planned.collect(),
            hops: chain.ways.as_ref().map(Ways::hops),
            links: costs.collect(),
            // A room starts at a multiple of 64 bytes.
            widths: Widths::of_udp(len, len.next_multiple_of(64)),
            end_reads: Problem::sink_reads(),
            gathered: gathered & FieldSet::FRAME,
            is_recoverable: false,
            fetches_first: false,
            aim: Aim::TIME,
        },
        functions,
        links: links(asked),
        packets_per_s: asked.packets_per_s().max(1.0),
        packet_len: len,
        lanes: chain.lanes,
        threads_ns: asked.file.threads.as_ref().map_or(0.0, |own| own.packet_ns(len)),
    }
}

/// The sites by the file, or by a placement of all functions if one is left to it. The placement
/// decides by which aim copies are planned, too.
fn sites(
    asked: &Asked<'_>,
    demands: &[ChainDemand],
    fixed: &[Vec<Option<usize>>],
) -> Result<(Vec<Vec<Site>>, Vec<Aim>), String> {
    let all: Option<Vec<Vec<usize>>> =
        fixed.iter().map(|devices| devices.iter().copied().collect()).collect();
    let is_placed = all.is_none();
    let policy = all.map_or_else(|| asked.placement.clone(), PlacementPolicy::Fixed);
    // Devices on the CPU's own cores add nothing to it.
    let on_cpu = &asked.file.on_cpu;
    let is_free = |device: &usize| policy == PlacementPolicy::DeviceOnly || !on_cpu[*device];
    let free: Vec<usize> = (0..on_cpu.len()).filter(is_free).collect();
    let may_have = |device: &Option<usize>| device.map_or_else(|| free.clone(), |one| vec![one]);
    let of_chain = |devices: &Vec<Option<usize>>| devices.iter().map(may_have).collect();
    let problem = PlacementProblem {
        profile: &asked.file.work,
        chains: demands,
        devices: Some(fixed.iter().map(of_chain).collect()),
        policy,
        delay_ns_max: None,
        power_w_max: None,
        lanes_max: asked.chains.iter().map(|chain| chain.lanes.max(1)).sum(),
        cores: asked.file.threads.as_ref().map_or(usize::MAX, |own| own.cores as usize),
    };
    let placement = problem.place().map_err(|why| in_words(asked, &why))?;
    let aims = if is_placed { placement.aims } else { vec![Aim::default(); demands.len()] };
    let mut sites = placement.sites;
    for ((own, devices), chain) in sites.iter_mut().zip(fixed).zip(&asked.chains) {
        let launches = chain.functions.iter().map(|one| one.launches);
        for ((site, device), launches) in own.iter_mut().zip(devices).zip(launches) {
            set_launches(asked, site, device.is_some(), launches);
        }
    }
    Ok((sites, aims))
}

/// The launches of a function on a device: those of the chain file, then the engine's defaults for
/// a device of the file, or those of the placement.
fn set_launches(asked: &Asked<'_>, site: &mut Site, is_fixed: bool, launches: AskedLaunches) {
    if site.device == CPU {
        return;
    }
    if is_fixed {
        site.deadline_ns = DELAY_NS;
        site.launch_packets = launch_packets(asked).unwrap_or(site.launch_packets);
    }
    if let Some(bytes) = launches.bytes {
        let packets = (bytes / u64::from(asked.packet_len().max(1))).clamp(1, u32::MAX.into());
        let most = if is_fixed { u32::MAX } else { site.launch_packets };
        site.launch_packets = most.min(packets as u32);
    }
    site.deadline_ns = launches.delay_ns.map_or(site.deadline_ns, |ns| ns as f64);
}

/// Packets of a launch by the bytes that it has in the engine. Profiles without threads, as those
/// of papers, have their own launches.
fn launch_packets(asked: &Asked<'_>) -> Option<u32> {
    asked.file.threads.as_ref()?;
    Some((LAUNCH_BYTES / asked.packet_len().max(1)).max(1))
}

/// A line for each function.
pub(super) fn decisions(asked: &Asked<'_>, placed: &[Placed]) -> Vec<String> {
    let mut lines = Vec::new();
    for (chain, placed) in asked.chains.iter().zip(placed) {
        for (one, site) in chain.functions.iter().zip(&placed.sites) {
            let device = &asked.file.work.devices()[site.device].name;
            let how = match one.device.as_deref() {
                None | Some("auto") => format!("chosen by {}", asked.placement.name()),
                Some(_) => "chain file".into(),
            };
            let launches = match site.device {
                0 => String::new(),
                _ => {
                    let (packets, us) = (site.launch_packets, site.deadline_ns / 1e3);
                    format!(", launches of {packets} packets after {us:.0} us at most")
                }
            };
            let (lanes, own) = (chain.lanes.max(1), site.device_lanes(chain.lanes.max(1)));
            let others = match site.device != CPU && own < lanes {
                true => format!(", the CPU in {} of {lanes} lanes", lanes - own),
                false => String::new(),
            };
            lines.push(format!("{}/{}: {device} ({how}){launches}{others}", chain.name, one.name));
        }
    }
    lines
}

impl Asked<'_> {
    /// The mean length of its packets.
    pub(crate) fn packet_len(&self) -> u32 {
        match &self.load.traffic.arrivals {
            Arrivals::Replay(all) if !all.is_empty() => {
                let sum: u64 = all.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
                (sum / all.len() as u64).max(1) as u32
            }
            _ => self.load.traffic.size.mean().round() as u32,
        }
    }

    /// Its mean rate.
    pub(crate) fn packets_per_s(&self) -> f64 {
        let count = |packets: f64, ns: u64| packets * 1e9 / ns.max(1) as f64;
        match &self.load.traffic.arrivals {
            Arrivals::Replay(all) => {
                count(all.len() as f64, all.last().map_or(1, |(at_ns, _)| *at_ns))
            }
            Arrivals::Steps(steps) => {
                let sum: f64 = steps.iter().map(|(ns, rate)| *ns as f64 / 1e9 * rate).sum();
                count(sum, steps.iter().map(|(ns, _)| ns).sum())
            }
            _ => self.load.traffic.rate().unwrap_or(0.0),
        }
    }
}

fn in_words(asked: &Asked<'_>, why: &PlacementError) -> String {
    match *why {
        PlacementError::Unmeasured { chain, position } => {
            let chain = &asked.chains[chain];
            let AskedFunction { name, kind, .. } = &chain.functions[position];
            format!(
                "chain {:?}: [{name}]: the profile has no measurements of {kind} on a device that \
                 it may use",
                chain.name
            )
        }
        _ => why.to_string(),
    }
}
