//! `warpline plan`: the fields of packets that are copied to devices and to the host, by four
//! rules, and their costs.

mod by_path;
mod json;
mod link;
mod memory;
mod svg;

use std::path::Path;

use warpline_engine::{Deployment, PlanOptions, Planned, planned};
use warpline_nf::Definition;
use warpline_packet::{Field, FieldSet};
use warpline_sched::{Crossing, Dearer, Event, Mode, Plan, PlanStep, Way};

use self::link::Traffic;
use self::memory::InFlight;
use super::advise::units;
use super::{places, say, say_json};
use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded, Setting};
use crate::cli::PlanArguments;
use crate::device_keys::check_name;
use crate::placement;
use crate::routes_shown;
use crate::writes::write_file;

/// Lengths of frames that the tables show.
const LENS: [u32; 3] = [64, 512, 1518];

/// In words, or as JSON.
pub(crate) fn plan(
    functions: &[&'static Definition],
    arguments: &PlanArguments,
) -> Result<(), Failure> {
    let device = arguments.device.as_deref();
    device.map_or(Ok(()), check_name).map_err(Failure::Usage)?;
    let path: &Path = &arguments.chain;
    let set = Setting::of_set(&arguments.set);
    let options = LoadOptions { set: &set, device, ..LoadOptions::of(functions) };
    let chains = super::load_file(path, &options, false)?;
    // The same for all chains of a file.
    let own = chains.first().map(|loaded| loaded.deployment.plan()).unwrap_or_default();
    let mode = arguments.mode.as_deref().map_or(Ok(own.mode), named_mode)?;
    let packet_len = arguments.packet_len.unwrap_or(own.packet_len);
    let delay_us = arguments.delay.as_deref().map(named_delay).transpose()?;
    let traffic = Traffic { packet_len, gbps: f64::from(arguments.gbps), delay_us };
    let field = arguments.explain.as_deref().map(named_field).transpose()?;
    if arguments.json {
        return say_json(&json::all(&chains, traffic)?);
    }
    if let Some(file) = &arguments.svg {
        places::check_written(path, &chains, ("drawing", file))?;
        let drawn = svg::draw(&chains, packet_len, mode)?;
        return write_file(file, &drawn);
    }
    for loaded in &chains {
        let text = match field {
            Some(field) => explained(loaded, packet_len, mode, field)?,
            None => described(loaded, traffic, mode)?,
        };
        say(&text)?;
    }
    Ok(())
}

fn named_delay(text: &str) -> Result<f64, Failure> {
    units::delay_us(text).map_err(|why| Failure::Usage(format!("--delay {text}: {why}")))
}

fn named_mode(name: &str) -> Result<Mode, Failure> {
    let names = || Mode::ALL.map(Mode::name).join(", ");
    Mode::named(name)
        .ok_or_else(|| Failure::Usage(format!("--mode {name}: no such mode; {}", names())))
}

fn named_field(name: &str) -> Result<Field, Failure> {
    let is_named = |field: &&Field| field.name() == name;
    Field::ALL.iter().find(is_named).copied().ok_or_else(|| {
        let names: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
        Failure::Usage(format!("--explain {name}: no such field; {}", names.join(", ")))
    })
}

/// The problem that `run` has for frames of this length.
fn problem_of(deployment: &Deployment, packet_len: u32) -> Planned {
    planned(deployment, PlanOptions { packet_len, ..deployment.plan() })
}

fn made(planned: &Planned, mode: Mode) -> Result<Plan, Failure> {
    planned.problem.plan(mode).map_err(|why| Failure::Usage(why.to_string()))
}

/// The device that a function of the problem runs on.
fn device_of<'a>(deployment: &'a Deployment, planned: &Planned, function: usize) -> &'a str {
    deployment.sites()[planned.positions[function].start].device_id()
}

/// The plan of a mode, step by step, and the totals of all modes.
fn described(loaded: &Loaded, traffic: Traffic, mode: Mode) -> Result<String, Failure> {
    let (deployment, packet_len) = (&loaded.deployment, traffic.packet_len);
    let at = |len| problem_of(deployment, len);
    let own = at(packet_len);
    let plan = made(&own, mode)?;
    let mut text = format!(
        "chain {:?}, {} plan, frames of {packet_len} bytes (UDP in IPv4), {} bytes of memory \
         each\n",
        deployment.chain().name,
        mode.name(),
        own.problem.widths.room
    );
    text += &routes_shown::lines(deployment.chain());
    text += &placement::lines(loaded);
    text += &InFlight::of(loaded, traffic).line();
    let functions = &own.problem.functions;
    let width = name_width(&own);
    for (position, function) in functions.iter().enumerate() {
        let (name, device) = (&function.name, device_of(deployment, &own, position));
        text += &format!("  {name:<width$} on {device}\n");
        if let Some(step) = plan.step(position) {
            text += &step_lines(step);
            let [there, back] = traffic.shares(&own, step).map(|share| 100.0 * share);
            let at = traffic.gbps;
            text += &format!(
                "    {:<13} {there:>7.1} % to the device and {back:.1} % to the host, at {at:.0} \
                 Gb/s\n",
                "of the link"
            );
        }
    }
    if own.devices.is_empty() {
        text += "  nothing crosses: every function works in the host's memory\n";
        return Ok(text);
    }
    text += &format!("  whole frames go by {}\n", deployment.plan().frames_by.name());
    let kept = plan.kept(&own.problem);
    for position in 0..functions.len() {
        for since in 0..position {
            let of = kept.iter().filter(|kept| kept.function == position && kept.since == since);
            let fields: FieldSet = of.map(|kept| kept.field).collect();
            if !fields.is_empty() {
                text += &format!(
                    "  {} needs {fields}: on the device since {}\n",
                    functions[position].name, functions[since].name
                );
            }
        }
    }
    for line in by_path::lines(&own.problem, &plan) {
        text += &format!("  {line}\n");
    }
    text += &totals(&at, deployment.plan().mode)?;
    text += &dearer(&own, &plan)?;
    text += &traffic.links(deployment, &own, &plan);
    Ok(text)
}

