//! One case: a chain, its traffic, how the engine is run, and where the two disagree.

use std::fmt;
use std::net::IpAddr;

use warpline_engine::Settings;

use crate::answers::with_answers;
use crate::chains::{Naive, Spec, chain, drops_hairpins};
use crate::chains_pairs;
use crate::common::ports::Sent;
use crate::draw::Draw;
use crate::engine::{self, Choices};
use crate::flows;
use crate::function::{self, Fate, Hairpins, Left, Outcome, Tally};
use crate::hairpin_traffic;
use crate::ipsec;
use crate::leaks::Hidden;
use crate::nat_rules;
use crate::placement::Placement;
use crate::prefix::Prefix;
use crate::router_errors::octets;
use crate::routes::Routes;
use crate::traffic::{set_clock, traffic};
use crate::wire::{Frame, view};

/// Runs of the engine that finding a smaller case may take.
const TRIES: usize = 300;
/// Bytes in a row that no two packets have by chance.
const SECRET: usize = 16;

/// Packets and launches of cases that a test must have covered.
#[derive(Default)]
pub(crate) struct Met {
    /// Answers that leave for the outside and passed second places that had something to undo.
    pub(crate) answers_to_outside: u64,
    /// Answers that leave sealed, to packets that came sealed.
    pub(crate) sealed_answers: u64,
    /// Packets between inside hosts that pass translators.
    pub(crate) hairpins: u64,
    /// Launches of functions on devices.
    pub(crate) launches: u64,
}

