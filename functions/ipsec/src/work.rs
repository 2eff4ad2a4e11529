//! The pure middle phase: packets are wrapped, ciphered many at a time, and stripped.

use arrayvec::ArrayVec;
use warpline_packet::wire::ip_protocol;
use warpline_packet::{Batch, PacketMut};

use super::cipher::{Engine, JOBS_MAX, Job};
use super::reason;
use super::seal::{self, Stretch};
use super::shape::Shape;
use super::strip::{self, StripOutcome};
use super::tables::Tables;
use super::traffic::Esp;
use super::words::{TOGETHER, Task, Words, Work};

/// Packets that are ciphered together.
type Plan = ArrayVec<PacketWork, JOBS_MAX>;
type Jobs<'b> = ArrayVec<Job<'b>, JOBS_MAX>;

#[derive(Clone, Copy)]
struct PacketWork {
    index: u16,
    row: u16,
    sequence: u64,
    esp: Stretch,
}

/// Whether a plan has no room for as many packets as are read together.
fn is_full(plan: &Plan) -> bool {
    plan.remaining_capacity() < TOGETHER
}

/// Does what the packets' words say.
pub(super) fn run(batch: &mut Batch, tables: &Tables, engine: &Engine, words: &Words) {
    let (mut to_seal, mut to_open) = (Plan::new(), Plan::new());
    let (is_large, mut last) = (tables.is_large(), None);
    for first in (0..batch.len()).step_by(TOGETHER) {
        let mut tasks = [Task::NONE; TOGETHER];
        words.get_all(batch, first, &mut tasks);
        for (index, task) in (first..batch.len()).zip(tasks) {
            if !matches!(task.work, Work::Seal | Work::Open) || !batch.is_forward(index) {
                continue;
            }
            let packet = &mut batch.packet_mut(index);
            let (index, row, sequence) = (index as u16, task.row, task.sequence);
            if is_large && last != Some(row) {
                last = Some(row);
                engine.fetch(&tables.keys, row.into(), packet.len());
            }
            if task.work == Work::Open {
                match stretch(packet) {
                    Some(esp) => to_open.push(PacketWork { index, row, sequence, esp }),
                    None => flag_closed(packet, tables.shape(row)),
                }
                continue;
            }
            match seal::wrap(packet, tables.shape(row), sequence) {
                Some(esp) => to_seal.push(PacketWork { index, row, sequence, esp }),
                None => {
                    packet.flag();
                    packet.drop(reason::TOO_BIG);
                }
            }
        }
        if is_full(&to_seal) {
            seal_all(batch, tables, engine, &mut to_seal);
        }
        if is_full(&to_open) {
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
    if plan.is_empty() {
        return;
    }
    let mut jobs = Jobs::new_const();
    add_jobs(&mut jobs, batch, plan);
    engine.seal(&tables.keys, &mut jobs);
    drop(jobs);
    for entry in plan.iter().filter(|_| tables.sends_udp) {
        seal::finish(&mut batch.packet_mut(entry.index.into()), tables.shape(entry.row));
    }
    plan.clear();
}

fn open_all(batch: &mut Batch, tables: &Tables, engine: &Engine, words: &Words, plan: &mut Plan) {
    if plan.is_empty() {
        return;
    }
    let authentic = open(batch, tables, engine, plan);
    for (entry, is_authentic) in plan.iter().zip(authentic) {
        let (packet, shape) = (&mut batch.packet_mut(entry.index.into()), tables.shape(entry.row));
        if !is_authentic {
            flag_closed(packet, shape);
            continue;
        }
        let outcome = strip::strip(packet, shape, entry.esp);
        words.set_outcome(packet, outcome);
        if shape.is_checked && outcome == StripOutcome::Plain {
            packet.flag();
        }
    }
    plan.clear();
}

/// Flags a packet that did not authenticate, where it may yet as another number.
#[inline(always)]
fn flag_closed(packet: &mut PacketMut<'_>, shape: &Shape) {
    if shape.esn {
        packet.flag();
    }
}

/// Opens one packet as number `sequence`: the work of [`run`], repeated if that used another
/// number.
pub(super) fn open_one(
    batch: &mut Batch,
    index: usize,
    row: u16,
    sequence: u64,
    tables: &Tables,
    engine: &Engine,
) -> StripOutcome {
    let Some(esp) = stretch(&batch.packet_mut(index)) else { return StripOutcome::Closed };
    let entry = PacketWork { index: index as u16, row, sequence, esp };
    if !open(batch, tables, engine, &[entry]).contains(&true) {
        return StripOutcome::Closed;
    }
    strip::strip(&mut batch.packet_mut(index), tables.shape(row), esp)
}

/// Has the texts of `entries` opened, and says of each whether it is authentic.
fn open(
    batch: &mut Batch,
    tables: &Tables,
    engine: &Engine,
    entries: &[PacketWork],
) -> ArrayVec<bool, JOBS_MAX> {
    let mut jobs = Jobs::new_const();
    add_jobs(&mut jobs, batch, entries);
    engine.open(&tables.keys, &mut jobs);
    jobs.iter().map(|job| job.is_authentic).collect()
}

/// Adds the cipher's jobs of `entries`, with ascending packet indices, to the empty list. They are
/// long to move, so they are built in place.
#[inline(always)]
fn add_jobs<'b>(jobs: &mut Jobs<'b>, batch: &'b mut Batch, entries: &[PacketWork]) {
    let frames = batch.frames_mut(entries.iter().map(|entry| entry.index.into()));
    for (entry, frame) in entries.iter().zip(frames) {
        let esp = frame.get_mut(entry.esp.range()).unwrap_or(&mut []);
        let (row, sequence) = (entry.row.into(), entry.sequence);
        let _ = jobs.try_push(Job { row, sequence, esp, is_authentic: false });
    }
}
