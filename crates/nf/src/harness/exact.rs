//! Proves of a function, over packets, that its access sets are true of the bytes themselves: what a phase does not declare that it
//! writes is as it was, and nothing that becomes of the packets depends on what it does not declare that it reads.
//!
//! A field that a device or the host has only stale is one that a plan took for not needed. So each field that is not declared is
//! given other bytes for as long as the phase lasts: no reader can tell these from stale ones.
//!
//! A phase that may move frames (ESP, tunnels) is not looked at: their bytes can't be found again.

use core::ops::Range;

use warpline_packet::{Access, Batch, Field, FieldSet, Phase, ReadWrite};

use super::places::places;
use super::{Harness, Input, Moment, Outcome};

/// Packets of a batch.
const BATCH: usize = 64;

/// By which bits bytes differ from what they were.
const OTHER: u8 = 0xa5;

const PHASES: [Phase; 3] = [Phase::Before, Phase::Run, Phase::After];

/// Something that a function does and does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undeclared {
    /// The packet of the input with which it is seen, from 0; a read may have been of an earlier one.
    pub packet: usize,
    /// The phase.
    pub phase: Phase,
    /// The field; of a read that only shows with others, one of them.
    pub field: Field,
    /// Whether it is written; else it is read.
    pub is_written: bool,
}

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// What became of the packets.
    pub outcomes: Vec<Outcome>,
    /// How often a field was seen not to be written.
    pub unwritten: u64,
    /// How often a field was seen not to be read.
    pub unread: u64,
}

/// Sends `inputs` through the function of the harnesses that `make` makes, each with fresh state.
///
/// # Errors
/// The first thing that it does and does not declare.
pub fn look(make: &dyn Fn() -> Harness, inputs: &[Input]) -> Result<Looked, Undeclared> {
    let (mut plain, mut other) = (make(), make());
    let access = *plain.function().access();
    let (mut writes, mut reads) = (Writes::default(), Reads::all());
    let mut looked = Looked::default();
    for (number, batch) in inputs.chunks(BATCH).enumerate() {
        let outcomes = plain.process_watched(batch, &mut |phase, moment, batch| {
            writes.watch(&access, phase, moment, batch);
        });
        if let Some((row, phase, field)) = writes.found {
            let packet = (number * BATCH + row).min(inputs.len() - 1);
            return Err(Undeclared { packet, phase, field, is_written: true });
        }
        let others = other.process_watched(batch, &mut |phase, moment, batch| {
            reads.watch(&access, phase, moment, batch);
        });
        let notes = [plain.take_notes(), other.take_notes()];
        if outcomes != others || notes[0] != notes[1] {
            let differs = |(one, other): (&Outcome, &Outcome)| one != other;
            let row = outcomes.iter().zip(&others).position(differs).unwrap_or(0);
            let until = (number * BATCH + batch.len()).min(inputs.len());
            let (phase, field) = culprit(make, &access, &inputs[..until]);
            let packet = (number * BATCH + row).min(until - 1);
            return Err(Undeclared { packet, phase, field, is_written: false });
        }
        looked.outcomes.extend(outcomes);
    }
    Ok(Looked { unwritten: writes.seen, unread: reads.seen, ..looked })
}

/// Which undeclared field, in which phase, has an effect on what becomes of `inputs`.
fn culprit(make: &dyn Fn() -> Harness, access: &Access, inputs: &[Input]) -> (Phase, Field) {
    let run = |mut reads: Reads| {
        let mut harness = make();
        let mut all = Vec::new();
        for batch in inputs.chunks(BATCH) {
            all.push(harness.process_watched(batch, &mut |phase, moment, batch| {
                reads.watch(access, phase, moment, batch);
            }));
        }
        (all, harness.take_notes())
    };
    let expected = run(Reads::of(FieldSet::EMPTY, None));
    let is_seen = |fields, phase| run(Reads::of(fields, Some(phase))) != expected;
    let mut phases = PHASES.into_iter();
    let phase = phases.find(|&phase| is_seen(FieldSet::FRAME, phase)).unwrap_or(Phase::Run);
    let mut fields: Vec<Field> = FieldSet::FRAME.iter().collect();
    while fields.len() > 1 {
        let half = fields.split_off(fields.len() / 2);
        if !is_seen(FieldSet::of(&fields), phase) {
            fields = half;
        }
    }
    (phase, fields[0])
}

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
    /// The first: the row, the phase and the field.
    found: Option<(usize, Phase, Field)>,
}

impl Writes {
    fn watch(&mut self, access: &Access, phase: Phase, moment: Moment, batch: &Batch) {
        if moment == Moment::Begins {
            let is_meant =
                |own: ReadWrite, field| !own.writes.contains(field) && !moves(own.writes);
            self.kept = keep(batch, access, phase, is_meant);
            return;
        }
        for Kept { row, field, place, bytes } in self.kept.drain(..) {
            if batch.packet(row).frame().get(place) != Some(&bytes[..]) {
                self.found.get_or_insert((row, phase, field));
            }
            self.seen += 1;
        }
    }
}

/// Gives what is not declared as read other bytes for as long as a phase lasts.
struct Reads {
    /// Of these fields.
    fields: FieldSet,
    /// In this phase alone, where one is named.
    phase: Option<Phase>,
    kept: Vec<Kept>,
    seen: u64,
}

impl Reads {
    fn all() -> Self {
        Self::of(FieldSet::FRAME, None)
    }

    fn of(fields: FieldSet, phase: Option<Phase>) -> Self {
        Self { fields, phase, kept: Vec::new(), seen: 0 }
    }

    fn watch(&mut self, access: &Access, phase: Phase, moment: Moment, batch: &mut Batch) {
        if self.phase.is_some_and(|own| own != phase) {
            return;
        }
        if moment == Moment::Begins {
            // What moves takes other bytes with it, which nobody finds again.
            let is_meant = |own: ReadWrite, field| {
                self.fields.contains(field) && !own.reads.contains(field) && !moves(own.writes)
            };
            self.kept = keep(batch, access, phase, is_meant);
            for Kept { row, place, .. } in &self.kept {
                let mut packet = batch.packet_mut(*row);
                packet.frame_mut()[place.clone()].iter_mut().for_each(|byte| *byte ^= OTHER);
            }
            return;
        }
        for Kept { row, place, bytes, .. } in self.kept.drain(..) {
            let mut packet = batch.packet_mut(row);
            let Some(is) = packet.frame_mut().get_mut(place) else { continue };
            // What was written stays.
            if is.iter().zip(&bytes).all(|(is, was)| is ^ was == OTHER) {
                is.copy_from_slice(&bytes);
            }
            self.seen += 1;
        }
    }
}
