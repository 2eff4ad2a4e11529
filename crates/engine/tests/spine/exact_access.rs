//! Access sets match the accesses to the bytes themselves, for every form of every function
//! ([`warpline_verify::exact`]). Functions that read a frame's bytes directly declare the fields,
//! and nothing else checks that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpline_engine::Chain;
use warpline_nf::{After, Emit, Emits, Function, Growth, Report, State, StateHalf};
use warpline_packet::{
    Access, Batch, Field, FieldSet, Instant, PacketMut, Phase, ReadWrite, Reason, ScratchWord,
    Shard,
};
use warpline_verify::exact::{BATCH, Wrong, look};
use warpline_verify::{Carried, Harness};

use crate::common::forms::{At, ESN, FORMS, Form, NARROW, PAIRS};
use crate::common::frames::Input;
use crate::common::real::{deploy_forms, forms, traffic};
use crate::common::talk::Talk;

fn harness_input(input: &Input) -> warpline_verify::Input {
    warpline_verify::Input {
        bytes: input.bytes.clone(),
        timestamp: Instant::from_nanos(input.nanos),
        wire_len: input.wire_len,
        link: input.link,
    }
}

/// A form of every place of its function; of an only place that alone.
pub(super) fn places(form: &Form) -> Vec<Form> {
    match form.at {
        At::Only => vec![*form],
        _ => [At::First, At::Second].map(|at| Form { at, ..*form }).to_vec(),
    }
}

/// The function of a form, made anew, and its chain.
pub(super) fn function(form: &Form) -> (Arc<dyn Function>, Arc<Chain>) {
    let chain = Arc::clone(deploy_forms(&places(form)).chain());
    let function = chain.instances[usize::from(form.at == At::Second)].function.clone();
    // Files of numbers that were used are opened here.
    let _ = function.report(&warpline_nf::Outputs::default()).expect("a report");
    (function, chain)
}

fn harness(form: &Form) -> Harness {
    let (function, chain) = function(form);
    Harness::new(function, chain.scratch_words).with_seed(chain.seed())
}

pub(super) fn inputs(forms: &[Form]) -> Vec<warpline_verify::Input> {
    traffic(forms, Talk::new(71, 60, 1400).take(800), 73, 15).iter().map(harness_input).collect()
}

fn carried(forms: &[Form]) -> Vec<Carried> {
    inputs(forms).into_iter().map(Carried::from).collect()
}

#[test]
fn no_phase_touches_what_it_does_not_declare() {
    for form in FORMS.iter().chain(NARROW).chain(&ESN) {
        check(form, &carried(&[*form]));
    }
}

/// Second places get the words of the first, and answers.
#[test]
fn no_phase_of_two_places_touches_what_it_does_not_declare() {
    for name in PAIRS {
        let [first, second] = [1, 2].map(|place| forms(&[&format!("{name}:{place}")])[0]);
        let came = carried(&[first, second]);
        check(&first, &came);
        let left = harness(&first).pass_first(&came, BATCH);
        let changed = left.iter().filter(|one| one.words.iter().any(|word| *word != 0)).count();
        let answers = left.iter().filter(|one| one.is_answer).count();
        // Compression and routing change nothing that an answer must undo.
        let is_undone = !function(&first).0.change_words().is_empty();
        assert!(!is_undone || changed > 50 && answers > 10, "{name}: {changed}, {answers}");
        check(&second, &left);
    }
}

fn check(form: &Form, inputs: &[Carried]) {
    let looked = look(&|| harness(form), inputs);
    let looked = looked.unwrap_or_else(|why| panic!("{}, {:?}: {why:?}", form.name, form.at));
    assert!(looked.outcomes.len() >= inputs.len(), "{}", form.name);
    let seen = looked.unwritten + looked.unread;
    assert!(seen > 1000, "{}: {seen}", form.name);
}

/// Undeclared actions, from one packet on, that bypass the accessors and their checks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    WritesTtl,
    /// Drops by it.
    ReadsTtl,
    /// By one bit of it.
    ReadsBit,
    /// Puts a header before the packet, as in a tunnel, and declares no more than that.
    Moves,
    /// Also, the header has data that it did not declare.
    MovesAndCopies,
    MovesAndDrops,
    /// Does not declare that it writes the payload, which has another place in the frame.
    MovesInPart,
    /// Moves none, and writes payloads.
    MayMove,
    /// Where it cuts frames, it writes more than it cuts.
    Cuts,
    /// Drops by it.
    ReadsTime,
    ReadsWire,
    ReadsWord,
    /// Takes it for a place in a table.
    FollowsWord,
    WritesWord,
    WritesNextHop,
    Drops,
    /// Keeps a time, reports it when the run is over, and counts by it.
    Remembers,
    TellsAtTicks,
    /// Drops by a counter that all instances share.
    Draws,
}

