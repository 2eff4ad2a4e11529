//! `check --strict` sees each declaration that is missing. From each function, in each of its
//! forms, each declared field of each phase is taken away, read or written, and the look at its
//! packets has to name that field. Declarations that no packet can show are listed, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use warpline_nf::harness::exact::look_at;
use warpline_nf::harness::probes::{Hosts, answers, probes};
use warpline_nf::harness::{self, Harness, Outcome};
use warpline_nf::{After, Before, Emit, Emits, Function, Growth, Report, State};
use warpline_packet::{
    Access, Batch, Field, FieldSet, Instant, Phase, ReadWrite, Shard, StateKey, Verdict,
};

use super::exact_access::inputs;
use crate::common::forms::{ESN, FILES, FORMS, Form, WIDE};
use crate::common::real::chain_of;

/// A function that says less of itself than it does; no accessor checks it.
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

struct SilentBefore(Box<dyn Before>);

impl Before for SilentBefore {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        batch.leave_phase();
        self.0.before(batch, picks, emit);
    }

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
}

struct SilentAfter(Box<dyn After>);

impl After for SilentAfter {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        batch.leave_phase();
        self.0.after(batch, picks, emit);
    }

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
}

/// A declaration: of `before`, `run`, `after`, or of `after` for flagged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Before,
    Run,
    After,
    AfterFlagged,
}

const PARTS: [Part; 4] = [Part::Before, Part::Run, Part::After, Part::AfterFlagged];

impl Part {
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
type Unit = (Part, Field, bool);

/// Fields that a look can't change without changing what a batch is: geometry, verdicts and flags,
/// as `README.md` says.
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
    if part == Part::After {
        let flagged = &mut access.after_flagged;
        let set = if is_written { &mut flagged.writes } else { &mut flagged.reads };
        *set = *set & others;
    }
    access
}

fn silent(form: &Form, access: impl Fn(&Access) -> Access) -> Harness {
    let chain = chain_of(&[*form]);
    let inner = chain.instances[0].function.clone();
    let _ = inner.report(&warpline_nf::Outputs::default()).expect("a report");
    let access = access(inner.access());
    let function: Arc<dyn Function> = Arc::new(Silent { inner, access });
    Harness::new(function, chain.scratch_words).with_seed(chain.seed())
}

/// The packets that `check --strict` makes for a function of this form, after those of conversations through it.
fn exercised(form: &Form) -> Vec<harness::Input> {
    let mut all = inputs(&[*form]);
    let mut hosts = Hosts::default();
    hosts.read(form.table);
    let named = FILES.iter().filter(|(name, _)| form.table.contains(name));
    named.for_each(|(_, text)| hosts.read(text));
    hosts.see(&all);
    let start = all.last().expect("packets").timestamp;
    let mut made = probes(&hosts, 8, start);
    if form.name == "open-natt" {
        let seal = WIDE.iter().find(|form| form.name == "seal-natt").expect("its other end");
        let sealed = outcomes_of(seal, &made);
        let with_time = |one: Outcome| {
            let cause = &made[one.ingress as usize];
            let wire_len = one.bytes.len() as u32;
            harness::Input { bytes: one.bytes, wire_len, ..cause.clone() }
        };
        let sealed: Vec<_> = sealed.into_iter().map(with_time).collect();
        made.extend(sealed);
    }
    let back = answers(&made, &outcomes_of(form, &made));
    all.extend(made);
    all.extend(back);
    all
}

/// The packets that a function of this form lets through.
fn outcomes_of(form: &Form, inputs: &[harness::Input]) -> Vec<Outcome> {
    let mut harness = silent(form, |access| *access);
    let outcomes = inputs.chunks(64).flat_map(|batch| harness.process(batch));
    outcomes.filter(|one| one.verdict == Verdict::Forward && !one.made).collect()
}

