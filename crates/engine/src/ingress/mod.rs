//! Ingress: takes frames from a source, numbers and times them, and steers them into lanes'
//! batches.
//!
//! Every frame gets the next number of the input. A tick gets one too and goes to every lane, so it
//! has the same place in the input on each. If there is no room, a source that can wait is not
//! asked. A source that cannot wait loses frames here, counted, before any work was spent on them.
//! An interface loses frames before ingress sees them. Its losses count as read and as overload, so
//! sums balance.

mod desk;
mod feed;
mod fragments;
mod kept;
mod losses;
mod packet_clock;
mod sampled;

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpline_io::{Burst, Given, Source, wait_readable};

use self::desk::Desk;
pub(crate) use self::feed::Feed;
use self::losses::Losses;
pub use self::packet_clock::TimeCounts;
pub(crate) use self::sampled::Sampled;
use crate::clock::Clock;
use crate::control::TELL_EVERY;
use crate::stats::{EndedBy, Part};
use crate::{Chain, Control, Deployment, Settings};

/// Bursts of the source taken before anything else gets its turn.
const BURSTS: usize = 8;

/// The outcome of a call of [`Ingress::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done; call again.
    Worked,
    /// The source has no frame for at most this long.
    Idle(Duration),
    /// There is no room for a frame; ask again after at most this long.
    Blocked(Duration),
    /// The end of the input went to every lane.
    Finished,
}

/// One source and the lanes it feeds.
pub(crate) struct Ingress {
    source: Box<dyn Source>,
    desk: Desk,
    /// Descriptors that become readable when frames arrive; none of a source that is not live.
    descriptors: Vec<RawFd>,
    /// Packets read that were published.
    told: u64,
    losses: Losses,
    /// Whether it found no room, and has not read all that waited since.
    is_full: bool,
    /// When it looked at the interfaces.
    looked: Instant,
}

/// How often a paused source looks whether it is resumed.
const PAUSED_LOOK: Duration = Duration::from_millis(1);
/// The longest wait for frames, after which requests to stop or reload are seen.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// The queue that frames are lost at before an interface is read.
const RING_QUEUE: &str = "ring";

impl Ingress {
    pub(crate) fn new(
        mut source: Box<dyn Source>,
        feeds: Vec<Feed>,
        own: Option<(usize, usize)>,
        chain: &Chain,
        settings: &Settings,
        clock: Clock,
    ) -> Self {
        let desk = Desk::new(feeds, own, chain, settings, source.drops_when_full(), clock);
        let mut descriptors = Vec::new();
        if let Some(live) = source.live() {
            live.descriptors(&mut descriptors);
        }
        let (losses, looked) = (Losses::default(), Instant::now());
        Self { source, desk, descriptors, told: 0, losses, is_full: false, looked }
    }

    /// Reports of losses name the stages of `deployment`.
    pub(crate) fn naming(mut self, deployment: &Deployment) -> Self {
        self.losses = Losses::of(deployment);
        self
    }

    /// Moves frames from the source to the lanes, as many as are available and find room, up to a
    /// burst.
    pub(crate) fn step(&mut self, control: &Control) -> Step {
        let read = self.desk.part.packets.read;
        let number = self.desk.ingress;
        let step = self.burst(control);
        self.note_room(step, control);
        if self.desk.part.packets.read > read {
            self.desk.part.touch(self.desk.clock.now());
        }
        let untold = self.desk.part.packets.read - self.told;
        if untold >= TELL_EVERY || (untold > 0 && step != Step::Worked) {
            control.read.fetch_add(untold, Ordering::Relaxed);
            control.set_progress(self.source.progress());
            self.told += untold;
            self.take_losses();
        }
        if self.losses.has_more(self.desk.part.packets.overload) {
            let stage = if control.is_paused() { None } else { self.desk.held_by() };
            let news = self.losses.report(self.desk.lost(), stage, self.desk.clock.now());
            news.into_iter().for_each(|news| control.tell_again(news));
        }
        match step {
            // Whoever just had work looks again before it rests.
            Step::Idle(_) | Step::Blocked(_) if self.desk.ingress > number => Step::Worked,
            step => step,
        }
    }