/// The copies of a step to the device, and those to the host, by name.
fn copies(step: &PlanStep) -> [Vec<(&'static str, &Crossing)>; 2] {
    [
        vec![("", &step.to_device), ("missing", &step.missing)],
        vec![("first", &step.first_to_host), ("", &step.to_host), ("flagged", &step.flagged)],
    ]
}

/// The fields and bytes of a copy: of the frame, then of the launch's table.
fn parts(crossing: &Crossing) -> Option<String> {
    let (frame, metadata) = (crossing.fields & FieldSet::FRAME, crossing.fields & !FieldSet::FRAME);
    let mut parts = Vec::new();
    match crossing.way {
        Way::Frame => parts.push("the whole frame".to_owned()),
        _ if frame.is_empty() => {}
        _ => parts.push(frame.to_string()),
    }
    if crossing.row_bytes > 0.0 {
        let names = if metadata.is_empty() { String::new() } else { format!(" with {metadata}") };
        parts.push(format!("{:.1} B of the table{names}", crossing.row_bytes));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn line(what: &str, crossing: &Crossing) -> String {
    let text = |parts| format!("    {what:<13} {:>7.1} B  {parts}\n", crossing.bytes);
    parts(crossing).map(text).unwrap_or_default()
}

fn step_lines(step: &PlanStep) -> String {
    let stays =
        if step.mirror_after { "    later         the device keeps the packet\n" } else { "" };
    [
        line("first to host", &step.first_to_host),
        line("to device", &step.to_device),
        line("missing", &step.missing),
        line("to host", &step.to_host),
        line("flagged", &step.flagged),
        stays.to_owned(),
    ]
    .concat()
}

/// Why a plan that moves fewer bytes than `plan` is not cheaper; the one with the fewest.
fn dearer(own: &Planned, plan: &Plan) -> Result<String, Failure> {
    let found = own.problem.dearer(plan).map_err(|why| Failure::Usage(why.to_string()))?;
    let line = |Dearer { mode, fewer_bytes, link_ns, host_ns }: Dearer| {
        format!(
            "  {} moves {fewer_bytes:.1} B fewer, which saves {link_ns:.1} ns on the link; \
             gathering and storing its fields costs {host_ns:.1} ns more\n",
            mode.name(),
        )
    };
    Ok(found.map(line).unwrap_or_default())
}

/// Bytes a packet and costs of every mode, at some lengths; `run_does` is the one that runs.
fn totals(at: &dyn Fn(u32) -> Planned, run_does: Mode) -> Result<String, Failure> {
    let mut text = "\n  bytes of a packet that are copied to devices and to the host\n".to_owned();
    text += &format!("  {:<10}", "by mode");
    for len in LENS {
        text += &format!(" {:>18}", format!("{len} B frames"));
    }
    text += &format!("   cost at {} B, ns\n", LENS[2]);
    for mode in Mode::ALL {
        text += &format!("  {:<10}", mode.name());
        let mut cost = 0.0;
        for len in LENS {
            let plan = made(&at(len), mode)?;
            let both = format!("{:.1}, {:.1}", plan.to_device_bytes(), plan.to_host_bytes());
            text += &format!(" {both:>18}");
            cost = plan.cost_ns;
        }
        let note = if mode == run_does { "  (what `run` does)" } else { "" };
        text += &format!("   {cost:.1}{note}\n");
    }
    Ok(text)
}

/// Columns for the names of functions.
fn name_width(own: &Planned) -> usize {
    let names = own.problem.functions.iter().map(|function| function.name.chars().count());
    names.max().unwrap_or(0).max(14)
}

/// The outcome of one field, event by event.
fn explained(
    loaded: &Loaded,
    packet_len: u32,
    mode: Mode,
    field: Field,
) -> Result<String, Failure> {
    let deployment = &loaded.deployment;
    let own = problem_of(deployment, packet_len);
    let plan = made(&own, mode)?;
    let name = |position: usize| own.problem.functions[position].name.as_str();
    let on =
        |device: Option<usize>| device.map_or("the host", |device| own.devices[device].as_str());
    let mut text =
        format!("chain {:?}, {} plan: {}\n", deployment.chain().name, mode.name(), field.name());
    let width = name_width(&own);
    for event in plan.history(&own.problem, field) {
        text += &match event {
            Event::Needed { function, phase, device } => {
                format!("  {:<width$} {phase} needs it on {}\n", name(function), on(device))
            }
            Event::Written { function, phase, device } => {
                let is = "may write it: it is current there alone";
                format!("  {:<width$} {phase} on {} {is}\n", name(function), on(device))
            }
            Event::ToDevice { function, way, device } => {
                let how = how(field, way);
                format!("  {:<width$} crosses to {} ({how})\n", name(function), on(Some(device)))
            }
            Event::ToHost { function, way, is_flagged, .. } => {
                let whose = if is_flagged { ", of flagged packets" } else { "" };
                let how = how(field, way);
                format!("  {:<width$} crosses to the host ({how}{whose})\n", name(function))
            }
        };
    }
    if own.problem.end_reads.contains(field) {
        text += "  the sink reads it on the host\n";
    }
    Ok(text)
}

/// How a field crosses where the frame crosses in this way.
fn how(field: Field, way: Way) -> &'static str {
    if FieldSet::FRAME.contains(field) { way.name() } else { "with the table" }
}
