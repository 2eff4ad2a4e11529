//! `warpline check`: builds everything a chain file names, and reports the result.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use warpline_engine::{
    Asked, Chain, Demand, Deployment, HugePages, Instance, LaneNeed, Settings, StartError, demands,
    try_cores, try_huge_pages,
};
use warpline_nf::{Diagnostic, Diagnostics, SourceText, TableSize};
use warpline_packet::{FieldSet, Steering};

use super::{places, say, say_json};
use crate::bounded::bounded;
use crate::chain_file::{LoadOptions, Loaded};
use crate::device_keys::{self, check_name};
use crate::filled::filled;
use crate::placement;
use crate::routes_shown;
use crate::summary::grouped;
use crate::{Failure, stats_json, tenants_shown};

/// How a check's outcome is reported.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// As JSON, not in words.
    pub(crate) is_json: bool,
    /// With what builds the state of all lanes: huge pages.
    pub(crate) is_verbose: bool,
}

/// With `strict`, the chains also run over their input, or over the one that it names.
pub(crate) fn check(
    path: &Path,
    options: &LoadOptions<'_>,
    form: Form,
    strict: Option<Option<&str>>,
) -> Result<(), Failure> {
    let checked = check_all(path, options, form, strict);
    match checked {
        Err(failure) if form.is_json => Err(mistakes_to_json(&failure)?),
        other => other,
    }
}

fn check_all(
    path: &Path,
    options: &LoadOptions<'_>,
    form: Form,
    strict: Option<Option<&str>>,
) -> Result<(), Failure> {
    let device = options.device;
    device.map_or(Ok(()), check_name).map_err(Failure::Usage)?;
    let needs_input = !matches!(strict, Some(Some(_)));
    let chains = super::load_file(path, options, needs_input)?;
    check_machine(chains.iter())?;
    let mut warnings = places::missing_interfaces(path, &chains);
    if needs_input {
        let source = SourceText::new(path.display().to_string(), "");
        let is_lone = chains.len() == 1;
        let missing = chains.iter().filter_map(|loaded| missing_input(loaded, is_lone));
        // `run` takes the input of a single chain only.
        let mut mistakes = Diagnostics::default();
        let list = if is_lone { &mut warnings } else { &mut mistakes };
        missing.for_each(|text| list.push(source.whole(text)));
        if !mistakes.is_empty() {
            return Err(super::mistakes(&source.name, mistakes));
        }
    }
    let chains = places::check_ports(path, chains, strict.flatten())?;
    let unused = device_keys::unused(device, chains.iter().map(|loaded| &*loaded.deployment));
    unused.iter().for_each(|messages| super::run::print_message(messages));
    if form.is_json {
        let chains = chains.iter().map(|loaded| to_json(loaded, form));
        let chains = chains.collect::<Result<Vec<Value>, _>>()?;
        let warnings = listed(&warnings);
        let all = json!({ "schema": SCHEMA, "chains": chains, "warnings": warnings });
        return say_json(&format!("{all:#}"));
    }
    warnings.iter().for_each(|warning| super::run::print_message(&format!("warning: {warning}\n")));
    for loaded in &chains {
        let text = describe(&loaded.deployment, &loaded.settings, form.is_verbose);
        let text = text + "\n" + &placement::lines(loaded);
        say(text.trim_end())?;
        if form.is_verbose {
            say(&pages_line(try_pages(loaded)?))?;
        }
        for (messages, what) in [(&loaded.left_out.listed, "skipped"), (&loaded.remarks, "remarks")]
        {
            if !messages.is_empty() {
                say(&format!("  {what}, {} in all:\n{messages}", messages.count()))?;
            }
        }
    }
    let shared = chains.first().map_or(String::new(), |one| tenants_shown::describe(&one.tenancy));
    shared.lines().try_for_each(say)?;
    strict.map_or(Ok(()), |input| super::strict::strict(&chains, path, options, input))
}

/// `check` accepts a single chain without an input, which `run` may be given.
fn missing_input(loaded: &Loaded, is_lone: bool) -> Option<String> {
    let name = &loaded.chain().name;
    let other = if is_lone { ", or give it to `run`" } else { "" };
    let is_missing = loaded.ports.input.is_none();
    is_missing.then(|| format!("chain {name:?} has no input: write `input` in [chain]{other}"))
}

