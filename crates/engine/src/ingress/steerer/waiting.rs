//! Frames that wait: for room on their lane, for a time, or for the first fragment of their packet.

use std::iter;
use std::ops::Range;

use warpline_io::{BURST_MAX, Burst, Frame};
use warpline_packet::{Flags, FragmentKey, Instant};

use super::Steerer;
use crate::ingress::fragments::Course;
use crate::ingress::lane_writer::SteeredFrame;
use crate::lane_of;

impl Steerer {
    /// Keeps those of the first `now` frames which found no room, fragments that are ready, and the
    /// frames after them. The first frames have these `courses` if they were here before.
    pub(super) fn keep(
        &mut self,
        frames: &[Frame<'_>],
        (taken, now): (usize, usize),
        courses: &[Option<Course>],
    ) {
        let each = |some: Range<usize>| {
            let found = self.times[some.clone()].iter().zip(&self.found[some.clone()]);
            frames[some].iter().zip(found)
        };
        for (frame, (time, found)) in each(taken..now).filter(|(_, (_, own))| !own.waits) {
            // It is not asked again, when others may be known.
            let course = Course::On(Some(found.steered.shard));
            self.kept.keep_on(frame, *time, Some(course));
        }
        if let Some(fragments) = &mut self.fragments {
            fragments.move_ready(&mut self.kept);
        }
        let courses = courses.iter().copied().chain(iter::repeat(None)).skip(now);
        for ((frame, (time, _)), course) in each(now..frames.len()).zip(courses) {
            self.kept.keep_on(frame, *time, course);
        }
    }

    /// Has later fragments follow the first of their packet, or wait for it. The first frames have
    /// these `courses` if they were here before. Returns how many of the frames come before
    /// fragments that waited.
    #[inline]
    pub(super) fn order_fragments(
        &mut self,
        frames: &[Frame<'_>],
        courses: &[Option<Course>],
    ) -> usize {
        let Some(fragments) = &self.fragments else { return frames.len() };
        if let Some(&last) = self.times[..frames.len()].last() {
            // Never back: frames before one that waits may come again.
            self.last_time = self.last_time.max(last);
        }
        let any_expires = fragments.has_expired(self.last_time);
        let found = &self.found[..frames.len()];
        let is_fragment = |found: &SteeredFrame| found.headers.flags.has(Flags::FRAGMENT);
        self.has_waiting = false;
        // Without an early end the loop is shorter for bursts that have none.
        match found.iter().fold(any_expires, |any, found| any | is_fragment(found)) {
            true => self.order_all_fragments(frames, courses),
            false => frames.len(),
        }
    }

    #[cold]
    #[inline(never)]
    fn order_all_fragments(&mut self, frames: &[Frame<'_>], courses: &[Option<Course>]) -> usize {
        let Some(fragments) = &mut self.fragments else { return frames.len() };
        let lanes = self.writers.len();
        let all = frames.iter().zip(&mut *self.found).zip(&*self.times).enumerate();
        for (at, ((frame, found), &now)) in all {
            let known = courses.get(at).copied().flatten();
            if known.is_none() && fragments.expire(now) {
                return at;
            }
            let Some(key) = FragmentKey::of(frame.bytes, &found.headers) else { continue };
            if known.is_none() && !found.headers.flags.has(Flags::LATER_FRAGMENT) {
                if fragments.first(key, found.steered.shard, now) {
                    return at + 1;
                }
                continue;
            }
            match known.unwrap_or_else(|| fragments.later(key, frame, now)) {
                Course::Waits => (found.waits, self.has_waiting) = (true, true),
                Course::On(None) => {}
                Course::On(Some(shard)) => {
                    found.steered.shard = shard;
                    if lanes > 1 {
                        found.lane = lane_of(shard, lanes) as u8;
                    }
                }
            }
        }
        frames.len()
    }

    /// Holds frames until their time is decided.
    #[inline]
    pub(super) fn hold(&mut self, frames: &[Frame<'_>]) {
        for frame in frames {
            self.part.bytes_read += frame.bytes.len() as u64;
            self.held.keep(frame, Instant::ZERO);
        }
    }

    /// Takes in held frames whose times are decided; `is_all` means that no others follow. Returns
    /// whether there was room for all of them.
    #[inline(never)]
    pub(super) fn take_held(&mut self, is_all: bool) -> bool {
        while !self.held.is_empty() {
            if !self.take_kept() {
                return false;
            }
            let mut held = std::mem::take(&mut self.held);
            let (timed, taken, now) = {
                let mut burst = Burst::new();
                held.frames().for_each(|(frame, _)| _ = burst.push(frame));
                let frames = burst.frames();
                let timed = self.time(frames, is_all && frames.len() == held.len());
                let frames = &frames[..timed];
                self.find(frames);
                let now = self.order_fragments(frames, &[]);
                let taken = self.take(&frames[..now]);
                self.keep(frames, (taken, now), &[]);
                (timed, taken, now)
            };
            held.forget(timed);
            self.held = held;
            if timed == 0 || taken < now {
                return taken == now;
            }
        }
        true
    }

    /// Whether frames wait for room, or fragments for their turn.
    pub(in crate::ingress) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Takes in the frames that found no room before, as far as there is some now. Returns whether
    /// none is left.
    #[inline(never)]
    pub(in crate::ingress) fn take_kept(&mut self) -> bool {
        while !self.kept.is_empty() {
            let spare = std::mem::take(&mut self.spare);
            let mut kept = std::mem::replace(&mut self.kept, spare);
            let (taken, now, count) = {
                let mut burst = Burst::new();
                let mut courses = [None; BURST_MAX];
                let before = self.times.iter_mut().zip(&mut courses).zip(kept.courses());
                for ((frame, now), ((time, own), course)) in kept.frames().zip(before) {
                    let _ = burst.push(frame);
                    (*time, *own) = (now, course);
                }
                let frames = burst.frames();
                self.find(frames);
                let now = self.order_fragments(frames, &courses);
                let taken = self.take(&frames[..now]);
                if self.fragments.is_some() {
                    self.keep(frames, (taken, now), &courses);
                }
                (taken, now, frames.len())
            };
            kept.forget(if self.fragments.is_some() { count } else { taken });
            if self.kept.is_empty() {
                std::mem::swap(&mut self.kept, &mut kept);
            } else {
                let rest = kept.frames().zip(kept.courses());
                rest.for_each(|((frame, now), course)| self.kept.keep_on(&frame, now, course));
                kept.forget(kept.len());
            }
            self.spare = kept;
            if taken < now {
                return false;
            }
        }
        true
    }
}
