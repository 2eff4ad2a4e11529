//! Follows versions of fields while a chain runs. It records which place has the newest value of
//! each field of each packet, and checks that each read gets it. `warpline check --strict` uses
//! this; a run does not.
//!
//! A place is the host, the mirror of a device, or the table of a launch. A write makes the field
//! stale in every other place. A copy carries the field over, stale or current. Both come from the
//! lane's work: phases that run, steps given to streams ([`trace`]), and the lane's own copies. The
//! plan is not consulted. A function reads and writes the fields it declares. Undeclared writes to
//! the host show in the bytes.
//!
//! Packets are identified by their rooms, which no two packets share. A packet with another room
//! has another frame.

mod launch;
mod phases;
mod record;
mod stale;
pub(crate) mod trace;

use std::collections::HashMap;

use warpline_packet::{Access, Batch, BatchKind, Field, FieldSet, ReadWrite, Verdict};

use self::phases::Began;
use self::record::{Holder, Record};

pub(crate) use self::launch::Launched;
pub use self::stale::{Followed, Reader, StaleRead};

/// The versions of a lane's packets.
pub struct Versions {
    functions: Vec<Declared>,
    /// By number, the devices of the lane's mirrors.
    mirrors: Vec<String>,
    records: HashMap<Key, Record>,
    /// Numbers of ingress that are no packets'.
    announced: Vec<u64>,
    /// Packets as they were when the phase began.
    began: Vec<Began>,
    followed: Followed,
}

/// Start of a packet's room. An empty room, as of an empty frame, also needs the packet's number.
pub(crate) type Key = (usize, Option<u64>);

/// A function's declarations.
pub struct Declared {
    name: String,
    device: String,
    access: Access,
    kernels: ReadWrite,
    /// Fields that `run` on the CPU writes in few packets: these leave all mirrors, one by one.
    rare: FieldSet,
}

impl Declared {
    /// Of the function `name` on `device`. Its phases have this `access`, and its kernels access
    /// the fields `kernels`.
    pub fn new(name: &str, device: &str, access: Access, kernels: ReadWrite) -> Self {
        let payload = FieldSet::of(&[Field::Payload]);
        let rare = access.run.writes & !kernels.writes & payload;
        Self { name: name.into(), device: device.into(), access, kernels, rare }
    }

    /// Fields of a packet that a phase on the host accesses, and those of them that it writes in
    /// few packets.
    fn of(&self, phase: Reader, is_flagged: bool) -> (ReadWrite, FieldSet) {
        match phase {
            Reader::Before => (self.access.before, FieldSet::EMPTY),
            Reader::After if is_flagged => {
                let (all, more) = (self.access.after, self.access.after_flagged);
                let both = ReadWrite::new(all.reads | more.reads, all.writes | more.writes);
                (both, FieldSet::EMPTY)
            }
            Reader::After => (self.access.after, FieldSet::EMPTY),
            _ => (self.access.run, self.rare),
        }
    }
}

/// Fields that the output looks at.
const SENT: FieldSet = FieldSet::FRAME.union(FieldSet::of(&[
    Field::Start,
    Field::Len,
    Field::Kind,
    Field::Timestamp,
    Field::Ingress,
    Field::Verdict,
]));

impl Versions {
    /// Of a lane whose mirrors are on these devices, by number.
    pub fn new(functions: Vec<Declared>, mirrors: Vec<String>) -> Self {
        Self {
            functions,
            mirrors,
            records: HashMap::new(),
            announced: Vec::new(),
            began: Vec::new(),
            followed: Followed::default(),
        }
    }

    /// The outcome.
    pub fn into_followed(self) -> Followed {
        self.followed
    }

    /// The lane gets a batch from ingress.
    pub fn arrive(&mut self, batch: &Batch) {
        if batch.kind() != BatchKind::Packets {
            self.announced.push(batch.last_ingress());
        }
        self.add(batch, false);
    }

    /// A function made the packets of a batch.
    pub fn made(&mut self, batch: &Batch) {
        self.add(batch, true);
    }

    fn add(&mut self, batch: &Batch, is_made: bool) {
        for row in 0..batch.len() {
            let record = Record::new(ingress_of(batch, row), is_made, self.mirrors.len());
            self.records.insert(key_of(batch, row), record);
        }
    }

    /// A batch leaves the lane: frames that are sent are read, and its rooms are free.
    pub fn leave(&mut self, batch: &Batch) {
        for row in 0..batch.len() {
            let room = key_of(batch, row);
            if matches!(batch.packet(row).verdict(), Verdict::Forward | Verdict::Return) {
                self.check(room, (self.functions.len(), Reader::Output), Holder::Host, SENT);
            }
            self.records.remove(&room);
        }
    }

    /// The lane reads `fields` of packets that are still forwarded.
    pub fn read(&mut self, batch: &Batch, by: (u8, Reader), fields: FieldSet) {
        for row in batch.forward_rows() {
            let by = (usize::from(by.0), by.1);
            self.check(key_of(batch, row), by, Holder::Host, fields);
        }
    }

    /// The rooms of a batch, by which its packets are known.
    pub(crate) fn rooms(batch: &Batch) -> Vec<Key> {
        (0..batch.len()).map(|row| key_of(batch, row)).collect()
    }

    /// The lane carried frames of a batch from these rooms to others.
    pub(crate) fn moved(&mut self, from: &[Key], batch: &Batch) {
        for (row, old) in from.iter().enumerate() {
            let room = key_of(batch, row);
            if room != *old
                && let Some(record) = self.records.remove(old)
            {
                self.records.insert(room, record.moved());
            }
        }
    }

    /// Looks whether a place has the newest version of `fields`.
    fn check(&mut self, room: Key, (at, phase): (usize, Reader), place: Holder, fields: FieldSet) {
        let Some(record) = self.records.get(&room) else { return };
        // An empty room has no byte that could be stale.
        let fields = if room.1.is_some() { fields & !FieldSet::FRAME } else { fields };
        self.followed.looks += u64::from(fields.bits().count_ones());
        let Some((field, newest)) = record.stale(place, fields) else { return };
        let earlier = self.announced.partition_point(|&number| number < record.ingress);
        let function = self.functions.get(at);
        let device = function.map_or("", |own| own.device.as_str());
        let named = |place| match place {
            Holder::Host => "the host".into(),
            Holder::Mirror(number) => self.mirrors[number].clone(),
            Holder::Table => "the host, in the launch's table".into(),
            Holder::TableThere => format!("{device}, in the launch's table"),
        };
        let found = StaleRead {
            packet: record.ingress - earlier as u64,
            is_made: record.is_made,
            position: at,
            phase,
            function: function.map_or_else(|| "output".into(), |own| own.name.clone()),
            field: field.name(),
            place: named(place),
            newest: newest.map(named),
        };
        self.followed.add(Followed { looks: 0, stale: Some(found) });
    }
}

fn key_of(batch: &Batch, row: usize) -> Key {
    let room = batch.room(row);
    (room.start, room.is_empty().then(|| ingress_of(batch, row)))
}

fn ingress_of(batch: &Batch, row: usize) -> u64 {
    batch.metadata(row, Field::Ingress).unwrap_or(0) as u64
}
