//! A placement in words and as JSON.

use serde_json::{Value, json};
use warpline_sched::placement::{Decided, Missed, PlacementFigures, Site};

use super::Chosen;
use crate::chain_file::Loaded;

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
        let line = format!("  placement {NO_PROFILE}\n");
        return if loaded.lacks_profile { line } else { String::new() };
    };
    let placement = &chosen.all.placement;
    let mut text = format!(
        "  placement by {}, for {} Gb/s of {} B frames: {}\n",
        chosen.policy,
        chosen.load_gbps,
        loaded.deployment.plan().packet_len,
        cost(&placement.figures)
    );
    for (position, (instance, site)) in loaded.deployment.instances().enumerate() {
        let own = placement.sites[chosen.chain][position];
        let stays = if loaded.autos[position].is_some() { "" } else { ", as the file says" };
        let launches = match &site.on_device {
            Some(on) if stays.is_empty() => format!(
                ", launches of {} packets within {} us",
                own.launch_packets,
                on.launches.delay.as_micros()
            ),
            _ => String::new(),
        };
        let device = site.device_id();
        text += &format!("    {:<14} on {device}{launches}{stays}\n", instance.name);
        if own.cpu_share > 0.0 && own.cpu_share < 1.0 {
            let share = 100.0 * own.cpu_share;
            text += &format!("      the CPU should take {share:.0} % of its flows; no split yet\n");
        }
    }
    text + &against(chosen) + &remarks(chosen)
}

/// Load and delay.
fn cost(figures: &PlacementFigures) -> String {
    let power = figures.power_w.map_or("power unknown".into(), |watts| format!("{watts:.0} W"));
    format!("load {:.3}, delay {:.0} us, {power}", figures.load, figures.delay_ns / 1e3)
}

/// The second best placement, and the measurement that differs most.
fn against(chosen: &Chosen) -> String {
    let all = &chosen.all;
    let Some(second) = &all.placement.runner_up else {
        return "    no other placement is possible\n".into();
    };
    let devices = |devices: &[usize]| {
        let names = devices.iter().map(|&device| all.devices[device].as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "    the next best is {}: {}, worse by its {}\n",
        devices(&second.devices[chosen.chain]),
        cost(&second.figures),
        decided(second.decided)
    );
    if let Some(deciding) = &second.deciding {
        let gbps = [deciding.chosen, deciding.other].map(|own| own.bits_per_s / 1e9);
        text += &format!(
            "    measured for function {}: {:.2} Gb/s as placed, {:.2} Gb/s otherwise\n",
            deciding.position + 1,
            gbps[0],
            gbps[1]
        );
    }
    text
}

const fn decided(by: Decided) -> &'static str {
    match by {
        Decided::Limits => "excess over the limits",
        Decided::Load => "load",
        Decided::Delay => "delay",
        Decided::Power => "power",
        Decided::Devices => "number of devices",
        Decided::Tie => "order alone, as both cost the same",
    }
}

const fn missed(limit: Missed) -> &'static str {
    match limit {
        Missed::Delay => "delay_us_max",
        Missed::Power => "power_w_max",
        Missed::Load => "load_gbps",
    }
}

/// Limits that are exceeded, and functions that were not considered.
fn remarks(chosen: &Chosen) -> String {
    let mut text = String::new();
    for &limit in &chosen.all.placement.missed {
        let name = missed(limit);
        text += &format!("    no placement keeps `{name}`: this one comes nearest\n");
    }
    for name in &chosen.all.unmeasured {
        text += &format!("    {name} was never measured: it stays, and its work is not counted\n");
    }
    text
}

/// The choice as JSON; null without one.
pub(crate) fn json(loaded: &Loaded) -> Value {
    let Some(chosen) = &loaded.chosen else { return Value::Null };
    let (all, placement) = (&chosen.all, &chosen.all.placement);
    let figures = |of: &PlacementFigures| json!({ "load": of.load, "delay_us": of.delay_ns / 1e3, "power_w": of.power_w });
    let sites = placement.sites[chosen.chain].iter();
    let site = |site: &Site| {
        json!({
            "device": all.devices[site.device],
            "launch_packets": site.launch_packets,
            "deadline_us": site.deadline_ns / 1e3,
            "cpu_share": site.cpu_share,
        })
    };
    let next = placement.runner_up.as_ref().map(|second| {
        let devices = second.devices[chosen.chain].iter().map(|&device| &all.devices[device]);
        json!({
            "devices": devices.collect::<Vec<_>>(),
            "cost": figures(&second.figures),
            "worse_by": decided(second.decided),
        })
    });
    json!({
        "policy": chosen.policy,
        "load_gbps": chosen.load_gbps,
        "cost": figures(&placement.figures),
        "functions": sites.map(site).collect::<Vec<_>>(),
        "missed": placement.missed.iter().map(|&limit| missed(limit)).collect::<Vec<_>>(),
        "unmeasured": all.unmeasured,
        "gap": placement.gap,
        "next": next,
    })
}
