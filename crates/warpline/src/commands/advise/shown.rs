//! The advice in words and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use warpline_sched::placement::RunnerUp;

use super::units::{delay, rate};
use super::vgpu::{self, Shares};
use super::{Advice, devices, launch_packets, packet_len};
use crate::chain_file::Loaded;
use crate::placement::{Choice, Unknown, choice_json, cost, decided, missed};

/// Version of the JSON's form; it grows when a meaning changes, not when something is added.
const SCHEMA: u32 = 1;
/// The fewest columns of a cell.
const WIDTH: usize = 9;

pub(super) fn text(chains: &[Loaded], advice: &Advice, shares: &Shares) -> String {
    let mut text = String::new();
    for (chain, loaded) in chains.iter().enumerate() {
        text += &table(loaded, advice, chain);
        if let Some(asked) = advice.asked() {
            text += &pinned(loaded, asked, chain);
        }
    }
    text + &vgpu::text(shares)
}

/// The choices of devices and the next best ones, each with a letter.
fn kinds(advice: &Advice, chain: usize) -> Vec<Vec<usize>> {
    let mut kinds: Vec<Vec<usize>> = Vec::new();
    let chosen = advice.choices.iter().map(|choice| devices(choice, chain));
    let next = advice.choices.iter().filter_map(|choice| choice.placement.runner_up.as_ref());
    for own in chosen.chain(next.map(|next| next_devices(next, chain))) {
        if !kinds.contains(&own) {
            kinds.push(own);
        }
    }
    kinds
}

fn next_devices(next: &RunnerUp, chain: usize) -> Vec<usize> {
    next.sites[chain].iter().map(|site| site.device).collect()
}

/// The letter of `own` among `kinds`.
fn kind(kinds: &[Vec<usize>], own: &[usize]) -> String {
    letter(kinds.iter().position(|kind| kind == own).unwrap_or(0))
}

/// `A` to `Z`, then `A1` and so on.
fn letter(number: usize) -> String {
    let letter = char::from(b'A' + (number % 26) as u8);
    if number < 26 { letter.into() } else { format!("{letter}{}", number / 26) }
}

/// Where a choice is among `kinds`, with its packets of a launch and the limits that it misses.
fn cell(choice: &Choice, chain: usize, kinds: &[Vec<usize>]) -> String {
    let mut text = kind(kinds, &devices(choice, chain));
    if let Some(packets) = launch_packets(choice, chain) {
        let _ = write!(text, " {packets}");
    }
    if is_split(choice, chain) {
        text.push('/');
    }
    if !choice.placement.missed_by[chain].is_empty() {
        text.push('*');
    }
    text
}

fn table(loaded: &Loaded, advice: &Advice, chain: usize) -> String {
    let kinds = kinds(advice, chain);
    let first = &advice.choices[0];
    let (name, len) = (&loaded.chain().name, packet_len(loaded));
    let mut text = format!("chain {name:?}, frames of {len} B, by {}\n", first.policy);
    text += "  devices and packets of a launch, by rate and longest delay of a packet\n";
    let longest = advice.choices.iter().map(|choice| cell(choice, chain, &kinds).len()).max();
    let width = WIDTH.max(2 + longest.unwrap_or(0));
    let _ = write!(text, "  {:>10}", "");
    for &us in &advice.delays_us {
        let _ = write!(text, "{:>width$}", delay(us));
    }
    for (row, &gbps) in advice.choices.chunks(advice.delays_us.len()).zip(&advice.rates_gbps) {
        let _ = write!(text, "\n  {:>10}", rate(gbps));
        for choice in row {
            let _ = write!(text, "{:>width$}", cell(choice, chain, &kinds));
        }
    }
    text.push('\n');
    for (number, kind) in kinds.iter().enumerate() {
        let _ = writeln!(text, "  {:<3} {}", letter(number), sites(loaded, first, kind));
    }
    if advice.choices.iter().any(|choice| is_split(choice, chain)) {
        text += "  /   the CPU takes a part of the flows in lanes of its own\n";
    }
    if advice.choices.iter().any(|choice| !choice.placement.missed_by[chain].is_empty()) {
        text += "  *   no placement keeps all limits: this one comes nearest\n";
    }
    for Unknown { function, why } in &first.unknown {
        let _ = writeln!(text, "  the cost of {function} is unknown: {why}");
    }
    text + &reasons(loaded, advice, chain, &kinds)
}

/// Functions on devices.
fn sites(loaded: &Loaded, choice: &Choice, kind: &[usize]) -> String {
    let first = kind.first().copied().unwrap_or(0);
    if kind.iter().all(|&device| device == first) {
        return format!("all functions on {}", choice.devices[first]);
    }
    let functions = loaded.chain().instances.iter().zip(kind);
    let moved = functions.filter(|(_, device)| **device != 0);
    let on = moved.map(|(one, &device)| format!("{} on {}", one.name, choice.devices[device]));
    on.chain(["others on cpu".to_owned()]).collect::<Vec<_>>().join(", ")
}

