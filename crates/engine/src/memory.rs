//! The memory of a lane, and how much of it functions may fill.
//!
//! Packets that functions make, and frames that replace others, are in separate slabs. These become
//! free when their batches leave. A stage takes a batch only while there are free slabs for the
//! worst case of that batch in this and all later stages ([`Placed`]). So every batch that starts
//! can finish. The last stage waits only for the sender, so there is no deadlock. For batches on a
//! device, the slabs they may still fill are promised ahead.
//!
//! The worst case of a stage is summed up function by function. `reach.rs` has the number of
//! packets that may reach each function. A function that makes packets counts a room of the
//! greatest length for each. One that replaces frames counts a room for each packet it may get. The
//! sum of a stage, in whole slabs, is [`StageRoom::each`]. The sum over this and all later stages
//! must be free. The room is for the worst case of one batch in each stage, not of all batches on
//! their way.

use std::fmt;

use warpline_nf::{Emits, Growth};
use warpline_packet::{ALIGN, ArenaLayout, Notes, SLAB_LEN, frame_start};

use crate::reach::Reach;
use crate::settings::FRAME_LEN;
use crate::{Chain, Deployment, Settings, StagePlan};

/// Slabs for what functions place, unless one batch needs more.
pub(crate) const EMIT_SLABS_MAX: usize = 512;
/// Most bytes of a lane's packets with their tables, since offsets have 32 bits. The same limit
/// holds for its batches and launches.
pub const LANE_LEN_MAX: usize = u32::MAX as usize;

/// The slabs that a stage may fill for one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageRoom {
    /// Slabs that it may fill at worst; 0 where its functions place nothing.
    pub(crate) each: usize,
    /// Slabs that must be free before it takes one: its own, and those of all later stages.
    pub(crate) free: usize,
    /// Slabs of them that it may fill after its work on a device.
    pub(crate) promised: usize,
}

/// The slabs that a chain's functions may fill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// By stage.
    pub(crate) stages: Vec<StageRoom>,
    /// Slabs without which a batch could not go through.
    pub(crate) all: usize,
    /// Slabs that there are.
    pub(crate) slabs: usize,
}

/// Rooms that are filled, summed up.
#[derive(Clone, Copy, Default)]
struct Rooms {
    bytes: usize,
    longest: usize,
}

impl Rooms {
    fn add(&mut self, room: usize, count: usize) {
        self.bytes = self.bytes.saturating_add(room.saturating_mul(count));
        self.longest = self.longest.max(room);
    }

    /// Slabs that they fill; a slab's end may stay empty because a room doesn't fit.
    fn slabs(self) -> usize {
        let filled = (SLAB_LEN + ALIGN).saturating_sub(self.longest).max(ALIGN);
        if self.bytes == 0 { 0 } else { self.bytes.div_ceil(filled) + 1 }
    }
}

impl Settings {
    /// Room that functions of `deployment` may fill, and the slabs for it: enough to keep all
    /// stages busy, within [`EMIT_SLABS_MAX`] unless one batch alone needs more.
    pub(crate) fn placed(&self, deployment: &Deployment) -> Placed {
        let reach = Reach::of(deployment.chain(), self.batch_packets);
        let mut stages: Vec<StageRoom> = deployment
            .stages()
            .iter()
            .map(|stage| stage_room(deployment.chain(), stage, &reach))
            .collect();
        let refuge = self.refuge_slabs(deployment);
        let mut all = 0usize;
        for stage in stages.iter_mut().rev().filter(|stage| stage.each > 0) {
            all = all.saturating_add(stage.each);
            stage.free = all.saturating_add(refuge);
        }
        if all == 0 {
            return Placed { stages, ..Placed::default() };
        }
        let mut wanted = all.saturating_mul(3);
        for (stage, room) in deployment.stages().iter().zip(&stages) {
            let held = self.stage_batches(deployment, stage);
            let on_device = deployment.is_on_device(stage);
            let own = if on_device { room.promised } else { room.each };
            wanted = wanted.saturating_add(own.saturating_mul(held));
        }
        // Memory that a device may still use when it fails is not used again.
        let in_place = self.in_place(deployment).map(|(_, limits)| limits.waiting_batches_max);
        let lost = in_place.fold(0, usize::saturating_add).saturating_mul(all).min(EMIT_SLABS_MAX);
        let slabs = wanted.min(EMIT_SLABS_MAX).max(all.saturating_add(1)).saturating_add(lost);
        Placed { stages, all, slabs }
    }

    /// Memory of a lane of `deployment`, by settings that fit it ([`Settings::fit`]).
    pub fn memory(&self, deployment: &Deployment) -> LaneNeed {
        let layout = self.arena(deployment);
        let slabs = |count: usize| count.saturating_mul(SLAB_LEN);
        let (batches, made) = (self.batches(deployment), self.made_batches(deployment));
        let tables = layout.table_len().saturating_mul(layout.tables);
        let (notes, note_bytes) = self.notes(deployment.chain());
        let notes = Notes::room_len(notes, note_bytes).saturating_mul(batches.saturating_add(made));
        let findings = self.findings(deployment.chain()).saturating_mul(4).saturating_mul(batches);
        let shown = if deployment.shows_drops() { layout.memory_len() } else { 0 };
        LaneNeed {
            lanes: self.lanes,
            packets: slabs(layout.slabs),
            made: slabs(layout.emit_slabs),
            batches: tables.saturating_add(findings),
            notes,
            launches: self.launches_len(deployment),
            shown,
            arena: layout.memory_len(),
            in_use: self.in_use(deployment),
        }
    }

