//! Copies of frames that cannot continue yet, because no lane has room or their time is undecided.

use std::collections::VecDeque;
use std::ops::Range;

use warpline_io::{BURST_MAX, FRAME_LEN_MAX, Frame};
use warpline_packet::{Instant, LinkType};

use super::fragments::Course;

/// Frames that wait, copied out of their source.
#[derive(Default)]
pub(super) struct HeldFrames {
    bytes: Vec<u8>,
    /// The place of the first of `bytes`.
    base: usize,
    heads: VecDeque<Head>,
}

/// Bytes of forgotten frames that may lie before those of others.
const FORGOTTEN_MIN: usize = 1 << 20;

/// The source's facts about a kept frame, and the place of its bytes.
struct Head {
    bytes: Range<usize>,
    timestamp: Instant,
    now: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
    /// Its next step, if that is decided.
    course: Option<Course>,
}

impl HeldFrames {
    /// Room for a burst of usual frames; it is taken now and not on the way.
    pub(super) fn new() -> Self {
        Self::with_capacity(BURST_MAX, FRAME_LEN_MAX)
    }

    /// Room for so many frames of so many bytes together.
    pub(super) fn with_capacity(frames: usize, bytes: usize) -> Self {
        let (bytes, heads) = (Vec::with_capacity(bytes), VecDeque::with_capacity(frames));
        Self { bytes, base: 0, heads }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Keeps a frame and its time for functions. A frame that is too long for a slab is cut.
    pub(super) fn keep(&mut self, frame: &Frame<'_>, now: Instant) {
        self.keep_on(frame, now, None);
    }

    /// The same with its next step, if that is decided.
    pub(super) fn keep_on(&mut self, frame: &Frame<'_>, now: Instant, course: Option<Course>) {
        let start = self.base + self.bytes.len();
        self.bytes.extend_from_slice(&frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)]);
        self.heads.push_back(Head {
            bytes: start..self.base + self.bytes.len(),
            timestamp: frame.timestamp,
            now,
            wire_len: frame.wire_len.max(frame.bytes.len() as u32),
            link: frame.link,
            interface: frame.interface,
            course,
        });
    }

    /// Forgets the first `count`.
    pub(super) fn forget(&mut self, count: usize) {
        self.heads.drain(..count);
        let Some(first) = self.heads.front() else {
            self.bytes.clear();
            self.base = 0;
            return;
        };
        // Moves fewer bytes than it frees, so each byte moves about once.
        let forgotten = first.bytes.start - self.base;
        if forgotten > FORGOTTEN_MIN.max(self.bytes.len() / 2) {
            self.bytes.drain(..forgotten);
            self.base += forgotten;
        }
    }

    /// The next steps of all that are kept.
    pub(super) fn courses(&self) -> impl Iterator<Item = Option<Course>> {
        self.heads.iter().map(|head| head.course)
    }

    /// All that are kept, in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Frame<'_>, Instant)> {
        self.heads.iter().map(|head| {
            let Range { start, end } = head.bytes;
            let bytes = &self.bytes[start - self.base..end - self.base];
            let Head { timestamp, wire_len, link, interface, .. } = *head;
            (Frame { bytes, timestamp, wire_len, link, interface }, head.now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some frames wait all the time, as on a capture of two clocks.
    #[test]
    fn memory_stays_small_while_frames_always_wait() {
        let mut held = HeldFrames::default();
        for number in 0..100_000_u32 {
            let bytes = [&number.to_le_bytes()[..], &[7; 1400]].concat();
            let (timestamp, wire_len) = (Instant::ZERO, bytes.len() as u32);
            let link = LinkType::ETHERNET;
            let one = Frame { bytes: &bytes, timestamp, wire_len, link, interface: 0 };
            held.keep(&one, Instant::ZERO);
            if number >= 64 {
                held.forget(1);
                let first = number - 63;
                let (oldest, _) = held.frames().next().expect("a frame");
                assert_eq!(oldest.bytes[..4], first.to_le_bytes());
                assert!(oldest.bytes.len() == 1404 && held.len() == 64);
            }
        }
        assert!(held.bytes.capacity() < 4 << 20, "{}", held.bytes.capacity());
        held.forget(64);
        assert!(held.is_empty() && held.bytes.is_empty());
    }
}