/// The costs of a choice and of the next best one, for the first cell of each row and for each that
/// differs from the one before.
fn reasons(loaded: &Loaded, advice: &Advice, chain: usize, kinds: &[Vec<usize>]) -> String {
    let mut text = String::from("  reasons, where the choice changes\n");
    let mut last = None;
    for (gbps, us, choice) in advice.cells() {
        let own = cell(choice, chain, kinds);
        if last.replace((gbps, own.clone())) == Some((gbps, own.clone())) {
            continue;
        }
        let figures = cost(&choice.placement.figures.of_chain(chain));
        let _ = write!(text, "  {}, {}: {own}: {figures}", rate(gbps), delay(us));
        let missed: Vec<_> =
            choice.placement.missed_by[chain].iter().map(|&limit| missed(limit)).collect();
        if !missed.is_empty() {
            let _ = write!(text, "; it misses {}", missed.join(", "));
        }
        text += &split(loaded, choice, chain);
        text += &against(loaded, choice, chain, kinds);
        text.push('\n');
    }
    text
}

/// Whether the CPU and a device divide the flows of a function, by the lanes there are.
fn is_split(choice: &Choice, chain: usize) -> bool {
    lanes(choice, chain).next().is_some()
}

/// The functions whose flows are divided: position, lanes of the device.
fn lanes(choice: &Choice, chain: usize) -> impl Iterator<Item = (usize, usize)> {
    let positions = 0..choice.placement.sites[chain].len();
    let of = move |position| Some((position, choice.launches((chain, position))?.lanes));
    positions.filter_map(of).filter(|(_, lanes)| *lanes < usize::MAX)
}

/// The lanes of divided functions.
fn split(loaded: &Loaded, choice: &Choice, chain: usize) -> String {
    let all = loaded.deployment.plan().lanes;
    let of = |(position, lanes): (usize, usize)| {
        let name = &loaded.chain().instances[position].name;
        format!("\n    {name} uses its device in {lanes} of {all} lanes, and the CPU in the others")
    };
    lanes(choice, chain).map(of).collect()
}

/// The next best choice, and the measurement that differs most.
fn against(loaded: &Loaded, choice: &Choice, chain: usize, kinds: &[Vec<usize>]) -> String {
    let Some(next) = &choice.placement.runner_up else {
        return "\n    no other choice is possible".into();
    };
    let (other, figures) =
        (kind(kinds, &next_devices(next, chain)), cost(&next.figures.of_chain(chain)));
    let why = decided(next.decided);
    let mut text = format!("\n    next {other}: {figures}\n    worse by its {why}");
    if let Some(own) = next.deciding.as_ref().filter(|own| own.chain == chain) {
        let name = &loaded.chain().instances[own.position].name;
        let [gbps, other] = [own.chosen, own.other].map(|one| one.bits_per_s / 1e9);
        let _ = write!(text, ": {name} has {gbps:.2} Gb/s, there {other:.2}");
    }
    text
}

/// The keys that fix a choice.
fn pinned(loaded: &Loaded, choice: &Choice, chain: usize) -> String {
    let mut tables = Vec::new();
    for (position, one) in loaded.chain().instances.iter().enumerate() {
        let Some(own) = choice.launches((chain, position)) else { continue };
        let kib = (u64::from(own.packets) * u64::from(packet_len(loaded))).div_ceil(1024);
        let (kib, us, device) = (kib.clamp(1, 65_536), own.delay.as_micros(), own.device);
        let keys =
            format!("device = {device:?}\n    launch_kib = {kib}\n    launch_delay_us = {us}");
        let table = format!("    [{}]\n    {keys}\n", one.table());
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    match tables.is_empty() {
        true => String::new(),
        false => format!("  keys for this choice without a profile\n{}", tables.concat()),
    }
}

pub(super) fn json(chains: &[Loaded], advice: &Advice, shares: &Shares) -> Value {
    let of_chain = |(chain, loaded): (usize, &Loaded)| {
        let cells = advice.cells().map(|(gbps, us, choice)| {
            json!({
                "rate_gbps": gbps,
                "delay_us": us,
                "launch_packets": launch_packets(choice, chain),
                "placement": choice_json(choice, chain, &loaded.chain().instances),
            })
        });
        json!({
            "name": loaded.chain().name,
            "packet_len": packet_len(loaded),
            "cells": cells.collect::<Vec<_>>(),
        })
    };
    let chains: Vec<Value> = chains.iter().enumerate().map(of_chain).collect();
    json!({ "schema": SCHEMA, "chains": chains, "vgpu": vgpu::json(shares) })
}
