//! Finds undeclared writes.

use warpline_packet::{Access, Field, FieldSet, Phase, ReadWrite};

use super::kept::PacketImage;

#[derive(Default)]
pub(super) struct Writes {
    began: Vec<PacketImage>,
    /// How often a field was not written.
    pub(super) seen: u64,
    /// The first that was: the row, the phase and the field.
    pub(super) found: Option<(usize, Phase, Field)>,
}

impl Writes {
    pub(super) fn begin(&mut self, began: Vec<PacketImage>) {
        self.began = began;
    }

    pub(super) fn end(&mut self, access: &Access, phase: Phase, ended: &[PacketImage]) {
        for (row, (was, is)) in self.began.iter().zip(ended).enumerate() {
            match unwritten(was, is, was.declared(access, phase)) {
                Ok(seen) => self.seen += seen,
                Err(field) => {
                    self.found.get_or_insert((row, phase, field));
                }
            }
        }
    }
}

/// How many undeclared fields were not written; or one that was. Another room has another frame
/// (`Batch::replace`), which is not declared.
fn unwritten(was: &PacketImage, is: &PacketImage, own: ReadWrite) -> Result<u64, Field> {
    let replaced = match was.room() == is.room() {
        true => FieldSet::EMPTY,
        false => FieldSet::FRAME | FieldSet::GEOMETRY,
    };
    let own = ReadWrite { writes: own.writes | replaced, ..own };
    let mut seen = 0;
    for ((field, was), (_, is)) in was.metadata.iter().zip(&is.metadata) {
        match own.writes.contains(*field) {
            true => {}
            false if was != is => return Err(*field),
            false => seen += 1,
        }
    }
    let rest = FieldSet::FRAME & !own.writes;
    if let Some(field) = rest.iter().next().filter(|_| has_moved(was, is)) {
        return Err(field);
    }
    if rest.is_empty() {
        return Ok(seen);
    }
    let mut left = FieldSet::EMPTY;
    for (at, (fields, byte)) in was.fields_at().into_iter().zip(&was.frame).enumerate() {
        if fields.is_empty() || !(fields & own.writes).is_empty() {
            continue;
        }
        if is.frame.get(at) != Some(byte) {
            return Err(fields.iter().next().unwrap_or(Field::Remainder));
        }
        left = left | fields;
    }
    Ok(seen + u64::from(left.bits().count_ones()))
}

/// Whether a frame or its IP header begins elsewhere: each field is where another one was.
fn has_moved(was: &PacketImage, is: &PacketImage) -> bool {
    [Field::Start, Field::L3Offset].into_iter().any(|field| was.get(field) != is.get(field))
}
