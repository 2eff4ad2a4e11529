//! The engine's side of the comparison: a chain of the program's functions, built as a chain file
//! has it, and run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use toml::de::DeTable;
use warpline_engine::{Chain, Deployment, Instance, Place, Settings};
use warpline_functions::definition;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Function, Port, Ports, Resources, Section, Side, SourceText};
use warpline_packet::{
    Access, Batch, Field, FieldSet, Flags, FlowHasher, LinkType, Malformed, Packet, ReadWrite,
    SCRATCH_WORDS, ScratchWord, Seed,
};
use warpline_verify::{Carried, Harness};

use crate::chains::{Naive, Spec};
use crate::common::DEFINITION;
use crate::common::frames::Input;
use crate::common::run::{Outcome, run_whole};
use crate::flows;
use crate::function::{Spied, Tally, of_answer};
use crate::nids::{Alert, draw::eve};
use crate::placement::Placement;
use crate::routes::Routes;
use crate::rules::PORTS;
use crate::wire::Frame;

const SEED: Seed = Seed::new(0x5eed);

/// The shard that has the state of an inside host.
pub(crate) fn shard_of(host: IpAddr) -> u8 {
    let hasher = FlowHasher::new(SEED);
    hasher.shard(hasher.address(host))
}

/// Choices of the engine, where a manual leaves them to it.
pub(crate) struct Choices {
    pub(crate) spied: Vec<Option<Spied>>,
    /// Whether the chain has one shard.
    pub(crate) is_whole: bool,
}

/// Results of a run.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// By function; a counter is between the number and itself.
    pub(crate) tallies: Vec<Tally>,
    pub(crate) choices: Choices,
}

/// A folder of a run, for what functions keep on disk: tables call it `KEPT`.
struct RunFolder(PathBuf);

