//! Phases on the host: their reads must be current, and their writes are the newest values.

use warpline_packet::fields_at::fields_at;
use warpline_packet::{Batch, Field, FieldSet, Headers, LinkType, ReadWrite};

use super::record::{Holder, Record};
use super::{Key, Reader, Versions, key_of};

/// A packet as it was when a phase began.
pub(super) struct Began {
    row: usize,
    room: Key,
    start: u16,
    headers: Headers,
    link: LinkType,
    frame: Vec<u8>,
    writes: FieldSet,
}

impl Versions {
    /// A phase of the function at `position` begins on the host, for these packets.
    pub fn begin(
        &mut self,
        batch: &mut Batch,
        (position, phase): (u8, Reader),
        rows: impl Iterator<Item = usize>,
    ) {
        batch.leave_phase();
        self.began.clear();
        for row in rows {
            let is_flagged = batch.metadata(row, Field::Flagged).is_some_and(|flag| flag != 0);
            let own = &self.functions[usize::from(position)];
            let (ReadWrite { reads, writes }, rare) = own.of(phase, is_flagged);
            let began = Began::new(batch, row, writes & !rare);
            // A written field may keep its value.
            let needs = reads | began.writes;
            self.check(began.room, (position.into(), phase), Holder::Host, needs);
            self.began.push(began);
        }
    }

    /// It ended.
    pub fn end(&mut self, batch: &mut Batch) {
        batch.leave_phase();
        for began in std::mem::take(&mut self.began) {
            let room = key_of(batch, began.row);
            if room == began.room {
                let writes = began.writes | began.changed(batch);
                if let Some(record) = self.records.get_mut(&room) {
                    record.write(Holder::Host, writes);
                }
            } else if let Some(old) = self.records.remove(&began.room) {
                let record = Record::new(old.ingress, old.is_made, self.mirrors.len());
                self.records.insert(room, record);
            }
        }
    }
}

impl Began {
    fn new(batch: &Batch, row: usize, writes: FieldSet) -> Self {
        let packet = batch.packet(row);
        Self {
            row,
            room: key_of(batch, row),
            start: start_of(batch, row),
            headers: packet.headers(),
            link: packet.link(),
            frame: packet.frame().to_vec(),
            writes,
        }
    }

    /// The fields whose bytes changed since; all of the frame where its place or its headers moved.
    fn changed(&self, batch: &Batch) -> FieldSet {
        let packet = batch.packet(self.row);
        let frame = packet.frame();
        let has_moved =
            start_of(batch, self.row) != self.start || packet.headers().l3 != self.headers.l3;
        if has_moved {
            return FieldSet::FRAME;
        }
        if frame == self.frame {
            return FieldSet::EMPTY;
        }
        let fields = fields_at(&self.headers, self.link, self.frame.len());
        let all = frame.iter().zip(&self.frame).zip(fields);
        all.filter(|((is, was), _)| is != was).fold(FieldSet::EMPTY, |all, (_, own)| all | own)
    }
}

pub(super) fn start_of(batch: &Batch, row: usize) -> u16 {
    batch.metadata(row, Field::Start).unwrap_or(0) as u16
}
