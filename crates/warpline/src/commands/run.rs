//! `warpline run`: everything is parsed, built and opened first; then the chains run until their
//! inputs end or a signal stops them, and what was done is written whatever happened.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warpline_engine::{Chain, Deployment};
use warpline_io::interface::Interface;
use warpline_io_error::plain;
use warpline_nf::config::Folder;
use warpline_nf::{Definition, Destination, Skipped, SourceText};

use super::crew::{self, Around, Ran, RunOutcome, Shows};
use super::opening::{Opened, open};
use super::places::{self, Others, Planned};
use crate::bounded::bounded;
use crate::chain_file::{LoadOptions, Loaded, load};
use crate::claims::Refusal;
use crate::cli::RunArguments;
use crate::device_keys::{self, check_name};
use crate::metrics::{Metrics, MetricsAddress};
use crate::paint;
use crate::placement;
use crate::ports::{Input, Output};
use crate::reload::Origin;
use crate::shown::shown;
use crate::stats_json::Shared;
use crate::watch::Signals;
use crate::{Failure, demo, messages, outputs_shown, stats_json, summary, tenants_shown};

pub(crate) fn run(
    functions: &[&'static Definition],
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<(), Failure> {
    let started = Instant::now();
    let beginning = signals.end_what_does_not_begin();
    check_arguments(arguments)?;
    let set = arguments.settings();
    let is_live = arguments.input.as_deref().is_some_and(Interface::is_named);
    let device = arguments.device.as_deref();
    let options = LoadOptions { set: &set, device, is_live, ..LoadOptions::of(functions) };
    let planned = plan(arguments, &options)?;
    let alerts = check_planned(arguments, &planned)?;
    let in_vain =
        arguments.alerts.is_some() && !planned.iter().any(|one| has_alerts(one.loaded.chain()));
    let metrics = open_metrics(arguments, &planned)?;
    let all: Vec<&Loaded> = planned.iter().map(|chain| &chain.loaded).collect();
    let monitor = placement::monitor(&all);
    let Opened { loaded, machine, stats, socket } = open(arguments, planned, alerts)?;
    let given = [("input", arguments.input.is_some()), ("output", arguments.output.is_some())];
    let given = given.into_iter().filter_map(|(key, is_given)| is_given.then_some(key)).collect();
    let origin = Origin { path: arguments.chain.as_deref(), options, given };
    let stats = Mutex::new(stats);
    drop(beginning);
    messages::may_lose(true);
    let shows = match (arguments.live, arguments.quiet) {
        (true, _) => Shows::View,
        (false, true) => Shows::Nothing,
        (false, false) => Shows::Progress,
    };
    let around = Around { origin: &origin, signals, socket, metrics, monitor, shows };
    crew::run(&loaded, machine, around, |outcome, live| {
        messages::may_lose(false);
        let outputs = live.machine().outputs();
        // A second signal ends the wait for readers.
        for (name, lost) in outputs.close(|| signals.stops.count() > 1) {
            print_message(&format!("warning: {}\n", outputs_shown::lost_at_end(&name, lost)));
        }
        let (tenancy, proposals) = (live.tenancy(), live.proposals());
        let shared = Shared { tenancy, outputs: &outputs.counts(), proposals };
        let finished = finish(&outcome, &shared, lock(&stats).take(), started, arguments);
        if in_vain {
            print_message(
                "warning: --alerts has no effect: no function in this chain raises alerts\n",
            );
        }
        finished
    })
}

/// Refuses arguments that need no chain file to be wrong.
fn check_arguments(arguments: &RunArguments) -> Result<(), Failure> {
    arguments.device.as_deref().map_or(Ok(()), check_name).map_err(Failure::Usage)?;
    if arguments.stats.as_deref() == Some(Path::new("-")) {
        let text =
            "--stats must be the name of a file; standard output is for --output and --alerts";
        return Err(Failure::Usage(text.into()));
    }
    if arguments.live && !io::stderr().is_terminal() {
        let text = "--live needs a terminal; `warpline ctl stats` shows a run with --socket";
        return Err(Failure::Usage(text.into()));
    }
    Ok(())
}

/// Checks the files of all chains, and reports what has no effect. Returns the file or socket of
/// alerts.
fn check_planned(
    arguments: &RunArguments,
    planned: &[Planned],
) -> Result<Option<Destination>, Failure> {
    if arguments.annotate {
        check_annotate(planned)?;
    }
    let alerts = alerts_to(arguments).map_err(Failure::Usage)?;
    let others = Others {
        chain: arguments.chain.as_deref(),
        alerts: alerts.as_ref().and_then(Destination::path),
        alerts_to_stdout: alerts_to_stdout(arguments),
        stats: arguments.stats.as_deref(),
        ..Others::default()
    };
    places::check_files(&others, planned)?;
    let chains = planned.iter().map(|chain| &*chain.loaded.deployment);
    let unused = device_keys::unused(arguments.device.as_deref(), chains);
    unused.iter().for_each(|reported| print_message(reported));
    if planned.iter().any(|chain| placement::should_say(&chain.loaded)) {
        print_message(&format!("warning: {}\n", placement::NO_PROFILE));
    }
    Ok(alerts)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the chains and chooses the input and output of each.
fn plan(arguments: &RunArguments, options: &LoadOptions<'_>) -> Result<Vec<Planned>, Failure> {
    let chains = match &arguments.chain {
        Some(path) => super::load_file(path, options, arguments.input.is_none())?,
        None => {
            let (name, text) = demo::chain();
            let source = SourceText::new(name, text);
            load(&source, Folder::Bundled(demo::FILES), options, false)
                .map_err(|list| Failure::Mistakes { heading: String::new(), list })?
        }
    };
    if chains.len() > 1 && (arguments.input.is_some() || arguments.output.is_some()) {
        let text = "--input and --output name one port; the chain file has several chains";
        return Err(Failure::Usage(text.into()));
    }
    let is_demo = arguments.chain.is_none();
    let planned: Vec<Planned> = chains
        .into_iter()
        .map(|loaded| plan_one(arguments, loaded, is_demo))
        .collect::<Result<_, _>>()?;
    super::check::check_machine(planned.iter().map(|chain| &chain.loaded))?;
    Ok(planned)
}

fn plan_one(
    arguments: &RunArguments,
    mut loaded: Loaded,
    is_demo: bool,
) -> Result<Planned, Failure> {
    let here = Path::new("");
    let name = loaded.chain().name.clone();
    if arguments.annotate {
        Arc::get_mut(&mut loaded.deployment).into_iter().for_each(Deployment::show_drops);
    }
    let wrong = |what: &str, why: &str| Failure::Usage(format!("chain {name:?}: {what}: {why}"));
    places::refuse_input(&loaded, arguments.input.as_deref())?;
    let input = match (&arguments.input, loaded.ports.input.take()) {
        (Some(text), _) => {
            Input::parse(text, here).map_err(|why| wrong("--input", &why.join("\n")))?
        }
        (None, _) if is_demo => Input::Demo,
        (None, Some(input)) => input,
        (None, None) => {
            return Err(wrong("input", "there is none: give --input, or `input` in [chain]"));
        }
    };
    let output = match (&arguments.output, loaded.ports.output.take()) {
        (Some(text), _) => Output::parse(text, here).map_err(|why| wrong("--output", &why))?,
        (None, Some(output)) if !is_demo => output,
        (None, _) => Output::None,
    };
    Ok(Planned { input, output, loaded })
}

/// Listens for scrapes, if the chain file or the command line names an address.
fn open_metrics(arguments: &RunArguments, planned: &[Planned]) -> Result<Option<Metrics>, Failure> {
    let address = planned.first().and_then(|chain| chain.loaded.process.metrics.as_ref());
    let open = |at: &MetricsAddress| {
        let refused = |why| Refusal { why, path: at.text().into() };
        let at_key = |why| places::located(arguments.chain.as_deref(), &refused(why));
        Metrics::open(at).map_err(at_key)
    };
    address.map(open).transpose()
}

/// Only pcapng has room for comments.
fn check_annotate(planned: &[Planned]) -> Result<(), Failure> {
    match planned.iter().find(|chain| !chain.outputs().all(Output::takes_comments)) {
        None => Ok(()),
        Some(chain) => Err(Failure::Usage(format!(
            "chain {:?}: --annotate: comments go into a pcapng file; give --output FILE.pcapng (or \
             .pcapng.gz, .pcapng.zst)",
            chain.loaded.chain().name
        ))),
    }
}

/// Whether alerts go to standard output.
fn alerts_to_stdout(arguments: &RunArguments) -> bool {
    arguments.alerts.as_deref() == Some(Path::new("-"))
}

/// Where alerts go, unless it is standard output or nowhere.
fn alerts_to(arguments: &RunArguments) -> Result<Option<Destination>, String> {
    let named = arguments.alerts.as_deref().filter(|_| !alerts_to_stdout(arguments));
    let parse = |path: &Path| match path.to_str() {
        Some(text) => Destination::parse(text, Path::new("")),
        None => Ok(Destination::File(path.into())),
    };
    named.map(parse).transpose().map_err(|why| format!("--alerts: {why}"))
}

/// Whether a function of the chain alerts.
fn has_alerts(chain: &Chain) -> bool {
    chain.instances.iter().any(|instance| instance.function.alerts())
}

/// Tells what was done, and whether it failed.
fn finish(
    outcome: &RunOutcome,
    shared: &Shared<'_>,
    stats_file: Option<File>,
    started: Instant,
    arguments: &RunArguments,
) -> Result<(), Failure> {
    let RunOutcome { chains, failures, signal } = outcome;
    let mut failures = failures.clone();
    for Ran { deployment, left_out, report } in chains {
        if arguments.quiet {
            let name = &deployment.chain().name;
            for warning in &report.part.warnings {
                print_message(&format!("warning: chain {name:?}: {warning}\n"));
            }
            continue;
        }
        print_summary(&summary::summary(deployment, report, *signal, arguments.verbose));
        if let Some(line) = skipped_line(left_out.counts) {
            print_message(&line);
        }
    }
    if !arguments.quiet {
        print_message(&tenants_shown::summary(shared.tenancy));
        print_message(&outputs_shown::summary(shared.outputs));
    }
    if let Some(file) = stats_file {
        let chains: Vec<_> = chains.iter().map(|ran| (&*ran.deployment, &ran.report)).collect();
        let stats = stats_json::stats(&chains, shared, started.elapsed().as_secs_f64());
        if let Err(error) = write_json(file, &stats) {
            failures.push(format!("statistics: {}", plain(&error)));
        }
    }
    for Ran { deployment, report, .. } in chains {
        let name = &deployment.chain().name;
        failures.extend(report.part.errors.iter().map(|why| format!("chain {name:?}: {why}")));
        if !report.part.packets.balanced() {
            failures.push(format!("chain {name:?}: packets are unaccounted for"));
        }
    }
    match signal {
        _ if !failures.is_empty() => Err(Failure::Run(failures.join("\n"))),
        Some(signal) => Err(Failure::Signal(*signal)),
        None => Ok(()),
    }
}

/// The numbers of invalid and of unsupported lines that were skipped.
fn skipped_line(Skipped { invalid, unsupported }: Skipped) -> Option<String> {
    let parts = [(invalid, "invalid"), (unsupported, "unsupported")];
    let parts: Vec<_> = parts.into_iter().filter(|(count, _)| *count > 0).collect();
    let word = if parts.last()?.0 == 1 { "line" } else { "lines" };
    let counted =
        |(count, kind): &(usize, &str)| format!("{} {kind}", summary::grouped(*count as u64));
    let parts: Vec<_> = parts.iter().map(counted).collect();
    Some(format!("  skipped {} {word}; `warpline check` names the reasons\n", parts.join(" and ")))
}

/// Writes a summary to standard error; on a terminal the names of lost packets stand out.
fn print_summary(text: &str) {
    let text = shown(&bounded(text)).into_owned();
    let text = if paint::is_wanted() { paint::summary(&text) } else { text };
    messages::write(&text);
}

/// Writes a message to standard error, which may be closed.
pub(super) fn print_message(text: &str) {
    messages::write(&shown(&bounded(text)));
}

fn write_json(mut file: File, value: &serde_json::Value) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_lines_are_counted_by_kind() {
        for (invalid, unsupported, expected) in [
            (0, 0, None),
            (1, 0, Some("1 invalid line")),
            (0, 2, Some("2 unsupported lines")),
            (3, 1, Some("3 invalid and 1 unsupported line")),
            (0, 14_221, Some("14,221 unsupported lines")),
        ] {
            let line = skipped_line(Skipped { invalid, unsupported });
            let end = "; `warpline check` names the reasons\n";
            let expected = expected.map(|counts| format!("  skipped {counts}{end}"));
            assert_eq!(line, expected);
        }
    }
}
