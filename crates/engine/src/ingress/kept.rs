//! Copies of frames that cannot continue yet, because no lane has room or their time is undecided.

use std::collections::VecDeque;
use std::ops::Range;

use warpline_io::{BURST_MAX, FRAME_LEN_MAX, Frame};
use warpline_packet::{Instant, LinkType};

/// Frames that wait, copied out of their source.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    heads: VecDeque<Head>,
}

/// The source's facts about a kept frame, and the place of its bytes.
struct Head {
    bytes: Range<usize>,
    timestamp: Instant,
    now: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
}

impl Kept {
    /// Room for a burst of usual frames; it is taken now and not on the way.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(FRAME_LEN_MAX), heads: VecDeque::with_capacity(BURST_MAX) }
    }

    /// Room for so many frames of so many bytes together.
    pub(super) fn with_capacity(frames: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), heads: VecDeque::with_capacity(frames) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Keeps a frame and its time for functions. A frame that is too long for a slab is cut.
    pub(super) fn keep(&mut self, frame: &Frame<'_>, now: Instant) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)]);
        self.heads.push_back(Head {
            bytes: start..self.bytes.len(),
            timestamp: frame.timestamp,
            now,
            wire_len: frame.wire_len.max(frame.bytes.len() as u32),
            link: frame.link,
            interface: frame.interface,
        });
    }

    /// Forgets the first `count`.
    pub(super) fn forget(&mut self, count: usize) {
        self.heads.drain(..count);
        if self.heads.is_empty() {
            self.bytes.clear();
        }
    }

    /// All that are kept, in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Frame<'_>, Instant)> {
        self.heads.iter().map(|head| {
            let bytes = &self.bytes[head.bytes.clone()];
            let Head { timestamp, wire_len, link, interface, .. } = *head;
            (Frame { bytes, timestamp, wire_len, link, interface }, head.now)
        })
    }
}
