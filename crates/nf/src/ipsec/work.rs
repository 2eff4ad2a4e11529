//! The pure middle phase: packets are wrapped, ciphered many at a time, and stripped.

use warpline_packet::wire::ip_protocol;
use warpline_packet::{Batch, PacketMut};

use super::cipher::{Engine, JOBS_MAX, Job, KeyTable};
use super::reason;
use super::seal::{self, Stretch};
use super::strip::{self, Outcome};
use super::tables::Tables;
use super::traffic::Esp;
use super::words::{TOGETHER, Task, Words, Work};

/// Packets that are ciphered together.
struct Plan {
    entries: [Entry; JOBS_MAX],
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    index: u16,
    row: u16,
    sequence: u64,
    esp: Stretch,
}

impl Plan {
    const fn new() -> Self {
        const NONE: Entry = Entry { index: 0, row: 0, sequence: 0, esp: Stretch { at: 0, len: 0 } };
        Self { entries: [NONE; JOBS_MAX], len: 0 }
    }

    fn push(&mut self, entry: Entry) {
        if let Some(slot) = self.entries.get_mut(self.len) {
            *slot = entry;
            self.len += 1;
        }
    }

    /// Whether it has no room for as many packets as are read together.
    fn is_full(&self) -> bool {
        self.len + TOGETHER > JOBS_MAX
    }

    fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }
}

/// Does what the packets' words say.
pub(super) fn run(batch: &mut Batch, tables: &Tables, engine: &Engine, words: &Words) {
    let (mut to_seal, mut to_open) = (Plan::new(), Plan::new());
    let mut last = None;
    for first in (0..batch.len()).step_by(TOGETHER) {
        let mut tasks = [Task::NONE; TOGETHER];
        words.get_all(batch, first, &mut tasks);
        for (index, task) in (first..batch.len()).zip(tasks) {
            if task.work == Work::None || !batch.is_forward(index) {
                continue;
            }
            let packet = &mut batch.packet_mut(index);
            let (index, row, sequence) = (index as u16, task.row, task.sequence);
            if last != Some(row) {
                last = Some(row);
                engine.fetch(&tables.keys, row.into(), packet.len());
            }
            if task.work == Work::Open {
                let esp = stretch(packet);
                esp.into_iter().for_each(|esp| to_open.push(Entry { index, row, sequence, esp }));
                continue;
            }
            match seal::wrap(packet, tables.shape(row), sequence) {
                Some(esp) => to_seal.push(Entry { index, row, sequence, esp }),
                None => packet.drop(reason::TOO_BIG),
            }
        }
        if to_seal.is_full() {
            seal_all(batch, tables, engine, &mut to_seal);
        }
        if to_open.is_full() {
            open_all(batch, tables, engine, words, &mut to_open);
        }
    }
    seal_all(batch, tables, engine, &mut to_seal);
    open_all(batch, tables, engine, words, &mut to_open);
}

/// Where the ESP of a packet lies that is to be opened.
#[inline(always)]
fn stretch(packet: &PacketMut<'_>) -> Option<Stretch> {
    let headers = packet.headers();
    if headers.protocol == ip_protocol::ESP {
        // That its header is there was seen before.
        let len = headers.end.checked_sub(headers.l4.into())?;
        return Some(Stretch { at: headers.l4.into(), len });
    }
    match Esp::find(packet.as_packet().into_frame(), &headers) {
        Esp::At(place) => Some(Stretch { at: place.at as u32, len: place.len as u32 }),
        _ => None,
    }
}

fn seal_all(batch: &mut Batch, tables: &Tables, engine: &Engine, plan: &mut Plan) {
    let entries = plan.entries();
    with_jobs(batch, entries, &tables.keys, |keys, jobs| {
        engine.seal(keys, jobs);
        [false; JOBS_MAX]
    });
    for entry in entries.iter().filter(|_| tables.sends_udp) {
        seal::finish(&mut batch.packet_mut(entry.index.into()), tables.shape(entry.row));
    }
    plan.len = 0;
}

fn open_all(batch: &mut Batch, tables: &Tables, engine: &Engine, words: &Words, plan: &mut Plan) {
    let entries = plan.entries();
    let authentic = with_jobs(batch, entries, &tables.keys, |keys, jobs| {
        engine.open(keys, jobs);
        core::array::from_fn(|i| jobs.get(i).is_some_and(|job| job.is_authentic))
    });
    for (entry, is_authentic) in entries.iter().zip(authentic) {
        if is_authentic {
            let packet = &mut batch.packet_mut(entry.index.into());
            let outcome = strip::strip(packet, tables.shape(entry.row), entry.esp);
            words.set_outcome(packet, outcome);
        }
    }
    plan.len = 0;
}

/// Opens one packet as number `sequence`: the work of [`run`], repeated where that took it for another.
pub(super) fn open_one(
    batch: &mut Batch,
    index: usize,
    row: u16,
    sequence: u64,
    tables: &Tables,
    engine: &Engine,
) -> Outcome {
    let Some(esp) = stretch(&batch.packet_mut(index)) else { return Outcome::Closed };
    let entry = Entry { index: index as u16, row, sequence, esp };
    let [is_authentic, ..] = with_jobs(batch, &[entry], &tables.keys, |keys, jobs| {
        engine.open(keys, jobs);
        core::array::from_fn(|i| jobs.get(i).is_some_and(|job| job.is_authentic))
    });
    if !is_authentic {
        return Outcome::Closed;
    }
    strip::strip(&mut batch.packet_mut(index), tables.shape(row), esp)
}

/// Gives `work` the jobs of `entries`, whose packets grow from one to the next.
fn with_jobs(
    batch: &mut Batch,
    entries: &[Entry],
    keys: &KeyTable,
    work: impl FnOnce(&KeyTable, &mut [Job<'_>]) -> [bool; JOBS_MAX],
) -> [bool; JOBS_MAX] {
    if entries.is_empty() {
        return [false; JOBS_MAX];
    }
    let mut frames = batch.frames_mut(entries.iter().map(|entry| entry.index.into()));
    let mut jobs: [Job<'_>; JOBS_MAX] = core::array::from_fn(|i| {
        let (entry, frame) = (entries.get(i).copied().unwrap_or_default(), frames.next());
        let esp = frame.and_then(|frame| frame.get_mut(entry.esp.range())).unwrap_or(&mut []);
        Job { row: entry.row.into(), sequence: entry.sequence, esp, is_authentic: false }
    });
    work(keys, &mut jobs[..entries.len()])
}
