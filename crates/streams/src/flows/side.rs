//! One direction of a stream: the window of delivered bytes, and bytes that wait after a gap.
//!
//! Both are in one block, each byte at its place in the stream, so waiting bytes are delivered
//! without a copy. Data are delivered on the packet that makes them contiguous.

mod dropped;
mod parts;
mod room;
mod urgent;

use core::ops::Range;

use super::blocks::Block;
use super::held::{Line, Span};
use super::memory::{Memory, Wrote};
use super::outcome::{Fate, Gap, Stream};
use super::overlap::Overlap;

/// Segments of one direction that may wait at a time, so that no look at them is long.
const HELD_MAX: usize = 512;

/// One direction of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamHalf {
    /// The first byte that was not delivered.
    next: u64,
    /// Bytes in the window, and before it in the block.
    kept: u32,
    head: u32,
    /// Bytes of the window that are from `head` on while the others are at the block's start; 0 if
    /// all are together.
    older: u32,
    /// How far after `next` the last waiting byte ends; 0 if none waits.
    ahead: u32,
    block: Option<Block>,
    line: Line,
}

/// The last bytes of a stream, contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    /// The place of the first of them in the stream.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl StreamHalf {
    pub(super) const EMPTY: Self =
        Self { next: 0, kept: 0, head: 0, older: 0, ahead: 0, block: None, line: Line::EMPTY };

    /// Where the next byte in order belongs.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Where the farthest byte that came ends.
    pub(super) fn farthest(&self) -> u64 {
        self.next + u64::from(self.ahead)
    }

    /// Whether data wait after a gap.
    pub(super) fn waits(&self) -> bool {
        !self.line.is_empty()
    }

    /// Where the window begins.
    pub(super) fn window_start(&self) -> u64 {
        self.next - u64::from(self.kept)
    }

    pub(super) fn window<'a>(&mut self, memory: &'a mut Memory) -> Window<'a> {
        self.join(memory);
        let bytes = self.block.and_then(|block| {
            let start = block.start() + self.head as usize;
            memory.blocks.bytes().get(start..start + self.kept as usize)
        });
        Window { start: self.window_start(), bytes: bytes.unwrap_or(&[]) }
    }

    /// Takes a segment in. `acked` is where the bytes end that the receiver said it has.
    pub(super) fn add(
        &mut self,
        memory: &mut Memory,
        start: u64,
        payload: &[u8],
        acked: u64,
    ) -> Stream {
        if start == self.next && self.extend(memory, payload) {
            return Stream::Grew { from: start, to: self.next, is_packet: true, changed: None };
        }
        self.join(memory);
        let span = Span { start, end: start + payload.len() as u64 };
        let changed = self.replace(memory, span, payload);
        if span.end > self.next {
            return match span.start <= self.next {
                true => self.append(memory, span, payload, changed),
                false => self.wait(memory, span, payload, acked),
            };
        }
        match changed {
            Some(_) => Stream::Grew { from: self.next, to: self.next, is_packet: false, changed },
            None => {
                memory.counters.segments_old += 1;
                Stream::Old
            }
        }
    }

    /// Whether what the receiver has, by its word, goes beyond a gap that data wait behind.
    pub(super) fn is_gap_acknowledged(&self, memory: &Memory, acked: u64) -> bool {
        memory.held.first(&self.line).is_some_and(|first| first.start <= acked)
    }

    /// Gives up the first gap, where the receiver acknowledged it.
    pub(super) fn next_gap(&mut self, memory: &mut Memory, acked: u64) -> Option<Gap> {
        if !self.is_gap_acknowledged(memory, acked) {
            return None;
        }
        memory.counters.gaps_acknowledged += 1;
        Some(self.skip(memory))
    }

    /// Forgets all bytes, those that wait too.
    pub(super) fn release(&mut self, memory: &mut Memory) {
        memory.held.clear(&mut self.line);
        if let Some(block) = self.block.take() {
            memory.blocks.give(block);
        }
        (self.kept, self.head, self.older, self.ahead) = (0, 0, 0, 0);
    }

    /// Overwrites delivered bytes if the policy allows it; returns the range from the first to the
    /// last changed byte.
    fn replace(&mut self, memory: &mut Memory, span: Span, payload: &[u8]) -> Option<Range<u64>> {
        let window_start = self.window_start();
        let (start, end) = (span.start.max(window_start), span.end.min(self.next));
        if memory.overlap != Overlap::Last || start >= end {
            return None;
        }
        let at = self.block?.start() + self.head as usize + (start - window_start) as usize;
        let old = memory.blocks.bytes_mut().get_mut(at..at + (end - start) as usize)?;
        let new = payload.get((start - span.start) as usize..)?.get(..old.len())?;
        let differs = |(old, new): (&u8, &u8)| old != new;
        let first = old.iter().zip(new).position(differs)?;
        let last = old.iter().zip(new).rposition(differs)?;
        old[first..=last].copy_from_slice(&new[first..=last]);
        memory.counters.segments_changed_delivered += 1;
        memory.wrote = Wrote::Mixed;
        Some(start + first as u64..start + last as u64 + 1)
    }

    /// Delivers a segment that is in order. Without memory for it, the next waiting ones are
    /// delivered instead.
    fn append(
        &mut self,
        memory: &mut Memory,
        span: Span,
        payload: &[u8],
        changed: Option<Range<u64>>,
    ) -> Stream {
        let from = self.next;
        if !self.reserve(memory, span.end) {
            if self.waits() {
                memory.counters.stream_memory_exhausted += 1;
                return Stream::Gap(self.skip(memory));
            }
            self.release(memory);
            self.next = span.end;
            memory.wrote = Wrote::Alone(Span { start: from, ..span });
            memory.counters.stream_memory_exhausted += 1;
            return Stream::Untracked;
        }
        let written = self.write(memory, span, payload);
        self.advance(memory, span.end);
        let is_packet = written.is_whole && span.start == from && span.end == self.next;
        Stream::Grew { from, to: self.next, is_packet, changed }
    }

    /// Keeps a segment until the gap before it closes, or gives that gap up.
    fn wait(&mut self, memory: &mut Memory, span: Span, payload: &[u8], acked: u64) -> Stream {
        if self.hold(memory, span, payload) {
            let Some(gap) = self.next_gap(memory, acked) else { return Stream::Held };
            let packet = if span.start < self.next { Fate::Delivered } else { Fate::Held };
            return Stream::Gap(Gap { packet, ..gap });
        }
        if !self.line.is_empty() {
            memory.counters.gaps_no_room += 1;
            let gap = self.skip(memory);
            return Stream::Gap(self.add_behind(memory, gap, span, payload));
        }
        let is_far = span.end - self.next > memory.hold_len;
        if !is_far && acked < span.start {
            memory.counters.stream_memory_exhausted += 1;
            return Stream::Untracked;
        }
        match acked < span.start {
            true => memory.counters.gaps_no_room += 1,
            false => memory.counters.gaps_acknowledged += 1,
        }
        let lost = self.jump(memory, span.start);
        match self.append(memory, span, payload, None) {
            Stream::Grew { from, to, .. } => {
                Stream::Gap(Gap { lost, from, to, packet: Fate::Delivered })
            }
            other => other,
        }
    }

    /// Takes in a segment for which a gap was given up.
    fn add_behind(&mut self, memory: &mut Memory, gap: Gap, span: Span, payload: &[u8]) -> Gap {
        let mut packet = Fate::Alone;
        if span.end <= self.next {
            memory.counters.segments_old += 1;
        } else if span.start > self.next {
            if self.hold(memory, span, payload) {
                packet = Fate::Held;
            } else {
                memory.counters.stream_memory_exhausted += 1;
            }
        } else if self.reserve(memory, span.end) {
            self.append(memory, span, payload, None);
            packet = Fate::Delivered;
        } else {
            memory.counters.stream_memory_exhausted += 1;
        }
        Gap { to: self.next, packet, ..gap }
    }

    /// Keeps a segment that is ahead of its turn, where there is room.
    fn hold(&mut self, memory: &mut Memory, span: Span, payload: &[u8]) -> bool {
        let has_room = span.end - self.next <= memory.hold_len
            && self.line.len() < HELD_MAX
            && memory.held.has_room();
        if !has_room || !self.reserve(memory, span.end) {
            return false;
        }
        let written = self.write(memory, span, payload);
        if !written.is_twin {
            memory.held.insert(&mut self.line, span);
        }
        self.ahead = self.ahead.max((span.end - self.next) as u32);
        memory.counters.segments_held += 1;
        true
    }

    /// Goes to the first segment that waits, and delivers it and those that follow it.
    fn skip(&mut self, memory: &mut Memory) -> Gap {
        let start = memory.held.first(&self.line).map_or(self.next, |first| first.start);
        let lost = self.jump(memory, start);
        self.advance(memory, start);
        Gap { lost, from: start, to: self.next, packet: Fate::Alone }
    }

    /// Goes to `start` with an empty window; gives the bytes between.
    fn jump(&mut self, memory: &mut Memory, start: u64) -> u64 {
        let lost = start - self.next;
        memory.counters.gap_bytes += lost;
        if self.line.is_empty() {
            (self.head, self.ahead) = (0, 0);
        } else {
            self.head += self.kept + lost as u32;
            self.ahead -= lost as u32;
        }
        (self.next, self.kept) = (start, 0);
        lost
    }

    /// Delivers what came up to `to`, and what follows it without a gap.
    fn advance(&mut self, memory: &mut Memory, to: u64) {
        let from = self.next;
        self.next = to;
        while let Some(first) = memory.held.first(&self.line)
            && first.start <= self.next
        {
            self.next = self.next.max(first.end);
            memory.held.pop(&mut self.line);
        }
        let grown = (self.next - from) as u32;
        self.ahead = self.ahead.saturating_sub(grown);
        self.kept += grown;
        self.drop_to(memory.window_len as u32 + grown);
        self.shrink(memory);
    }

    /// Leaves at most `len` bytes in the window.
    fn drop_to(&mut self, len: u32) {
        let dropped = self.kept.saturating_sub(len);
        self.kept -= dropped;
        if self.older > 0 && dropped >= self.older {
            (self.head, self.older) = (dropped - self.older, 0);
        } else {
            self.head += dropped;
            self.older = self.older.saturating_sub(dropped);
        }
    }

    /// Writes what the policy gives to a segment, from `next` on, to where it belongs.
    fn write(&self, memory: &mut Memory, span: Span, payload: &[u8]) -> Written {
        let mut written = Written { is_whole: true, is_twin: false };
        let Some(block) = self.block else { return written };
        let next_at = block.start() + (self.head + self.kept) as usize;
        let mut at = span.start.max(self.next);
        let from = at;
        let Memory { blocks, held, overlap, wrote, .. } = memory;
        let bytes = blocks.bytes_mut();
        let mut has_put = false;
        let mut put = |start: u64, end: u64| {
            has_put = true;
            let to = next_at + (start - self.next) as usize;
            let data = &payload[(start - span.start) as usize..(end - span.start) as usize];
            bytes[to..to + data.len()].copy_from_slice(data);
        };
        let mut overlaps = false;
        // A segment that starts after the farthest byte overlaps nothing, as most do.
        let spans = held.spans(&self.line).filter(|_| from < self.farthest());
        for old in spans.take_while(|old| old.start < span.end).filter(|old| old.end > from) {
            overlaps = true;
            written.is_twin |= old == span;
            if overlap.is_for_last(old, span) {
                continue;
            }
            written.is_whole = false;
            if old.start > at {
                put(at, old.start);
            }
            at = at.max(old.end);
        }
        if at < span.end {
            put(at, span.end);
        }
        if has_put && *wrote != Wrote::Mixed {
            let own = Wrote::Alone(Span { start: from, end: span.end });
            *wrote = if overlaps { Wrote::Mixed } else { own };
        }
        memory.counters.segments_overlapping += u64::from(overlaps);
        written
    }
}

/// How a segment was written.
struct Written {
    /// Whether all of its new bytes were.
    is_whole: bool,
    /// Whether one with the very same bounds waits.
    is_twin: bool,
}
