//! Proves over packets that a function's access sets are true of the bytes themselves. A phase must
//! leave fields alone that it does not declare as written. Nothing may depend on fields that it
//! does not declare as read.
//!
//! A plan leaves a field stale on a device or the host if it is not needed there. So each
//! undeclared field, of the frame or of the metadata, gets other bytes while the phase lasts: a
//! reader cannot tell these from stale ones. The results of the phase are compared with those of a
//! run without changes. The same holds for packets made, notes and counts, also at ticks and at the
//! end.
//!
//! A phase may carry undeclared bytes to the frame's new start, or leave them in their room, no
//! more. A phase that moves a frame's start writes all of the frame, as plans assume.
//! `exact/reads.rs` lists the fields that keep their values.

mod kept;
mod reads;
mod writes;

use core::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use warpline_packet::{Field, FieldSet, Phase};

use self::kept::PacketImage;
use self::reads::Reads;
use self::writes::Writes;
use super::pair::Clock;
use super::{Carried, Harness, Moment, Outcome};
use warpline_nf::Report;

/// Packets of a batch.
pub const BATCH: usize = 64;

const PHASES: [Phase; 3] = [Phase::Before, Phase::Run, Phase::After];

/// An error of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It does something that it does not declare.
    Undeclared(Undeclared),
    /// It doesn't do the same twice, with all fields as they are. Seen with this packet of the
    /// input, from 0.
    Unrepeatable(usize),
}

/// Something that a function does and does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undeclared {
    /// The packet of the input with the field, from 0; if a read only shows with several packets,
    /// one of them.
    pub packet: usize,
    /// The phase.
    pub phase: Phase,
    /// The field; of a read that only shows with others, one of them.
    pub field: Field,
    /// Whether it is written; else it is read.
    pub is_written: bool,
}

/// The results of a check.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// The outcome of the packets, and what time and the end of the input made.
    pub outcomes: Vec<Outcome>,
    /// How often a field was seen not to be written.
    pub unwritten: u64,
    /// How often a field was seen not to be read.
    pub unread: u64,
}

/// Sends `inputs` through the function of the harnesses that `make` makes, each with fresh state.
///
/// # Errors
/// The first thing that is wrong.
pub fn look(make: &dyn Fn() -> Harness, inputs: &[Carried]) -> Result<Looked, Wrong> {
    let mut looked = Looked::default();
    match compare(make, inputs, &Others::all(inputs.len()), &mut looked) {
        None => Ok(looked),
        Some(Breach::Write(what)) => Err(Wrong::Undeclared(what)),
        Some(Breach::Read { packet, end }) => Err(culprit(make, &inputs[..end], packet)),
    }
}

/// The same for one field of one phase alone: whether it is touched and not declared.
///
/// # Errors
/// It is.
pub fn look_at(
    make: &dyn Fn() -> Harness,
    inputs: &[Carried],
    phase: Phase,
    field: Field,
) -> Result<Looked, Undeclared> {
    let mut looked = Looked::default();
    let others = Others { units: vec![(phase, field)], packets: 0..inputs.len() };
    match compare(make, inputs, &others, &mut looked) {
        None => Ok(looked),
        Some(Breach::Write(what)) => Err(what),
        Some(Breach::Read { packet, .. }) => {
            Err(Undeclared { packet, phase, field, is_written: false })
        }
    }
}

/// The fields that get other values: of these packets, in these phases, these fields.
#[derive(Clone)]
struct Others {
    units: Vec<(Phase, Field)>,
    packets: Range<usize>,
}

impl Others {
    fn all(packets: usize) -> Self {
        let of = |phase| FieldSet::ALL.iter().map(move |field| (phase, field));
        Self { units: PHASES.into_iter().flat_map(of).collect(), packets: 0..packets }
    }

    /// Those of `phase`.
    fn fields(&self, phase: Phase) -> FieldSet {
        self.units.iter().filter(|unit| unit.0 == phase).map(|unit| unit.1).collect()
    }
}

/// The findings of [`compare`].
enum Breach {
    Write(Undeclared),
    /// Something was read: it shows with a packet, in the batch that ends so.
    Read {
        packet: usize,
        end: usize,
    },
}

/// Runs a function with all fields as they are, and another one with other values in undeclared
/// fields.
fn compare(
    make: &dyn Fn() -> Harness,
    inputs: &[Carried],
    others: &Others,
    looked: &mut Looked,
) -> Option<Breach> {
    let mut pair = Pair { plain: make(), other: make(), writes: Writes::default(), unread: 0 };
    let mut clock = Clock::of(&pair.plain);
    for (number, batch) in inputs.chunks(BATCH).enumerate() {
        let first = number * BATCH;
        let end = first + batch.len();
        if let Some(now) = clock.tick(batch) {
            let outcomes = pair.beside(&mut |harness| harness.tick(now));
            let Some(outcomes) = outcomes else { return Some(Breach::Read { packet: first, end }) };
            looked.outcomes.extend(outcomes);
        }
        match pair.process(batch, first, others) {
            Ok(outcomes) => looked.outcomes.extend(outcomes),
            Err(Row::Written(row, phase, field)) => {
                let packet = (first + row).min(end - 1);
                return Some(Breach::Write(Undeclared { packet, phase, field, is_written: true }));
            }
            Err(Row::Differs(row)) => {
                return Some(Breach::Read { packet: (first + row).min(end - 1), end });
            }
        }
    }
    let end = inputs.len();
    match pair.beside(&mut Harness::finish).filter(|_| pair.closes_alike()) {
        Some(outcomes) => looked.outcomes.extend(outcomes),
        None => return Some(Breach::Read { packet: end.saturating_sub(1), end }),
    }
    (looked.unread, looked.unwritten) = (pair.unread, pair.writes.seen);
    None
}

