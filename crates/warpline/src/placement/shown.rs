//! A placement in words and as JSON.

use serde_json::{Value, json};
use warpline_engine::Instance;
use warpline_sched::Aim;
use warpline_sched::placement::{Decided, Deciding, Missed, PlacementFigures, RunnerUp, Site};
use warpline_sched::work_profile::CPU;

use super::{Choice, Chosen, Unknown};
use crate::chain_file::Loaded;
use crate::filled::filled;

/// The line about functions on the CPU that have no profile to go by.
pub(crate) const NO_PROFILE: &str = "no profile, so functions with device = \"auto\" run on the \
    CPU; `warpline profile --out FILE` makes one for `profile` in [placement]";

/// Whether functions run on the CPU only because there is no profile.
pub(crate) fn should_say(loaded: &Loaded) -> bool {
    loaded.lacks_profile && loaded.autos.iter().flatten().any(|auto| auto.is_named)
}

/// The choice for a chain, with both compared costs.
pub(crate) fn lines(loaded: &Loaded) -> String {
    if !loaded.autos.iter().any(Option::is_some) {
        return String::new();
    }
    let Some(chosen) = &loaded.chosen else {
        let line = || filled("  placement ", NO_PROFILE, 12, 80);
        return if loaded.lacks_profile { line() } else { String::new() };
    };
    let placement = &chosen.all.placement;
    let mut text = format!(
        "  placement by {}, for {} Gb/s of {} B frames: {}\n",
        chosen.all.policy,
        chosen.all.load_gbps,
        loaded.deployment.plan().packet_len,
        cost(&placement.figures.of_chain(chosen.chain))
    );
    for (position, (instance, site)) in loaded.deployment.instances().enumerate() {
        let own = placement.sites[chosen.chain][position];
        let stays =
            if loaded.autos[position].is_some() { "" } else { ", as `device` is not \"auto\"" };
        let launches = match &site.on_device {
            Some(on) if stays.is_empty() => {
                let size = match bound(loaded, position, own.launch_packets) {
                    Some(most) => format!(
                        "{most} packets, as `launch_kib` allows no {}, ",
                        own.launch_packets
                    ),
                    None => format!("{} packets ", own.launch_packets),
                };
                format!(", launches of {size}within {} us", on.launches.delay.as_micros())
            }
            _ => String::new(),
        };
        let device = site.device_id();
        text += &format!("    {:<14} on {device}{launches}{stays}\n", instance.name);
        if own.cpu_share > 0.0 && own.cpu_share < 1.0 {
            let share = 100.0 * own.cpu_share;
            let lanes = loaded.deployment.plan().lanes;
            let on_cpu = lanes - own.device_lanes(lanes);
            text += &format!("      the CPU should take {share:.0} % of its flows: ");
            text += &format!("{on_cpu} of {lanes} lanes use the CPU\n");
        }
    }
    let aim = placement.aims[chosen.chain];
    if aim != Aim::TIME {
        text += &format!("    copies spare {}\n", aim.name.replace('_', " "));
    }
    text + &against(&chosen.all, chosen.chain, loaded) + &remarks(&chosen.all)
}

/// The packets of a launch to which `launch_kib` of the file bounds those that were chosen.
fn bound(loaded: &Loaded, position: usize, chosen: u32) -> Option<u32> {
    let auto = loaded.autos[position].filter(|auto| auto.has_size)?;
    let most = auto.launches.bytes / loaded.deployment.plan().packet_len.max(1) as usize;
    let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
    (most < chosen).then_some(most)
}

/// Load, delay and power.
pub(crate) fn cost(figures: &PlacementFigures) -> String {
    let power = figures.power_w.map_or("power unknown".into(), |watts| format!("{watts:.0} W"));
    format!("load {:.3}, delay {:.0} us, {power}", figures.load, figures.delay_ns / 1e3)
}

/// The second best placement of a chain, and the measurement that differs most.
fn against(choice: &Choice, chain: usize, loaded: &Loaded) -> String {
    let Some(second) = &choice.placement.runner_up else {
        return "    no other placement is possible\n".into();
    };
    let sites = &second.sites[chain];
    let names = sites.iter().map(|site| choice.devices[site.device].as_str());
    let mut names = names.collect::<Vec<_>>().join(", ");
    // Then only its launches differ.
    let is_alike = |(one, other): (&Site, &Site)| one.device == other.device;
    if sites.iter().zip(&choice.placement.sites[chain]).all(is_alike) {
        let on_devices = sites.iter().filter(|site| site.device != CPU);
        let sizes = on_devices.map(|site| site.launch_packets.to_string()).collect::<Vec<_>>();
        names += &format!(" with launches of {} packets", sizes.join(", "));
    }
    let mut text = format!(
        "    the next best is {names}: {}, worse by its {}\n",
        cost(&second.figures.of_chain(chain)),
        decided(second.decided)
    );
    if let Some(deciding) = &second.deciding {
        let gbps = [deciding.chosen, deciding.other].map(|own| own.bits_per_s / 1e9);
        // The choice is one of all chains, of which this one has its own names.
        let own = loaded.chain().instances.get(deciding.position);
        let name = own.filter(|_| deciding.chain == chain).map(|instance| instance.name.clone());
        let name = name.unwrap_or_else(|| {
            format!("function {} of chain {}", deciding.position + 1, deciding.chain + 1)
        });
        text += &format!(
            "    measured for {}: {:.2} Gb/s as placed, {:.2} Gb/s otherwise\n",
            name, gbps[0], gbps[1]
        );
    }
    text
}

