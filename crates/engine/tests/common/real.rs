//! Chains of the functions there are, and their traffic.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use toml::de::DeTable;
use warpline_engine::{Chain, Deployment, Instance, OnDevice, Place, Settings, Site};
use warpline_functions::definition;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Port, Ports, Resources, Section, Side, SourceText};
use warpline_packet::Seed;

use super::form_files::FILES;
use super::forms::{At, BOTH, FORMS, Form, NARROW, SEAL_OTHERS};
use super::frames::Input;
use super::ports::Sent;
use super::run::{Outcome, run_whole};
use super::talk::{converse, with_odd, without_flows};
use super::wire::pieces_of_esp;

/// Any seed but 0, which is the default of functions and chains.
const SEED: Seed = Seed::new(0x5eed);

/// The forms called so. `NAME:1` and `NAME:2` are the two places of one function.
pub(crate) fn forms(names: &[&str]) -> Vec<Form> {
    let find = |name: &&str| {
        let (name, at) = match name.split_once(':') {
            Some((name, "1")) => (name, At::First),
            Some((name, _)) => (name, At::Second),
            None => (*name, At::Only),
        };
        let form = FORMS.iter().chain(NARROW).chain(BOTH).find(|form| form.name == name);
        Form { at, ..*form.unwrap_or_else(|| panic!("no form is called {name}")) }
    };
    names.iter().map(find).collect()
}

/// A chain of `forms`, those whose launch is not 0 in stages of their own; forms without a launch
/// are fused. Or the reason why there is none, such as too few scratch words for all.
pub(crate) fn try_deploy(forms: &[Form], launches: &[usize]) -> Result<Deployment, String> {
    try_deploy_on(forms, launches, |_| None)
}

/// The same; function `place` runs on `device(place)`, if it has kernels.
pub(crate) fn try_deploy_on(
    forms: &[Form],
    launches: &[usize],
    device: impl Fn(usize) -> Option<OnDevice>,
) -> Result<Deployment, String> {
    let chain = built(forms)?;
    let sites = chain.instances.iter().zip(forms).enumerate().map(|(place, (instance, form))| {
        let launch = launches.get(place).copied().unwrap_or(0);
        // An only place has kernels where its function has. They are large, so they aren't made to
        // see.
        let has_kernels = || match form.at {
            At::Only => instance.definition.has_kernels,
            _ => instance.function.kernels().is_some(),
        };
        let on_device = device(place).filter(|_| has_kernels());
        Site { on_device, own_stage: launch > 0, launch_batches: launch.max(1) }
    });
    let sites = sites.collect();
    Ok(Deployment::new(chain, sites))
}

thread_local! {
    /// Chains that this test built last, with their forms. A sensor decides about checksums in the
    /// function at the start of a run, so tests that run at once must not share one.
    static BUILT: RefCell<VecDeque<(Vec<Form>, Arc<Chain>)>> =
        const { RefCell::new(VecDeque::new()) };
}

/// At most so many are kept.
const BUILT_MAX: usize = 6;

/// The chain of `forms`. It is built once, since tables of routes and rules take longer than most
/// runs. Not so with files of its own, or with IPsec, which keeps guesses of sequence numbers in
/// the function.
fn built(forms: &[Form]) -> Result<Arc<Chain>, String> {
    let find = |built: &VecDeque<(Vec<Form>, Arc<Chain>)>| {
        built.iter().find(|(of, _)| of == forms).map(|(_, chain)| Arc::clone(chain))
    };
    if let Some(chain) = BUILT.with_borrow(find) {
        return Ok(chain);
    }
    let chain = Arc::new(build(forms)?);
    let is_own = |form: &Form| form.function == "ipsec" || form.name.ends_with("-to-files");
    if !forms.iter().any(is_own) {
        BUILT.with_borrow_mut(|built| {
            built.truncate(BUILT_MAX - 1);
            built.push_front((forms.to_vec(), Arc::clone(&chain)));
        });
    }
    Ok(chain)
}

