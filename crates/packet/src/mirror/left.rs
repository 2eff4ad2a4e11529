//! Packets that a device left to the CPU. They are fetched if the device's mirror alone has some of
//! their fields.

use core::ops::Range;

use super::{Broken, Returned};
use crate::arena::{Flagged, Left};
use crate::{Batch, FieldSet};

/// Packets of a batch that a device left to the CPU, from some function on.
#[derive(Clone, Copy, Debug)]
pub struct LeftPackets<'a> {
    returned: Returned<'a>,
    last: u8,
    with_flagged: bool,
}

impl<'a> LeftPackets<'a> {
    /// The packets left according to `returned`, where `last` is the last function that worked on
    /// the device. With `with_flagged` they include packets that it only flagged, for which nothing
    /// but its `after` is left.
    pub fn new(returned: Returned<'a>, last: u8, with_flagged: bool) -> Self {
        Self { returned, last, with_flagged }
    }

    /// Their rows in the batch's table.
    pub fn rows(self, batch: &'a Batch) -> impl Iterator<Item = usize> + 'a {
        let own = self.returned.rows.each();
        own.filter(move |&(row, at)| self.is_left(batch, row, at)).map(|(row, _)| row)
    }

    /// Whether it is one of them that has these rows in its batch's table and in the launch's.
    fn is_left(&self, batch: &Batch, row: usize, at: usize) -> bool {
        let most = self.last.saturating_add(if self.with_flagged { 2 } else { 1 });
        let [left]: [u8; 1] = self.returned.get(Left, at);
        // No kernel returns the flags that `before` set.
        (1..=most).contains(&left) || self.with_flagged && batch.table.column(Flagged)[row] != 0
    }
}

impl Batch {
    /// Checks which functions, up to `last`, the device left to the CPU.
    ///
    /// # Errors
    /// One is not in the segment.
    pub fn check_left(&self, returned: &Returned<'_>, last: u8) -> Result<(), Broken> {
        let most = last.saturating_add(2);
        for (rows, at) in returned.rows.stretches(usize::MAX) {
            let left = returned.column(Left, at..at + rows.len());
            if let Some(index) = left.iter().position(|[left]| *left > most) {
                let what = "it is left to the CPU from a missing function on";
                return Err(Broken { row: rows.start + index, what });
            }
        }
        Ok(())
    }

    /// Visits the ranges of the arena with the rooms of packets that are `left` of a launch, and no
    /// other room.
    pub fn spans_left(&self, left: LeftPackets<'_>, visit: impl FnMut(Range<usize>)) {
        self.spans_of(left.rows(self), visit);
    }

    /// Appends `fields` of the frames of packets that are `left` to `to`.
    pub fn keep_fields(&self, left: LeftPackets<'_>, fields: FieldSet, to: &mut Vec<u8>) {
        for row in left.rows(self) {
            let (packet, frame) = (self.packet(row), self.table.frame(row));
            let places = fields.iter().filter_map(|field| packet.locate(field));
            places.for_each(|place| to.extend(frame.get(place).unwrap_or(&[])));
        }
    }

    /// Puts back the bytes that [`Batch::keep_fields`] copied for the same fields of the same
    /// packets, whose headers are where they were. Takes them from the front of `from`.
    pub fn restore_fields(&mut self, left: LeftPackets<'_>, fields: FieldSet, from: &mut &[u8]) {
        for (row, at) in left.returned.rows.each() {
            if !left.is_left(self, row, at) {
                continue;
            }
            for field in fields.iter() {
                let Some(place) = self.packet(row).locate(field) else { continue };
                let Some(to) = self.table.frame_mut(row).get_mut(place) else { continue };
                if let Some((own, rest)) = from.split_at_checked(to.len()) {
                    to.copy_from_slice(own);
                    *from = rest;
                }
            }
        }
    }
}
