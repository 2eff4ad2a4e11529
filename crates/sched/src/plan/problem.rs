//! The input of a plan: the functions with their access and devices, the sizes of fields, and the
//! costs of links.

use std::fmt;

use warpline_packet::{Access, Field, FieldSet, ReadWrite};

use super::{Aim, LinkCosts, Widths};

/// The fields that a phase needs to be current where it runs, and those it leaves current only
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// Fields that it reads, or may leave as they were.
    pub needs: FieldSet,
    /// Fields that it writes.
    pub writes: FieldSet,
}

impl Touch {
    /// Nothing.
    pub const NONE: Self = Self { needs: FieldSet::EMPTY, writes: FieldSet::EMPTY };

    /// From the declaration of a phase. A written field is needed too, since the phase may leave
    /// the old value in some packets. If the frame's start or its headers move, all of the frame is
    /// written: values at old positions are meaningless at new ones.
    pub fn of(declared: ReadWrite) -> Self {
        let moves = FieldSet::of(&[Field::Start, Field::L3Offset]);
        let is_moved = !(declared.writes & moves).is_empty();
        let frame = if is_moved { FieldSet::FRAME } else { FieldSet::EMPTY };
        let writes = declared.writes | frame;
        Self { needs: declared.reads | writes, writes }
    }

    /// Whether it touches anything.
    pub fn is_none(&self) -> bool {
        self.needs.is_empty() && self.writes.is_empty()
    }
}

/// Bytes a packet of a launch's table that cross for a function on a device, whatever else does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowBytes {
    /// To the device: of the columns that its kernels read.
    pub there: f64,
    /// Back: of the columns that its kernels write.
    pub back: f64,
}

impl RowBytes {
    /// Of a function on the host.
    pub const NONE: Self = Self { there: 0.0, back: 0.0 };
}

/// Bytes of a whole frame, with those around it that cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeBytes {
    /// To the device.
    pub there: f64,
    /// Back, from where it was and from where the kernels left it.
    pub back: f64,
}

/// A function of the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFunction {
    /// The instance's name.
    pub name: String,
    /// The device of `run`: an index of [`Problem::links`]. `None` is the host, and each device
    /// that shares its memory.
    pub device: Option<usize>,
    /// The fields that `before` touches, on the host.
    pub before: Touch,
    /// The fields that `run` touches, on its device.
    pub run: Touch,
    /// Fields of the frame that the host reads or writes when it does the work of `run` for packets
    /// that the kernel left. The host has them, or fetches such a packet whole from the mirror that
    /// `run` uses.
    pub fallback: FieldSet,
    /// Of the table of its launches. Of functions on the host nothing crosses.
    pub row: RowBytes,
    /// The fields that `after` touches of every packet, on the host.
    pub after: Touch,
    /// The additional access of `after` to flagged packets, on the host. Fields that it writes
    /// count as needed, since other packets keep theirs.
    pub after_flagged: Touch,
    /// The expected share of flagged packets, 0 to 1.
    pub flagged_share: f64,
    /// Bytes of a frame that goes to it whole; all of its room where they are not known.
    pub whole: Option<WholeBytes>,
}

impl PlannedFunction {
    /// Of what a function declares, with no `fallback` and no `row`.
    pub fn new(name: &str, access: &Access, device: Option<usize>) -> Self {
        Self {
            name: name.to_owned(),
            device,
            before: Touch::of(access.before),
            run: Touch::of(access.run),
            fallback: FieldSet::EMPTY,
            row: RowBytes::NONE,
            after: Touch::of(access.after),
            after_flagged: Touch::of(access.after_flagged),
            flagged_share: f64::from(access.flagged_share).clamp(0.0, 1.0),
            whole: None,
        }
    }

    /// One that is `run` alone.
    pub fn run_only(name: &str, device: Option<usize>, run: Touch) -> Self {
        Self {
            name: name.to_owned(),
            device,
            before: Touch::NONE,
            run,
            fallback: FieldSet::EMPTY,
            row: RowBytes::NONE,
            after: Touch::NONE,
            after_flagged: Touch::NONE,
            flagged_share: 0.0,
            whole: None,
        }
    }

    /// The expected share of packets whose frames the host changes after the kernel, because they
    /// were flagged.
    pub fn changed_share(&self) -> f64 {
        let changes = self.after_flagged.writes & (FieldSet::FRAME | FieldSet::GEOMETRY);
        if changes.is_empty() { 0.0 } else { self.flagged_share }
    }

