//! Follows finished launches: their copies and kernels in order, and the columns that the lane
//! takes from their tables.

use core::ops::Range;

use warpline_packet::{Batch, Field, FieldSet, ReadWrite, Returned};

use super::phases::start_of;
use super::record::{Holder, Record};
use super::trace::Act;
use super::{Key, Reader, Versions, key_of};

/// A launch that is done, as versions see it.
pub(crate) struct Launched<'a> {
    pub(crate) acts: &'a [Act],
    /// The mirror's number; none where kernels work in place.
    pub(crate) mirror: Option<u8>,
    /// Fields of frames that kernels find in columns.
    pub(crate) staged: FieldSet,
}

impl Versions {
    /// A launch is done. The batch has these rows of it, and nothing was taken from its table yet.
    pub(crate) fn launched(
        &mut self,
        launch: &Launched<'_>,
        batch: &mut Batch,
        returned: &Returned<'_>,
    ) {
        batch.leave_phase();
        for (row, at) in returned.parts().1.each() {
            let (room, key) = (batch.room(row), key_of(batch, row));
            let version = batch.packet(row).headers().version;
            let start = room.start + usize::from(start_of(batch, row));
            let own = start..start + batch.packet(row).frame().len();
            let Some(record) = self.records.get_mut(&key) else { continue };
            record.clear_tables();
            let mut kept = FieldSet::EMPTY;
            for act in launch.acts {
                match act {
                    Act::Ran(position) if returned.did(at, *position) => {
                        self.ran(key, *position, launch);
                    }
                    Act::Pulled(bits) if batch.is_mirrored(row, *bits) => {}
                    Act::Ran(_) => {}
                    other => {
                        let Some(record) = self.records.get_mut(&key) else { continue };
                        copied(record, launch, other, (&room, &own, version), &mut kept);
                    }
                }
            }
        }
    }

    /// Kernels of the function at `position` ran for a packet.
    fn ran(&mut self, room: Key, position: u8, launch: &Launched<'_>) {
        let ReadWrite { reads, writes } = self.functions[usize::from(position)].kernels;
        let (frame, table) = match launch.mirror {
            Some(number) => (Holder::Mirror(number.into()), Holder::TableThere),
            None => (Holder::Host, Holder::Table),
        };
        let in_frame = FieldSet::FRAME & !launch.staged;
        for (place, own) in [(frame, in_frame), (table, !in_frame)] {
            // Verdicts, and who flagged, are written whole or not at all.
            let marks = FieldSet::of(&[Field::Verdict, Field::Flagged]);
            let needs = (reads | writes & !marks) & own;
            self.check(room, (position.into(), Reader::Run), place, needs);
            if let Some(record) = self.records.get_mut(&room) {
                record.write(place, writes & own);
            }
        }
    }

    /// The lane puts `fields` of a launch's table into the frames of a batch's packets.
    pub(crate) fn scattered(&mut self, batch: &Batch, returned: &Returned<'_>, fields: FieldSet) {
        let rows = returned.parts().1.each().map(|(row, _)| row);
        self.taken(batch, rows.filter(|&row| batch.is_forward(row)), fields);
    }

    /// The lane takes `fields` from a launch's table for packets for which kernels of the function
    /// at `position` ran.
    pub fn accepted(
        &mut self,
        batch: &Batch,
        returned: &Returned<'_>,
        position: u8,
        fields: FieldSet,
    ) {
        let rows = returned.parts().1.each();
        let rows = rows.filter(|&(row, at)| batch.is_forward(row) && returned.did(at, position));
        for (row, _) in rows {
            let Some(record) = self.records.get_mut(&key_of(batch, row)) else { continue };
            // An earlier function let the packet pass on the host after the kernels ran. The
            // verdict of these is added to its own, which stays the newest.
            let has = |place| record.current(place).contains(Field::Verdict);
            let was_passed = has(Holder::Host) && !has(Holder::Table);
            let verdict = FieldSet::of(&[Field::Verdict]);
            let taken = if was_passed { fields & !verdict } else { fields | verdict };
            record.copy(Holder::Table, Holder::Host, taken & !FieldSet::FRAME);
        }
    }

    fn taken(&mut self, batch: &Batch, rows: impl Iterator<Item = usize>, fields: FieldSet) {
        for row in rows {
            if let Some(record) = self.records.get_mut(&key_of(batch, row)) {
                record.copy(Holder::Table, Holder::Host, fields);
            }
        }
    }
}

/// Applies a copy of a launch to a packet's record. `kept` are the host's fields that were put
/// aside.
fn copied(
    record: &mut Record,
    launch: &Launched<'_>,
    act: &Act,
    (room, own, version): (&Range<usize>, &Range<usize>, u8),
    kept: &mut FieldSet,
) {
    let Some(mirror) = launch.mirror.map(|number| Holder::Mirror(number.into())) else {
        if let Act::Filled(fields) = act {
            record.copy(Holder::Host, Holder::Table, *fields);
        }
        return;
    };
    let frame = FieldSet::FRAME;
    match act {
        Act::Filled(fields) => record.copy(Holder::Host, Holder::Table, *fields),
        Act::RoomsThere(bytes) if bytes.has(own) => record.copy(Holder::Host, mirror, frame),
        Act::RoomsBack(bytes) if bytes.touches(room) => record.copy(mirror, Holder::Host, frame),
        Act::Pulled(_) => record.copy(Holder::Host, mirror, frame),
        Act::Pushed => record.copy(mirror, Holder::Host, frame),
        Act::TableThere(fields) => {
            record.copy(Holder::Table, Holder::TableThere, fields.of(version));
        }
        Act::TableBack(fields) => {
            record.copy(Holder::TableThere, Holder::Table, fields.of(version));
        }
        Act::Unpacked(fields) => record.copy(Holder::Host, Holder::TableThere, *fields),
        Act::Put(fields) => record.copy(Holder::TableThere, mirror, *fields),
        Act::Took(fields) => record.copy(mirror, Holder::TableThere, *fields),
        Act::Kept(fields) => *kept = record.current(Holder::Host) & *fields,
        Act::Restored(fields) => record.set(Holder::Host, *fields, *kept),
        Act::RoomsThere(_) | Act::RoomsBack(_) | Act::Ran(_) => {}
    }
}
