//! `check --strict` sees each declaration that is missing. From each function, in each of its
//! forms, each declared field of each phase is taken away, read or written, and the look at its
//! packets has to name that field. Declarations that no packet can show are listed, with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use warpline_nf::{
    After, Before, Emit, Emits, Function, Growth, PeakHistory, Report, State, StateHalf,
};
use warpline_packet::wire::checksum;
use warpline_packet::{
    Access, Batch, Field, FieldSet, Instant, Phase, ReadWrite, Shard, StateKey, Verdict,
};
use warpline_verify::exact::{BATCH, look_at};
use warpline_verify::probes::{Hosts, answers, probes};
use warpline_verify::{Carried, Harness, Outcome};

use super::exact_access::{function, inputs, places};
use crate::common::form_files::FILES;
use crate::common::forms::{At, ESN, FORMS, Form, SEAL_ESN_EDGE, SEAL_OTHERS, WIDE};
use crate::common::real::forms;

/// A function that declares less than it does; no accessor checks it.
struct Silent {
    inner: Arc<dyn Function>,
    access: Access,
}

impl Function for Silent {
    fn access(&self) -> &Access {
        &self.access
    }

    fn type_name(&self) -> &'static str {
        self.inner.type_name()
    }

    fn run(&self, batch: &mut Batch) {
        batch.leave_phase();
        self.inner.run(batch);
    }

    fn state_key(&self) -> StateKey {
        self.inner.state_key()
    }

    fn state(&self, shard: Shard) -> State {
        let State { before, after } = self.inner.state(shard);
        State {
            before: before.map(|half| Box::new(SilentBefore(half)) as Box<dyn Before>),
            after: after.map(|half| Box::new(SilentAfter(half)) as Box<dyn After>),
        }
    }

    fn growth(&self) -> Growth {
        self.inner.growth()
    }

    fn emits(&self) -> Emits {
        self.inner.emits()
    }

    fn tick(&self) -> Option<Duration> {
        self.inner.tick()
    }
}

/// A half of a state whose work no accessor checks.
macro_rules! silent_half {
    ($name:ident, $half:ident, $work:ident) => {
        struct $name(Box<dyn $half>);

        impl $half for $name {
            fn $work(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
                batch.leave_phase();
                self.0.$work(batch, picks, emit);
            }
        }

        impl StateHalf for $name {
            fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
                self.0.handle_timeout(now, emit);
            }

            fn finish(&mut self, emit: &mut Emit<'_>) {
                self.0.finish(emit);
            }

            fn close(&mut self, report: &mut dyn Report) {
                self.0.close(report);
            }

            fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                self.0.counters(visit);
            }

            fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
                self.0.peaks(visit);
            }
        }
    };
}

silent_half!(SilentBefore, Before, before);
silent_half!(SilentAfter, After, after);

/// A declaration: of `before`, `run`, `after`, or of `after` for flagged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Declaration {
    Before,
    Run,
    After,
    AfterFlagged,
}

const PARTS: [Declaration; 4] =
    [Declaration::Before, Declaration::Run, Declaration::After, Declaration::AfterFlagged];

impl Declaration {
    fn of(self, access: &mut Access) -> &mut ReadWrite {
        match self {
            Self::Before => &mut access.before,
            Self::Run => &mut access.run,
            Self::After => &mut access.after,
            Self::AfterFlagged => &mut access.after_flagged,
        }
    }

    fn phase(self) -> Phase {
        match self {
            Self::Before => Phase::Before,
            Self::Run => Phase::Run,
            Self::After | Self::AfterFlagged => Phase::After,
        }
    }
}

/// A declaration of one field.
type Unit = (Declaration, Field, bool);

/// Fields that a look can't change without changing the nature of a batch: geometry, verdicts and
/// flags (see `README.md`).
const EXEMPT: FieldSet = FieldSet::GEOMETRY.union(FieldSet::of(&[Field::Verdict, Field::Flagged]));

fn units(access: &Access) -> Vec<Unit> {
    let mut access = *access;
    let mut all = Vec::new();
    for part in PARTS {
        let ReadWrite { reads, writes } = *part.of(&mut access);
        for (set, is_written) in [(reads, false), (writes, true)] {
            all.extend((set & !EXEMPT).iter().map(|field| (part, field, is_written)));
        }
    }
    all
}

fn without(access: &Access, (part, field, is_written): Unit) -> Access {
    let mut access = *access;
    let others = !FieldSet::of(&[field]);
    let own = part.of(&mut access);
    let set = if is_written { &mut own.writes } else { &mut own.reads };
    *set = *set & others;
    // A declaration for all packets holds for flagged ones, too.
    if part == Declaration::After {
        let flagged = &mut access.after_flagged;
        let set = if is_written { &mut flagged.writes } else { &mut flagged.reads };
        *set = *set & others;
    }
    access
}