/// Checks the machine for all chains: cores for their lanes, the memory of a lane, the way of whole
/// frames, and device memory for all chains together.
///
/// # Errors
/// The first requirement that the machine does not satisfy, with a remedy.
pub(crate) fn check_machine<'a>(
    chains: impl Iterator<Item = &'a Loaded> + Clone,
) -> Result<(), Failure> {
    for Loaded { deployment, settings, .. } in chains.clone() {
        let name = &deployment.chain().name;
        try_cores(deployment, settings).map_err(|why| {
            let messages = format!("chain {name:?}: {why}");
            if why == StartError::Thread {
                Failure::Run(messages)
            } else {
                Failure::Usage(messages)
            }
        })?;
        let messages = |why| Failure::Usage(format!("chain {name:?}: {why}"));
        deployment.try_frames().map_err(messages)?;
        let need = settings.fit(deployment).memory(deployment);
        if !need.fits() {
            return Err(Failure::Usage(too_large(deployment.chain(), &need)));
        }
    }
    let tenancy = chains.clone().next().map(|loaded| Arc::clone(&loaded.tenancy));
    if let Some(tenancy) = &tenancy {
        tenancy.check_quotas(chains.clone()).map_err(Failure::Usage)?;
    }
    let all = demands(chains.map(|loaded| (&*loaded.deployment, &loaded.settings)));
    match all.iter().find(|demand| !demand.fits()) {
        Some(demand) => Err(Failure::Usage(too_much(demand))),
        None => Ok(()),
    }
}

/// The memory of a lane that is too large, and keys that make it smaller.
fn too_large(chain: &Chain, need: &LaneNeed) -> String {
    let made = chain.instances.iter().map(|instance| {
        let emits = instance.function.emits();
        (emits.len_max.max(emits.replace_len_max), instance.table())
    });
    let longest = made.max_by_key(|(len, _)| *len).filter(|(len, _)| *len > 0);
    let longest = longest.map_or_else(String::new, |(len, name)| {
        format!("; so do shorter frames made by [{name}], now up to {len} bytes")
    });
    format!(
        "chain {:?}: {}; this one takes {need}\n  a smaller `arena_mib`, `batch_packets` or \
         `launch_kib` and fewer `streams` take less{longest}",
        chain.name,
        LaneNeed::BOUND
    )
}

/// Whose demand does not fit, by how much, and what would help.
fn too_much(demand: &Demand) -> String {
    let names: Vec<String> = demand.chains.iter().map(|name| format!("{name:?}")).collect();
    let whose = if names.len() == 1 { "chain" } else { "chains" };
    format!(
        "{whose} {}: {demand}\n  fewer `lanes` or `streams`, a smaller `arena_mib` or `launch_kib` \
         take less",
        names.join(", ")
    )
}

/// Version of the JSON's form; it grows when a meaning changes, not when something is added.
const SCHEMA: u32 = 1;

/// The description of a chain for programs: its functions with their configuration, and the skipped
/// parts of its files.
fn to_json(loaded: &Loaded, form: Form) -> Result<Value, Failure> {
    let (chain, deployment) = (loaded.chain(), &loaded.deployment);
    let pages = if form.is_verbose { try_pages(loaded)? } else { None };
    let function = |instance: &Instance| {
        json!({
            "name": instance.name,
            "function": instance.definition.name,
            "about": instance.function.about().json,
            "tables": tables(chain, instance).map(|(table, count)| json!({
                "name": table.name,
                "total": table.total,
                "tables": count,
            })).collect::<Vec<_>>(),
        })
    };
    let functions: Vec<Value> = chain.instances.iter().map(function).collect();
    Ok(json!({
        "name": chain.name,
        "steering": chain.steering.name(),
        "ports": chain.ports().iter().map(|port| json!({
            "name": port.name,
            "side": port.side.name(),
        })).collect::<Vec<_>>(),
        "routes": routes_shown::json(chain),
        "placement": placement::json(loaded),
        "memory": memory(&loaded.settings.fit(deployment).memory(deployment)),
        "huge_pages": pages.map(stats_json::huge_pages),
        "functions": functions,
        "left_out": listed(&loaded.left_out.listed),
        "remarks": listed(&loaded.remarks),
    }))
}

