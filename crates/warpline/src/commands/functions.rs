//! `warpline functions`: the list, and each function's manual.

use warpline_nf::config::{COMMON_KEYS, did_you_mean};
use warpline_nf::{Counter, Definition, Key};

use super::say;
use crate::Failure;
use crate::filled::filled;

/// Columns of a manual.
const COLUMNS: usize = 100;

pub(crate) fn functions(all: &[&Definition], name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        for definition in all {
            say(&format!("{:<14} {}", definition.name, definition.summary))?;
        }
        say("\n`warpline functions NAME` shows a function's manual.")?;
        return Ok(());
    };
    let Some(definition) = all.iter().find(|definition| definition.name == name) else {
        let names: Vec<&str> = all.iter().map(|d| d.name).collect();
        let meant = did_you_mean(name, names.iter().copied());
        let names = names.join(", ");
        let text = format!("unknown function {name:?}\n  {meant}functions: {names}");
        return Err(Failure::Usage(text));
    };
    say(&manual(definition))?;
    Ok(())
}

fn manual(definition: &Definition) -> String {
    let mut text = format!("{}: {}\n\n", definition.name, definition.summary);
    text += definition.manual.trim();
    text += "\n\nKeys\n";
    definition.keys.iter().for_each(|key| text += &describe(key));
    text += "\nKeys of every function\n";
    COMMON_KEYS.iter().for_each(|key| text += &describe(key));
    let devices = if definition.has_kernels { "cpu cuda opencl host" } else { "cpu" };
    text += &format!("\nDevices\n  {devices}\n\nFields\n");
    let access = &definition.access;
    for (name, phase) in [
        ("before", access.before),
        ("run", access.run),
        ("after", access.after),
        ("after, flagged", access.after_flagged),
    ] {
        if !phase.is_none() {
            let (reads, writes) = (phase.reads.to_string(), phase.writes.to_string());
            text += &format!("  {name}\n{}", filled("    reads   ", &reads, 12, COLUMNS));
            text += &filled("    writes  ", &writes, 12, COLUMNS);
        }
    }
    let drops = match definition.drops {
        [] => "none".to_owned(),
        drops => drops.join(" "),
    };
    text += &format!("\nDrop reasons\n{}", filled("  ", &drops, 2, COLUMNS));
    text += if definition.counters.is_empty() { "\nCounters\n  none" } else { "\nCounters\n" };
    for Counter { name, kind, unit, help } in definition.counters {
        text += &described(name, help, &format!("{}, {unit}", kind.name()));
    }
    text.trim_end().into()
}

fn describe(key: &Key) -> String {
    described(key.name, key.help, &format!("{}; default: {}", key.allowed, key.default))
}

/// A name with its meaning, and its details below.
fn described(name: &str, help: &str, details: &str) -> String {
    let first = format!("  {name:<28} ");
    filled(&first, help, first.len(), COLUMNS)
        + &filled(&format!("{:33}", ""), details, 35, COLUMNS)
}