fn build(forms: &[Form]) -> Result<Chain, String> {
    // Rules may name them. The chain itself sends everything to one sink.
    let port = |name: &str| Port { name: name.into(), side: Side::Inside };
    let ports = Ports::new(vec![port("lan"), port("wan")]);
    let mut resources = Resources::with_seed(SEED).with_ports(ports);
    let mut instances = Vec::new();
    let mut seconds: Vec<(&str, Instance)> = Vec::new();
    for (place, form) in forms.iter().enumerate() {
        let came_before = seconds.iter().position(|(name, _)| *name == form.name);
        instances.push(match came_before.filter(|_| form.at == At::Second) {
            Some(own) => seconds.swap_remove(own).1,
            None => {
                let built = places(place, form, &mut resources);
                let built = built.map_err(|mistakes| format!("{}: {mistakes}", form.name))?;
                let mut built = built.into_iter();
                let first = built.next().ok_or_else(|| format!("{}: no place", form.name))?;
                seconds.extend(built.map(|second| (form.name, second)));
                first
            }
        });
    }
    let chain = Chain::new("real", instances, resources.scratch_words());
    Ok(chain.map_err(|why| why.to_string())?.with_seed(SEED))
}

/// A chain of `forms`, fused, on the CPU.
pub(crate) fn deploy_forms(forms: &[Form]) -> Deployment {
    try_deploy(forms, &[]).unwrap_or_else(|why| panic!("{why}"))
}

/// Room for the traffic of these tests, where a form asks for none. The defaults of the functions
/// take longer to clear than most runs do.
fn room(form: &Form) -> &'static str {
    match form.function {
        "digest" => "entries = 8192",
        "firewall" if form.table.contains("established") => "connections = 8192",
        "load_balancer" => "connections = 8192",
        "flow_monitor" => "flows = 8192",
        "nat" => "bindings = 8192",
        "nids" => "flows = 8192\nstream_memory_mib = 16\nthresholds = 4096\nxbits = 4096",
        _ => "",
    }
}

/// The function of a form: its only place, or the first and the second.
fn places(
    place: usize,
    form: &Form,
    resources: &mut Resources,
) -> Result<Vec<Instance>, Diagnostics> {
    let definition = definition(form.function).expect("a function of that name");
    let texts = [room(form), form.table].map(|text| SourceText::new(form.name, text));
    let parsed = [0, 1].map(|at| DeTable::parse(&texts[at].text).expect("a table that is TOML"));
    let layers = texts.iter().zip(&parsed).map(|(source, parsed)| Layer {
        source,
        table: parsed.get_ref(),
        span: parsed.span(),
    });
    let mut mistakes = Diagnostics::default();
    let folder = Folder::Bundled(FILES);
    let mut section = Section::new(layers.collect(), form.name, folder, &mut mistakes);
    section.refuse_unknown(definition.keys);
    let built = match (form.at, definition.build_pair) {
        (At::First, Some(build)) => build(&mut section, resources).map(Vec::from),
        _ => (definition.build)(&mut section, resources).map(|one| vec![one]),
    };
    let fingerprint = section.fingerprint();
    let of = match form.at {
        At::First => [Place::First, Place::Second],
        _ => [Place::Only; 2],
    };
    let built = built.filter(|_| mistakes.is_empty()).ok_or(mistakes)?;
    let named = built.into_iter().zip(of).map(|(function, of)| Instance {
        name: format!("{place}-{}{}", form.name, if of == Place::Second { ":2" } else { "" }),
        definition,
        function: Arc::from(function),
        fingerprint,
        place: of,
    });
    Ok(named.collect())
}

/// The form of a monitor that writes what it finds to two files.
pub(crate) fn monitor_to_files(ipfix: &Path, csv: &Path) -> Form {
    let table = format!("idle_s = 5\nipfix = {ipfix:?}\ncsv = {csv:?}");
    Form { name: "monitor-to-files", table: table.leak(), ..forms(&["monitor"])[0] }
}

/// A form of a sensor that writes alerts to two files and hits to a third, with a matcher of one's
/// choice.
pub(crate) fn sensor_to_files(form: &Form, [eve, fast, hits]: [&Path; 3], matcher: &str) -> Form {
    let files = format!("eve = {eve:?}\nfast_log = {fast:?}\nhits = {hits:?}");
    let table = format!("{}\nmatcher = '{matcher}'\n{files}", form.table);
    Form { name: "sensor-to-files", table: table.leak(), ..*form }
}

/// Runs a chain of `forms` over `inputs`, all of them, and checks what has to hold of every run.
pub(crate) fn run_forms(forms: &[Form], settings: Settings, inputs: &[Input]) -> Outcome {
    run_whole(deploy_forms(forms), settings, inputs)
}

