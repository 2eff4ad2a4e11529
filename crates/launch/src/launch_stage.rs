//! A stage on a device as plain data: its functions' declarations, kernels and launches.

use std::sync::Arc;

use warpline_packet::{Access, FieldSet, ReadWrite};
use warpline_sched::LaunchLimits;

use crate::{Crossings, Dimensions, LaunchTarget, Lengthened, Loaded};

/// See the module. [`Launches::open`](crate::Launches::open) takes it.
pub struct LaunchStage {
    /// The names of its functions, for messages.
    pub names: String,
    /// Its functions, in order; at least one.
    pub members: Vec<Member>,
    /// The kernels that carry fields and frames.
    pub transport: Transport,
    /// The fields and frames that cross.
    pub crossings: Crossings,
    /// Scratch words of the chain's packets.
    pub scratch_words: usize,
    /// Bytes that its functions add to frames, if whole frames come back.
    pub lengthened: Lengthened,
    /// When launches are closed.
    pub limits: LaunchLimits,
    /// How many launches there are, and how large.
    pub dimensions: Dimensions,
    /// The size and the deadline of launches while it runs.
    pub target: Arc<LaunchTarget>,
    /// Positions of the functions whose launches share its mirror.
    pub mates: Vec<usize>,
    /// Whether its packets come from ingress.
    pub is_first: bool,
    /// Whether packets skip functions, so that how many a device lacks is not known ahead.
    pub is_routed: bool,
    /// Whether no other lane has the same stage.
    pub is_alone: bool,
    /// Whether versions of fields are followed.
    pub follows_versions: bool,
}

/// A function of a stage.
#[derive(Clone)]
pub struct Member {
    /// Its position in the chain.
    pub position: u8,
    /// The fields that its phases access.
    pub access: Access,
    /// The fields that its kernels access.
    pub kernels: ReadWrite,
    /// Its kernels and tables.
    pub loaded: Arc<Loaded>,
}

impl Member {
    /// Whether the CPU leaves frames of packets that it flagged as they are.
    pub(crate) fn keeps_flagged(&self) -> bool {
        (self.access.after_flagged.writes & SHAPE).is_empty()
    }
}

/// Kernels of no function, which carry packets. A stage has those that its crossings need.
#[derive(Clone, Default)]
pub struct Transport {
    /// Copies single fields ([`crate::field_copies`]).
    pub copier: Option<Arc<Loaded>>,
    /// Carries whole frames ([`crate::room_copies`]).
    pub carrier: Option<Arc<Loaded>>,
    /// Writes a launch's table from packed rows ([`crate::packed_rows`]).
    pub unpacker: Option<Arc<Loaded>>,
}

const SHAPE: FieldSet = FieldSet::FRAME.union(FieldSet::GEOMETRY);

/// Whether the CPU, doing a function's work for a device, may change more of a packet than the
/// function's `kernels` change. No mirror has such a packet any more. Otherwise each other device's
/// mirror has the fields in the plan.
pub fn takes_out_of_mirrors(access: &Access, kernels: ReadWrite) -> bool {
    let more = access.run.writes & !kernels.writes | access.after_flagged.writes;
    !(more & SHAPE).is_empty()
}
