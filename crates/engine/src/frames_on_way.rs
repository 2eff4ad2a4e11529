//! The bytes of whole frames that cross, as functions make frames longer and shorter.

use core::ops::Range;

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