/// Huge pages of a run's memory; `None` where the system does not report them.
fn try_pages(loaded: &Loaded) -> Result<Option<HugePages>, Failure> {
    let messages = |why| Failure::Run(format!("chain {:?}: {why}", loaded.chain().name));
    try_huge_pages(&loaded.deployment, &loaded.settings).map_err(messages)
}

fn pages_line(pages: Option<HugePages>) -> String {
    let mb = |bytes: u64| bytes.div_ceil(1 << 20);
    let line = |asked: Asked| format!("{} of {} MB", mb(asked.huge), mb(asked.resident));
    match pages {
        None => "  pages     the system does not report huge pages".into(),
        Some(HugePages { tables, arena }) => {
            let (tables, arena) = (line(tables), line(arena));
            format!("  pages     {tables} in huge pages for tables, {arena} for the arena")
        }
    }
}

/// The tables of an instance, each with how many it is cut into.
fn tables(chain: &Chain, instance: &Instance) -> impl Iterator<Item = (TableSize, usize)> {
    let is_divided = chain.steering != Steering::Single;
    let tables = instance.function.tables().into_iter();
    tables.map(move |table| {
        let count = table.count(is_divided);
        (table, count)
    })
}

/// The capacity of a table, in all and in a shard.
fn table_line(table: &TableSize, count: usize) -> String {
    let TableSize { name, total, .. } = table;
    let each = total / count;
    let [all, least, most] = [*total, each, each + 1].map(|entries| grouped(entries as u64));
    match total % count {
        _ if count == 1 => format!("{all} {name}, all in one table"),
        0 => format!("{all} {name}, {least} in each of {count} shards"),
        _ => format!("{all} {name}, {least} or {most} in each of {count} shards"),
    }
}

/// Bytes that are reserved, of one lane but for the sum over all; those of them that are in use
/// with full queues; and the sum with all notes, for which `notes` are addresses and not yet
/// memory.
fn memory(need: &LaneNeed) -> Value {
    let LaneNeed { lanes, packets, made, batches, notes, launches, shown, .. } = *need;
    json!({
        "lanes": lanes,
        "packets": packets,
        "made": made,
        "batches": batches,
        "notes": notes,
        "launches": launches,
        "shown": shown,
        "lane": need.lane(),
        "all": need.all(),
        "at_most": need.all_at_most(),
        "in_use": { "lane": need.in_use, "all": need.all_in_use() },
    })
}

/// Tells programs what is wrong; gives what the command then ends with.
fn mistakes_to_json(failure: &Failure) -> Result<Failure, Failure> {
    let mistakes = match failure {
        Failure::Mistakes { list, .. } => listed(list),
        Failure::Reported(_) | Failure::Signal(_) => {
            return Ok(Failure::Reported(failure.status()));
        }
        Failure::Run(why) | Failure::Usage(why) => {
            let mut list = Diagnostics::default();
            list.push(Diagnostic::bare(why.clone()));
            listed(&list)
        }
    };
    say_json(&format!("{:#}", json!({ "schema": SCHEMA, "mistakes": mistakes })))?;
    Ok(Failure::Reported(failure.status()))
}

/// Mistakes by their places; a place that is not known is null.
fn listed(messages: &Diagnostics) -> Value {
    let one = |messages: &Diagnostic| {
        let is_placed = messages.line > 0;
        json!({
            "file": (!messages.file.is_empty()).then_some(&*messages.file),
            "line": is_placed.then_some(messages.line),
            "column": is_placed.then_some(messages.column),
            "message": bounded(&messages.message),
            "allowed": messages.allowed.as_ref().or(messages.help.as_ref()),
        })
    };
    let listed: Vec<Value> = messages.iter().map(one).collect();
    json!({ "count": messages.count(), "listed": listed })
}

