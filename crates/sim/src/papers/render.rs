//! Entries for people and programs.

mod svg;

use std::fmt::Write;

use serde_json::{Value, json};

use super::shape::shown;
use super::{PAPERS, Point, Reproduced, Series, ShapeVerdict};

pub use svg::svg;

/// One JSON object with all entries.
pub fn json(all: &[Reproduced]) -> Value {
    json!({ "entries": all.iter().map(entry_json).collect::<Vec<_>>() })
}

fn entry_json(one: &Reproduced) -> Value {
    let point = |point: &Point| json!({ "at": point.at, "paper": point.paper, "ours": point.ours });
    let series = |series: &Series| {
        json!({
            "name": series.name,
            "over": series.over,
            "unit": series.unit,
            "points": series.points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    let rules = one
        .found
        .rules
        .iter()
        .map(|rule| json!({ "rule": rule.text, "holds": rule.holds, "reason": rule.reason }));
    json!({
        "id": one.entry.id(),
        "title": one.entry.title,
        "source": one.entry.source,
        "ways": one.entry.ways(),
        "live": one.entry.live,
        "state": one.state.name(),
        "why": one.why,
        "series": one.found.series.iter().map(series).collect::<Vec<_>>(),
        "rules": rules.collect::<Vec<_>>(),
    })
}

/// A line for each point.
pub fn csv(all: &[Reproduced]) -> String {
    let mut text = String::from("id,state,series,over,at,unit,paper,ours\n");
    for one in all {
        for series in &one.found.series {
            for point in &series.points {
                let number = |value: Option<f64>| value.map(|value| value.to_string());
                let cells = [
                    one.entry.id(),
                    one.state.name().to_owned(),
                    series.name.clone(),
                    series.over.to_owned(),
                    point.at.clone(),
                    series.unit.to_owned(),
                    number(point.paper).unwrap_or_default(),
                    number(point.ours).unwrap_or_default(),
                ];
                let cells = cells.map(|cell| quoted(&cell));
                let _ = writeln!(text, "{}", cells.join(","));
            }
        }
    }
    text
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// For a terminal: the verdict of each entry, and the numbers where `is_full`.
pub fn table(all: &[Reproduced], is_full: bool) -> String {
    let mut text = String::new();
    for one in all {
        let (id, state, title) = (one.entry.id(), one.state.name(), one.entry.title);
        let _ = writeln!(text, "{id:<28} {state:<10}  {title}");
        if is_full {
            numbers(&mut text, one);
        }
    }
    let count = |state| all.iter().filter(|one| one.state == state).count();
    let [same, differs, not_run] =
        [ShapeVerdict::SameShape, ShapeVerdict::Differs, ShapeVerdict::NotRun].map(count);
    let _ = write!(text, "{same} of the same shape, {differs} that differ, {not_run} not run");
    text
}

fn numbers(text: &mut String, one: &Reproduced) {
    let _ = writeln!(text, "  {}", one.entry.source);
    for series in &one.found.series {
        let unit =
            if series.unit.is_empty() { String::new() } else { format!(", {}", series.unit) };
        let _ = writeln!(text, "  {}{unit}", series.name);
        let _ = writeln!(text, "    {:>24} {:>10} {:>10}", series.over, "paper", "ours");
        for point in &series.points {
            let _ = writeln!(
                text,
                "    {:>24} {:>10} {:>10}",
                point.at,
                number(point.paper),
                number(point.ours)
            );
        }
    }
    for rule in &one.found.rules {
        let sign = if rule.holds { "holds" } else { "fails" };
        let _ = writeln!(text, "  {sign}: {}", rule.text);
        if !rule.holds && !rule.reason.is_empty() {
            let _ = writeln!(text, "         {}", rule.reason);
        }
    }
    if one.state == ShapeVerdict::NotRun {
        let _ = writeln!(text, "  {}", one.why);
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".into(), shown)
}

/// The name of an entry's drawing.
pub fn drawing_name(one: &Reproduced) -> String {
    format!("{}.svg", one.entry.id().replace('/', "-"))
}

/// A report of all entries, with links to their drawings.
pub fn markdown(all: &[Reproduced]) -> String {
    let mut text = String::from("# Tables and figures, beside ours\n\n");
    text +=
        "Simulated numbers are of `warpline-sim` with the parameters below, and of no machine.\n\n";
    text += "| entry | verdict | quantity |\n|---|---|---|\n";
    for one in all {
        let (id, state, title) = (one.entry.id(), one.state.name(), one.entry.title);
        let _ = writeln!(text, "| {id} | {state} | {title} |");
    }
    for paper in PAPERS {
        let own: Vec<&Reproduced> =
            all.iter().filter(|one| one.entry.paper == paper.name).collect();
        if own.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {}\n\n{}\n\n", paper.name, paper.title);
        for assumed in paper.assumed {
            let _ = writeln!(text, "- Assumed: {}. {}", assumed.what, assumed.why);
        }
        own.iter().for_each(|one| entry_markdown(&mut text, one));
    }
    text
}

fn entry_markdown(text: &mut String, one: &Reproduced) {
    let (id, title, source) = (one.entry.id(), one.entry.title, one.entry.source);
    let _ = write!(text, "\n### {id}: {title}\n\n{source}. Verdict: {}.", one.state.name());
    if !one.why.is_empty() {
        let _ = write!(text, " {}", one.why);
    }
    let _ = writeln!(text, "\n");
    if one.found.series.is_empty() {
        return;
    }
    let _ = writeln!(text, "![{id}]({})\n", drawing_name(one));
    for series in &one.found.series {
        let cells =
            |of: fn(&Point) -> String| series.points.iter().map(of).collect::<Vec<_>>().join(" | ");
        let unit =
            if series.unit.is_empty() { String::new() } else { format!(" ({})", series.unit) };
        let _ = writeln!(text, "| {}{unit} | {} |", series.name, cells(|point| point.at.clone()));
        let _ = writeln!(text, "|---{}|", "|---".repeat(series.points.len()));
        let _ = writeln!(text, "| paper | {} |", cells(|point| number(point.paper)));
        let _ = writeln!(text, "| ours | {} |\n", cells(|point| number(point.ours)));
    }
    for rule in &one.found.rules {
        let sign = if rule.holds { "Holds" } else { "Fails" };
        let _ = writeln!(text, "- {sign}: {}", rule.text);
    }
}