pub(crate) const fn decided(by: Decided) -> &'static str {
    match by {
        Decided::Limits => "excess over the limits",
        Decided::Load => "load",
        Decided::Delay => "delay",
        Decided::Power => "power",
        Decided::Devices => "number of devices",
        Decided::Tie => "order alone, as both cost the same",
    }
}

pub(crate) const fn missed(limit: Missed) -> &'static str {
    match limit {
        Missed::Delay => "delay_us_max",
        Missed::Power => "power_w_max",
        Missed::Load => "load_gbps",
    }
}

/// Limits that are exceeded, and functions whose cost is unknown.
fn remarks(choice: &Choice) -> String {
    let mut text = String::new();
    for &limit in &choice.placement.missed {
        let name = missed(limit);
        text += &format!("    no placement keeps `{name}`: this one comes nearest\n");
    }
    for Unknown { function, why } in &choice.unknown {
        text += &format!("    the cost of {function} is unknown: {why}\n");
    }
    text
}

/// The choice as JSON; null without one.
pub(crate) fn json(loaded: &Loaded) -> Value {
    let Some(Chosen { chain, all }) = &loaded.chosen else { return Value::Null };
    let mut json = choice_json(all, *chain, &loaded.chain().instances);
    let sites = all.placement.sites[*chain].iter().enumerate();
    for (position, site) in sites.filter(|(_, site)| site.device != CPU) {
        if let Some(most) = bound(loaded, position, site.launch_packets) {
            json["functions"][position]["launch_kib_packets"] = json!(most);
        }
    }
    json
}

/// The choice for a chain of these functions.
pub(crate) fn choice_json(choice: &Choice, chain: usize, functions: &[Instance]) -> Value {
    let placement = &choice.placement;
    let site = |(position, (own, site)): (usize, (&Instance, &Site))| {
        json!({
            "name": own.name,
            "device": choice.devices[site.device],
            "launch_packets": site.launch_packets,
            "deadline_us": site.deadline_ns / 1e3,
            "cpu_share": site.cpu_share,
            "device_lanes": choice.device_lanes((chain, position)),
        })
    };
    let sites = functions.iter().zip(&placement.sites[chain]).enumerate().map(site);
    let next = placement.runner_up.as_ref().map(|second| next_json(choice, chain, second));
    json!({
        "policy": choice.policy,
        "load_gbps": choice.load_gbps,
        "cost": figures(&placement.figures.of_chain(chain)),
        "functions": sites.collect::<Vec<_>>(),
        "aim": placement.aims[chain].name,
        "missed": placement.missed_by[chain].iter().map(|&limit| missed(limit)).collect::<Vec<_>>(),
        "unknown": choice.unknown.iter().map(unknown).collect::<Vec<_>>(),
        "gap": placement.gap,
        "next": next,
    })
}

fn unknown(Unknown { function, why }: &Unknown) -> Value {
    json!({ "function": function, "why": why })
}

pub(super) fn figures(of: &PlacementFigures) -> Value {
    json!({ "load": of.load, "delay_us": of.delay_ns / 1e3, "power_w": of.power_w })
}

fn next_json(choice: &Choice, chain: usize, second: &RunnerUp) -> Value {
    let sites = &second.sites[chain];
    let devices = sites.iter().map(|site| &choice.devices[site.device]);
    let launches = sites.iter().map(|site| (site.device != CPU).then_some(site.launch_packets));
    let deciding = |own: &Deciding| {
        json!({
            "chain": own.chain,
            "function": own.position,
            "gbps": own.chosen.bits_per_s / 1e9,
            "next_gbps": own.other.bits_per_s / 1e9,
        })
    };
    json!({
        "devices": devices.collect::<Vec<_>>(),
        "launch_packets": launches.collect::<Vec<_>>(),
        "cost": figures(&second.figures.of_chain(chain)),
        "worse_by": decided(second.decided),
        "deciding": second.deciding.as_ref().map(deciding),
    })
}