impl RunFolder {
    fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let (own, run) = (std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("warpline-naive-{own}-{run}"));
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a chain of `specs` over `frames`, or returns why there is no such chain. With functions on
/// devices nothing looks at packets between them, so the choices are not known.
pub(crate) fn run(
    specs: &[Spec],
    (has_ports, routes): (bool, &Routes),
    settings: Settings,
    frames: &[Frame],
    placement: Option<&Placement>,
) -> Result<Run, String> {
    let is_spied_on = |spec: &Spec| placement.is_none() && spec.is_spied_on();
    let kept = RunFolder::new();
    let port = |name: &&str| Port { name: (*name).into(), side: Side::Inside };
    let ports = if has_ports { PORTS.iter().map(port).collect() } else { Vec::new() };
    let ports = Ports::new(ports);
    let mut resources = Resources::with_seed(SEED).with_ports(ports.clone());
    let (mut instances, mut places, mut spies) = (Vec::new(), Vec::new(), Vec::new());
    let mut seconds: BTreeMap<usize, Instance> = BTreeMap::new();
    // Ticks have numbers of the input, too: what comes in shows which are packets'.
    let door = specs.iter().any(is_spied_on).then(Spy::new);
    instances.extend(door.as_ref().map(|spy| spy.instance("door")));
    for (place, spec) in specs.iter().enumerate() {
        places.push(instances.len());
        let mut spy = is_spied_on(spec).then(Spy::new);
        if let Naive::Second(first, _) = spec.naive {
            instances.push(seconds.remove(&first).expect("a first place"));
        } else {
            let built = instance(place, spec, &kept, &mut resources);
            let built = built.map_err(|mistakes| format!("{mistakes}\n{}", spec.table))?;
            let mut built = built.into_iter();
            instances.extend(built.next());
            for second in built {
                spy.iter_mut().for_each(|spy| spy.second = Some(Arc::clone(&second.function)));
                seconds.insert(place, second);
            }
        }
        if let Some(spy) = &spy {
            let at =
                if matches!(spec.naive, Naive::Second(..)) { Place::Second } else { Place::Only };
            instances.push(Instance { place: at, ..spy.instance(&format!("{place}-spy")) });
        }
        spies.push(spy);
    }
    let lasts = places.iter().skip(1).copied().chain([instances.len()]);
    let positions: Vec<_> = places.iter().zip(lasts).map(|(&own, end)| (own, end - 1)).collect();
    let routes = routes_of(routes, &positions, &instances, ports.len())?;
    let chain = Chain::new("naive", instances, resources.scratch_words());
    let chain = match routes {
        Some(routes) => chain.and_then(|chain| chain.with_routes(Arc::new(routes))),
        None => chain,
    };
    let chain = chain.map_err(|why| why.to_string())?.with_seed(SEED);
    let chain = chain.with_ports(ports, resources.presumes_crossing());
    let inputs: Vec<Input> = frames.iter().map(Input::from).collect();
    let is_whole = chain.lanes(2) == 1;
    let deployment = match placement {
        Some(placement) => placement.deploy(chain, &places),
        None => Deployment::from(chain),
    };
    let settings = placement.map_or(settings, |placement| placement.settings(&deployment));
    let outcome = run_whole(deployment, settings, &inputs);
    let tallies = places.iter().zip(specs).map(|(&place, spec)| tally(&outcome, place, spec));
    let mut tallies: Vec<Tally> = tallies.collect();
    for (place, tally) in tallies.iter_mut().enumerate() {
        tally.alerts = alerts(&kept.0.join(eve(place)));
        tally.records = flows::read(&kept.0.join(flows::draw::csv(place)));
    }
    let numbers: Vec<u64> =
        door.map_or(Vec::new(), |spy| spy.seen().into_keys().map(|(number, _)| number).collect());
    let spied = spies.into_iter().map(|spy| spy.map(|spy| by_input(&numbers, spy.seen())));
    let choices = Choices { spied: spied.collect(), is_whole };
    Ok(Run { outcome, tallies, choices })
}

fn routes_of(
    routes: &Routes,
    positions: &[(usize, usize)],
    instances: &[Instance],
    ports: usize,
) -> Result<Option<warpline_sched::Routes>, String> {
    if routes.is_empty() {
        return Ok(None);
    }
    let table = |one: &Instance| one.name.split("-First").next().map(str::to_owned);
    let second = |one: &Instance| {
        let is_second = |other: &Instance| {
            other.place == Place::Second
                && other.name.split("-Second").next() == table(one).as_deref()
        };
        instances.iter().position(is_second).map(|at| at as u8)
    };
    let function = |one: &Instance| warpline_sched::RoutedFunction {
        name: one.name.clone(),
        changes_destination: true,
        second_place: if one.place == Place::First { second(one) } else { None },
    };
    let functions: Vec<_> = instances.iter().map(function).collect();
    let first = positions.first().map_or(instances.len(), |(own, _)| *own);
    let built = warpline_sched::Routes::new(&functions, ports, &routes.engine(first, positions));
    built.map(Some).map_err(|errors| format!("routes: {errors:?}"))
}

impl From<&Frame> for Input {
    fn from(frame: &Frame) -> Self {
        Self {
            bytes: frame.bytes.clone(),
            nanos: frame.nanos,
            wire_len: frame.wire_len as u32,
            link: LinkType(frame.link),
            interface: frame.interface,
        }
    }
}

fn instance(
    place: usize,
    spec: &Spec,
    kept: &RunFolder,
    resources: &mut Resources,
) -> Result<Vec<Instance>, Diagnostics> {
    let definition = definition(spec.function).expect("a function of that name");
    let table = spec.table.replace("KEPT", &kept.0.to_string_lossy());
    let source = SourceText::new(spec.function, table.as_str());
    let parsed = DeTable::parse(&source.text).expect("a table that is TOML");
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let files: Vec<_> = spec.files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let mut mistakes = Diagnostics::default();
    let mut section =
        Section::new(vec![layer], spec.function, Folder::Bundled(&files), &mut mistakes);
    section.refuse_unknown(definition.keys);
    let places = match (&spec.naive, definition.build_pair) {
        (Naive::First(_), Some(build)) => {
            let both = build(&mut section, resources).map(Vec::from);
            both.map(|both| both.into_iter().zip([Place::First, Place::Second]).collect())
        }
        _ => (definition.build)(&mut section, resources).map(|one| vec![(one, Place::Only)]),
    };
    let places: Vec<_> = places.filter(|_| mistakes.is_empty()).ok_or(mistakes)?;
    let named = places.into_iter().map(|(function, at)| Instance {
        name: format!("{place}-{}-{at:?}", spec.function),
        definition,
        place: at,
        ..own(Arc::from(function))
    });
    Ok(named.collect())
}

fn own(function: Arc<dyn Function>) -> Instance {
    Instance {
        name: String::new(),
        definition: &DEFINITION,
        function,
        fingerprint: 0,
        place: Place::Only,
    }
}

fn tally(outcome: &Outcome, place: usize, spec: &Spec) -> Tally {
    let stats = &outcome.report.part.functions[place];
    let names = definition(spec.function).expect("a function").drops;
    let some = |(name, &count): (&'static str, &u64)| (count > 0).then_some((name, count));
    let malformed = Malformed::ALL.iter().map(|lie| lie.name()).zip(&stats.malformed[1..]);
    Tally {
        packets_in: stats.packets_in,
        made: stats.generated,
        drops: names.iter().copied().zip(&stats.drops).filter_map(some).collect(),
        malformed: malformed.filter_map(some).collect(),
        counters: stats.counters.iter().map(|(&name, &count)| (name, (count, count))).collect(),
        ..Tally::default()
    }
}

/// The alerts in a file, if it exists.
fn alerts(path: &Path) -> Vec<Alert> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| alert(&serde_json::from_str(line).expect("JSON"))).collect()
}