    /// Bytes of a lane that are touched while its queues are full of long packets. The rest is
    /// reserved for packets that functions may make, and gets its pages when they make them.
    fn in_use(&self, deployment: &Deployment) -> usize {
        let queues = deployment.stages().len() + 1;
        let in_stages = self.stages_sum(deployment, |stage| self.stage_batches(deployment, stage));
        let batches = self.queue_room(deployment).saturating_mul(queues).saturating_add(in_stages);
        let batches = batches.saturating_add(4).min(self.batches(deployment));
        let packets = batches.saturating_mul(self.batch_packets);
        let rooms = self.rooms_len(deployment.chain(), packets.saturating_mul(FRAME_LEN), packets);
        let layout = ArenaLayout { slots: self.batch_packets, ..self.arena(deployment) };
        rooms
            .min(self.slabs.saturating_mul(SLAB_LEN))
            .saturating_add(batches.saturating_mul(layout.table_len()))
            .saturating_add(self.launches_len(deployment))
    }
}

/// The slabs that `stage` may fill for one batch. A function counts as many rooms as it may make
/// packets, each as long as its longest. If it replaces frames, it counts one more for each packet
/// it may get.
fn stage_room(chain: &Chain, stage: &StagePlan, reach: &[Reach; 2]) -> StageRoom {
    let Growth { head, tail } = chain.growth();
    let around = frame_start(head).saturating_add(tail);
    let room = |len: usize| around.saturating_add(len).next_multiple_of(ALIGN);
    let each = reach.each_ref().map(|reach| {
        let (mut all, mut made) = (Rooms::default(), Rooms::default());
        for turn in &reach.turns[stage.positions()] {
            let Emits { replace_len_max, per_packet, len_max, .. } = turn.emits;
            if replace_len_max > 0 {
                all.add(room(replace_len_max), turn.packets);
            }
            if per_packet > 0 {
                all.add(room(len_max), turn.made);
                made.add(room(len_max), turn.made);
            }
        }
        (all.slabs(), made.slabs())
    });
    let [(packets, packets_made), (tick, tick_made)] = each;
    StageRoom { each: packets.max(tick), free: 0, promised: packets_made.max(tick_made) }
}

/// Bytes that a lane takes, besides the tables of its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneNeed {
    /// How many lanes there are.
    pub lanes: usize,
    /// For packets from outside.
    pub packets: usize,
    /// For packets that functions make, and frames that they give others.
    pub made: usize,
    /// For batches: tables of packets, findings.
    pub batches: usize,
    /// Address space for all notes of all batches. It gets memory page by page, when notes are
    /// made.
    pub notes: usize,
    /// For launches of devices.
    pub launches: usize,
    /// For frames as they were, where dropped packets are shown.
    pub shown: usize,
    /// The arena's: packets and the tables of batches. A mirror has the same size.
    pub arena: usize,
    /// The part of all these that is touched while a lane's queues are full of long packets.
    pub in_use: usize,
}

impl LaneNeed {
    /// The condition of [`LaneNeed::fits`], in words.
    pub const BOUND: &str =
        "a lane has at most 4 GiB for packets, and 4 GiB for batches and launches";

    /// The bytes that one lane reserves, besides the addresses for notes.
    pub fn lane(&self) -> usize {
        let all = [self.packets, self.made, self.batches, self.launches, self.shown];
        all.into_iter().fold(0, usize::saturating_add)
    }

    /// The bytes that all lanes take while every packet makes all the notes that it may.
    pub fn all_at_most(&self) -> usize {
        self.lane().saturating_add(self.notes).saturating_mul(self.lanes)
    }

    /// The bytes that all lanes reserve.
    pub fn all(&self) -> usize {
        self.lane().saturating_mul(self.lanes)
    }

    /// The bytes that all lanes have in use with full queues.
    pub fn all_in_use(&self) -> usize {
        self.in_use.saturating_mul(self.lanes)
    }

    /// Whether a lane can have that: 32-bit offsets reach its packets and tables, and batches and
    /// launches take at most [`LANE_LEN_MAX`] too.
    pub fn fits(&self) -> bool {
        let besides = [self.batches, self.notes, self.launches].into_iter();
        let besides = besides.fold(0, usize::saturating_add);
        self.arena <= LANE_LEN_MAX && besides <= LANE_LEN_MAX
    }
}

impl fmt::Display for LaneNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let Self { packets, made, batches, launches, shown, .. } = *self;
        write!(f, "{} MiB a lane: {} for packets", mib(self.lane()), mib(packets))?;
        for (bytes, what) in [
            (made, "for what functions make"),
            (batches, "for batches"),
            (launches, "for launches"),
            (shown, "to show what is dropped"),
        ] {
            if bytes > 0 {
                write!(f, ", {} {what}", mib(bytes))?;
            }
        }
        let lanes = if self.lanes == 1 { "lane" } else { "lanes" };
        let (all, in_use) = (mib(self.all()), mib(self.all_in_use()));
        write!(f, "; {} {lanes}: {all} MiB reserved, about {in_use} MiB in use", self.lanes)?;
        match self.notes {
            0 => Ok(()),
            _ => write!(f, ", at most {} MiB with all notes", mib(self.all_at_most())),
        }
    }
}