fn silent(form: &Form, access: impl Fn(&Access) -> Access) -> Harness {
    let (inner, chain) = function(form);
    let access = access(inner.access());
    let function: Arc<dyn Function> = Arc::new(Silent { inner, access });
    Harness::new(function, chain.scratch_words).with_seed(chain.seed())
}

/// The packets that `check --strict` makes for a function of this form, after those of
/// conversations through it. At a second place they come from the first.
fn exercised(form: &Form) -> Vec<Carried> {
    let places = places(form);
    let all = inputs(&places);
    let mut hosts = Hosts::default();
    hosts.read(form.table);
    let named = FILES.iter().filter(|(name, _)| form.table.contains(name));
    named.for_each(|(_, text)| hosts.read(text));
    hosts.see(&all);
    let start = all.last().expect("packets").timestamp;
    let mut made = probes(&hosts, 8, start);
    let sealed = sealed_for(form, &made);
    // They begin a batch.
    let filler = made.last().expect("packets").clone();
    let len = (all.len() + made.len()).next_multiple_of(BATCH) - all.len();
    made.resize(len, filler);
    made.extend(sealed);
    let plain = |place| silent(place, |access| *access);
    let mut harnesses: Vec<Harness> = places.iter().map(plain).collect();
    let back = answers(&mut harnesses, &made, BATCH);
    let all = [all, made, back].concat();
    let all: Vec<Carried> = all.into_iter().map(Carried::from).collect();
    match form.at {
        At::Second => plain(&places[0]).pass_first(&all, BATCH),
        _ => all,
    }
}

/// The packets of `made` as the other end of a tunnel sends them to a function of this form.
fn sealed_for(form: &Form, made: &[warpline_verify::Input]) -> Vec<warpline_verify::Input> {
    let by = |name| WIDE.iter().find(|form| form.name == name).expect("its other end");
    match form.name {
        "gateway" => sealed_by(&SEAL_OTHERS, made),
        "open-natt" => sealed_by(by("seal-natt"), made),
        "open-natt-pieces" => sealed_by(by("seal-natt"), made).iter().flat_map(cut).collect(),
        // Numbers just before the sent half wraps, and numbers long after. All are in one batch,
        // so `before` guesses the later ones wrong, and `after` opens them again.
        "open-esn" => {
            let sealed = sealed_by(&SEAL_ESN_EDGE, &[made, made].concat());
            let is_sent =
                |at: usize| matches!(at, 0 | 100 | 190..200) || at >= 600 && at.is_multiple_of(20);
            let few = sealed.iter().enumerate().filter(|(at, _)| is_sent(*at));
            few.map(|(_, one)| one.clone()).take(24).collect()
        }
        _ => Vec::new(),
    }
}

fn sealed_by(seal: &Form, made: &[warpline_verify::Input]) -> Vec<warpline_verify::Input> {
    let with_time = |one: Outcome| {
        let cause = &made[one.ingress as usize];
        let wire_len = one.bytes.len() as u32;
        warpline_verify::Input { bytes: one.bytes, wire_len, ..cause.clone() }
    };
    outcomes_of(seal, made).into_iter().map(with_time).collect()
}

/// The two fragments of a packet of IPv4 in Ethernet without options; others as they are.
fn cut(whole: &warpline_verify::Input) -> Vec<warpline_verify::Input> {
    const L3: usize = 14;
    const DATA: usize = L3 + 20;
    const FIRST: usize = 48;
    let is_plain = whole.bytes.get(12..15) == Some(&[8, 0, 0x45]);
    if !is_plain || whole.bytes.len() < DATA + FIRST + 1 {
        return vec![whole.clone()];
    }
    let piece = |data: &[u8], word: u16| {
        let mut bytes = [&whole.bytes[..DATA], data].concat();
        let len = (bytes.len() - L3) as u16;
        bytes[L3 + 2..L3 + 4].copy_from_slice(&len.to_be_bytes());
        bytes[L3 + 6..L3 + 8].copy_from_slice(&word.to_be_bytes());
        bytes[L3 + 10..L3 + 12].fill(0);
        let sum = checksum::checksum(&bytes[L3..DATA]).to_be_bytes();
        bytes[L3 + 10..L3 + 12].copy_from_slice(&sum);
        let wire_len = bytes.len() as u32;
        warpline_verify::Input { bytes, wire_len, ..whole.clone() }
    };
    let (first, rest) = whole.bytes[DATA..].split_at(FIRST);
    vec![piece(first, 0x2000), piece(rest, (FIRST / 8) as u16)]
}

/// The packets that a function of this form lets through.
fn outcomes_of(form: &Form, inputs: &[warpline_verify::Input]) -> Vec<Outcome> {
    let mut harness = silent(form, |access| *access);
    let outcomes = inputs.chunks(64).flat_map(|batch| harness.process(batch));
    outcomes.filter(|one| one.verdict == Verdict::Forward && !one.made).collect()
}

