//! The statistics of a run, for programs: the file that `--stats` writes.

use serde_json::{Map, Value, json};
use warpline_engine::stats::{EndedBy, FunctionStats, PortStats, ThreadStats, Transfers};
use warpline_engine::{
    Asked, Chain, Deployment, HugePages, Instance, NO_CHAIN_ROUTE_NAME, Report, Site,
};
use warpline_nf::{Cell, Counts, Port, Table};
use warpline_packet::Malformed;

use crate::placement::Proposals;
use crate::summary::duration;
use crate::tenants::Tenancy;
use crate::{outputs_shown, peers_shown, routes_shown, stages_shown, tenants_shown};

/// Version of the file's form; it grows when a meaning changes, not when something is added.
const SCHEMA: u32 = 1;

/// Devices and outputs that the chains of a process share.
pub(crate) struct Shared<'a> {
    pub(crate) tenancy: &'a Tenancy,
    /// The outputs of their reports.
    pub(crate) outputs: &'a [Counts],
    /// Of the monitor that all have.
    pub(crate) proposals: &'a Proposals,
}

/// The statistics of all chains of a process that took `seconds`, and of `shared`.
pub(crate) fn stats(chains: &[(&Deployment, &Report)], shared: &Shared<'_>, seconds: f64) -> Value {
    let chains: Vec<Value> = chains.iter().map(|(one, report)| of_chain(one, report)).collect();
    json!({
        "schema": SCHEMA,
        "seconds": seconds,
        "chains": chains,
        "shared_devices": tenants_shown::json(shared.tenancy),
        "outputs": outputs_shown::json(shared.outputs),
        "placement": shared.proposals.json(),
    })
}

/// The statistics of a chain.
pub(crate) fn of_chain(deployment: &Deployment, report: &Report) -> Value {
    let chain = deployment.chain();
    let part = &report.part;
    let functions: Vec<Value> =
        deployment.instances().zip(&part.functions).map(|(one, f)| of_function(one, f)).collect();
    let unrouted = (part.unrouted > 0).then_some((NO_CHAIN_ROUTE_NAME, part.unrouted));
    json!({
        "name": chain.name,
        "duration": duration(part),
        "ended": if report.is_running { "running" } else { ended(part.ended_by) },
        "lanes": report.lanes,
        "seed": chain.seed().number(),
        "cores": report.cores.numbers(),
        "packets": packets(part),
        // A queue that lost nothing is left out: which ones were looked at depends on chance.
        "overload": overload(deployment, report),
        "bytes": { "read": part.bytes_read, "sent": part.bytes_sent },
        "ports": ports(chain, part),
        "ingress_drops": counts(unrouted),
        "egress_drops": counts(part.egress_drops.iter().map(|(reason, n)| (*reason, *n))),
        "time": {
            "strays": part.time.strays,
            "gaps": part.time.gaps,
            "steps_back": part.time.steps_back,
        },
        "rate": rate(part),
        "huge_pages": report.huge_pages.map(huge_pages),
        "latency_us": latency(part),
        "functions": functions,
        "paths": paths(chain, part),
        "source": stages_shown::source_json(deployment, report),
        "stages": stages_shown::json(deployment, report),
        "peers": peers_shown::json(report),
        "bottleneck": stages_shown::bottleneck(deployment, report),
        "transfers": transfers(&part.transfers),
        "moves": {
            "count": part.moves.count,
            "stall_us_max": part.moves.stall_ns_max as f64 / 1e3,
        },
        "warnings": part.warnings,
        "errors": part.errors,
    })
}

/// Packets without room, by queue.
fn overload(deployment: &Deployment, report: &Report) -> Map<String, Value> {
    let stages = stages_shown::drops(deployment, report);
    let queues = report.part.overload.iter().map(|(name, n)| (*name, *n));
    let all = queues.filter(|(_, n)| *n > 0);
    counts(all.chain(stages.iter().map(|(name, n)| (name.as_str(), *n))))
}

/// In a chain with routes, the packets that left it by each path.
fn paths(chain: &Chain, part: &ThreadStats) -> Vec<Value> {
    let path = |(functions, packets)| json!({ "functions": functions, "packets": packets });
    routes_shown::paths(chain, &part.paths).into_iter().map(path).collect()
}