    /// Fields of the frame needed before the kernel, by it or by the host in its place.
    pub(super) fn run_needs(&self) -> FieldSet {
        let fallback = if self.device.is_some() { self.fallback } else { FieldSet::EMPTY };
        self.run.needs | fallback & FieldSet::FRAME
    }

    /// The host's phases before a step: all of a function that is not on a device.
    pub(super) fn host_first(&self) -> Vec<(&'static str, Touch)> {
        match self.device {
            Some(_) => vec![("before", self.before)],
            None => {
                let all = [("before", self.before), ("run", self.run), ("after", self.after)];
                // Where nothing crosses, flagged packets are like all others.
                all.into_iter().chain([("after", self.after_flagged)]).collect()
            }
        }
    }
}

/// The ways of packets through functions: by place, the functions that come next. The end has the
/// number that follows the last function's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanHops {
    /// From ingress.
    pub ingress: Vec<usize>,
    /// From each function. All are later ones.
    pub functions: Vec<Vec<usize>>,
}

impl PlanHops {
    /// Of functions that all packets pass one after the other.
    fn list(count: usize) -> Self {
        Self { ingress: vec![0], functions: (1..=count).map(|next| vec![next]).collect() }
    }

    /// The same without hops that lead nowhere or back, and with a place for each function.
    fn forward(&self, count: usize) -> Self {
        let later = |hops: &[usize], first: usize| {
            let mut hops: Vec<usize> =
                hops.iter().copied().filter(|hop| (first..=count).contains(hop)).collect();
            hops.sort_unstable();
            hops.dedup();
            hops
        };
        let of = |from: usize| self.functions.get(from).map_or(&[][..], Vec::as_slice);
        Self {
            ingress: later(&self.ingress, 0),
            functions: (0..count).map(|from| later(of(from), from + 1)).collect(),
        }
    }
}

/// The input of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// In the order of the chain.
    pub functions: Vec<PlannedFunction>,
    /// The ways of packets through the functions; `None` if each packet passes all of them.
    pub hops: Option<PlanHops>,
    /// The links to devices with memories of their own.
    pub links: Vec<LinkCosts>,
    /// The widths of fields.
    pub widths: Widths,
    /// Fields of a packet that are read after the chain, on the host.
    pub end_reads: FieldSet,
    /// Fields of frames that can cross one by one; the others cross with whole frames.
    pub gathered: FieldSet,
    /// Whether the host has all needed fields after every step, so that a lost device costs no
    /// packet. If not, each packet can be fetched: a mirror that alone has some of the frame lacks
    /// only fields that can be gathered.
    pub is_recoverable: bool,
    /// Whether a step may first bring fields from mirrors to the host, to send the whole frame
    /// ([`super::PlanStep::first_to_host`]).
    pub fetches_first: bool,
    /// How much the time of each resource counts, for [`super::Mode::Adaptive`].
    pub aim: Aim,
}

impl Problem {
    /// The fields that a sink reads: the frame, its position, its fate. Scratch words end with the
    /// chain.
    pub fn sink_reads() -> FieldSet {
        use Field::{Flagged, FlowHash, Ingress, NextHop, Shard, Timestamp, Verdict};
        let of_packet = [Verdict, NextHop, Timestamp, Ingress, FlowHash, Shard, Flagged];
        FieldSet::FRAME | FieldSet::GEOMETRY | FieldSet::of(&of_packet)
    }

    /// Bytes of a frame that goes whole to function `position`, and back.
    pub fn whole(&self, position: usize) -> WholeBytes {
        let room = self.widths.room;
        self.functions[position].whole.unwrap_or(WholeBytes { there: room, back: room })
    }

    /// The ways of packets through its functions.
    pub fn ways(&self) -> PlanHops {
        let count = self.functions.len();
        self.hops.as_ref().map_or_else(|| PlanHops::list(count), |hops| hops.forward(count))
    }

    /// Looks whether there can be a plan.
    ///
    /// # Errors
    /// The function whose device has no link.
    pub fn check(&self) -> Result<(), Misfit> {
        for (position, function) in self.functions.iter().enumerate() {
            if function.device.is_some_and(|device| device >= self.links.len()) {
                return Err(Misfit { position, name: function.name.clone() });
            }
        }
        Ok(())
    }
}

/// A function on a device whose link's costs are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its position in the chain.
    pub position: usize,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (function {}) is on a device whose link is not known",
            self.name, self.position
        )
    }
}

impl std::error::Error for Misfit {}
