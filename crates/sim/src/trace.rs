//! The use of devices in Chrome's trace format, for `chrome://tracing` and Perfetto.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{Outcome, Scenario};

/// JSON: one object with all spans. Processes are devices, and threads are tenants and copies.
pub fn trace(scenario: &Scenario, outcome: &Outcome) -> String {
    let mut events = Vec::new();
    for (device, model) in scenario.devices.iter().enumerate() {
        events.push(name("process_name", device, 0, &model.name));
        for tenant in 0..model.tenants {
            events.push(name(
                "thread_name",
                device,
                thread(tenant, "kernel"),
                &tenant_name(tenant),
            ));
            for kind in ["to device", "to host"] {
                let text = format!("{}, {kind}", tenant_name(tenant));
                events.push(name("thread_name", device, thread(tenant, kind), &text));
            }
        }
    }
    let us = |ns: u64| ns as f64 / 1e3;
    let spans = outcome.spans.iter().map(|span| {
        json!({
            "name": span.kind,
            "cat": span.kind,
            "ph": "X",
            "ts": us(span.begins_ns),
            "dur": us(span.ends_ns - span.begins_ns),
            "pid": span.device,
            "tid": thread(span.tenant, span.kind),
        })
    });
    // Event by event: as one value, millions of spans would take gigabytes.
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (number, event) in events.into_iter().chain(spans).enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{event}");
    }
    let _ = write!(text, "],\"left_out\":{}}}", outcome.spans_left_out);
    text
}

fn tenant_name(tenant: usize) -> String {
    format!("tenant {tenant}")
}

fn thread(tenant: usize, kind: &str) -> usize {
    3 * tenant
        + match kind {
            "kernel" => 0,
            "to device" => 1,
            _ => 2,
        }
}

fn name(kind: &str, device: usize, thread: usize, text: &str) -> Value {
    json!({ "name": kind, "ph": "M", "pid": device, "tid": thread, "args": { "name": text } })
}