/// A chain as it was built: stages, steering, what each function touches.
fn describe(deployment: &Deployment, settings: &Settings, is_verbose: bool) -> String {
    let chain = deployment.chain();
    let mut text = format!("chain {:?} is fine\n", chain.name);
    match &chain.disagreement {
        None => text += &format!("  steering  {}\n", chain.steering.name()),
        Some([first, second]) => {
            text += &format!(
                "  steering  none: [{first}] and [{second}] divide their state by different keys, \
                 so the chain runs on one lane\n"
            );
        }
    }
    let ports: Vec<String> =
        chain.ports().iter().map(|port| format!("{} {}", port.name, port.side.name())).collect();
    if !ports.is_empty() {
        text += &format!("  ports     {}\n", ports.join(", "));
    }
    text += &routes_shown::lines(chain);
    let fitted = settings.fit(deployment);
    let memory = format!("{}; not counted: functions' tables", fitted.memory(deployment));
    text += &filled("  memory    ", &memory, 12, 80);
    if fitted.batch_packets < settings.batch_packets {
        let (is, asked) = (fitted.batch_packets, settings.batch_packets);
        text +=
            &format!("  batches   of {is} packets, not {asked}: functions may make many of each\n");
    }
    if chain.instances.is_empty() {
        text += "  the chain is empty: packets pass as they are\n";
    }
    let stages = deployment.stages().iter().enumerate();
    for (number, stage) in stages.filter(|(_, stage)| stage.count > 0) {
        text += &format!("  stage {}", number + 1);
        if stage.launch_batches > 1 {
            text += &format!(", {} batches together", stage.launch_batches);
        }
        text += "\n";
        let sites = &deployment.sites()[stage.positions()];
        let width = chain.instances.iter().map(|one| one.name.len()).max().unwrap_or(0).max(14);
        for (instance, site) in deployment.members(stage).iter().zip(sites) {
            let access = instance.function.access();
            let phases = [&access.before, &access.run, &access.after, &access.after_flagged];
            let reads = phases.iter().fold(FieldSet::EMPTY, |set, phase| set | phase.reads);
            let writes = phases.iter().fold(FieldSet::EMPTY, |set, phase| set | phase.writes);
            text += &format!(
                "    {:<width$} {} on {}\n",
                instance.name,
                instance.definition.name,
                site.device_id()
            );
            if is_verbose {
                text += &detail("reads", &reads.to_string());
                text += &detail("writes", &writes.to_string());
            }
            for (table, count) in tables(chain, instance) {
                text += &detail("table", &table_line(&table, count));
            }
            for (name, value) in instance.function.about().lines {
                text += &detail(name, &value);
            }
        }
    }
    text.trim_end().into()
}

/// A line about a function, in as many lines of 80 columns as that takes.
fn detail(name: &str, value: &str) -> String {
    filled(&format!("      {name:<7} "), value, 14, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_tables_hold() {
        let line = |total, count| table_line(&TableSize::divided("flows", total), count);
        assert_eq!(line(65_536, 64), "65,536 flows, 1,024 in each of 64 shards");
        assert_eq!(line(1000, 64), "1,000 flows, 15 or 16 in each of 64 shards");
        assert_eq!(line(1000, 1), "1,000 flows, all in one table");
    }

    #[test]
    fn says_what_does_not_fit_and_what_helps() {
        let chains = vec!["one".to_string(), "other".to_string()];
        let demand = Demand {
            device: "cuda:0".into(),
            memory: 1 << 30,
            chains,
            mirrors: 2 << 30,
            others: 0,
        };
        let messages = too_much(&demand);
        assert!(messages.starts_with("chains \"one\", \"other\": "), "{messages}");
        assert!(messages.contains("cuda:0") && messages.contains("2048 MiB"), "{messages}");
        assert!(messages.contains("a smaller `arena_mib`"), "{messages}");
    }

    #[test]
    fn says_how_much_is_in_huge_pages() {
        let asked = |resident, huge| Asked { resident, huge };
        let pages = HugePages { tables: asked(66 << 20, 64 << 20), arena: asked(4097, 0) };
        let line = "  pages     64 of 66 MB in huge pages for tables, 0 of 1 MB for the arena";
        assert_eq!(pages_line(Some(pages)), line);
        assert!(pages_line(None).contains("does not report"));
    }
}