/// Declarations whose absence no packet can show, by function.
const UNSEEN: &[(&str, Declaration, FieldSet, bool)] = &[
    // The phase reads the next hops that it wrote itself.
    ("router", Declaration::Run, FieldSet::of(&[Field::NextHop]), false),
    // The link header moves to the front unchanged.
    (
        "ipsec",
        Declaration::Run,
        FieldSet::of(&[Field::EthDst, Field::EthSrc, Field::VlanTci]),
        false,
    ),
    // Parsing the new headers ends at the tunnel's own, before these fields.
    ("load_balancer", Declaration::Run, FieldSet::of(&[Field::TcpFlags, Field::UdpLen]), false),
    // Windows and their scale decide once an inside host acknowledges an answer. These packets end
    // with the answers.
    ("nat", Declaration::Before, FieldSet::of(&[Field::TcpWindow, Field::TcpOptions]), false),
    // The hash is a hint for the lookup. A word that names no list makes `after` search again,
    // with the same result.
    ("nids", Declaration::After, FieldSet::of(&[Field::FlowHash, Field::Scratch0]), false),
];

fn may_be_unseen(function: &str, (part, field, is_written): Unit) -> bool {
    UNSEEN.iter().any(|&(own, of, fields, written)| {
        (own, of, written) == (function, part, is_written) && fields.contains(field)
    })
}

/// Takes away each declaration of the functions called so, at `at`; gives how many were named, and
/// those that were not and are not listed. None that is named may be listed.
fn take_each(functions: &[&str], at: At) -> (usize, Vec<(&'static str, Unit)>) {
    let mut named: BTreeMap<&str, BTreeSet<Unit>> = BTreeMap::new();
    let mut missed = BTreeSet::new();
    let of_one = FORMS.iter().chain(WIDE).chain(&ESN).chain([&SEAL_ESN_EDGE]).copied();
    let all: Vec<Form> = match at {
        At::Only => of_one.collect(),
        _ => forms(&[
            "nat:2",
            "balancer-dnat:2",
            "balancer-ipip:2",
            "gateway:2",
            "recompress:2",
            "router:2",
        ]),
    };
    let own = all.iter().filter(|form| functions.contains(&form.function));
    let mut exercised: Vec<_> = own.map(|form| (form, exercised(form))).collect();
    // Forms with few packets first: a declaration that one shows is not tried with the next.
    exercised.sort_by_key(|(_, inputs)| inputs.len());
    for (form, inputs) in exercised {
        let access = *function(form).0.access();
        let seen = named.entry(form.function).or_default();
        for unit in units(&access) {
            if seen.contains(&unit) {
                continue;
            }
            match is_named(form, &inputs, unit) {
                true => _ = seen.insert(unit),
                false => _ = missed.insert((form.function, unit)),
            }
        }
    }
    missed.retain(|(name, unit)| !named[name].contains(unit) && !may_be_unseen(name, *unit));
    for (name, units) in named.iter().filter(|_| at == At::Only) {
        let listed: Vec<_> = units.iter().filter(|unit| may_be_unseen(name, **unit)).collect();
        assert!(listed.is_empty(), "{name}: these are seen, and listed as unseen: {listed:?}");
    }
    (named.values().map(BTreeSet::len).sum(), missed.into_iter().collect())
}

/// Whether a look at a function of this form without `unit` names it.
fn is_named(form: &Form, inputs: &[Carried], unit: Unit) -> bool {
    let (part, field, is_written) = unit;
    let make = || silent(form, |access| without(access, unit));
    let Err(what) = look_at(&make, inputs, part.phase(), field) else { return false };
    let is_it = (what.phase, what.field, what.is_written) == (part.phase(), field, is_written);
    assert!(is_it, "{}: {unit:?}: {what:?}", form.name);
    true
}

/// Of each of these functions all but those listed are named, and at least so many.
fn all_are_named(functions: &[&str], least: usize) {
    let (named, missed) = take_each(functions, At::Only);
    assert_eq!(missed, []);
    assert!(named >= least, "{named}");
}

#[test]
fn a_missing_declaration_is_named() {
    all_are_named(&["nat", "firewall", "router"], 110);
}

#[test]
fn a_missing_declaration_of_a_gateway_is_named() {
    all_are_named(&["ipsec"], 150);
}

#[test]
fn a_missing_declaration_of_a_balancer_or_of_compression_is_named() {
    all_are_named(&["ipcomp", "load_balancer"], 90);
}

#[test]
fn a_missing_declaration_of_a_sensor_is_named() {
    all_are_named(&["digest", "flow_monitor", "nids"], 60);
}

/// A second place may declare more than it does, so only a number of each function's declarations
/// is asked for.
#[test]
fn missing_declarations_of_second_places_are_named() {
    for (function, least) in
        [("nat", 18), ("load_balancer", 57), ("ipsec", 100), ("ipcomp", 45), ("router", 15)]
    {
        let (named, _) = take_each(&[function], At::Second);
        assert!(named >= least, "{function}: {named}");
    }
}
