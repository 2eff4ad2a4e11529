//! The tables of a profile in words.

use std::fmt::Write;

use serde_json::{Value, json};
use warpline_sched::LinkSpeeds;
use warpline_sched::work_profile::{BreakEven, CPU, NoBreakEven, WorkProfile};

use crate::machine_profile::MachineProfile;

/// All tables and the break-even report.
pub(super) fn text(profile: &MachineProfile) -> String {
    let work = &profile.work;
    let mut text = String::new();
    for len in lens(work) {
        text += &table(work, len);
    }
    text += &beside_table(work);
    text += &triples(profile);
    text += "break-even with one lane of the CPU, frames copied whole both ways:\n";
    for line in break_evens(profile) {
        let _ = writeln!(text, "  {line}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// The packet lengths that were measured.
pub(super) fn lens(work: &WorkProfile) -> Vec<u32> {
    let mut lens: Vec<u32> = work.measurements().map(|one| one.packet_len).collect();
    lens.sort_unstable();
    lens.dedup();
    lens
}

/// Functions by device, at the launch size beyond which throughput grows by less than 2 %.
fn table(work: &WorkProfile, len: u32) -> String {
    let mut text = format!(
        "{len} B: Gb/s, us of a launch, and its packets; larger launches bring less than 2 %\n"
    );
    let _ = write!(text, "  {:<14}", "function");
    for device in work.devices() {
        let _ = write!(text, "{:>21}", device.name);
    }
    text.push('\n');
    for (function, name) in work.functions().iter().enumerate() {
        let cell = |device| {
            let pair = (function, device);
            let knee = work.launch_knee(pair, len)?;
            let own = work.alone(pair, knee, len)?;
            let (gbps, us) = (own.bits_per_s / 1e9, own.latency_ns / 1e3);
            Some(format!("{gbps:>7.2} {us:>7.0} {knee:>5}"))
        };
        let cells: Vec<_> = (0..work.devices().len()).map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let _ = write!(text, "  {name:<14}");
            for cell in cells {
                let _ = write!(text, "{:>21}", cell.as_deref().unwrap_or("-"));
            }
            text.push('\n');
        }
    }
    text + "\n"
}

/// Slow-downs beside others, if any were measured.
fn beside_table(work: &WorkProfile) -> String {
    let mut text = String::new();
    for one in work.measurements() {
        let Some(beside) = one.beside else { continue };
        let sizes = (one.launch_packets, one.packet_len);
        let Some(alone) = work.alone(one.pair, sizes.0, sizes.1) else { continue };
        let names = work.functions();
        let _ = writeln!(
            text,
            "  {} on {}: {:.2} times as long beside {} of {}",
            names[one.pair.0],
            work.devices()[one.pair.1].name,
            alone.bits_per_s / one.figures.bits_per_s,
            beside.count,
            names[beside.function],
        );
    }
    if text.is_empty() { text } else { format!("beside others:\n{text}\n") }
}

/// Functions beside two others, as measured and by the model of pairs, if any were measured.
fn triples(profile: &MachineProfile) -> String {
    let (work, names) = (&profile.work, profile.work.functions());
    let (mut text, mut apart) = (String::new(), Vec::new());
    for one in &profile.triples {
        let alone = work.alone(one.pair, one.launch_packets, one.packet_len);
        let Some((alone, modelled)) = alone.zip(one.modelled(work)) else { continue };
        let times = |bits_per_s: f64| alone.bits_per_s / bits_per_s;
        apart.push((times(modelled) / times(one.bits_per_s) - 1.0).abs() * 100.0);
        let _ = writeln!(
            text,
            "  {} on {}: {:.2} times as long beside {} and {}; model {:.2}",
            names[one.pair.0],
            work.devices()[one.pair.1].name,
            times(one.bits_per_s),
            names[one.beside[0]],
            names[one.beside[1]],
            times(modelled),
        );
    }
    apart.sort_by(f64::total_cmp);
    let (Some(most), median) = (apart.last(), apart.get(apart.len() / 2).unwrap_or(&0.0)) else {
        return String::new();
    };
    format!(
        "beside two others, and by the model of pairs: {median:.0} % apart in the median, \
         {most:.0} % at most\n{text}\n"
    )
}

/// A function and a device with where it pays.
type Line<'a> = (&'a str, &'a str, Result<BreakEven, NoBreakEven>, Option<&'a LinkSpeeds>);

fn lines(profile: &MachineProfile) -> impl Iterator<Item = (usize, usize, Line<'_>)> {
    let work = &profile.work;
    (0..work.functions().len()).flat_map(move |function| {
        let devices = work.devices().iter().enumerate().skip(1);
        devices.filter_map(move |(at, device)| {
            let link = profile.link(at);
            let even = work.break_even(function, at, link);
            let is_measured = even != Err(NoBreakEven::DeviceUnmeasured)
                && even != Err(NoBreakEven::CpuUnmeasured);
            let name = work.functions()[function].as_str();
            is_measured.then_some((function, at, (name, device.name.as_str(), even, link)))
        })
    })
}

/// The break-even report, a line for each function and device.
pub(super) fn break_evens(profile: &MachineProfile) -> Vec<String> {
    let line = |(function, device, (name, id, even, link))| {
        let why = match even {
            Ok(even) => pays(&even),
            Err(_) => reason(&profile.work, (function, device), link),
        };
        format!("{name} on {id}: {why}")
    };
    lines(profile).map(line).collect()
}

fn pays(even: &BreakEven) -> String {
    let BreakEven { packet_len, slower_len, bits_per_s, launch_packets, device_bits_per_s } = *even;
    let slower = slower_len.map(|len| format!("; at {len} B the CPU is faster"));
    format!(
        "from {packet_len} B and {:.2} Gb/s on, with {launch_packets} packets a launch: {:.2} \
         Gb/s{}",
        bits_per_s / 1e9,
        device_bits_per_s / 1e9,
        slower.unwrap_or_default()
    )
}

/// Why a device never pays, at the length where it comes nearest.
fn reason(work: &WorkProfile, pair: (usize, usize), link: Option<&LinkSpeeds>) -> String {
    let at = |device: usize, len: u32| {
        let pair = (pair.0, device);
        let own = work.alone(pair, work.launch_knee(pair, len)?, len)?;
        Some(own.packet_ns(len))
    };
    let both = |&len: &u32| Some((len, at(CPU, len)?, at(pair.1, len)?));
    let all: Vec<_> = lens(work).iter().filter_map(both).collect();
    let nearest = all.iter().min_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)));
    let Some(&(len, cpu_ns, device_ns)) = nearest else { return "not measured".into() };
    let link_ns = link.map(|link| f64::from(len) * 1e9 / link.to_device.min(link.to_host));
    match link_ns.filter(|&ns| ns > cpu_ns) {
        Some(ns) => {
            format!("never: copies alone cost {ns:.1} ns a packet of {len} B, the CPU {cpu_ns:.1}")
        }
        None => {
            format!("never: it needs {device_ns:.1} ns a packet of {len} B, the CPU {cpu_ns:.1}")
        }
    }
}

/// The break-even report as JSON.
pub(super) fn break_evens_json(profile: &MachineProfile) -> Value {
    let one = |(function, device, (name, id, even, link))| match even {
        Ok(BreakEven { packet_len, slower_len, bits_per_s, launch_packets, device_bits_per_s }) => {
            json!({
                "function": name,
                "device": id,
                "packet_len": packet_len,
                "slower_len": slower_len,
                "bits_per_s": bits_per_s,
                "launch_packets": launch_packets,
                "device_bits_per_s": device_bits_per_s,
            })
        }
        Err(_) => json!({
            "function": name,
            "device": id,
            "why": reason(&profile.work, (function, device), link),
        }),
    };
    lines(profile).map(one).collect()
}