struct Liar {
    lie: Lie,
    access: Access,
    drawn: AtomicU64,
}

/// Behind this packet.
const FIRST: u64 = 300;

/// The place of the TTL in an IPv4 header after Ethernet.
const TTL_AT: usize = 14 + 8;

/// Bytes of the outer header.
const OUTER: usize = 20;

impl Liar {
    fn new(lie: Lie) -> Self {
        let mut reads = FieldSet::of(&[Field::EthType, Field::Ingress]);
        let mut writes = FieldSet::of(&[Field::Verdict]);
        if matches!(
            lie,
            Lie::Moves | Lie::MovesInPart | Lie::MovesAndCopies | Lie::MovesAndDrops | Lie::MayMove
        ) {
            writes = FieldSet::FRAME.union(FieldSet::GEOMETRY).union(writes);
            // Its headers are found anew.
            reads = reads.union(FieldSet::PARSED).union(FieldSet::GEOMETRY);
        }
        if matches!(lie, Lie::MayMove | Lie::MovesInPart) {
            writes = writes & !FieldSet::of(&[Field::Payload]);
        }
        if lie == Lie::Cuts {
            let cut = [Field::Len, Field::Payload, Field::Remainder];
            writes = FieldSet::of(&cut).union(FieldSet::HEADERS).union(writes);
        }
        if lie == Lie::Drops {
            writes = FieldSet::EMPTY;
        }
        let run = ReadWrite::new(reads, writes);
        let after = ReadWrite::new(FieldSet::of(&[Field::Ingress]), FieldSet::EMPTY);
        Self { lie, access: Access { after, ..Access::run_only(run) }, drawn: AtomicU64::new(0) }
    }

    fn harness(lie: Lie) -> Harness {
        // The second word is another function's.
        Harness::new(Box::new(Self::new(lie)) as Box<dyn Function>, 2)
    }

    fn work(&self, packet: &mut PacketMut<'_>) {
        let other = ScratchWord::new(1).expect("a word");
        let is_v4 = packet.frame().get(12..15) == Some(&[0x08, 0x00, 0x45]);
        let ttl = packet.frame().get(TTL_AT).copied().filter(|_| is_v4);
        let drops = match self.lie {
            Lie::WritesTtl if ttl.is_some() => {
                packet.frame_mut()[TTL_AT] ^= 1;
                false
            }
            Lie::ReadsTtl => ttl.is_some_and(|ttl| ttl > 128),
            Lie::ReadsBit => ttl.is_some_and(|ttl| ttl & 2 != 0),
            Lie::Moves | Lie::MovesInPart | Lie::MovesAndCopies | Lie::MovesAndDrops if is_v4 => {
                let ttl = ttl.filter(|_| self.lie == Lie::MovesAndCopies).unwrap_or(64);
                wrap(packet, ttl);
                self.lie == Lie::MovesAndDrops && packet.frame()[OUTER + TTL_AT] > 128
            }
            Lie::MayMove => {
                packet.payload_mut().iter_mut().for_each(|byte| *byte ^= 1);
                false
            }
            Lie::Cuts if ttl.is_some() && packet.payload().len() > 1 => {
                packet.frame_mut()[TTL_AT] ^= 1;
                assert!(packet.reshape(0, -1));
                false
            }
            Lie::ReadsTime => packet.timestamp().as_nanos().is_multiple_of(3),
            Lie::ReadsWire => packet.wire_len() > 100_000,
            Lie::ReadsWord => packet.scratch(other) != 0,
            Lie::FollowsWord => [false; 4][packet.scratch(other) as usize],
            Lie::WritesWord => {
                packet.set_scratch(other, 9);
                false
            }
            Lie::WritesNextHop => {
                packet.set_next_hop(1);
                false
            }
            Lie::Drops => true,
            Lie::Draws => self.drawn.fetch_add(1, Ordering::Relaxed) % 7 == 3,
            _ => false,
        };
        if drops {
            packet.drop(Reason(0));
        }
    }
}

