//! Chains with interfaces run on one thread while one thread keeps up.
//!
//! A packet then wakes one thread and not three, and is in one cache. The thread that reads does
//! the lanes' work and sends, too. If it finds no rest for a while, it hands each **work** to the
//! work's own thread. It takes them back when its input is empty and all threads together were
//! busy for less than half of a core's time. A lane that uses a device polls it, so then each
//! work has its own thread.
//!
//! A work is owned by one thread at a time. It changes hands in the slot of its [`Post`], between
//! two rounds. The own thread gives it back only if it has nothing to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use warpline_launch::Clock;

use crate::Control;
use crate::bell::Bell;
use crate::idle::Idle;
use crate::reports::Ended;
use crate::sys::wake_on_time;

/// How long the reader works without rest before it asks for help, in nanoseconds.
const ALONE_MAX: u64 = 2_000_000;
/// How long the work of all threads is measured before the reader does it, in nanoseconds.
const WINDOW: u64 = 50_000_000;
/// How long a thread without its work waits before it looks whether the run failed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A lane's work, or the sender's.
pub(crate) trait Work: Send {
    /// One round. Returns whether there was anything to do.
    fn round(&mut self, control: &Control) -> bool;

    /// Whether the end of the input has passed.
    fn is_finished(&self) -> bool;

    /// Called after a round without work. Returns the longest allowed rest.
    fn rest(&mut self, is_long: bool) -> Duration;

    /// Publishes its counts if they are asked for.
    fn answer(&mut self, control: &Control);

    /// Whether it polls a device.
    fn polls(&self) -> bool {
        false
    }

    /// Its results.
    fn end(self: Box<Self>, control: &Control) -> Ended;
}

/// A boxed work.
pub(crate) type AnyWork<'a> = Box<dyn Work + 'a>;

/// Hands one work over between the reader and its own thread.
pub(crate) struct Post<'a> {
    slot: ArrayQueue<AnyWork<'a>>,
    /// Wakes the thread when its work is there.
    bell: Bell,
    /// Nanoseconds in which the thread had something to do.
    busy: AtomicU64,
    /// Whether its work polls a device.
    polls: AtomicBool,
}

/// All posts of a chain.
pub(crate) struct Posts<'a> {
    all: Vec<Post<'a>>,
    /// Whether the reader does all the work.
    is_alone: AtomicBool,
    /// Whether the reader has ended and returned all works.
    has_left: AtomicBool,
    /// Whether one thread may do all the work.
    may: bool,
    clock: Clock,
}

impl<'a> Post<'a> {
    /// One round of its work, which may move to a device or from it.
    fn round(&self, work: &mut AnyWork<'a>, control: &Control) -> bool {
        let worked = work.round(control);
        if worked {
            self.polls.store(work.polls(), Ordering::Relaxed);
        }
        worked
    }
}

impl<'a> Posts<'a> {
    /// A post for each of `works`. If `may`, the reader may do them all.
    pub(crate) fn new(works: Vec<AnyWork<'a>>, may: bool, clock: Clock) -> Self {
        let post = |work: AnyWork<'a>| {
            let (slot, polls) = (ArrayQueue::new(1), AtomicBool::new(work.polls()));
            let _ = slot.push(work);
            Post { slot, bell: Bell::default(), busy: AtomicU64::new(0), polls }
        };
        let all = works.into_iter().map(post).collect();
        let (is_alone, has_left) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { all, is_alone, has_left, may, clock }
    }

    /// The thread of work `number`.
    pub(crate) fn work(&self, number: usize, mut idle: Idle, control: &Control) -> Ended {
        let _guard = control.guard();
        if idle.is_live() {
            wake_on_time();
        }
        let post = &self.all[number];
        while let Some(mut work) = self.take(post) {
            while !work.is_finished() && !control.has_failed() {
                let began = self.now();
                if post.round(&mut work, control) {
                    if self.may {
                        post.busy.fetch_add(self.now() - began, Ordering::Relaxed);
                    }
                    idle.reset();
                } else if self.is_alone.load(Ordering::Relaxed) {
                    break;
                } else {
                    let limit = work.rest(idle.take_long());
                    idle.wait(limit);
                }
                work.answer(control);
            }
            if work.is_finished() || control.has_failed() {
                return work.end(control);
            }
            idle.reset();
            let _ = post.slot.push(work);
        }
        // It was lost in a panic.
        Ended::new(0)
    }

    /// Whether a work polls a device.
    fn polls(&self) -> bool {
        self.all.iter().any(|post| post.polls.load(Ordering::Relaxed))
    }

    /// The time, where it matters.
    fn now(&self) -> u64 {
        if self.may { self.clock.now() } else { 0 }
    }

    /// Waits for the work at `post`; there is none if the reader lost it.
    fn take(&self, post: &Post<'a>) -> Option<AnyWork<'a>> {
        loop {
            let has_left = self.has_left.load(Ordering::Acquire);
            if !self.is_alone.load(Ordering::Acquire)
                && let Some(work) = post.slot.pop()
            {
                return Some(work);
            }
            if has_left {
                return None;
            }
            if post.bell.arm() {
                post.bell.wait(LOOK_EVERY);
            }
        }
    }
}

