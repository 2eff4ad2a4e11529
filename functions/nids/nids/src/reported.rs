//! Messages about the built rules: how many are active, what the others need, and the memory they
//! take.

use core::time::Duration;

use serde_json::{Value, json};
use warpline_packet::{SHARDS, Shard};

use super::flow_state::FlowState;
use super::groups::Groups;
use super::kernels::Form;
use super::limits;
use super::tables::Tables;
use super::waiting::Pool;
use warpline_nf::{About, Diagnostics};
use warpline_nids_rules::{RuleSet, grouped};
use warpline_streams::flows::Flows;

/// The messages about `set`, whose `tables` were made in `took`.
pub(super) fn about(set: &RuleSet, tables: &Tables, took: Duration) -> About {
    let names: Vec<&str> = tables.groups.matcher_names().into_iter().collect();
    let (groups, matchers_len, flows_len) =
        (tables.groups.len(), tables.groups.memory_len(), flows_len(tables));
    let matchers = format!(
        "{}; {} {}, {}; made in {:.2} s",
        if names.is_empty() {
            "none, as no rule has a literal".into()
        } else {
            names.join(" and ")
        },
        grouped(groups),
        if groups == 1 { "group" } else { "groups" },
        size(matchers_len),
        took.as_secs_f64()
    );
    let mut rules = set.to_json();
    rules["broken_rules"] = listed(&set.broken);
    let all = json!({
        "rules": rules,
        "matcher": { "names": names, "groups": groups, "bytes": matchers_len },
        "flow_bytes": flows_len,
        "load_seconds": took.as_secs_f64(),
    });
    let mut about = About {
        lines: vec![
            ("rules", set.to_string()),
            ("matcher", matchers),
            (
                "flows",
                format!(
                    "{} at most, with their streams {}",
                    grouped(tables.config.flows),
                    size(flows_len)
                ),
            ),
        ],
        json: all.as_object().cloned().unwrap_or_default(),
    };
    let (text, json) = on_devices(&tables.groups);
    about.lines.push(("devices", text));
    about.json.insert("devices".into(), json);
    about
}

/// How a device would look for the literals, or why none does.
fn on_devices(groups: &Groups) -> (String, Value) {
    let form = match Form::of(groups) {
        Ok(form) => form,
        Err(why) => return (format!("runs on the CPU only: {why}"), json!({ "why_not": why })),
    };
    let (bytes, literals) = (form.tables_len(groups), groups.patterns().len());
    let size = size(bytes);
    match &form {
        Form::Automaton(_) => {
            (format!("an automaton, {size}"), json!({ "form": "automaton", "bytes": bytes }))
        }
        Form::Grams(tables) => {
            let by_grams = tables.by_grams();
            let text = format!(
                "a filter by grams, {size}: {} by grams, {} by an automaton",
                grouped(by_grams),
                grouped(literals - by_grams)
            );
            (
                text,
                json!({
                    "form": "grams", "bytes": bytes, "literals": literals, "by_grams": by_grams,
                }),
            )
        }
    }
}

/// Bytes of all shards' flows and streams.
fn flows_len(tables: &Tables) -> usize {
    let config = &tables.config;
    let of = |shard| {
        Flows::<FlowState>::memory_len(&limits::flows(config, shard))
            + Pool::memory_len(limits::waiting(config, shard))
    };
    if tables.whole_sid.is_some() {
        of(Shard::WHOLE)
    } else {
        (0..SHARDS).map(Shard::new).map(of).sum()
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Mistakes with their places, as far as they are listed.
fn listed(mistakes: &Diagnostics) -> Value {
    let one = |reported: &warpline_nf::Diagnostic| {
        json!({
            "file": &*reported.file, "line": reported.line, "column": reported.column,
            "message": reported.message,
        })
    };
    mistakes.iter().map(one).collect()
}
