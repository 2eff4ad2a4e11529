//! Where a function is to run, from its table and the command line: `device` and the keys for
//! launches.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use warpline_device::{Description, Device, FoundDevices, Missing, apart, find};
use warpline_engine::{Deployment, LaunchOptions, OnDevice, Streams};
use warpline_nf::Section;

use crate::placement::Auto;

/// Keys that only functions on devices have a use for.
const LAUNCH_KEYS: [&str; 7] =
    ["launch_kib", "launch_delay_us", "launch_timeout_ms", "streams", "sync", "graphs", "in_place"];

/// The devices of this machine, looked for once.
fn found() -> &'static FoundDevices {
    static FOUND: OnceLock<FoundDevices> = OnceLock::new();
    FOUND.get_or_init(find)
}

/// All devices of this machine.
pub(crate) fn all() -> &'static [Arc<dyn Device>] {
    &found().devices
}

/// This machine's device of that name.
pub(crate) fn description(id: &str) -> Option<&'static Description> {
    found().devices.iter().map(|device| device.description()).find(|about| about.id == id)
}

/// The device of that name, or with that UUID.
///
/// # Errors
/// There is none, with the reason and the available ones.
pub(crate) fn open(name: &str) -> Result<Arc<dyn Device>, Missing> {
    found().open(name)
}

/// Looks at a device that the command line names.
///
/// # Errors
/// The device is missing; with the reason and the devices present.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if matches!(name, "cpu" | "auto") {
        return Ok(());
    }
    let device =
        found().open(name).map_err(|why| format!("--device {name}: {why}; also: cpu, auto"));
    device.map(drop)
}

/// The warning if `--device` names a device and no function has kernels for it.
pub(crate) fn unused<'a>(
    device: Option<&str>,
    deployments: impl IntoIterator<Item = &'a Deployment>,
) -> Option<String> {
    let device = device.filter(|name| !matches!(*name, "cpu" | "auto"))?;
    let mut sites = deployments.into_iter().flat_map(Deployment::sites);
    (!sites.any(|site| site.on_device.is_some())).then(|| {
        format!(
            "warning: --device {device}: no function in this chain has kernels; all run on the \
             CPU\n"
        )
    })
}

/// The devices that a function may have.
#[derive(Clone, Copy)]
pub(crate) struct May {
    /// It has kernels.
    pub(crate) run: bool,
    /// A profile chooses for `auto`.
    pub(crate) place: bool,
}

/// Where a function is to run; `None` is the CPU. With `auto` it may be placed elsewhere. `forced`
/// is the command line's choice for all functions.
pub(crate) fn read(
    section: &mut Section<'_>,
    may: May,
    forced: Option<&str>,
) -> (Option<OnDevice>, Option<Auto>) {
    let has_kernels = may.run;
    let own = section.string("device");
    let launches = read_launches(section);
    let in_place = section.boolean("in_place", true);
    // The command line's device is for those that can run there.
    let (name, is_own) = forced.map_or((own.unwrap_or("auto"), true), |name| (name, false));
    let on = match name {
        "cpu" | "auto" => None,
        _ if !has_kernels => {
            if is_own {
                let text = format!(
                    "`device`: the function has no kernels for {name:?}; it runs on \"cpu\""
                );
                section.mistake("device", text);
            }
            None
        }
        _ => match found().open(name) {
            Ok(device) => Some(device),
            Err(why) => {
                section.mistake("device", format!("`device`: {why}; also: cpu, auto"));
                None
            }
        },
    };
    let on = on.map(|device| {
        let device = if in_place { device } else { apart(&device) };
        OnDevice { device, launches, is_required: true }
    });
    let about = on.as_ref().map(|on| on.device.description());
    if let Some(about) = about.filter(|about| launches.graphs && !about.has_graphs) {
        section.mistake("graphs", format!("`graphs`: {} has no graphs", about.id));
    }
    let is_placed = own.is_none() && has_kernels && may.place;
    if on.is_none() && own.unwrap_or("cpu") == "cpu" && forced.is_none() && !is_placed {
        for key in LAUNCH_KEYS.into_iter().filter(|key| section.has(key)).collect::<Vec<_>>() {
            section.mistake(key, format!("`{key}` requires a `device` other than \"cpu\""));
        }
    }
    let auto = (name == "auto" && has_kernels).then(|| Auto {
        launches,
        has_size: section.has("launch_kib"),
        has_delay: section.has("launch_delay_us"),
        in_place,
        is_named: own == Some("auto") || forced == Some("auto"),
    });
    (on, auto)
}

fn read_launches(section: &mut Section<'_>) -> LaunchOptions {
    let default = LaunchOptions::default();
    let kib = section.integer("launch_kib", 1..=65_536, default.bytes as u64 >> 10);
    let delay =
        section.integer("launch_delay_us", 0..=10_000_000, default.delay.as_micros() as u64);
    let timeout =
        section.integer("launch_timeout_ms", 1..=600_000, default.timeout.as_millis() as u64);
    let streams = section.integer_or("streams", 1..=64, "auto", default.streams.most() as u64);
    LaunchOptions {
        bytes: (kib as usize) << 10,
        delay: Duration::from_micros(delay),
        streams: streams.map_or(Streams::Measured, |count| Streams::Count(count as usize)),
        sync: section.boolean("sync", default.sync),
        graphs: section.boolean("graphs", default.graphs),
        timeout: Duration::from_millis(timeout),
        lanes: default.lanes,
    }
}