/// The reader's side of [`Posts`].
pub(crate) struct Reader<'p, 'a> {
    posts: &'p Posts<'a>,
    is_alone: bool,
    /// The works that it has.
    works: Vec<Option<AnyWork<'a>>>,
    /// Since when it has found no rest.
    since: u64,
    /// Its own work beside other threads.
    busy: u64,
    /// Whether it has read all that waited, since the measurement began.
    is_ahead: bool,
    /// When a measurement of all threads began, and their work before it.
    window: (u64, u64),
}

impl<'p, 'a> Reader<'p, 'a> {
    /// Does all the work from now on if it may.
    pub(crate) fn new(posts: &'p Posts<'a>) -> Self {
        let (works, now) = (posts.all.iter().map(|_| None).collect(), posts.now());
        let (is_alone, busy, is_ahead, window) = (false, 0, false, (now, 0));
        let mut own = Self { posts, is_alone, works, since: now, busy, is_ahead, window };
        if posts.may && !posts.polls() {
            own.start();
        }
        own
    }

    /// One round of all the works that it has. Returns whether there was anything to do.
    pub(crate) fn round(&mut self, control: &Control) -> bool {
        if !self.is_alone {
            return false;
        }
        let mut worked = false;
        for (place, post) in self.works.iter_mut().zip(&self.posts.all) {
            // A panic drops it.
            let Some(mut work) = place.take().or_else(|| post.slot.pop()) else { continue };
            worked |= !work.is_finished() && post.round(&mut work, control);
            work.answer(control);
            *place = Some(work);
        }
        worked
    }

    /// There was nothing to do. Returns how long all may rest.
    pub(crate) fn rest(&mut self, is_long: bool) -> Duration {
        if !self.is_alone {
            return Duration::MAX;
        }
        let rest = |work: &mut Option<AnyWork<'_>>| match work {
            Some(work) => work.rest(is_long),
            // Its own thread still has it.
            None => Duration::from_micros(50),
        };
        self.works.iter_mut().map(rest).min().unwrap_or(Duration::MAX)
    }

    /// It continues after a rest, for which nothing waited if `is_ahead`.
    pub(crate) fn rested(&mut self, is_ahead: bool) {
        self.since = self.posts.now();
        self.is_ahead |= is_ahead;
    }

    /// After a round that began at `began`: asks for help, or does without.
    pub(crate) fn adapt(&mut self, began: u64, worked: bool) {
        if !self.posts.may {
            return;
        }
        let now = self.posts.now();
        if self.is_alone {
            let is_long = worked && now.saturating_sub(self.since) > ALONE_MAX;
            if is_long || self.posts.polls() {
                self.share();
                (self.window, self.is_ahead) = ((now, self.busy()), false);
            }
            return;
        }
        if worked {
            self.busy += now - began;
        }
        let (start, before) = self.window;
        if now - start > WINDOW {
            let all = self.busy();
            let is_light = self.is_ahead && (all - before) < (now - start) / 2;
            if is_light && !self.posts.polls() {
                self.start();
            }
            (self.window, self.is_ahead, self.since) = ((now, all), false, now);
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> u64 {
        self.posts.now()
    }

    fn busy(&self) -> u64 {
        let busy = |post: &Post<'_>| post.busy.load(Ordering::Relaxed);
        self.busy + self.posts.all.iter().map(busy).sum::<u64>()
    }

    /// Does all the work.
    fn start(&mut self) {
        self.is_alone = true;
        self.posts.is_alone.store(true, Ordering::Release);
    }

    /// Gives each work to its thread.
    fn share(&mut self) {
        self.is_alone = false;
        for (work, post) in self.works.iter_mut().zip(&self.posts.all) {
            if let Some(work) = work.take() {
                let _ = post.slot.push(work);
            }
        }
        self.posts.is_alone.store(false, Ordering::Release);
        self.posts.all.iter().for_each(|post| post.bell.ring());
    }
}

impl Drop for Reader<'_, '_> {
    fn drop(&mut self) {
        self.share();
        self.posts.has_left.store(true, Ordering::Release);
        self.posts.all.iter().for_each(|post| post.bell.ring());
    }
}