/// The counts of each port.
fn ports(chain: &Chain, part: &ThreadStats) -> Vec<Value> {
    let none = PortStats::default();
    let of = |(number, port): (usize, &Port)| {
        let PortStats { read, bytes_read, sent, bytes_sent, overload } =
            part.ports.get(number).unwrap_or(&none);
        json!({
            "name": port.name,
            "side": port.side.name(),
            "packets": { "read": read, "sent": sent, "overload": overload },
            "bytes": { "read": bytes_read, "sent": bytes_sent },
        })
    };
    chain.ports().iter().enumerate().map(of).collect()
}

/// Bytes that asked for huge pages and were touched, and those that lie in them.
pub(crate) fn huge_pages(of: HugePages) -> Value {
    let asked = |own: Asked| json!({ "resident_bytes": own.resident, "huge_bytes": own.huge });
    json!({ "tables": asked(of.tables), "arena": asked(of.arena) })
}

fn transfers(of: &Transfers) -> Value {
    json!({
        "to_device_bytes": of.to_device_bytes,
        "to_host_bytes": of.to_host_bytes,
        "predicted_to_device_bytes": of.predicted_to_device_bytes,
        "predicted_to_host_bytes": of.predicted_to_host_bytes,
        "besides_to_device_bytes": of.besides_to_device_bytes,
        "besides_to_host_bytes": of.besides_to_host_bytes,
        "missing_bytes": of.missing_bytes,
        "predicted_missing_bytes": of.predicted_missing_bytes,
        "fetched_bytes": of.fetched_bytes,
        "predicted_fetched_bytes": of.predicted_fetched_bytes,
        "launches": of.launches,
        "streams": of.streams,
    })
}

fn ended(by: EndedBy) -> &'static str {
    match by {
        EndedBy::Input => "end of input",
        EndedBy::Stop => "signal",
        EndedBy::Output => "output closed",
        EndedBy::Error => "error",
    }
}

fn counts<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Map<String, Value> {
    counts.into_iter().map(|(name, n)| (name.to_owned(), json!(n))).collect()
}

fn packets(part: &ThreadStats) -> Value {
    let p = &part.packets;
    json!({
        "read": p.read,
        "generated": p.generated,
        "sent": p.sent,
        "absorbed": p.absorbed,
        "dropped": p.dropped,
        "malformed": p.malformed,
        "overload": p.overload,
        "unwritten": p.unwritten,
        "in_flight": p.in_flight,
        "balanced": p.balanced(),
    })
}

fn rate(part: &ThreadStats) -> Value {
    let seconds = duration(part);
    let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    json!({
        "gbps": per_second(part.bytes_read as f64 * 8.0) / 1e9,
        "mpps": per_second(part.packets.read as f64) / 1e6,
        "batch_packets": part.latency.len() as f64 / part.batches.max(1) as f64,
    })
}

fn latency(part: &ThreadStats) -> Value {
    let at = |quantile| part.latency.value_at_quantile(quantile) as f64 / 1e3;
    json!({
        "p50": at(0.50),
        "p95": at(0.95),
        "p99": at(0.99),
        "max": part.latency.max() as f64 / 1e3,
    })
}

fn of_function((instance, site): (&Instance, &Site), stats: &FunctionStats) -> Value {
    let drops = counts(instance.named_drops(stats));
    let malformed =
        Malformed::ALL.iter().map(|what| (what.name(), stats.malformed[*what as usize]));
    let malformed = counts(malformed.filter(|(_, n)| *n > 0));
    json!({
        "name": instance.name,
        "function": instance.definition.name,
        "device": site.device_id(),
        "packets_in": stats.packets_in,
        "packets_out": stats.packets_out,
        "generated": stats.generated,
        "absorbed": stats.absorbed,
        "drops": drops,
        "malformed": malformed,
        "busy_seconds": stats.busy_ns as f64 / 1e9,
        "counters": stats.counters,
        "tables": tables(&stats.tables),
        "about": instance.function.about().json,
        "transfers": transfers(&stats.transfers),
    })
}

/// Tables by name, each a list of rows by column.
fn tables(tables: &[Table]) -> Map<String, Value> {
    let cell = |cell: &Cell| match cell {
        Cell::Number(number) => json!(number),
        Cell::Text(text) => json!(text),
    };
    let row = |table: &Table, row: &[Cell]| -> Value {
        let cells = table.columns.iter().zip(row);
        cells.map(|(name, value)| ((*name).to_owned(), cell(value))).collect::<Map<_, _>>().into()
    };
    let rows = |table: &Table| -> Vec<Value> { table.rows.iter().map(|r| row(table, r)).collect() };
    tables.iter().map(|table| (table.name.to_owned(), json!(rows(table)))).collect()
}