/// A row of a batch with which something is wrong.
enum Row {
    Written(usize, Phase, Field),
    Differs(usize),
}

/// Two instances of a function, one with other values.
struct Pair {
    plain: Harness,
    other: Harness,
    writes: Writes,
    unread: u64,
}

impl Pair {
    /// Processes a batch whose first packet is number `first` of the input.
    fn process(
        &mut self,
        batch: &[Carried],
        first: usize,
        others: &Others,
    ) -> Result<Vec<Outcome>, Row> {
        let access = *self.plain.function().access();
        let (writes, mut ended) = (&mut self.writes, Vec::new());
        let outcomes = self.plain.process_watched(batch, &mut |phase, moment, batch| {
            let all = PacketImage::all(batch);
            match moment {
                Moment::Begins => writes.begin(all),
                Moment::Ended => {
                    writes.end(&access, phase, &all);
                    ended.push(all);
                }
            }
        });
        if let Some((row, phase, field)) = writes.found {
            return Err(Row::Written(row, phase, field));
        }
        let mut reads = Reads::new(&access, first, others, &ended);
        let other = &mut self.other;
        // A changed value may be an index outside of a table.
        let changed = catch_unwind(AssertUnwindSafe(|| {
            other.process_watched(batch, &mut |phase, moment, batch| {
                reads.watch(phase, moment, batch);
            })
        }));
        let Ok(changed) = changed else { return Err(Row::Differs(0)) };
        self.unread += reads.seen;
        let differs = |(one, other): (&Outcome, &Outcome)| one != other;
        let row = reads.found.or_else(|| outcomes.iter().zip(&changed).position(differs));
        if row.is_some() || outcomes.len() != changed.len() || !self.report_alike() {
            return Err(Row::Differs(row.unwrap_or(0)));
        }
        Ok(outcomes)
    }

    /// The results of `work` without packets, if they are the same for both.
    fn beside(
        &mut self,
        work: &mut dyn FnMut(&mut Harness) -> Vec<Outcome>,
    ) -> Option<Vec<Outcome>> {
        let outcomes = work(&mut self.plain);
        let other = AssertUnwindSafe(|| work(&mut self.other));
        let is_same = catch_unwind(other).is_ok_and(|others| others == outcomes);
        (is_same && self.report_alike()).then_some(outcomes)
    }

    /// Whether both noted and counted the same.
    fn report_alike(&mut self) -> bool {
        self.plain.take_notes() == self.other.take_notes()
            && self.plain.counters() == self.other.counters()
    }

    /// Whether both still have the same to give at the end.
    fn closes_alike(&mut self) -> bool {
        let (mut plain, mut other) = (Notes::default(), Notes::default());
        let is_closed = self.plain.close(&mut plain).is_ok();
        let is_same = catch_unwind(AssertUnwindSafe(|| self.other.close(&mut other).is_ok()));
        is_same.is_ok_and(|other| other == is_closed) && plain.0 == other.0
    }
}

/// The notes of a report.
#[derive(Default)]
struct Notes(Vec<Vec<u8>>);

impl Report for Notes {
    fn note(&mut self, note: &[u8]) {
        self.0.push(note.to_vec());
    }
}

/// Finds the undeclared field, packet and phase that affect the outcome of `inputs`; it was seen
/// with `packet`.
fn culprit(make: &dyn Fn() -> Harness, inputs: &[Carried], packet: usize) -> Wrong {
    let is_seen = |others: &Others| {
        matches!(compare(make, inputs, others, &mut Looked::default()), Some(Breach::Read { .. }))
    };
    let mut others = Others::all(inputs.len());
    if is_seen(&Others { units: Vec::new(), ..others.clone() }) {
        return Wrong::Unrepeatable(packet);
    }
    while others.units.len() > 1 {
        let half = others.units.split_off(others.units.len() / 2);
        if !is_seen(&others) {
            others.units = half;
        }
    }
    // Most often it is the packet with which it shows.
    let own = Others { packets: packet..packet + 1, ..others.clone() };
    if is_seen(&own) {
        others = own;
    }
    while others.packets.len() > 1 {
        let Range { start, end } = others.packets;
        let middle = start + (end - start) / 2;
        others.packets = start..middle;
        if !is_seen(&others) {
            others.packets = middle..end;
        }
    }
    let (phase, field) = others.units[0];
    Wrong::Undeclared(Undeclared { packet: others.packets.start, phase, field, is_written: false })
}
