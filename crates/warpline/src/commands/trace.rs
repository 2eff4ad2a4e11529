//! `warpline trace`: the way of single packets through a chain, function by function.
//!
//! The chain runs over its input on the CPU and sends nothing. Functions write no files, and use
//! private copies of those that they keep.

mod alerts;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use warpline_engine::{Chain, Control, Ports, Settings, run_to};
use warpline_io::NullSink;
use warpline_native::packet_filter::PacketFilter;
use warpline_nf::{Definition, Output, Outputs, Registry};

use self::alerts::AlertSink;
use super::private::Private;
use super::run::print_message;
use super::{say, say_json};
use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded, Setting};
use crate::cli::TraceArguments;
use crate::ports::{Input, wrap};
use crate::trace::{Chosen, Recorder, SCHEMA, Traced, chain_to_json, chain_to_text};

/// The traced packets of a chain.
struct Ran {
    /// Packets that came to the first function.
    came: u64,
    packets: Vec<Traced>,
    /// Alerts about them.
    alerts: Vec<Value>,
}

pub(crate) fn trace(
    functions: &[&'static Definition],
    arguments: &TraceArguments,
) -> Result<(), Failure> {
    let set = Setting::of_set(&arguments.set);
    let options = LoadOptions { set: &set, device: Some("cpu"), ..LoadOptions::of(functions) };
    // A filter with a mistake is reported before anything is read.
    chosen(arguments)?;
    let (path, needs_input) = (&*arguments.chain, arguments.input.is_none());
    let chains = super::load_file(path, &options, needs_input)?;
    let inputs = chains.iter().map(|loaded| input(arguments, loaded, chains.len()));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    super::check::check_machine(chains.iter())?;
    let private = Private::of(&chains, path, options, "trace")?;
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for (loaded, input) in private.load(Some("cpu"))?.into_iter().zip(&inputs) {
        let ran = trace_chain(arguments, &loaded, input)?;
        let chain = loaded.chain();
        missing.extend(missing_in(arguments, chain, &ran));
        if arguments.json {
            all.push(chain_to_json(chain, &ran.packets, Some(&ran.alerts)));
            continue;
        }
        if ran.packets.is_empty() || missing.len() == chains.len() {
            continue;
        }
        if chains.len() > 1 {
            say(&format!("chain {:?}", chain.name))?;
        }
        say(chain_to_text(chain, &ran.packets, &ran.alerts).trim_end())?;
    }
    // One of several chains may lack the packets.
    if missing.len() == chains.len() {
        return Err(Failure::Run(missing.join("\n")));
    }
    missing.iter().for_each(|why| print_message(&format!("warning: {why}\n")));
    match arguments.json {
        true => say_json(&format!("{:#}", json!({ "schema": SCHEMA, "chains": all }))),
        false => Ok(()),
    }
}

fn chosen(arguments: &TraceArguments) -> Result<Chosen, Failure> {
    let Some(text) = &arguments.filter else {
        return Ok(Chosen::Numbers(arguments.packets.iter().copied().collect()));
    };
    let filter = PacketFilter::new(text);
    let filter = filter.map_err(|why| Failure::Usage(format!("--filter {text:?}: {why}")))?;
    Ok(Chosen::Matches { filter: Arc::new(filter), most: arguments.count as usize })
}

/// The input of a chain, one of `chains`.
fn input(arguments: &TraceArguments, loaded: &Loaded, chains: usize) -> Result<Input, Failure> {
    let wrong = |what: &str, why: &str| {
        Failure::Usage(format!("chain {:?}: {what}: {why}", loaded.chain().name))
    };
    if loaded.chain().instances.is_empty() {
        return Err(wrong("functions", "there are none, so packets have no way to show"));
    }
    super::places::refuse_input(loaded, arguments.input.as_deref())?;
    let input = match (&arguments.input, &loaded.ports.input) {
        (Some(_), _) if chains > 1 => {
            let text = "--input names one capture; the chain file has several chains";
            return Err(Failure::Usage(text.into()));
        }
        (Some(text), _) => {
            Input::parse(text, Path::new("")).map_err(|why| wrong("--input", &why.join("\n")))?
        }
        (None, Some(input)) => input.clone(),
        (None, None) => {
            return Err(wrong("input", "there is none: give --input, or `input` in [chain]"));
        }
    };
    match input.is_live() {
        false => Ok(input),
        true => Err(wrong(
            "input",
            "packets of an interface come once; `warpline ctl trace` shows those of a running \
             chain. Or record them with `tap`, and trace that capture: `--input`, or `--set \
             port.NAME.device=FILE`",
        )),
    }
}

/// Runs a chain until its chosen packets are through.
fn trace_chain(arguments: &TraceArguments, loaded: &Loaded, input: &Input) -> Result<Ran, Failure> {
    let name = loaded.chain().name.clone();
    let failed = |why: String| Failure::Run(format!("chain {name:?}: {why}"));
    let control = Arc::new(Control::default());
    let stops = Some(Arc::clone(&control));
    let recorder = Arc::new(Recorder::new(chosen(arguments)?, loaded.chain(), stops));
    control.observe(Some(recorder.clone()));
    let source = input.open().map_err(|failed| Failure::Usage(failed.why))?;
    let source = wrap(source, loaded.ports.impair.as_ref(), None, None);
    let source = source.map_err(|why| failed(why.to_string()))?;
    let sink = AlertSink::new(Arc::clone(&recorder));
    let alerts = Output::new("alerts", Box::new(sink.clone()));
    let outputs = Outputs::of_run(Some(Arc::new(alerts)), Registry::default()).alerts_only();
    let settings = Settings { lanes: 1, ..loaded.settings };
    let ports = Ports::Shared(source, Box::new(NullSink));
    let report = run_to(&loaded.deployment, &settings, ports, &outputs, &control);
    let report = report.map_err(|why| failed(why.to_string()))?;
    if !report.part.errors.is_empty() {
        return Err(failed(report.part.errors.join("\n")));
    }
    let (came, packets) = recorder.take();
    Ok(Ran { came, packets, alerts: sink.take() })
}

/// The packets that the input does not have.
fn missing_in(arguments: &TraceArguments, chain: &Chain, ran: &Ran) -> Option<String> {
    let found: BTreeSet<u64> = ran.packets.iter().map(|packet| packet.number).collect();
    let mut missing = arguments.packets.iter().filter(|number| !found.contains(number));
    let (name, came) = (&chain.name, ran.came);
    match missing.next() {
        Some(number) => {
            Some(format!("chain {name:?}: there is no packet {number}; the chain read {came}"))
        }
        None if found.is_empty() => {
            Some(format!("chain {name:?}: none of {came} packets matches the filter"))
        }
        None => None,
    }
}