/// A chain, its settings and its input.
#[derive(Clone)]
pub(crate) struct Case {
    specs: Vec<Spec>,
    has_ports: bool,
    /// Whether inside hosts reach others by outside addresses.
    has_hairpins: bool,
    routes: Routes,
    settings: Settings,
    /// Of another run of it, with functions on devices.
    placement: Option<Placement>,
    frames: Vec<Frame>,
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        // Others stay as they were.
        let has_ports = seed.is_multiple_of(3);
        let specs = chain(draw.word(), has_ports);
        let (lanes, batch_packets) = (1 + draw.below(3), 1 + draw.below(100));
        let settings = Settings { lanes, batch_packets, slabs: 4, ..Settings::default() };
        let count = 1 + draw.below(400);
        let frames = traffic(draw.word(), count);
        let routes = Routes::default();
        let placement = Placement::draw(seed, specs.len());
        let mut case =
            Self { specs, has_ports, has_hairpins: false, routes, settings, placement, frames };
        case.keep_whole(&["nids"]);
        ipsec::traffic::add(&mut draw, &mut case.frames, &case.specs);
        for _ in 0..draw.below(3) {
            case.answer(&mut draw, false);
        }
        case
    }

    /// With functions at two places. Hosts on both sides answer at least once.
    pub(crate) fn paired(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let specs = chains_pairs::chain(draw.word());
        let (lanes, batch_packets) = (1 + draw.below(3), 1 + draw.below(100));
        let settings = Settings { lanes, batch_packets, slabs: 4, ..Settings::default() };
        let count = 1 + draw.below(300);
        let frames = traffic(draw.word(), count);
        let routes = Routes::default();
        let (has_ports, has_hairpins) = (false, false);
        let placement = Placement::draw(seed, specs.len());
        let mut case = Self { specs, has_ports, has_hairpins, routes, settings, placement, frames };
        case.keep_whole(&["nids", "flow_monitor"]);
        case.without_hairpins();
        for _ in 0..1 + draw.below(3) {
            case.answer(&mut draw, true);
            case.keep_whole(&["nids", "flow_monitor"]);
            case.without_hairpins();
        }
        case
    }

    /// With gateways at two places, ESP for them, and packets that sensors refuse.
    pub(crate) fn guarded(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let specs = chains_pairs::guarded_chain(draw.word());
        let (lanes, batch_packets) = (1 + draw.below(3), 1 + draw.below(100));
        let settings = Settings { lanes, batch_packets, slabs: 4, ..Settings::default() };
        let count = 1 + draw.below(250);
        let frames = traffic(draw.word(), count);
        let routes = Routes::default();
        let (has_ports, has_hairpins) = (false, true);
        let placement = Placement::draw(seed, specs.len());
        let mut case = Self { specs, has_ports, has_hairpins, routes, settings, placement, frames };
        case.keep_whole(&["nids", "flow_monitor"]);
        ipsec::traffic::add(&mut draw, &mut case.frames, &case.specs);
        for _ in 0..1 + draw.below(3) {
            case.answer(&mut draw, true);
            case.hairpin(&mut draw);
            case.keep_whole(&["nids", "flow_monitor"]);
        }
        case
    }

    /// The same case with routes.
    pub(crate) fn routed(mut self, seed: u64) -> Self {
        let mut draw = Draw::new(seed ^ 0x0070_7574_6573);
        self.routes = Routes::draw(&mut draw, self.specs.len());
        self.keep_whole(&["flow_monitor"]);
        self
    }

    /// The same case with files of rules in the place of the translators' keys, and packets to
    /// forwarded ports.
    pub(crate) fn ruled(mut self, seed: u64) -> Self {
        let mut draw = Draw::new(seed ^ 0x0072_756c_6573);
        nat_rules::put(&mut draw, &mut self.specs);
        nat_rules::add(&mut draw, &mut self.frames, &self.specs);
        for expire in [false, true] {
            self.keep_whole(&["nids", "flow_monitor"]);
            self.without_hairpins();
            self.answer(&mut draw, expire);
        }
        if self.has_hairpins {
            self.hairpin(&mut draw);
            self.answer(&mut draw, true);
        }
        self.keep_whole(&["nids", "flow_monitor"]);
        self.without_hairpins();
        self
    }

    /// Whether a translator has rules.
    pub(crate) fn has_rules(&self) -> bool {
        let is_nat = |spec: &Spec| matches!(spec.naive.whole(), Naive::Nat(_));
        self.specs.iter().any(is_nat)
    }

    /// Whether there is such a chain.
    pub(crate) fn has_chain(&self) -> bool {
        self.run().is_ok()
    }

    fn run(&self) -> Result<engine::Run, String> {
        self.run_at(None)
    }

    fn run_at(&self, placement: Option<&Placement>) -> Result<engine::Run, String> {
        let chain = (self.has_ports, &self.routes);
        engine::run(&self.specs, chain, self.settings, &self.frames, placement)
    }

    /// Where the run with functions on devices disagrees with the naive chain.
    fn device_disagreement(&self, own: &Outcome, met: &mut Met) -> Option<String> {
        let placement = self.placement.as_ref()?;
        let what = match self.run_at(Some(placement)) {
            Ok(run) => {
                met.launches += run.outcome.report.part.transfers.launches;
                Placement::fault(&run).or_else(|| self.differ(own, &run))
            }
            Err(why) => Some(format!("there is no such chain: {why}")),
        };
        what.map(|what| format!("{placement:?}: {what}"))
    }

    /// Leaves out packets from inside to an outside address of a translator with two places: if
    /// such a packet is dropped, the port that it got is not known.
    fn without_hairpins(&mut self) {
        if self.has_hairpins {
            return;
        }
        let translators = self.specs.iter().filter_map(|spec| match &spec.naive {
            Naive::First(own) => match &**own {
                Naive::Nat(config) => Some(config),
                _ => None,
            },
            _ => None,
        });
        for config in translators {
            let within = |all: &[Prefix], address| all.iter().any(|own| own.holds(address));
            self.frames.retain(|frame| {
                let view = view(frame);
                if view.version == 0 {
                    return true;
                }
                let (src, dst) = view.addresses(&frame.bytes);
                !within(&config.inside, src) || !within(&config.outside, dst)
            });
        }
        set_clock(&mut self.frames);
    }

    /// A sensor puts fragments together, and looks into datagrams once more. A monitor sees them
    /// out of order.
    fn keep_whole(&mut self, for_functions: &[&str]) {
        if self.specs.iter().any(|spec| for_functions.contains(&spec.function)) {
            self.frames.retain(|frame| !view(frame).fragment);
            set_clock(&mut self.frames);
        }
    }

    /// Adds packets from inside hosts to outside ports that the chain gave others.
    fn hairpin(&mut self, draw: &mut Draw) {
        let outcome = self.naive(&self.choices());
        hairpin_traffic::add(draw, &mut self.frames, &self.specs, &outcome.sent);
        set_clock(&mut self.frames);
    }

    /// Adds answers to the packets that leave the chain.
    fn answer(&mut self, draw: &mut Draw, expire: bool) {
        let outcome = self.naive(&self.choices());
        self.frames = with_answers(draw, &self.frames, &outcome.sent, expire);
        set_clock(&mut self.frames);
    }

    fn naive(&self, choices: &Choices) -> Outcome {
        let (specs, is_whole) = (self.specs.iter().enumerate(), choices.is_whole);
        let mut naive: Vec<_> =
            specs.map(|(place, spec)| spec.naive.build(place, is_whole)).collect();
        let hairpins = if drops_hairpins(&self.specs) { Hairpins::Dropped } else { Hairpins::Sent };
        let ports = self.has_ports.then_some(hairpins);
        function::run(&mut naive, &self.frames, &choices.spied, ports, &self.routes)
    }

    /// The engine's choices; none if there is no such chain.
    fn choices(&self) -> Choices {
        let none = || Choices { spied: vec![None; self.specs.len()], is_whole: true };
        self.run().map_or_else(|_| none(), |run| run.choices)
    }

    /// Where the engine and the naive chain disagree, if they do.
    pub(crate) fn disagreement(&self) -> Option<String> {
        self.disagreement_with(&mut Met::default())
    }

    /// The same; counts what the case has.
    pub(crate) fn disagreement_with(&self, met: &mut Met) -> Option<String> {
        let run = match self.run() {
            Ok(run) => run,
            // Pairs take twice as many as one place.
            Err(why) if why.contains("scratch words left") => return None,
            Err(why) if why.contains("one packet could become") => return None,
            // Not all routes that are drawn fit together.
            Err(why) if why.starts_with("routes: ") => return None,
            Err(why) => return Some(format!("there is no such chain: {why}")),
        };
        let own = self.naive(&run.choices);
        let what = self.differ(&own, &run).or_else(|| own.complaints.first().cloned());
        match what {
            Some(_) if !own.unsure.is_empty() => self.without(&own).disagreement_with(met),
            Some(what) => Some(what),
            None => {
                self.meet(&own, met);
                self.leak(&own, &run).or_else(|| self.device_disagreement(&own, met))
            }
        }
    }

    /// Counts what `own` has.
    fn meet(&self, own: &Outcome, met: &mut Met) {
        let hidden = Hidden::of(&self.specs);
        for Left { frame, .. } in own.sent.iter().filter(|left| left.frame.is_answer) {
            let is_outside = frame.closed && hidden.is_to_outside(frame);
            met.answers_to_outside += u64::from(is_outside);
            met.sealed_answers += u64::from(frame.is_sealed);
        }
        let hairpins = own.tallies.iter().filter_map(|tally| tally.counters.get("hairpins"));
        met.hairpins += hairpins.map(|own| own.0).sum::<u64>();
    }

    /// The case without packets whose effect the naive chain can't know.
    fn without(&self, own: &Outcome) -> Self {
        let known = own.inputs.iter().enumerate().filter(|(at, _)| !own.unsure.contains(at));
        let mut less =
            Self { frames: known.map(|(_, frame)| frame.clone()).collect(), ..self.clone() };
        set_clock(&mut less.frames);
        less
    }

    /// Where packets and counts of a run differ from those of the naive chain.
    fn differ(&self, own: &Outcome, run: &engine::Run) -> Option<String> {
        let packets = self.packets(own, &run.outcome.sent);
        let mut tallies = run.tallies.iter().zip(&own.tallies).enumerate();
        let tallies = tallies.find_map(|(place, (engine, naive))| {
            let what = differ(engine, naive)?;
            Some(format!("function {place}, {}: {what}", self.specs[place].function))
        });
        let found: Vec<String> = [tallies, packets].into_iter().flatten().collect();
        (!found.is_empty()).then(|| found.join("\n"))
    }

    /// A packet that shows what a pair hides, and what it shows: nothing that leaves for the
    /// outside has an inside address as its source or in a quote, and no answer shows bytes that
    /// came sealed.
    fn leak(&self, own: &Outcome, run: &engine::Run) -> Option<String> {
        if !self.routes.is_empty() {
            // Packets may skip the function that hides.
            return None;
        }
        let hidden = Hidden::of(&self.specs);
        own.sent.iter().zip(&run.outcome.sent).enumerate().find_map(|(at, (left, sent))| {
            let cause = &own.inputs[left.cause];
            let (bytes, wire_len) = (sent.bytes.clone(), sent.wire_len as usize);
            let frame = Frame { bytes, wire_len, ..cause.clone() };
            let is_answer = left.frame.is_answer;
            // A packet that came sealed may have brought the address.
            let secret = &left.frame.secret;
            let came = |address: &IpAddr| !is_answer && holds(secret, &octets(*address));
            let shown = hidden.shown(cause, &frame).filter(|address| !came(address));
            let shown = shown.map(|address| address.to_string());
            let opened = || is_answer && !left.frame.is_sealed && shows(&sent.bytes, secret);
            let shown = shown.or_else(|| opened().then(|| "what came sealed".to_owned()))?;
            Some(format!("packet {at} of the output shows {shown}: {}\n", show(&sent.bytes)))
        })
    }

    /// The first packet that differs.
    fn packets(&self, naive: &Outcome, engine: &[Sent]) -> Option<String> {
        let most = naive.sent.len().max(engine.len());
        let at = (0..most)
            .find(|&at| !same(naive.sent.get(at).map(|left| &left.frame), engine.get(at)))?;
        let cause = naive.sent.get(at).map(|left| left.cause);
        let mut text = format!("packet {at} of the output differs\n");
        if let Some(cause) = cause {
            let frame = &naive.sent[at].frame;
            let Frame { nanos, link, interface, wire_len, .. } = frame;
            text += &format!(
                "naive:  {} from input {cause}, {nanos} ns, link {link}, {interface:?}, \
                 {wire_len} on the wire\n",
                show(&frame.bytes)
            );
        }
        if let Some(sent) = engine.get(at) {
            let Sent { nanos, link, interface, wire_len, .. } = sent;
            text += &format!(
                "engine: {}, {nanos} ns, link {}, {interface:?}, {wire_len} on the wire\n",
                show(&sent.bytes),
                link.0
            );
        }
        Some(text)
    }

    /// The same disagreement, or another, with fewer packets.
    pub(crate) fn shrunk(mut self, mut what: String) -> (Self, String) {
        let (mut piece, mut tries) = (self.frames.len().div_ceil(2), 0);
        while piece > 0 && tries < TRIES {
            let mut at = 0;
            while at < self.frames.len() && tries < TRIES {
                let mut less = self.clone();
                less.frames.drain(at..(at + piece).min(self.frames.len()));
                set_clock(&mut less.frames);
                tries += 1;
                match less.disagreement() {
                    Some(found) => (self, what) = (less, found),
                    None => at += piece,
                }
            }
            piece /= 2;
        }
        (self, what)
    }

    /// The fate of each packet in the naive chain.
    fn fates(&self) -> Vec<(usize, Fate)> {
        self.naive(&self.choices()).fates
    }
}

