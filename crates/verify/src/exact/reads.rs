//! Gives undeclared fields other values while a phase lasts, and compares the results.
//!
//! These fields keep their values, since batches themselves depend on them:
//! - verdicts: a function skips packets that don't continue. The reason and the function of a drop
//!   get other values;
//! - the start and length of a frame: they name memory. The length on the wire gets another value
//!   if the length is not written, because moving a frame's ends uses it;
//! - the positions and kinds of headers, if a phase accesses any field of the frame: accessors need
//!   them. Devices always have them, so no plan is wrong because of it;
//! - in `after`, whether a packet is flagged, if its declared access depends on that.

use core::array;

use warpline_packet::{Access, Batch, Field, FieldSet, Phase, ReadWrite, SHARDS};

use super::kept::{PacketImage, is_scratch};
use super::{Moment, Others};

pub(super) struct Reads<'a> {
    access: &'a Access,
    /// The number in the input of the batch's first packet.
    first: usize,
    others: &'a Others,
    /// The outcome of the packets in each phase with all as it was.
    expected: core::slice::Iter<'a, Vec<PacketImage>>,
    given: Vec<Given>,
    /// How often a field had another value, and it didn't show.
    pub(super) seen: u64,
    /// The first row with which something shows.
    pub(super) found: Option<usize>,
}

/// A packet as it was when a phase began, and what was given other values.
struct Given {
    was: PacketImage,
    own: ReadWrite,
    /// The changed bits of each byte of the frame; empty if none changed.
    frame: Vec<u8>,
    /// The same of each field of its metadata.
    metadata: Vec<u128>,
}

impl<'a> Reads<'a> {
    pub(super) fn new(
        access: &'a Access,
        first: usize,
        others: &'a Others,
        expected: &'a [Vec<PacketImage>],
    ) -> Self {
        let expected = expected.iter();
        Self { access, first, others, expected, given: Vec::new(), seen: 0, found: None }
    }

    pub(super) fn watch(&mut self, phase: Phase, moment: Moment, batch: &mut Batch) {
        if moment == Moment::Begins {
            let fields = self.others.fields(phase);
            let rows = PacketImage::all(batch).into_iter().enumerate();
            self.given = rows.map(|(row, was)| self.give(phase, fields, row, was)).collect();
            for (row, given) in self.given.iter().enumerate() {
                given.write(batch, row);
            }
            return;
        }
        let Some(expected) = self.expected.next() else { return };
        for (row, (given, expected)) in self.given.iter().zip(expected).enumerate() {
            if !given.settle(expected, batch, row) {
                self.found.get_or_insert(row);
            }
            self.seen += given.count();
        }
    }

    fn give(&self, phase: Phase, fields: FieldSet, row: usize, was: PacketImage) -> Given {
        let own = was.declared(self.access, phase);
        let number = self.first + row;
        let is_meant = self.others.packets.contains(&number);
        let meant = if is_meant { fields & !own.reads } else { FieldSet::EMPTY };
        // So that each bit is another in about every second packet.
        let salt = (number as u32).wrapping_mul(0x9e37_79b1) >> 16;
        let bits = |(at, fields): (usize, FieldSet)| {
            let is_meant = !fields.is_empty() && meant.covers(fields);
            if is_meant { changed_bits(salt, at) } else { 0 }
        };
        let frame = match (meant & FieldSet::FRAME).is_empty() {
            true => Vec::new(),
            false => was.fields_at().into_iter().enumerate().map(bits).collect(),
        };
        let keeps_flags = phase == Phase::After && !self.access.after_flagged.is_none();
        let bits = |&(field, is): &(Field, u128)| match field {
            Field::Flagged if keeps_flags => 0,
            _ if meant.contains(field) => changed(field, is, own, salt),
            _ => 0,
        };
        let metadata = was.metadata.iter().map(bits).collect();
        Given { was, own, frame, metadata }
    }
}

/// The changed bits of the byte at this place, never none. Within 255 bytes no two have the same.
/// So a byte that was carried elsewhere can be recognised, and equal bytes don't stay equal.
fn changed_bits(salt: u32, place: usize) -> u8 {
    (1 + (salt as usize + place) % 255) as u8
}

