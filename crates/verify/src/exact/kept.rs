//! Packets as they were at some moment, and the access that a phase declares for them.

use warpline_packet::{Access, Batch, Field, FieldSet, Headers, LinkType, Phase, ReadWrite};

use warpline_packet::fields_at::fields_at;

/// A packet as it was.
pub(super) struct PacketImage {
    pub(super) frame: Vec<u8>,
    pub(super) metadata: Vec<(Field, u128)>,
    headers: Headers,
    link: LinkType,
}

impl PacketImage {
    /// Every packet of a batch; dropped ones, too: `after` may look at them.
    pub(super) fn all(batch: &Batch) -> Vec<Self> {
        (0..batch.len()).map(|row| Self::of(batch, row)).collect()
    }

    pub(super) fn of(batch: &Batch, row: usize) -> Self {
        let packet = batch.packet(row);
        let of = |field| Some((field, batch.metadata(row, field)?));
        Self {
            frame: packet.frame().to_vec(),
            metadata: (!FieldSet::FRAME).iter().filter_map(of).collect(),
            headers: packet.headers(),
            link: packet.link(),
        }
    }

    /// Its value of a metadata field; 0 if it lacked that.
    pub(super) fn get(&self, field: Field) -> u128 {
        self.metadata.iter().find(|(own, _)| *own == field).map_or(0, |(_, value)| *value)
    }

    /// Where its frame began in its room.
    pub(super) fn start(&self) -> u16 {
        self.get(Field::Start) as u16
    }

    /// Where its room was.
    pub(super) fn room(&self) -> u128 {
        self.get(Field::Start) >> 16
    }

    /// The field of each byte of its frame.
    pub(super) fn fields_at(&self) -> Vec<FieldSet> {
        fields_at(&self.headers, self.link, self.frame.len())
    }

    /// The access that `phase` declares to it, if this was its state when the phase began.
    pub(super) fn declared(&self, access: &Access, phase: Phase) -> ReadWrite {
        let (all, more) = match phase {
            Phase::Before => (access.before, ReadWrite::NONE),
            Phase::Run => (access.run, ReadWrite::NONE),
            Phase::After => (access.after, access.after_flagged),
        };
        match self.get(Field::Flagged) {
            0 => all,
            _ => ReadWrite::new(all.reads | more.reads, all.writes | more.writes),
        }
    }
}

/// Whether a field is a scratch word.
pub(super) fn is_scratch(field: Field) -> bool {
    field >= Field::Scratch0
}