/// Puts a header before an IPv4 header, after the link's, which moves along.
fn wrap(packet: &mut PacketMut<'_>, ttl: u8) {
    assert!(packet.reshape(-(OUTER as isize), 0));
    let frame = packet.frame_mut();
    frame.copy_within(OUTER..OUTER + 14, 0);
    let len = (frame.len() - 14) as u16;
    frame[14..14 + OUTER].fill(0);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[TTL_AT] = ttl;
    frame[23] = 4;
    packet.reparse();
}

impl Function for Liar {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        // No accessor sees what comes now.
        batch.leave_phase();
        batch.for_each_forward(|packet| {
            if packet.ingress() >= FIRST {
                self.work(packet);
            }
        });
    }

    fn growth(&self) -> Growth {
        Growth { head: OUTER, tail: 0 }
    }

    fn emits(&self) -> Emits {
        Emits::notes(1, 8)
    }

    fn tick(&self) -> Option<Duration> {
        (self.lie == Lie::TellsAtTicks).then_some(Duration::from_millis(1))
    }

    fn state(&self, _: Shard) -> State {
        State::after(Memory { lie: self.lie, kept: 0 })
    }
}

struct Memory {
    lie: Lie,
    kept: u64,
}

impl After for Memory {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        batch.leave_phase();
        let remembers = matches!(self.lie, Lie::Remembers | Lie::TellsAtTicks);
        for &pick in picks.iter().filter(|_| remembers) {
            let packet = batch.packet(pick.into());
            if packet.ingress() == FIRST {
                self.kept = packet.timestamp().as_nanos();
            }
        }
    }
}

impl StateHalf for Memory {
    fn handle_timeout(&mut self, _: Instant, emit: &mut Emit<'_>) {
        if self.lie == Lie::TellsAtTicks && self.kept != 0 {
            assert!(emit.note(0, &self.kept.to_be_bytes()));
        }
    }

    fn close(&mut self, report: &mut dyn Report) {
        if self.lie == Lie::Remembers {
            report.note(&self.kept.to_be_bytes());
        }
    }
}

#[test]
fn undeclared_fields_are_named() {
    let inputs = carried(&[]);
    assert_eq!(look(&|| Liar::harness(Lie::Moves), &inputs).err(), None, "is carried along");
    for (lie, phase, field, is_written) in [
        (Lie::WritesTtl, Phase::Run, Field::Ttl, true),
        (Lie::ReadsTtl, Phase::Run, Field::Ttl, false),
        (Lie::ReadsBit, Phase::Run, Field::Ttl, false),
        (Lie::MovesAndCopies, Phase::Run, Field::Ttl, false),
        (Lie::MovesAndDrops, Phase::Run, Field::Ttl, false),
        (Lie::MovesInPart, Phase::Run, Field::Payload, true),
        (Lie::MayMove, Phase::Run, Field::Payload, true),
        (Lie::Cuts, Phase::Run, Field::Ttl, true),
        (Lie::ReadsTime, Phase::Run, Field::Timestamp, false),
        (Lie::ReadsWire, Phase::Run, Field::Len, false),
        (Lie::ReadsWord, Phase::Run, Field::Scratch1, false),
        (Lie::FollowsWord, Phase::Run, Field::Scratch1, false),
        (Lie::WritesWord, Phase::Run, Field::Scratch1, true),
        (Lie::WritesNextHop, Phase::Run, Field::NextHop, true),
        (Lie::Drops, Phase::Run, Field::Verdict, true),
        (Lie::Remembers, Phase::After, Field::Timestamp, false),
        (Lie::TellsAtTicks, Phase::After, Field::Timestamp, false),
    ] {
        let found = look(&|| Liar::harness(lie), &inputs).err();
        let Some(Wrong::Undeclared(what)) = found else { panic!("{lie:?}: {found:?}") };
        let reported = (what.phase, what.field, what.is_written);
        assert_eq!(reported, (phase, field, is_written), "{lie:?}");
        // The first that it does it to, but for those that are no IPv4.
        assert!((300..320).contains(&what.packet), "{lie:?}: {}", what.packet);
        let is_any = !matches!(field, Field::Ttl | Field::Payload) && lie != Lie::ReadsTime;
        assert!(what.packet == 300 || !is_any, "{lie:?}: {}", what.packet);
    }
}

#[test]
fn differences_between_two_runs_are_reported() {
    let drawing = Arc::new(Liar::new(Lie::Draws));
    let make = || Harness::new(Arc::clone(&drawing) as Arc<dyn Function>, 2);
    let found = look(&make, &carried(&[])).err();
    assert!(matches!(found, Some(Wrong::Unrepeatable(300..=320))), "{found:?}");
}
