//! Carries out launches: copies to the mirror, the kernels of a segment, and copies back. Each lane
//! and stage has one executor.
//!
//! A launch takes up to three works:
//!
//! 1. Copy the launch's table, fields in columns, and rooms to the device. Run the kernels. Copy
//!    the table back, beside those of the batches.
//! 2. Copy the rest of the findings back, if there are more than the first work brought.
//! 3. Copy rooms back over the host's. These are the rooms of all packets if whole frames return.
//!    Otherwise they are the rooms of packets left to the CPU for which the mirror alone has some
//!    fields.
//!
//! The plan decides which of these are needed ([`Crossings`]).
//!
//! If kernels carry whole frames, one call replaces the copies of each direction. It reads rooms
//! before all other kernels, or writes them in the last work. The work still borrows the rooms, so
//! they are not used elsewhere.
//!
//! On a device that works in place there is one work, with kernels only. They get the rooms
//! themselves, and a table of the launch in the same memory.

mod first_work;
mod followed;
mod later_works;
mod streams;
mod table;

use std::ops::Range;
use std::sync::Arc;

use warpline_device::{Buffer, Failure, Part, Piece, Region, Rows, Step};
use warpline_packet::{
    Batch, Binding, Columns, FieldSet, FoundLists, Returned, Stretch, mirror_bit,
};

use streams::LaunchStream;

use crate::crossings::{Crossings, RoomsThere};
use crate::launch_buffers::LaunchBuffers;
use crate::launch_stage::{LaunchStage, Member, Transport, takes_out_of_mirrors};
use crate::mirror::{Mirror, reached};
use crate::prediction::Prediction;
use crate::sys::lane_memory::Extent;
use crate::{DEVICE_LOST, Dimensions, Loaded, OnDevice, Transfers};

/// See the module.
pub(crate) struct Executor {
    segment: Vec<Member>,
    /// Fields that its functions write.
    writes: FieldSet,
    /// Whether the CPU leaves frames of packets that it flagged as they are.
    keeps_flagged: bool,
    /// Whether any of its functions takes packets out of mirrors ([`takes_out_of_mirrors`]).
    takes_out: bool,
    /// Whether copies take whole rooms.
    extent: Extent,
    /// The parts of frames that cross, the columns of single fields, and the kernels that copy
    /// between columns and frames.
    crossings: Crossings,
    fields: Binding,
    copier: Option<Arc<Loaded>>,
    /// The kernels that carry whole frames, if these are not copied, and the arena as they reach
    /// it.
    carrier: Option<(Arc<Loaded>, Region)>,
    /// The kernel that writes a launch's table from packed rows.
    unpacker: Option<Arc<Loaded>>,
    prediction: Prediction,
    /// The columns of the table that are copied to the host.
    written: Columns,
    mirror: Mirror,
    by: Dimensions,
    streams: Vec<LaunchStream>,
    slots: Vec<LaunchBuffers>,
    pub(crate) transfers: Transfers,
}

impl Executor {
    /// For `stage` on the device of `on`, where `mirror` is.
    ///
    /// # Errors
    /// The device's: it may have too little memory.
    pub(crate) fn new(on: &OnDevice, mirror: Mirror, stage: &LaunchStage) -> Result<Self, Failure> {
        let LaunchStage { crossings, dimensions: by, follows_versions, .. } = stage;
        let Transport { copier, carrier, unpacker } = stage.transport.clone();
        let rooms = Columns::of_rooms(crossings.rooms_there == RoomsThere::Missing);
        let read = Columns::read_by(crossings.metadata);
        let read = if carrier.is_some() { read.union(rooms) } else { read };
        // A kernel that carries rooms back finds in the host's table where they lie.
        let kept = if carrier.is_some() { Columns::of_rooms(false) } else { Columns::default() };
        let packs = unpacker.is_some().then_some(kept);
        let slot =
            |_| LaunchBuffers::new(&*on.device, &mirror, by, (read, packs), *follows_versions);
        let reached = |carrier| Ok((carrier, reached(&mirror.region, &*on.device)?));
        let by_kernels = carrier.is_some();
        let fields = crossings.columns(stage.scratch_words);
        let members = stage.members.iter();
        let takes_out = |one: &Member| takes_out_of_mirrors(&one.access, one.kernels);
        Ok(Self {
            writes: members.clone().fold(FieldSet::EMPTY, |all, one| all | one.kernels.writes),
            keeps_flagged: members.clone().all(Member::keeps_flagged),
            takes_out: members.clone().any(takes_out),
            segment: members.cloned().collect(),
            prediction: Prediction::of(crossings, &fields, stage.lengthened.clone()),
            written: Columns::written_by(crossings.metadata.writes),
            crossings: crossings.clone(),
            fields,
            copier,
            unpacker,
            carrier: carrier.map(reached).transpose()?,
            extent: copied_extent(on, by_kernels),
            streams: (0..by.streams)
                .map(|_| LaunchStream::open(on))
                .collect::<Result<_, Failure>>()?,
            slots: (0..by.slots).map(slot).collect::<Result<_, Failure>>()?,
            transfers: Transfers::default(),
            mirror,
            by: *by,
        })
    }

    /// Fields that its functions write.
    pub(crate) fn writes(&self) -> FieldSet {
        self.writes
    }

    /// Why copies between the host and the device take longer than they should, if they do.
    pub(crate) fn shortcoming(&self) -> Option<String> {
        let tables = self.slots.iter().filter_map(|slot| slot.table.as_ref());
        let mut regions = tables.map(Piece::region).chain([&self.mirror.region]);
        regions.find_map(Region::shortcoming)
    }

