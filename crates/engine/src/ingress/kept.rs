//! Frames that a source gave and no lane had room for: copied, in order, until one has.

use std::collections::VecDeque;
use std::ops::Range;

use warpline_io::{BURST_MAX, FRAME_LEN_MAX, Frame};
use warpline_packet::{Instant, LinkType};

/// Frames that found no room yet, copied out of their source.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    heads: VecDeque<Head>,
}

/// What a source said of a kept frame, and where its bytes are.
struct Head {
    bytes: Range<usize>,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
}

impl Kept {
    /// Room for a burst of usual frames; it is taken now and not on the way.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(FRAME_LEN_MAX), heads: VecDeque::with_capacity(BURST_MAX) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Keeps a frame; one that is too long for a slab is cut.
    pub(super) fn keep(&mut self, frame: &Frame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)]);
        self.heads.push_back(Head {
            bytes: start..self.bytes.len(),
            timestamp: frame.timestamp,
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

    /// All that are kept, at most a burst.
    pub(super) fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.heads.iter().map(|head| Frame {
            bytes: &self.bytes[head.bytes.clone()],
            timestamp: head.timestamp,
            wire_len: head.wire_len,
            link: head.link,
            interface: head.interface,
        })
    }
}
