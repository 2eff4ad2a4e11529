//! A plan's step as launches carry it out: the fields, frames and metadata that cross to a stage's
//! device and back.

use warpline_packet::{Binding, FieldSet, ReadWrite};
use warpline_sched::{Crossing, Leftover, PlanStep, Problem, Way};

/// Of which packets rooms go to the mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomsThere {
    /// Of all.
    All,
    /// Rooms of packets that the mirror lacks, because functions made them or their work was done
    /// on the CPU.
    Missing,
    /// Of none: kernels need no frame.
    None,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossings {
    /// Of which packets rooms go to the mirror.
    pub rooms_there: RoomsThere,
    /// Of packets whose rooms go as the mirror lacks them the share that the plan expects.
    pub missing_share: f64,
    /// Bytes of a packet's row of a launch's table that the plan has, there and back.
    pub row: [f64; 2],
    /// Whether rooms come back over the host's.
    pub rooms_back: bool,
    /// Fields of frames that go to the device by themselves.
    pub there: FieldSet,
    /// Fields of frames that come back by themselves.
    pub back: FieldSet,
    /// Metadata that its kernels read and write. They are columns of a launch's table, whatever the
    /// plan.
    pub metadata: ReadWrite,
    /// Whether the mirror has the packets from here on, for later launches.
    pub keeps_mirror: bool,
    /// Whether packets of the launch may be in the mirror by their marks and are not from here on,
    /// while others that come to later launches are.
    pub gives_mirror_up: bool,
    /// Whether the mirror alone has some fields of packets before the launch.
    pub relies_on_mirror: bool,
    /// The fields that the mirror alone has after the launch.
    pub left_there: LeftThere,
}

/// The fields of packets that a mirror alone has after a launch. Packets that a kernel left to the
/// CPU, or that the host may change because they were flagged, are fetched from there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeftThere {
    /// Fields of frames.
    pub fields: FieldSet,
    /// Fields that the mirror has not as the host has. Each can be gathered.
    pub newer_here: FieldSet,
    /// Whether flagged packets are fetched, too, of which nothing but `after` is left.
    pub fetches_flagged: bool,
    /// Of packets those that the plan expects to be fetched as they were flagged, as a share.
    pub flagged_share: f64,
}

impl Crossings {
    /// Whole rooms to the device, and back if frames are written: crossings that suit any kernels
    /// with this access.
    pub fn whole(kernels: ReadWrite) -> Self {
        Self {
            rooms_there: RoomsThere::All,
            missing_share: 0.0,
            row: [0.0; 2],
            rooms_back: !(kernels.writes & FieldSet::FRAME).is_empty(),
            there: FieldSet::EMPTY,
            back: FieldSet::EMPTY,
            metadata: metadata(kernels),
            keeps_mirror: false,
            gives_mirror_up: false,
            relies_on_mirror: false,
            left_there: LeftThere::default(),
        }
    }

    /// The crossings of a plan's step for `problem`, and the fields that stay on its device after
    /// it. Its kernels have the access `kernels`.
    pub fn of((step, left): (&PlanStep, &Leftover), problem: &Problem, kernels: ReadWrite) -> Self {
        let (frame, room) = (problem.whole(step.function).there, problem.widths.room);
        let fields = |crossing: &Crossing| match crossing.way {
            Way::Frame => FieldSet::EMPTY,
            _ => crossing.fields & FieldSet::FRAME,
        };
        Self {
            rooms_there: match (step.to_device.way, left.was_mirrored) {
                (Way::Frame, _) => RoomsThere::All,
                (_, true) => RoomsThere::Missing,
                (_, false) => RoomsThere::None,
            },
            missing_share: step.missing.bytes / frame.max(1.0),
            row: [step.to_device.row_bytes, step.to_host.row_bytes],
            rooms_back: step.to_host.way == Way::Frame,
            there: fields(&step.to_device),
            back: fields(&step.to_host),
            metadata: metadata(kernels),
            keeps_mirror: step.mirror_after,
            gives_mirror_up: left.was_mirrored && !step.mirror_after && problem.hops.is_some(),
            relies_on_mirror: !left.before.is_empty(),
            left_there: LeftThere {
                fields: left.behind,
                newer_here: left.newer_here,
                fetches_flagged: step.flagged.way == Way::Frame,
                flagged_share: step.flagged.bytes / room,
            },
        }
    }

    /// Whether kernels find fields in columns alone.
    pub(crate) fn is_direct(&self) -> bool {
        self.rooms_there == RoomsThere::None
    }

    /// Whether rooms of any packets cross.
    pub fn has_rooms(&self) -> bool {
        self.rooms_there != RoomsThere::None || self.rooms_back
    }

    /// The columns in which fields cross, after tables with so many scratch words.
    pub fn columns(&self, scratch_words: usize) -> Binding {
        Binding::staged(self.there | self.back, scratch_words).unwrap_or(Binding::MIRROR)
    }

    /// Where kernels of functions find fields.
    pub fn binding(&self, scratch_words: usize) -> Binding {
        if self.is_direct() { self.columns(scratch_words) } else { Binding::MIRROR }
    }

    /// Bytes that the host may keep of a packet while it is fetched.
    pub fn kept_len(&self) -> usize {
        Binding::staged(self.left_there.newer_here, 0).map_or(0, |columns| columns.row_len())
    }

    /// The columns for the kernels that copy fields between columns and the mirror; none if there
    /// is nothing to copy.
    pub fn copies(&self, scratch_words: usize) -> Option<Binding> {
        let has_some = !(self.there | self.back).is_empty() && !self.is_direct();
        has_some.then(|| self.columns(scratch_words).with_copies(self.there, self.back))
    }
}

fn metadata(kernels: ReadWrite) -> ReadWrite {
    ReadWrite::new(kernels.reads & !FieldSet::FRAME, kernels.writes & !FieldSet::FRAME)
}
