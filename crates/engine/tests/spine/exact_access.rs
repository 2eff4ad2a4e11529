//! Access sets are true of the bytes themselves: what a phase does not declare that it writes is as it was, and nothing
//! depends on what it does not declare that it reads. Functions that look at a frame's bytes say which fields they
//! mean, and nothing else checks that.
//!
//! A phase that may move a frame (ESP, tunnels) is not looked at: its bytes can't be found again.

use std::ops::Range;

use warpline_nf::Function;
use warpline_nf::harness::{Harness, Moment, Outcome};
use warpline_packet::{Access, Batch, Field, FieldSet, Instant, Phase, ReadWrite};

use crate::common::forms::{ESN, FORMS, Form, NARROW};
use crate::common::frames::Input;
use crate::common::places::places;
use crate::common::real::{chain_of, traffic};
use crate::common::talk::Talk;

/// Packets of a batch.
const BATCH: usize = 64;

/// What `phase` declares of a packet.
fn declared(access: &Access, phase: Phase, is_flagged: bool) -> ReadWrite {
    let (all, more) = match phase {
        Phase::Before => (access.before, ReadWrite::NONE),
        Phase::Run => (access.run, ReadWrite::NONE),
        Phase::After => (access.after, access.after_flagged),
    };
    match is_flagged {
        true => ReadWrite::new(all.reads | more.reads, all.writes | more.writes),
        false => all,
    }
}

/// Whether what writes these fields may put others elsewhere.
fn moves(writes: FieldSet) -> bool {
    writes.contains(Field::Start)
}

/// Some bytes of a packet as they were when a phase began.
struct Kept {
    row: usize,
    field: Field,
    place: Range<usize>,
    bytes: Vec<u8>,
}

/// The fields of forwarded packets that `is_meant`, by what the phase declares of the packet.
fn keep(
    batch: &Batch,
    access: &Access,
    phase: Phase,
    is_meant: impl Fn(ReadWrite, Field) -> bool,
) -> Vec<Kept> {
    let mut all = Vec::new();
    for packet in batch.forward() {
        let own = declared(access, phase, packet.is_flagged());
        for field in FieldSet::FRAME.iter().filter(|&field| is_meant(own, field)) {
            for place in places(field, &packet.headers(), packet.link(), packet.len()) {
                let bytes = packet.frame()[place.clone()].to_vec();
                all.push(Kept { row: packet.index(), field, place, bytes });
            }
        }
    }
    all
}

/// Looks for writes that are not declared.
#[derive(Default)]
struct Writes {
    kept: Vec<Kept>,
    seen: u64,
}

impl Writes {
    fn watch(
        &mut self,
        name: &str,
        access: &Access,
        phase: Phase,
        moment: Moment,
        batch: &mut Batch,
    ) {
        if moment == Moment::Begins {
            let is_meant =
                |own: ReadWrite, field| !own.writes.contains(field) && !moves(own.writes);
            self.kept = keep(batch, access, phase, is_meant);
            return;
        }
        for Kept { row, field, place, bytes } in self.kept.drain(..) {
            let is = batch.packet(row).frame()[place].to_vec();
            assert_eq!(is, bytes, "{name}: {phase:?} writes {} of row {row}", field.name());
            self.seen += 1;
        }
    }
}

/// Gives what is not declared as read other bytes for as long as a phase lasts.
#[derive(Default)]
struct Reads {
    kept: Vec<Kept>,
    seen: u64,
}

impl Reads {
    fn watch(&mut self, access: &Access, phase: Phase, moment: Moment, batch: &mut Batch) {
        if moment == Moment::Begins {
            // What moves takes other bytes with it, which nobody finds again.
            let is_meant = |own: ReadWrite, field| !own.reads.contains(field) && !moves(own.writes);
            self.kept = keep(batch, access, phase, is_meant);
            for Kept { row, place, .. } in &self.kept {
                let mut packet = batch.packet_mut(*row);
                packet.frame_mut()[place.clone()].iter_mut().for_each(|byte| *byte ^= OTHER);
            }
            return;
        }
        for Kept { row, place, bytes, .. } in self.kept.drain(..) {
            let mut packet = batch.packet_mut(row);
            let is = &mut packet.frame_mut()[place];
            // What was written stays.
            if is.iter().zip(&bytes).all(|(is, was)| is ^ was == OTHER) {
                is.copy_from_slice(&bytes);
            }
            self.seen += 1;
        }
    }
}

/// By which bits bytes differ from what they were.
const OTHER: u8 = 0xa5;

/// What becomes of `inputs`, batch by batch, with `watch` around the phases.
fn process(
    harness: &mut Harness,
    inputs: &[Input],
    watch: &mut dyn FnMut(&Access, Phase, Moment, &mut Batch),
) -> Vec<Outcome> {
    let access = *harness.function().access();
    let batches = inputs.chunks(BATCH).flat_map(|inputs| {
        let inputs: Vec<_> = inputs.iter().map(harness_input).collect();
        harness.process_watched(&inputs, &mut |phase, moment, batch| {
            watch(&access, phase, moment, batch)
        })
    });
    batches.collect()
}

fn harness_input(input: &Input) -> warpline_nf::harness::Input {
    warpline_nf::harness::Input {
        bytes: input.bytes.clone(),
        timestamp: Instant::from_nanos(input.nanos),
        wire_len: input.wire_len,
        link: input.link,
    }
}

fn harness(form: &Form) -> Harness {
    let chain = chain_of(&[*form]);
    let function: std::sync::Arc<dyn Function> = chain.instances[0].function.clone();
    // Files of numbers that were used are opened here.
    let _ = function.report(&warpline_nf::Outputs::default()).expect("a report");
    Harness::new(function, chain.scratch_words)
}

#[test]
fn no_phase_touches_what_it_does_not_declare() {
    for form in FORMS.iter().chain(NARROW).chain(&ESN) {
        let inputs = traffic(&[*form], Talk::new(71, 60, 1400).take(800), 73, 15);
        let (mut writes, mut reads) = (Writes::default(), Reads::default());
        let plain = process(&mut harness(form), &inputs, &mut |access, phase, moment, batch| {
            writes.watch(form.name, access, phase, moment, batch);
        });
        let other = process(&mut harness(form), &inputs, &mut |access, phase, moment, batch| {
            reads.watch(access, phase, moment, batch);
        });
        assert!(plain.len() >= inputs.len() && other.len() == plain.len(), "{}", form.name);
        for (at, (plain, other)) in plain.iter().zip(&other).enumerate() {
            assert_eq!(
                plain, other,
                "{}, packet {at}, depends on what it does not declare",
                form.name
            );
        }
        assert!(writes.seen + reads.seen > 1000, "{}: {}, {}", form.name, writes.seen, reads.seen);
    }
}