/// By which bits a field that holds `is` is changed.
fn changed(field: Field, is: u128, own: ReadWrite, salt: u32) -> u128 {
    let touched = (own.reads | own.writes) & FieldSet::FRAME;
    let bits =
        u128::from_le_bytes(array::from_fn(|byte| changed_bits(salt, 16 * field as usize + byte)));
    let low = |count: u32| bits & ((1 << count) - 1);
    match field {
        Field::Len if !own.writes.contains(Field::Len) => low(32),
        Field::L3Offset | Field::L4Offset if touched.is_empty() => low(16),
        Field::PayloadOffset if touched.is_empty() => low(48),
        Field::Kind if touched.is_empty() => low(56),
        Field::Timestamp => bits,
        Field::Ingress => low(80),
        // Reason, and whose.
        Field::Verdict => low(24) & !0xff,
        Field::NextHop => low(16),
        Field::FlowHash => low(32),
        // Of those that there are.
        Field::Shard => bits % (SHARDS as u128 - 1) + 1,
        // Flagging writes 1. This value differs from it, and is a flag.
        Field::Flagged if is == 0 => 0x82,
        Field::Flagged => is,
        other if is_scratch(other) => low(32),
        _ => 0,
    }
}

impl Given {
    fn write(&self, batch: &mut Batch, row: usize) {
        for (&(field, is), bits) in self.was.metadata.iter().zip(&self.metadata) {
            if *bits != 0 {
                batch.set_metadata(row, field, is ^ bits);
            }
        }
        if !self.frame.is_empty() {
            let mut packet = batch.packet_mut(row);
            let bytes = packet.frame_mut().iter_mut().zip(&self.frame);
            bytes.for_each(|(byte, bits)| *byte ^= bits);
        }
    }

    fn count(&self) -> u64 {
        let frame = match self.frame.is_empty() {
            true => FieldSet::EMPTY,
            false => {
                let fields = self.was.fields_at().into_iter().zip(&self.frame);
                fields.filter(|(_, bits)| **bits != 0).fold(FieldSet::EMPTY, |all, one| all | one.0)
            }
        };
        let metadata = self.metadata.iter().filter(|bits| **bits != 0).count();
        u64::from(frame.bits().count_ones()) + metadata as u64
    }

    /// Gives the packet the values of `expected` if it equals it except for the changes; returns
    /// whether it does.
    fn settle(&self, expected: &PacketImage, batch: &mut Batch, row: usize) -> bool {
        let is = PacketImage::of(batch, row);
        let is_alike = self.settle_metadata(expected, &is, batch, row);
        if is.start() != expected.start() || is.frame.len() != expected.frame.len() {
            return false;
        }
        if is.frame == expected.frame {
            return is_alike;
        }
        if !self.is_carried(&is, expected) {
            return false;
        }
        batch.packet_mut(row).frame_mut().copy_from_slice(&expected.frame);
        is_alike
    }

    fn settle_metadata(
        &self,
        expected: &PacketImage,
        is: &PacketImage,
        batch: &mut Batch,
        row: usize,
    ) -> bool {
        let mut is_alike = true;
        let all = self.was.metadata.iter().zip(&self.metadata).zip(&is.metadata);
        for (((&(field, was), bits), &(_, is)), &(_, expected)) in all.zip(&expected.metadata) {
            let is_left = is == was ^ bits && expected == was;
            if is_left {
                batch.set_metadata(row, field, was);
            }
            // Rooms may differ. A function's words may name rows of tables in another order; their
            // effects show.
            let is_own = is_scratch(field) && self.own.writes.contains(field);
            is_alike &= is_left || is == expected || field == Field::Start || is_own;
        }
        is_alike
    }

    /// Whether each byte that is not as expected was changed and carried there: to its old place in
    /// the frame or in the room. A byte that appears twice was read.
    fn is_carried(&self, is: &PacketImage, expected: &PacketImage) -> bool {
        let same_room = is.room() == self.was.room();
        let (was_at, is_at) = (usize::from(self.was.start()), usize::from(is.start()));
        let mut is_taken = vec![false; self.frame.len()];
        let all = is.frame.iter().zip(&expected.frame).enumerate();
        all.filter(|(_, (is, expected))| is != expected).all(|(at, (byte, expected))| {
            let is_from = |from: &usize| {
                let Some((bits, was)) = self.frame.get(*from).zip(self.was.frame.get(*from)) else {
                    return false;
                };
                *bits != 0 && expected == was && *byte == was ^ bits
            };
            let stayed = (at + is_at).checked_sub(was_at).filter(|_| same_room);
            let from = stayed.into_iter().chain([at]).find(is_from);
            from.is_some_and(|from| !std::mem::replace(&mut is_taken[from], true))
        })
    }
}