/// The chain and the packets.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { lanes, batch_packets, .. } = self.settings;
        writeln!(f, "lanes = {lanes}, batch_packets = {batch_packets}")?;
        if !self.routes.is_empty() {
            writeln!(f, "{:?}", self.routes)?;
        }
        for Spec { function, table, files, .. } in &self.specs {
            write!(f, "[{function}]\n{table}")?;
            for (name, text) in files {
                write!(f, "# {name}:\n{text}")?;
            }
        }
        for (at, (frame, (place, fate))) in self.frames.iter().zip(self.fates()).enumerate() {
            let Frame { nanos, link, wire_len, bytes, .. } = frame;
            let bytes = show(bytes);
            writeln!(
                f,
                "{at}: {nanos} ns, link {link}, {wire_len} on the wire: {bytes}; {fate:?} {place}"
            )?;
        }
        Ok(())
    }
}

/// Whether the bytes of an address are somewhere in these.
fn holds(bytes: &[u8], address: &[u8]) -> bool {
    bytes.windows(address.len()).any(|part| part == address)
}

/// Whether a frame has some of these bytes in a row.
fn shows(frame: &[u8], secret: &[u8]) -> bool {
    secret.windows(SECRET).any(|part| frame.windows(SECRET).any(|own| own == part))
}