    /// Notes that there is no room, until the source has nothing more.
    #[inline]
    fn note_room(&mut self, step: Step, control: &Control) {
        let is_full = match step {
            Step::Worked => return,
            Step::Blocked(_) => true,
            Step::Idle(_) | Step::Finished => false,
        };
        if is_full != self.is_full {
            self.is_full = is_full;
            control.peers.set_full(is_full);
        }
    }

    /// Whether the source reads interfaces.
    pub(crate) fn is_live(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Waits for frames of interfaces, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration, control: &Control) {
        self.examine(control);
        wait_readable(&self.descriptors, limit.min(WAIT_MAX));
    }

    /// Looks at the interfaces now and then while it does not wait for them.
    pub(crate) fn look(&mut self, control: &Control) {
        if self.is_live() && self.looked.elapsed() >= WAIT_MAX {
            self.examine(control);
        }
    }

    /// Counts losses of interfaces, and reports their events.
    fn examine(&mut self, control: &Control) {
        self.take_losses();
        self.looked = Instant::now();
        if let Some(live) = self.source.live() {
            live.events(&mut |event| control.tell_again(event));
        }
    }

    /// Counts frames that interfaces lost.
    fn take_losses(&mut self) {
        let (part, has_ports) = (&mut self.desk.part, self.desk.has_ports);
        let Some(live) = self.source.live() else { return };
        live.losses(&mut |port, count| {
            part.packets.read += count;
            part.overloaded(RING_QUEUE, count);
            if has_ports {
                part.port(port).lose(count);
            }
        });
    }

    /// Its counts so far.
    pub(crate) fn counts(&self) -> Part {
        let mut part = self.desk.part.clone();
        part.time = self.desk.time.counts;
        part
    }

    /// Its counts, with the source's final messages.
    pub(crate) fn finish(mut self) -> Part {
        self.take_losses();
        self.desk.part.errors.extend(self.source.finish());
        self.desk.part.warnings.extend(self.source.warnings());
        self.desk.part.time = self.desk.time.counts;
        self.desk.part
    }

    fn burst(&mut self, control: &Control) -> Step {
        let desk = &mut self.desk;
        if !desk.announce() || !desk.take_kept() {
            return desk.blocked();
        }
        if desk.ended {
            // The end itself may still wait for room in a lane's queue.
            return if desk.flush() { Step::Finished } else { desk.blocked() };
        }
        if !desk.ending && control.is_stopped() {
            desk.part.ended_by = EndedBy::Stop;
            desk.ending = true;
        }
        if desk.ending {
            return desk.end();
        }
        if control.is_paused() {
            return match desk.rest(PAUSED_LOOK) {
                // Frames may be there: it is no wait for frames.
                Step::Idle(limit) => Step::Blocked(limit),
                step => step,
            };
        }
        if desk.reloads != control.reloads.asked() && !desk.announce_reload(control) {
            return desk.blocked();
        }
        for _ in 0..BURSTS {
            let mut burst = Burst::new();
            match self.source.burst(&mut burst) {
                Ok(Given::Frames) => {
                    if !desk.take_all(burst.frames()) {
                        return desk.blocked();
                    }
                    if desk.has_kept() {
                        break;
                    }
                }
                Ok(Given::Idle(wait)) => {
                    drop(burst);
                    if let Some(live) = self.source.live()
                        && !desk.pass(live.now())
                    {
                        return desk.blocked();
                    }
                    return desk.rest(wait);
                }
                Ok(Given::End) => return desk.end(),
                Err(error) => {
                    desk.part.errors.push(format!("input: {error}"));
                    return desk.end();
                }
            }
        }
        desk.flush_late();
        Step::Worked
    }
}