fn alert(line: &Value) -> Alert {
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let end = |address: &str, port: &str| {
        let address = text(&line[address]).parse().expect("an address");
        (address, line.get(port).map(number))
    };
    let protocol = text(&line["proto"]);
    let known = ["TCP", "UDP", "ICMP", "IPv6-ICMP", "GRE", "ESP"].contains(&&protocol[..]);
    let rule = &line["alert"];
    Alert {
        packet: number(&line["pcap_cnt"]),
        sid: number(&rule["signature_id"]),
        rev: number(&rule["rev"]),
        severity: number(&rule["severity"]),
        action: text(&rule["action"]),
        ends: [end("src_ip", "src_port"), end("dest_ip", "dest_port")],
        protocol: if known { protocol } else { String::new() },
    }
}

/// The frames that a spy saw, by the places of their packets in the input; `numbers` are the
/// numbers of all input packets.
fn by_input(numbers: &[u64], seen: Seen) -> Spied {
    let place = |number| numbers.binary_search(&number).expect("it came in");
    let seen = seen.into_iter();
    seen.map(|((number, nth), bytes)| (of_answer(place(number), nth), bytes)).collect()
}

/// A function that keeps what goes by, and changes nothing. After a first place it keeps what the
/// second would make of that right away.
struct Spy {
    access: Access,
    second: Option<Arc<dyn Function>>,
    /// Those of the second place that are idle: their arenas take long to make.
    harnesses: Mutex<Vec<Harness>>,
    seen: Arc<Mutex<Seen>>,
}

/// By the number of the packet; of answers to it with their own number, from 1.
type Seen = BTreeMap<(u64, usize), Vec<u8>>;

impl Spy {
    fn new() -> Self {
        let fields = FieldSet::FRAME
            .union(FieldSet::HEADERS)
            .union(FieldSet::of(&[Field::Ingress, Field::Len]));
        let words: FieldSet = words().map(ScratchWord::field).collect();
        let fields = fields.union(FieldSet::of(&[Field::Timestamp])).union(words);
        let access = Access::run_only(ReadWrite::new(fields, FieldSet::EMPTY));
        Self { access, second: None, harnesses: Mutex::default(), seen: Arc::default() }
    }

    fn instance(&self, name: &str) -> Instance {
        let second = self.second.clone();
        let spy = Self { access: self.access, second, seen: Arc::clone(&self.seen), ..Self::new() };
        Instance { name: name.to_owned(), ..own(Arc::new(spy)) }
    }

    /// The frames that the second place makes of these packets.
    fn by_second(&self, second: &Arc<dyn Function>, carried: &[Carried]) -> Vec<Vec<u8>> {
        let idle = self.harnesses.lock().expect("harnesses").pop();
        let mut harness = match idle {
            Some(mut harness) => {
                harness.restart();
                harness
            }
            None => Harness::small(Arc::clone(second), SCRATCH_WORDS),
        };
        let outcomes = harness.process_carried(carried);
        self.harnesses.lock().expect("harnesses").push(harness);
        outcomes.into_iter().map(|one| one.bytes).collect()
    }

    fn seen(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().expect("seen"))
    }
}

impl Function for Spy {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        let rows: Vec<usize> = batch.forward_rows().collect();
        let packet = |&row: &usize| batch.packet(row);
        let numbers: Vec<u64> = rows.iter().map(|row| packet(row).ingress()).collect();
        let shown: Vec<Vec<u8>> = match &self.second {
            None => rows.iter().map(|row| packet(row).frame().to_vec()).collect(),
            Some(second) => {
                let carried: Vec<Carried> = rows.iter().map(|row| carried(&packet(row))).collect();
                self.by_second(second, &carried)
            }
        };
        let mut seen = self.seen.lock().expect("seen");
        for ((row, number), bytes) in rows.into_iter().zip(numbers).zip(shown) {
            let mut key = (number, 0);
            if batch.packet(row).has(Flags::ANSWER) {
                key.1 = seen.range((number, 1)..=(number, usize::MAX)).count() + 1;
            }
            assert!(seen.insert(key, bytes).is_none(), "two packets have one number");
        }
    }
}

fn words() -> impl Iterator<Item = ScratchWord> {
    (0..).map_while(ScratchWord::new)
}

fn carried(packet: &Packet<'_>) -> Carried {
    let input = warpline_verify::Input {
        bytes: packet.frame().to_vec(),
        timestamp: packet.timestamp(),
        wire_len: packet.wire_len() as u32,
        link: packet.link(),
    };
    let words = words().map(|word| packet.scratch(word)).collect();
    Carried { words, ..Carried::from(input) }
}
