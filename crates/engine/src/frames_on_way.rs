//! How many bytes cross with whole frames, as functions make these longer and shorter on their way.

use core::ops::Range;

use warpline_packet::{crossing_width, frame_extent, frame_start};
use warpline_sched::WholeBytes;

use crate::{Chain, FramesBy, Instance, PlanOptions};

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
    pub(crate) fn new(chain: &Chain, options: PlanOptions) -> Self {
        let (start, len) = (frame_start(chain.growth().head), options.packet_len as usize);
        let mut on_devices = chain.instances.iter().filter_map(|one| one.on_device.as_ref());
        let is_whole =
            options.frames_by == FramesBy::Kernels || on_devices.any(|on| on.launches.graphs);
        Self { room_len: chain.room_len(len), frame: start..start + len, is_whole }
    }

    /// Lets functions that share launches work on it. Gives the bytes that cross there and back.
    pub(crate) fn pass(&mut self, members: &[Instance]) -> WholeBytes {
        let found = self.extent();
        for one in members {
            let [head, tail] = one.function.lengthens(self.frame.len());
            let (start, end) = (self.frame.start as i64 - i64::from(head), self.frame.end as i64);
            let end = (end + i64::from(tail)).clamp(0, self.room_len as i64);
            self.frame = start.clamp(0, end) as usize..end as usize;
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
