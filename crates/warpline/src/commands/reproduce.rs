//! `warpline reproduce`: the tables and figures of papers, beside ours.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use warpline_io_error::plain;
use warpline_nf::config::read_text;
use warpline_sim::papers::{self, PAPERS, PaperItem, Reproduced};

use super::{say, say_json};
use crate::Failure;
use crate::claims::Claims;
use crate::cli::ReproduceArguments;
use crate::filled::narrowed;

/// Bytes of a bench's record.
const RECORD_LEN_MAX: u64 = 16 << 20;

/// Runs the entries that are named, or lists all.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let name = arguments.entries.as_deref();
    let entries = papers::named(name.unwrap_or("all"));
    if entries.is_empty() {
        return Err(Failure::Usage(unknown(name.unwrap_or_default())));
    }
    let record = arguments.record.as_deref().map(record).transpose()?;
    if let Some(folder) = &arguments.out {
        let failed = |why| Failure::Usage(format!("--out {}: {}", folder.display(), plain(&why)));
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let run = |entry: &'static PaperItem| match (arguments.live, &record) {
        (true, Some(record)) => Ok(entry.measured(record)),
        (true, None) => Ok(entry.not_run()),
        (false, _) => entry.simulate(),
    };
    let all: Result<Vec<Reproduced>, _> = entries.into_iter().map(run).collect();
    let all = all.map_err(|why| Failure::Run(why.to_string()))?;
    if let Some(folder) = &arguments.out {
        let files = files(folder, &all);
        leave_record(&files, arguments.record.as_deref())?;
        save(&files)?;
    }
    match arguments.json {
        true => say_json(&papers::json(&all).to_string()),
        false => say(&narrowed(&papers::table(&all, name.is_some()))),
    }
}

/// The record of a bench.
fn record(path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let text = read_text(path, RECORD_LEN_MAX)
        .map_err(|why| Failure::Usage(format!("can't read {name}: {why}")))?;
    let record = warpline_sim::json::parse(&text).map_err(|why| {
        let help = "a bench writes its record with --json FILE";
        Failure::Usage(format!("{name}: {why}; {help}"))
    })?;
    match record["runs"].is_array() && record["bench"].is_string() {
        true => Ok(record),
        false => Err(Failure::Usage(format!("{name}: no record of a bench: it has no `runs`"))),
    }
}

fn unknown(name: &str) -> String {
    let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    let paper = PAPERS.iter().find(|paper| name.starts_with(paper.name));
    let items = paper.map(|paper| {
        let items: Vec<&str> = paper.entries.iter().map(|entry| entry.item).collect();
        format!("; entries of {}: {}", paper.name, items.join(", "))
    });
    format!(
        "no entry {name:?}; name all, a paper, or PAPER/ENTRY; papers: {}{}",
        papers.join(", "),
        items.unwrap_or_default()
    )
}

/// A report, all numbers, and a drawing of each entry: files with their texts.
fn files(folder: &Path, all: &[Reproduced]) -> Vec<(PathBuf, String)> {
    let mut files = vec![
        ("report.md".to_owned(), papers::markdown(all)),
        ("results.csv".to_owned(), papers::csv(all)),
        ("results.json".to_owned(), format!("{:#}\n", papers::json(all))),
    ];
    let drawn = all.iter().filter(|one| !one.found.series.is_empty());
    files.extend(drawn.map(|one| (papers::drawing_name(one), papers::svg(one))));
    files.into_iter().map(|(name, text)| (folder.join(name), text)).collect()
}

/// None of these files may be the bench's record.
fn leave_record(files: &[(PathBuf, String)], record: Option<&Path>) -> Result<(), Failure> {
    let Some(record) = record else { return Ok(()) };
    for (path, _) in files {
        let mut claims = Claims::default();
        let taken = claims.claim("record", record, false);
        taken.and_then(|()| claims.claim("result", path, true)).map_err(|refused| {
            Failure::Usage(format!("--out {}: {}", path.display(), refused.why))
        })?;
    }
    Ok(())
}

fn save(files: &[(PathBuf, String)]) -> Result<(), Failure> {
    files.iter().try_for_each(|(path, text)| {
        let failed =
            |why: std::io::Error| Failure::Run(format!("{}: {}", path.display(), plain(&why)));
        fs::write(path, text).map_err(failed)
    })
}