fn show(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().take(120).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes {hex}", bytes.len())
}

fn same(naive: Option<&Frame>, engine: Option<&Sent>) -> bool {
    let (Some(naive), Some(engine)) = (naive, engine) else { return false };
    naive.bytes == engine.bytes
        && naive.nanos == engine.nanos
        && naive.wire_len.max(naive.bytes.len()) == engine.wire_len as usize
        && naive.link == engine.link.0
        && naive.interface == engine.interface
}

/// Where what a function did differs.
fn differ(engine: &Tally, naive: &Tally) -> Option<String> {
    let reported = engine.alerts.iter().zip(&naive.alerts).find(|(engine, naive)| engine != naive);
    if let Some((engine, naive)) = reported {
        return Some(format!("\nnaive:  {naive:?}\nengine: {engine:?}"));
    }
    if engine.alerts.len() != naive.alerts.len() {
        let least = engine.alerts.len().min(naive.alerts.len());
        let next = [&engine.alerts, &naive.alerts].map(|all| all.get(least));
        return Some(format!("alerts: engine and naive go on with {next:?}"));
    }
    let naive = &naive.as_sure_as(engine);
    let whole = |tally: &Tally| Tally {
        counters: Default::default(),
        alerts: Vec::new(),
        records: Vec::new(),
        ..tally.clone()
    };
    if whole(engine) != whole(naive) {
        return Some(format!("\nnaive:  {:?}\nengine: {:?}", whole(naive), whole(engine)));
    }
    if let Some(what) = flows::differ(&engine.records, &naive.records, &engine.counters) {
        return Some(what);
    }
    let names = engine.counters.keys().chain(naive.counters.keys());
    names.clone().find_map(|name| {
        let (own, other) = (naive.counters.get(name), engine.counters.get(name));
        let fits = match (own, other) {
            (Some(&(least, most)), Some(&(count, _))) => (least..=most).contains(&count),
            _ => false,
        };
        (!fits).then(|| format!("counter {name}: naive {own:?}, engine {other:?}"))
    })
}