/// Declarations whose absence these forms' packets leave unseen, by function: fields that a function
/// only carries along, that other rules and SAs than these read, and that go to packets it makes.
const UNSEEN: &[(&str, Part, FieldSet, bool)] = &[
    (
        "firewall",
        Part::Before,
        FieldSet::of(&[Field::IpFragment, Field::IpOptions, Field::IcmpCode]),
        false,
    ),
    ("nat", Part::Run, FieldSet::of(&[Field::IcmpType, Field::IcmpCode, Field::IcmpSeq]), false),
    ("router", Part::Run, FieldSet::of(&[Field::NextHop]), false),
    ("router", Part::AfterFlagged, FieldSet::of(&[Field::FlowHash, Field::Shard]), false),
    (
        "ipcomp",
        Part::Before,
        FieldSet::of(&[
            Field::SrcPort,
            Field::DstPort,
            Field::TcpSeq,
            Field::TcpAck,
            Field::TcpFlags,
            Field::TcpWindow,
            Field::TcpUrgent,
            Field::TcpOptions,
            Field::UdpLen,
            Field::L4Checksum,
            Field::IcmpType,
            Field::IcmpCode,
            Field::IcmpIdent,
            Field::IcmpSeq,
            Field::EspSpi,
            Field::EspSeq,
        ]),
        false,
    ),
    ("ipcomp", Part::Run, FieldSet::of(&[Field::EspSpi, Field::EspSeq]), false),
    ("ipcomp", Part::Run, FieldSet::of(&[Field::EspSpi, Field::EspSeq]), true),
    (
        "ipsec",
        Part::Before,
        FieldSet::of(&[
            Field::IpChecksum,
            Field::IpOptions,
            Field::TcpSeq,
            Field::TcpAck,
            Field::TcpFlags,
            Field::TcpWindow,
            Field::TcpUrgent,
            Field::TcpOptions,
            Field::UdpLen,
            Field::L4Checksum,
            Field::IcmpType,
            Field::IcmpCode,
            Field::IcmpIdent,
            Field::IcmpSeq,
        ]),
        false,
    ),
    ("ipsec", Part::Before, FieldSet::of(&[Field::Scratch2]), true),
    ("ipsec", Part::Run, FieldSet::of(&[Field::EthDst, Field::EthSrc, Field::VlanTci]), false),
    ("ipsec", Part::Run, FieldSet::of(&[Field::Scratch1, Field::Scratch2]), true),
    ("ipsec", Part::AfterFlagged, FieldSet::FRAME, true),
    ("ipsec", Part::AfterFlagged, FieldSet::of(&[Field::FlowHash, Field::Shard]), false),
    (
        "load_balancer",
        Part::Before,
        FieldSet::of(&[Field::IpLen, Field::IpProtocol, Field::IpOptions]),
        false,
    ),
    (
        "load_balancer",
        Part::Run,
        FieldSet::of(&[Field::IpProtocol, Field::IpOptions, Field::TcpFlags, Field::UdpLen]),
        false,
    ),
    (
        "nids",
        Part::After,
        FieldSet::of(&[
            Field::EspSpi,
            Field::EspSeq,
            Field::FlowHash,
            Field::Shard,
            Field::Scratch0,
        ]),
        false,
    ),
];

fn may_be_unseen(function: &str, (part, field, is_written): Unit) -> bool {
    UNSEEN.iter().any(|&(own, of, fields, written)| {
        (own, of, written) == (function, part, is_written) && fields.contains(field)
    })
}

/// Takes away each declaration of the functions called so; gives how many were named, and those that
/// were not and are not listed.
fn take_each(functions: &[&str]) -> (usize, Vec<(&'static str, Unit)>) {
    let mut named: BTreeMap<&str, BTreeSet<Unit>> = BTreeMap::new();
    let mut missed = BTreeSet::new();
    let forms = FORMS.iter().chain(WIDE).chain(&ESN);
    for form in forms.filter(|form| functions.contains(&form.function)) {
        let inputs = exercised(form);
        let access = *chain_of(&[*form]).instances[0].function.access();
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
    (named.values().map(BTreeSet::len).sum(), missed.into_iter().collect())
}

/// Whether a look at a function of this form without `unit` names it.
fn is_named(form: &Form, inputs: &[harness::Input], unit: Unit) -> bool {
    let (part, field, is_written) = unit;
    let make = || silent(form, |access| without(access, unit));
    let Err(what) = look_at(&make, inputs, part.phase(), field) else { return false };
    let is_it = (what.phase, what.field, what.is_written) == (part.phase(), field, is_written);
    assert!(is_it, "{}: {unit:?}: {what:?}", form.name);
    true
}

#[test]
fn a_missing_declaration_is_named() {
    let (named, missed) = take_each(&["nat", "firewall", "router"]);
    assert_eq!(missed, []);
    assert!(named > 100, "{named}");
}

#[test]
fn a_missing_declaration_of_any_function_is_named() {
    let others = ["digest", "flow_monitor", "ipcomp", "ipsec", "load_balancer", "nids"];
    let (named, missed) = take_each(&others);
    assert_eq!(missed, []);
    assert!(named > 300, "{named}");
}
