//! Shared devices after a run: the share of each tenant, and the slices that went unused.

use serde_json::{Value, json};
use warpline_engine::{SharedReport, Tenant};
use warpline_sched::TenantEvidence;

use crate::tenants::{Shared, Tenancy};

const MIB: u64 = 1 << 20;

/// The shared devices, for the statistics.
pub(crate) fn json(tenancy: &Tenancy) -> Vec<Value> {
    tenancy.shared.iter().map(device_json).collect()
}

fn device_json(shared: &Shared) -> Value {
    let report = shared.device.report();
    let sharing = shared.device.sharing();
    let tenants = shared.device.tenants().iter().enumerate();
    let tenants: Vec<Value> =
        tenants.map(|(number, tenant)| tenant_json(shared, &report, number, tenant)).collect();
    json!({
        "device": shared.device.id(),
        "policy": sharing.policy.name(),
        "slice_ms": sharing.slice_ns as f64 / 1e6,
        "slots": sharing.slots,
        "seconds": seconds(report.evidence.elapsed_ns),
        "unassigned_slices": report.evidence.unassigned_slices,
        "tenants": tenants,
    })
}

fn tenant_json(shared: &Shared, report: &SharedReport, number: usize, tenant: &Tenant) -> Value {
    let own = report.evidence.tenants.get(number).copied().unwrap_or_default();
    let TenantEvidence { device_ns, slices, slices_wasted, idle_ns, overrun_ns, .. } = own;
    json!({
        "name": tenant.name,
        "chains": shared.chains.get(number),
        "slots": tenant.slots,
        "share": share(report, number),
        "device_seconds": seconds(device_ns),
        "waiting_seconds": seconds(own.waiting_ns),
        "idle_seconds": seconds(idle_ns),
        "overrun_seconds": seconds(overrun_ns),
        "launches": own.grants,
        "lost": own.lost,
        "slices": slices,
        "slices_wasted": slices_wasted,
        "memory": {
            "allowed_bytes": tenant.memory,
            "peak_bytes": report.memory_peaks.get(number),
        },
    })
}

/// Who shares which device, before a run.
pub(crate) fn describe(tenancy: &Tenancy) -> String {
    let mut text = String::new();
    for shared in &tenancy.shared {
        let policy = shared.device.sharing().policy.name();
        let tenants = shared.device.tenants().iter().map(|tenant| {
            let slots = if tenant.slots == 1 { "slot" } else { "slots" };
            let memory = tenant.memory.map(|memory| format!(", {} MiB", memory / MIB));
            format!("{} ({} {slots}{})", tenant.name, tenant.slots, memory.unwrap_or_default())
        });
        let tenants = tenants.collect::<Vec<_>>().join(", ");
        text += &format!("{}: shared by {policy}: {tenants}\n", shared.device.id());
    }
    text
}

/// The shared devices, for the summary.
pub(crate) fn summary(tenancy: &Tenancy) -> String {
    tenancy.shared.iter().map(device_summary).collect()
}

fn device_summary(shared: &Shared) -> String {
    let report = shared.device.report();
    let sharing = shared.device.sharing();
    let mut text = format!(
        "{}: shared by {} in slices of {} ms\n",
        shared.device.id(),
        sharing.policy.name(),
        sharing.slice_ns / 1_000_000
    );
    let tenants = shared.device.tenants();
    let width = tenants.iter().map(|tenant| tenant.name.len()).max().unwrap_or(0).min(40);
    for (number, tenant) in tenants.iter().enumerate() {
        let own = report.evidence.tenants.get(number).copied().unwrap_or_default();
        text += &format!(
            "  {:width$}  {:5.1} %  {} launches, waited {:.2} s for {:.2} s of device time",
            tenant.name,
            share(&report, number) * 100.0,
            own.grants,
            seconds(own.waiting_ns),
            seconds(own.device_ns),
        );
        if own.slices_wasted > 0 {
            text += &format!(", {} of {} slices unused", own.slices_wasted, own.slices);
        }
        if own.lost > 0 {
            text += &format!(", {} launches lost", own.lost);
        }
        if let Some(memory) = tenant.memory {
            let peak = report.memory_peaks.get(number).copied().unwrap_or_default();
            text += &format!(", {} of {} MiB", peak.div_ceil(MIB), memory / MIB);
        }
        text += "\n";
    }
    text
}

/// The tenant's part of the time, from 0 to 1.
fn share(report: &SharedReport, number: usize) -> f64 {
    report.evidence.share_ppm(number) as f64 / 1e6
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
