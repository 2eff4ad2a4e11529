//! `warpline simulate`: chains in virtual time, by the costs of a profile.

mod capture;
mod shown;
mod ways;

use std::fs;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use warpline_engine::Place;
use warpline_nf::Definition;
use warpline_nf::config::{read_packed_text, read_text};
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Policy, Sharing};
use warpline_sim::{
    Arrivals, Asked, AskedChain, AskedFunction, AskedLaunches, AskedSharing, AskedTenant,
    Assembled, Ended, Load, Outcome, Ways, WorkFile,
};

use super::{CHAIN_FILE_LEN_MAX, places, say, say_json};
use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded, Setting};
use crate::cli::SimulateArguments;
use crate::writes::write_file;

/// Bytes of a profile.
const PROFILE_LEN_MAX: u64 = 16 << 20;
/// Spans of a trace.
const SPANS_MAX: usize = 1_000_000;
const SECONDS: std::ops::RangeInclusive<f64> = 1e-6..=3_600.0;

/// In words, or as JSON.
pub(crate) fn simulate(
    functions: &[&'static Definition],
    arguments: &SimulateArguments,
) -> Result<(), Failure> {
    let set = Setting::of_set(&arguments.set);
    // The devices of the chain file are those of the profile.
    let options = LoadOptions {
        set: &set,
        device: Some("cpu"),
        is_simulated: true,
        ..LoadOptions::of(functions)
    };
    let chains = super::load_file(&arguments.chain, &options, false)?;
    let file = profile(&arguments.profile)?;
    let asked = asked(arguments, &chains, &file)?;
    let mut assembled = asked.assemble().map_err(Failure::Usage)?;
    assembled.scenario.events_max = arguments.events;
    if let Some(trace) = &arguments.trace {
        check_trace(arguments, &chains, trace)?;
        assembled.scenario.spans_max = SPANS_MAX;
    }
    let simulated = assembled.scenario.simulate();
    let outcome = simulated.map_err(|why| Failure::Usage(why.to_string()))?;
    if let Some(trace) = &arguments.trace {
        save_trace(trace, &assembled, &outcome)?;
    }
    match arguments.json {
        true => say_json(&shown::json(&file, &assembled, &outcome).to_string())?,
        false => say(&shown::text(&file, &assembled, &outcome))?,
    }
    match outcome.ended {
        Ended::Drained => Ok(()),
        Ended::Events => Err(Failure::Usage(format!(
            "the simulation stopped after {} events at {:.6} s; allow more with --events, or lower \
             --load or --seconds",
            arguments.events,
            outcome.ends_ns as f64 / 1e9
        ))),
    }
}

fn profile(path: &Path) -> Result<WorkFile, Failure> {
    let name = path.display();
    let text = read_packed_text(path, PROFILE_LEN_MAX)
        .map_err(|why| Failure::Usage(format!("can't read {name}: {why}")))?;
    WorkFile::parse(&text).map_err(|why| Failure::Usage(format!("{name}: {why}")))
}

fn asked<'a>(
    arguments: &SimulateArguments,
    chains: &[Loaded],
    file: &'a WorkFile,
) -> Result<Asked<'a>, Failure> {
    let SimulateArguments { seconds, tenants, seed, .. } = *arguments;
    if let Some(seconds) = seconds.filter(|seconds| !SECONDS.contains(seconds)) {
        let (least, most) = (SECONDS.start(), SECONDS.end());
        let text = format!("--seconds must be {least} to {most}, found {seconds:?}");
        return Err(Failure::Usage(text));
    }
    let devices = Devices::read(&arguments.chain, &arguments.set)?;
    let mut ways = ways::of_chains(chains);
    let load = match Path::new(&arguments.load) {
        path if !Load::is_load(&arguments.load) && capture::is_capture(path) => {
            if !arguments.share.is_empty() {
                let text = "--share: packets of a capture take routes by their destinations";
                return Err(Failure::Usage(text.into()));
            }
            capture::load(path, &mut ways)?
        }
        _ => {
            ways::divide(chains, &mut ways, &arguments.share)?;
            Load::parse(&arguments.load)
                .map_err(|why| Failure::Usage(format!("--load {}: {why}", arguments.load)))?
        }
    };
    if let (Arrivals::Replay(all), None) = (&load.traffic.arrivals, seconds)
        && let Some(lasts) = all.last().map(|(at_ns, _)| *at_ns as f64 / 1e9)
        && lasts >= *SECONDS.end()
    {
        let text = format!(
            "--load {}: it lasts {lasts:.0} s; --seconds takes a part of it, at most {}",
            arguments.load,
            SECONDS.end()
        );
        return Err(Failure::Usage(text));
    }
    let sharing = sharing(chains, arguments.policy.as_deref().map(policy).transpose()?);
    let chains = chains.iter().zip(ways);
    Ok(Asked {
        file,
        chains: chains.map(|(loaded, ways)| devices.chain(loaded, ways)).collect(),
        load,
        tenants: tenants as usize,
        sharing,
        placement: placement(&arguments.placement)?,
        lasts_ns: seconds.map(|seconds| (seconds * 1e9) as u64),
        seed,
    })
}