/// Traffic from `inputs`, where hosts on both sides of a chain of `forms` answer, with odd frames.
/// Where the chain first undoes the work of another end, that end's output is added.
pub(crate) fn traffic(forms: &[Form], inputs: Vec<Input>, seed: u64, odd: usize) -> Vec<Input> {
    let through = |forms: &[Form], inputs: &[Input]| -> Vec<Sent> {
        run_forms(forms, Settings::default(), inputs).sent
    };
    let mut inputs = converse(inputs, 3, |inputs| through(forms, inputs));
    let mut copies = without_flows(&inputs);
    let other_end = match forms.first().map(|form| form.name) {
        Some("decompress" | "recompress") => Some(self::forms(&["compress-all"])[0]),
        Some("open" | "open-pieces") => Some(self::forms(&["seal"])[0]),
        Some("gateway") => Some(SEAL_OTHERS),
        _ => None,
    };
    if let Some(form) = other_end {
        for inputs in [&mut inputs, &mut copies] {
            let sent = through(&[form], inputs);
            *inputs = sent.into_iter().map(Input::from).collect();
        }
    }
    if forms.first().is_some_and(|form| form.name == "open-pieces") {
        for inputs in [&mut inputs, &mut copies] {
            *inputs = inputs.iter().flat_map(in_pieces).collect();
        }
    }
    with_odd(inputs, copies, seed, odd)
}

fn in_pieces(input: &Input) -> Vec<Input> {
    let piece = |bytes: Vec<u8>| Input { wire_len: bytes.len() as u32, bytes, ..input.clone() };
    pieces_of_esp(&input.bytes, input.link).into_iter().map(piece).collect()
}

/// Checks that each function gets the packets that leave the one before it, except those that are
/// sent back. Those go to second places only.
pub(crate) fn check_chain(forms: &[Form], outcome: &Outcome) {
    let functions = &outcome.report.part.functions;
    assert_eq!(functions.len(), forms.len());
    let (mut flowing, mut answers) = (outcome.report.part.packets.read, 0);
    for (place, (function, form)) in functions.iter().zip(forms).enumerate() {
        let is_second = form.at == At::Second;
        let all = flowing + if is_second { answers } else { 0 };
        assert_eq!(function.packets_in, all, "what {} got", form.name);
        let left = function.dropped() + function.rejected() + function.absorbed;
        assert_eq!(function.packets_out, function.packets_in - left, "{}", form.name);
        let counters = ["icmp-sent", "reject-resets", "reject-unreachables"];
        let sent_back: u64 = counters.iter().map(|name| outcome.counter(place, name)).sum();
        assert!(sent_back <= function.generated, "{}", form.name);
        flowing = function.packets_out + function.generated - sent_back;
        if is_second {
            let drops = definition(form.function).expect("a function").drops;
            let of_answers = drops.iter().zip(function.drops).find(|drop| *drop.0 == "bad-quote");
            answers -= of_answers.map_or(0, |(_, count)| count);
            flowing -= answers;
        }
        answers += sent_back;
    }
}

/// Fails if a function of `forms` did not do what its form is there to show.
pub(crate) fn check_shows(forms: &[Form], outcome: &Outcome) {
    for (place, form) in forms.iter().enumerate() {
        let stats = &outcome.report.part.functions[place];
        let definition = definition(form.function).expect("a function");
        let undeclared = stats.counters.keys().find(|name| definition.counter(name).is_none());
        assert_eq!(undeclared, None, "{}", form.name);
        let drops = definition.drops;
        let idle = form.shows.iter().filter(|name| match name.split_at(1) {
            ("!", name) => {
                let at = drops.iter().position(|drop| *drop == name);
                stats.drops[at.unwrap_or_else(|| panic!("no drop is called {name}"))] == 0
            }
            ("@", name) => !stats.tables.iter().any(|t| t.name == name && !t.rows.is_empty()),
            _ => outcome.counter(place, name) == 0,
        });
        let idle: Vec<_> = idle.collect();
        let drops: Vec<_> = drops.iter().zip(stats.drops).collect();
        assert!(idle.is_empty(), "{}: {idle:?} of {:?}, {drops:?}", form.name, stats.counters);
    }
}
