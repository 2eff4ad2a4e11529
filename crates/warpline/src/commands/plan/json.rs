//! A chain's plans as JSON: enough to check them with a model of one's own.

use serde_json::{Map, Value, json};
use warpline_engine::{Deployment, Planned};
use warpline_packet::{Field, FieldSet, ReadWrite};
use warpline_sched::{Crossing, FieldCosts, LinkCosts, Mode, Plan, PlanStep};

use super::link::Traffic;
use super::memory::InFlight;
use super::{by_path, device_of, made, problem_of};
use crate::Failure;
use crate::chain_file::Loaded;
use crate::placement;
use crate::routes_shown;

/// Version of the JSON's form; it grows when a meaning changes, not when something is added.
const SCHEMA: u32 = 3;

/// The plans of all modes for every chain.
pub(super) fn all(chains: &[Loaded], traffic: Traffic) -> Result<String, Failure> {
    let of = |loaded: &Loaded| to_json(loaded, traffic);
    let chains = chains.iter().map(of).collect::<Result<Vec<Value>, Failure>>()?;
    Ok(format!("{:#}", json!({ "schema": SCHEMA, "chains": chains })))
}

fn to_json(loaded: &Loaded, traffic: Traffic) -> Result<Value, Failure> {
    let (deployment, packet_len) = (&loaded.deployment, traffic.packet_len);
    let own = problem_of(deployment, packet_len);
    let mut widths: Map<String, Value> = Field::ALL
        .iter()
        .map(|&field| (field.name().to_owned(), json!(own.problem.widths.of(field))))
        .collect();
    // Not a field: a frame with its head- and tailroom.
    widths.insert("room".into(), json!(own.problem.widths.room));
    let functions: Vec<Value> = own
        .problem
        .functions
        .iter()
        .enumerate()
        .map(|(number, function)| {
            let members = &deployment.chain().instances[own.positions[number].clone()];
            let access = &own.declared[number];
            let whole = own.problem.whole(number);
            json!({
                "name": function.name,
                "members": members.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
                "device": device_of(deployment, &own, number),
                "copies": function.device.is_some(),
                "before": declared(access.before),
                "run": declared(access.run),
                "after": declared(access.after),
                "fallback": names(function.fallback),
                "after_flagged": declared(access.after_flagged),
                "flagged_share": function.flagged_share,
                "whole_frame": { "to_device": whole.there, "to_host": whole.back },
            })
        })
        .collect();
    let mut modes = Map::new();
    for mode in Mode::ALL {
        modes.insert(mode.name().into(), plan_json(deployment, &own, &made(&own, mode)?, traffic));
    }
    Ok(json!({
        "name": deployment.chain().name,
        "routes": routes_shown::json(deployment.chain()),
        "placement": placement::json(loaded),
        "packet_len": packet_len,
        "gbps": traffic.gbps,
        "in_flight": InFlight::of(loaded, traffic).json(),
        "links": links(deployment, &own),
        "widths": widths,
        "end_reads": names(own.problem.end_reads),
        "gathered": names(own.problem.gathered),
        "is_recoverable": own.problem.is_recoverable,
        "functions": functions,
        "runs_as": deployment.plan().mode.name(),
        "frames_by": deployment.plan().frames_by.name(),
        "modes": modes,
    }))
}

/// By device, what its link was taken to cost, in ns, and whether that was measured.
fn links(deployment: &Deployment, own: &Planned) -> Map<String, Value> {
    let of = |(id, costs): (&String, &LinkCosts)| {
        let costs = json!({
            "to_device_ns_per_byte": costs.to_device_ns_per_byte,
            "to_host_ns_per_byte": costs.to_host_ns_per_byte,
            "traffic": costs.traffic,
            "transfer_ns": costs.transfer_ns,
            "is_measured": deployment.profile().link(id).is_some(),
            "host_copy_ns_per_byte": costs.host_copy_ns_per_byte,
            "gather": fields_cost(&costs.gather),
            "put": fields_cost(&costs.put),
            "is_host_measured": deployment.profile().gather.is_some(),
            "device_copy_ns_per_byte": costs.device_copy_ns_per_byte,
            "whole_back_ns": costs.whole_back_ns,
        });
        (id.clone(), costs)
    };
    own.devices.iter().zip(&own.problem.links).map(of).collect()
}

/// Of single fields on the host, one way.
fn fields_cost(costs: &FieldCosts) -> Value {
    json!({ "packet_ns": costs.packet_ns, "field_ns": costs.field_ns })
}

fn names(fields: FieldSet) -> Vec<&'static str> {
    fields.iter().map(Field::name).collect()
}

fn declared(touch: ReadWrite) -> Value {
    json!({ "reads": names(touch.reads), "writes": names(touch.writes) })
}

fn crossing(crossing: &Crossing) -> Value {
    let Crossing { way, fields, bytes, .. } = crossing;
    json!({ "way": way.name(), "fields": names(*fields), "bytes": bytes })
}

/// With what of `bytes` is of the launch's table, which crosses whatever the way.
fn with_table(of_step: &Crossing) -> Value {
    let mut reported = crossing(of_step);
    reported["row_bytes"] = json!(of_step.row_bytes);
    reported
}

fn plan_json(deployment: &Deployment, own: &Planned, plan: &Plan, traffic: Traffic) -> Value {
    let step = |step: &PlanStep| {
        let [there, back] = traffic.shares(own, step);
        json!({
            "function": own.problem.functions[step.function].name,
            "device": device_of(deployment, own, step.function),
            "first_to_host": crossing(&step.first_to_host),
            "to_device": with_table(&step.to_device),
            "missing_to_device": crossing(&step.missing),
            "to_host": with_table(&step.to_host),
            "flagged_to_host": crossing(&step.flagged),
            "mirror_after": step.mirror_after,
            "link_share": { "to_device": there, "to_host": back },
        })
    };
    json!({
        "to_device_bytes": plan.to_device_bytes(),
        "to_host_bytes": plan.to_host_bytes(),
        "cost_ns": plan.cost_ns,
        "paths": by_path::json(&own.problem, plan),
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
    })
}