    /// Why nothing may be started on the lane's mirror any more, where that is so.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.mirror.stopped()
    }

    /// Starts nothing more on the lane's mirror, by any stage: a work that was given up may still
    /// use it.
    pub(crate) fn fail(&self, why: String) {
        let _ = self.mirror.failed.set(why);
        self.note_failure();
    }

    /// If the device failed in this lane, nothing waits for work on it any more.
    pub(crate) fn note_failure(&self) {
        if self.mirror.failed.get().is_some() {
            self.segment.iter().for_each(|member| member.loaded.set_given_up());
        }
    }

    /// Whether frames have to be copied back.
    pub(crate) fn copies_back(&self) -> bool {
        self.crossings.rooms_back && !self.is_in_place()
    }

    /// The position of the first function.
    pub(crate) fn first_position(&self) -> u8 {
        self.segment.first().map_or(0, |member| member.position)
    }

    /// The position of the last function.
    pub(crate) fn last_position(&self) -> u8 {
        self.segment.last().map_or(0, |member| member.position)
    }

    /// Drops the packets of a batch for which the mirror alone has some fields, since nothing runs
    /// there any more. Returns whether there were any.
    pub(crate) fn lose_mirrored(&self, batch: &mut Batch) -> bool {
        self.crossings.relies_on_mirror
            && !self.is_in_place()
            && batch.lose_mirrored(self.mirror.number, DEVICE_LOST)
    }

    /// Marks in a batch of a finished launch which packets later launches find in the mirror.
    /// Packets that the host changes because they were flagged are in no mirror any more, and
    /// neither are fetched ones.
    pub(crate) fn note_mirrored(&self, batch: &mut Batch) {
        let Some(last) = self.segment.last() else { return };
        let fetches_flagged = self.crossings.left_there.fetches_flagged;
        let keeps_flagged = !fetches_flagged && self.keeps_flagged;
        match self.crossings.keeps_mirror && !self.is_in_place() {
            true => batch.set_mirrored(self.mirror.number, last.position, keeps_flagged),
            false if self.crossings.gives_mirror_up && !self.is_in_place() => {
                let kept = if keeps_flagged { !mirror_bit(self.mirror.number) } else { 0 };
                batch.keep_mirrors(kept);
            }
            false if !keeps_flagged => batch.set_mirrored(NO_MIRROR, last.position, false),
            false => {}
        }
    }

    /// The bits of mirrors that have the packets whose device work the CPU does.
    pub(crate) fn kept_mirrors(&self) -> u8 {
        let takes_out = self.is_in_place() || self.takes_out;
        if takes_out { 0 } else { !mirror_bit(self.mirror.number) }
    }

    /// Fields of frames that come back in columns, and where those lie.
    pub(crate) fn fields_back(&self) -> (&Binding, FieldSet) {
        (&self.fields, self.crossings.back)
    }

    /// Whether kernels work on the packets themselves.
    pub(crate) fn is_in_place(&self) -> bool {
        self.mirror.copy.is_none()
    }

    /// Whether kernels that did not end well may have left frames half done.
    pub(crate) fn spoils_frames(&self) -> bool {
        !(self.writes & FieldSet::FRAME).is_empty() && self.is_in_place()
    }

    /// The functions, for those that are reloaded.
    pub(crate) fn segment_mut(&mut self) -> &mut [Member] {
        &mut self.segment
    }

    /// The device's output for batch `index` of the launch of `slot`.
    pub(crate) fn returned(&self, slot: usize, index: usize) -> Returned<'_> {
        self.slots[slot].returned(index)
    }

    /// The findings of kernels in the packets of the launch of `slot`. A function with findings is
    /// alone in its segment.
    pub(crate) fn found(&self, slot: usize) -> Option<FoundLists<'_>> {
        let word = self.segment.iter().find_map(|member| member.loaded.findings)?;
        Some(FoundLists::new(self.slots[slot].findings.as_deref()?, word))
    }
}

/// A number that no mirror has.
const NO_MIRROR: u8 = u8::MAX;

/// Numbers of a first work's own pieces.
const TABLE: usize = 0;
const FINDINGS: usize = 1;

/// Numbers of the kernels that copy fields.
const PUT: usize = 0;
const TAKE: usize = 1;

/// Numbers of the kernels that carry rooms.
const PULL: usize = 0;
const PUSH: usize = 1;

/// The extent of rooms that copies move. Kernels that carry frames move whole rooms, and so do
/// graphs, whose copies have no rows.
fn copied_extent(on: &OnDevice, by_kernels: bool) -> Extent {
    if by_kernels || on.launches.graphs { Extent::Rooms } else { Extent::Frames }
}

/// Copies a stretch of the mirror to the work's piece of that number.
fn copy_out(piece: usize, Stretch { bytes, rows }: Stretch, mirror: &Buffer) -> Step {
    let (to, from) = (Part { piece, range: 0..bytes.len() }, mirror.at(bytes));
    match rows {
        Some((width, pitch)) => Step::RowsOut { from, to, rows: Rows { width, pitch } },
        None => Step::CopyOut { from, to },
    }
}

fn no_buffers() -> Failure {
    Failure::Refused("the launch has no buffers".into())
}

/// Bytes of findings with room for `room` numbers.
fn found_len(room: u32) -> usize {
    FoundLists::HEAD_LEN + 4 * room as usize
}

/// Bytes of findings that come back with the table of `count` packets: a number for each. Most
/// packets of most launches have none.
fn first_found_len(count: usize) -> usize {
    FoundLists::HEAD_LEN + 4 * count
}

/// Bytes of a first work's findings.
fn found(range: Range<usize>) -> Part {
    Part { piece: FINDINGS, range }
}
