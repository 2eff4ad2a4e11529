//! The outcome of a simulation in words, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use warpline_sim::{Assembled, Ended, Outcome, WorkFile};

/// As JSON, with the profile and the decisions.
pub(super) fn json(file: &WorkFile, assembled: &Assembled, outcome: &Outcome) -> Value {
    let mut all = outcome.json(&assembled.scenario);
    for (chain, (_, tenant)) in assembled.origins.iter().enumerate() {
        all["chains"][chain]["tenant"] = json!(tenant);
        all["chains"][chain]["lane"] = json!(lane(assembled, chain));
    }
    let assumed = file.assumed.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    all["profile"] = json!({
        "title": file.title,
        "kind": if file.is_paper { "paper" } else { "measured" },
        "assumed": assumed.collect::<Vec<_>>(),
    });
    for (device, names) in assembled.tenants.iter().enumerate() {
        all["devices"][device]["tenant_names"] = json!(names);
    }
    all["placement"] = json!(assembled.decisions);
    all
}

pub(super) fn text(file: &WorkFile, assembled: &Assembled, outcome: &Outcome) -> String {
    let kind = if file.is_paper { "printed numbers" } else { "measured" };
    let simulated_ns = match outcome.ended {
        Ended::Drained => assembled.scenario.warm_up_ns + outcome.measured_ns,
        Ended::Events => outcome.ends_ns,
    };
    let mut text = format!(
        "simulated {:.3} s, the last {:.3} s measured; profile: {} ({kind})\n",
        simulated_ns as f64 / 1e9,
        outcome.measured_ns as f64 / 1e9,
        file.title
    );
    for (what, why) in &file.assumed {
        let _ = writeln!(text, "  assumed: {what}. {why}");
    }
    for decision in &assembled.decisions {
        let _ = writeln!(text, "  {decision}");
    }
    for chain in 0..outcome.chains.len() {
        chain_text(&mut text, assembled, outcome, chain);
    }
    devices(&mut text, assembled, outcome);
    text.truncate(text.trim_end().len());
    text
}

/// Its number among the lanes of its chain and tenant, which follow each other.
fn lane(assembled: &Assembled, chain: usize) -> usize {
    let origin = assembled.origins[chain];
    assembled.origins[..chain].iter().filter(|other| **other == origin).count()
}

fn packets_per_s(rate: f64) -> String {
    match rate {
        1e5.. => format!("{:.4} Mpps", rate / 1e6),
        1e2.. => format!("{:.4} kpps", rate / 1e3),
        _ => format!("{rate:.4} pps"),
    }
}

fn chain_text(text: &mut String, assembled: &Assembled, outcome: &Outcome, chain: usize) {
    let own = &outcome.chains[chain];
    let name = &assembled.scenario.chains[chain].name;
    let origin = assembled.origins[chain];
    let lanes = assembled.origins.iter().filter(|other| **other == origin).count();
    let lane = match lanes {
        1 => String::new(),
        _ => format!(", lane {}", lane(assembled, chain)),
    };
    let _ = writeln!(text, "chain {name:?}, tenant {}{lane}", origin.1);
    let _ = writeln!(
        text,
        "  offered {}; sent {}, {:.3} Gb/s",
        packets_per_s(outcome.per_second(own.measured.offered)),
        packets_per_s(outcome.sent_pps(chain)),
        outcome.sent_bps(chain) / 1e9
    );
    let drops = outcome.drops(&assembled.scenario, chain);
    let lost = drops.iter().filter(|(_, count)| *count > 0);
    let lost: Vec<String> = lost.map(|(name, count)| format!("{count} at {name}")).collect();
    let lost = if lost.is_empty() { "none".into() } else { lost.join(", ") };
    let _ = writeln!(text, "  packets lost: {lost}");
    if let Some(stage) = outcome.bottleneck(&assembled.scenario, chain) {
        let source = &own.pauses.nodes[0];
        let paused = source.paused_ns as f64 / 1e9;
        let _ = writeln!(
            text,
            "  bottleneck {stage}; the source was paused {} times, {paused:.3} s in all",
            source.pauses
        );
    }
    let us = |quantile| own.delay.quantile(quantile) as f64 / 1e3;
    let _ = writeln!(
        text,
        "  latency p50 {:.1} us, p95 {:.1} us, p99 {:.1} us, max {:.1} us",
        us(0.5),
        us(0.95),
        us(0.99),
        own.delay.max() as f64 / 1e3
    );
}

fn devices(text: &mut String, assembled: &Assembled, outcome: &Outcome) {
    let watts = |device| {
        let watts = outcome.watts(&assembled.scenario, device);
        watts.map_or("power unknown".into(), |watts| format!("{watts:.1} W"))
    };
    for (at, device) in assembled.scenario.devices.iter().enumerate() {
        let own = &outcome.devices[at];
        let share = |tenant: usize| 100.0 * outcome.device_share(at, tenant);
        let names = assembled.tenants[at].iter().enumerate();
        let shares: Vec<String> =
            names.map(|(tenant, name)| format!("{name} {:.1}", share(tenant))).collect();
        let shares = match &shares[..] {
            [] | [_] => String::new(),
            several => format!(" ({})", several.join(", ")),
        };
        // A sum of nothing is -0.
        let all = (0..own.busy_ns.len()).map(share).sum::<f64>() + 0.0;
        let _ = writeln!(
            text,
            "device {}: {all:.1} % busy{shares}, {} bytes to it, {} back, {}",
            device.name,
            own.to_device_bytes,
            own.to_host_bytes,
            watts(Some(at))
        );
    }
    let busy = outcome.lane_busy_ns.iter();
    let busy = busy.map(|ns| 100.0 * *ns as f64 / outcome.measured_ns.max(1) as f64);
    let busy: Vec<String> = busy.map(|percent| format!("{percent:.1}")).collect();
    let cores = outcome.cores_busy_ns.map(|ns| ns as f64 / outcome.measured_ns.max(1) as f64);
    let cores = cores.map_or_else(String::new, |cores| format!("{cores:.2} cores in use, "));
    let _ = writeln!(text, "cpu: lanes {} % busy, {cores}{}", busy.join(", "), watts(None));
}