/// That of the chain file, with the policy of the command line.
fn sharing(chains: &[Loaded], policy: Option<Policy>) -> Option<AskedSharing> {
    let named = chains.first()?.tenancy.named.as_ref()?;
    let is_shared = named.arbiter.is_given || !named.tenants.is_empty();
    let own = named.arbiter.sharing;
    (is_shared || policy.is_some()).then(|| AskedSharing {
        sharing: Sharing { policy: policy.unwrap_or(own.policy), ..own },
        slots: named.arbiter.slots,
        of_devices: named.devices.clone(),
    })
}

fn tenant(loaded: &Loaded) -> Option<AskedTenant> {
    let all = &loaded.tenancy.named.as_ref()?.tenants;
    let own = all.iter().find(|(name, ..)| loaded.tenant.as_ref() == Some(name))?;
    let (name, device, slots) = own.clone();
    Some(AskedTenant { name, device, slots })
}

fn policy(name: &str) -> Result<Policy, Failure> {
    Policy::from_name(name).ok_or_else(|| {
        let names = Policy::ALL.map(Policy::name).join(", ");
        Failure::Usage(format!("--policy {name}: no such policy; {names}"))
    })
}

fn placement(name: &str) -> Result<PlacementPolicy, Failure> {
    use PlacementPolicy::{CpuOnly, DeviceOnly, Energy, Latency, Throughput};
    let all = [Throughput, Latency, Energy, CpuOnly, DeviceOnly];
    let names = all.iter().map(PlacementPolicy::name).collect::<Vec<_>>().join(", ");
    all.into_iter()
        .find(|policy| policy.name() == name)
        .ok_or_else(|| Failure::Usage(format!("--placement {name}: no such policy; {names}")))
}

/// Keys of functions' tables whose devices need not be here, as text.
struct Devices(Vec<(String, String)>);

/// The keys of [`Devices`].
const DEVICE_KEYS: [&str; 5] = ["device", "launch_kib", "launch_delay_us", "streams", "sync"];

impl Devices {
    /// The chain file was read before, so its text is sound.
    fn read(path: &Path, set: &[String]) -> Result<Self, Failure> {
        let text = read_text(path, CHAIN_FILE_LEN_MAX)
            .map_err(|why| Failure::Usage(format!("can't read {}: {why}", path.display())))?;
        let mut all = Vec::new();
        let (table, _) = DeTable::parse_recoverable(&text);
        for (name, value) in table.get_ref() {
            let Some(own) = value.get_ref().as_table() else { continue };
            for key in DEVICE_KEYS {
                if let Some(value) = own.get(key).and_then(|value| plain_text(value.get_ref())) {
                    all.push((format!("{}.{key}", name.get_ref()), value));
                }
            }
        }
        for one in set {
            if let Some((key, value)) = one.split_once('=') {
                all.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
            }
        }
        Ok(Self(all))
    }

    /// The last one counts.
    fn of(&self, instance: &str, key: &str) -> Option<&str> {
        let bare = instance.split(':').next().unwrap_or(instance);
        let name = format!("{bare}.{key}");
        let own = self.0.iter().rev().find(|(other, _)| *other == name);
        own.map(|(_, value)| value.as_str())
    }

    fn launches(&self, instance: &str) -> AskedLaunches {
        let number = |key| self.of(instance, key).and_then(|text| text.parse::<u64>().ok());
        let streams = number("streams").map(|count| count as usize);
        let is_sync = self.of(instance, "sync") == Some("true");
        AskedLaunches {
            bytes: number("launch_kib").map(|kib| kib << 10),
            delay_ns: number("launch_delay_us").map(|us| us * 1_000),
            in_flight: if is_sync { Some(1) } else { streams },
        }
    }

    fn chain(&self, loaded: &Loaded, ways: Option<Ways>) -> AskedChain {
        let deployment = &loaded.deployment;
        let functions = deployment.instances().map(|(instance, site)| AskedFunction {
            name: instance.name.clone(),
            kind: instance.definition.name.to_owned(),
            device: self.of(&instance.name, "device").map(str::to_owned),
            own_stage: site.own_stage,
            launches: self.launches(&instance.name),
            access: *instance.function.access(),
            is_second_place: instance.place == Place::Second,
            makes_packets: instance.function.emits().per_packet > 0,
            has_findings: instance.function.emits().findings_per_packet > 0,
        });
        AskedChain {
            name: loaded.chain().name.clone(),
            functions: functions.collect(),
            mode: deployment.plan().mode,
            pressure: loaded.settings.pressure.mode,
            queue: loaded.settings.pressure.queue,
            lanes: deployment.plan().lanes,
            batch_packets: loaded.settings.batch_packets as u64,
            first_launch_packets: loaded.settings.first_launch_packets() as u64,
            ways,
            tenant: tenant(loaded),
        }
    }
}

/// A value as `--set` has it.
fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(is) => Some(is.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        _ => None,
    }
}

/// Refuses a trace that would replace a file of the simulation.
fn check_trace(
    arguments: &SimulateArguments,
    chains: &[Loaded],
    trace: &Path,
) -> Result<(), Failure> {
    places::check_written(&arguments.chain, chains, ("trace", trace))?;
    let same = |other: &Path| match (fs::canonicalize(other), fs::canonicalize(trace)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let is_read = same(&arguments.profile) || same(Path::new(&arguments.load));
    let text = || format!("--trace {}: the simulation reads this file", trace.display());
    if is_read { Err(Failure::Usage(text())) } else { Ok(()) }
}

fn save_trace(path: &Path, assembled: &Assembled, outcome: &Outcome) -> Result<(), Failure> {
    write_file(path, &warpline_sim::trace(&assembled.scenario, outcome))
}
