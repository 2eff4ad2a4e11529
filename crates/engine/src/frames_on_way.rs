//! The bytes of whole frames that cross, as functions make frames longer and shorter.

use core::ops::Range;

use warpline_nf::Function;
use warpline_packet::{crossing_width, frame_extent, frame_start, lengthened};
use warpline_sched::WholeBytes;

use crate::{Deployment, FramesBy, Instance, PlanOptions};

/// A frame on its way through the chain.
pub(crate) struct FramesOnWay {
    room_len: usize,
    /// Where it lies in its room.
    frame: Range<usize>,
    /// Whether rooms cross whole.
    is_whole: bool,
}

impl FramesOnWay {
    /// A frame of the length that plans are made for, before the first function.
    pub(crate) fn new(deployment: &Deployment, options: PlanOptions) -> Self {
        let chain = deployment.chain();
        let (start, len) = (frame_start(chain.growth().head), options.packet_len as usize);
        let mut on_devices = deployment.sites().iter().filter_map(|site| site.on_device.as_ref());
        let is_whole =
            options.frames_by == FramesBy::Kernels || on_devices.any(|on| on.launches.graphs);
        Self { room_len: chain.room_len(len), frame: start..start + len, is_whole }
    }

    /// Lets functions that share launches work on it. Gives the bytes that cross there and back.
    pub(crate) fn pass(&mut self, members: &[Instance]) -> WholeBytes {
        let found = self.extent();
        for one in members {
            let added = one.function.lengthens(self.frame.len());
            self.frame = lengthened(self.room_len, self.frame.clone(), added);
        }
        let left = self.extent();
        let both = found.start.min(left.start)..found.end.max(left.end);
        let width = |extent: Range<usize>| match self.is_whole {
            true => self.room_len as f64,
            false => crossing_width(self.room_len, extent.len()) as f64,
        };
        WholeBytes { there: width(found), back: width(both) }
    }

    fn extent(&self) -> Range<usize> {
        frame_extent(self.room_len, self.frame.start, self.frame.len())
    }
}

/// Bytes that functions which share launches add to a frame's head and tail, by its length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengthened {
    /// By length; empty if every frame keeps its own.
    by_len: Vec<[i32; 2]>,
}

/// Lengths that have an entry each. Longer frames have that of a length with the same rest by
/// [`PERIOD`].
const LENS: usize = 2048;

/// The bytes that ciphers add depend on a length modulo their block, which divides this.
const PERIOD: usize = 16;

impl Lengthened {
    pub(crate) fn by<'a>(functions: impl Iterator<Item = &'a dyn Function> + Clone) -> Self {
        let of = |len: usize| {
            functions.clone().fold([0; 2], |[head, tail]: [i32; 2], function| {
                let now = (len as i32 + head + tail).max(0);
                let [at_head, at_tail] = function.lengthens(now as usize);
                [head + at_head, tail + at_tail]
            })
        };
        let by_len: Vec<[i32; 2]> = (0..LENS).map(of).collect();
        let is_kept = by_len.iter().all(|both| *both == [0; 2]);
        Self { by_len: if is_kept { Vec::new() } else { by_len } }
    }

    /// Of a frame of `len` bytes.
    pub(crate) fn of(&self, len: usize) -> [i32; 2] {
        let at = if len < LENS { len } else { LENS - PERIOD + len % PERIOD };
        self.by_len.get(at).copied().unwrap_or_default()
    }
}
