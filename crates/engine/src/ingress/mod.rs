//! Ingress: takes frames from a source, numbers and times them, and steers them into lanes'
//! batches.
//!
//! Every frame gets the next number of the input. A tick gets one too and goes to every lane, so it
//! has the same place in the input on each. If there is no room, a source that can wait is not
//! asked. A source that cannot wait loses frames here, counted, before any work was spent on them.
//! An interface loses frames before ingress sees them. Its losses count as read and as overload, so
//! sums balance.

mod fragments;
mod held_frames;
mod lane_writer;
mod losses;
mod packet_clock;
mod sampled;
mod steerer;

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpline_io::{Burst, Given, Source, wait_readable};
use warpline_launch::Clock;

pub(crate) use self::lane_writer::LaneWriter;
use self::losses::Losses;
pub use self::packet_clock::TimeCounts;
pub(crate) use self::sampled::Sampled;
use self::steerer::Steerer;
use crate::control::REPORT_EVERY;
use crate::stats::{EndedBy, Packets, ThreadStats};
use crate::{Chain, Control, Deployment, Settings};

/// Bursts of the source taken before anything else gets its turn.
const BURSTS: usize = 8;

/// The outcome of a call of [`Ingress::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IngressStep {
    /// Something was done; call again.
    Worked,
    /// Frames were read, and the source has no more for at most this long.
    Emptied(Duration),
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
    steerer: Steerer,
    /// Descriptors that become readable when frames arrive; none of a source that is not live.
    descriptors: Vec<RawFd>,
    /// Packets that were published.
    reported: Packets,
    /// Packets read at the last [`Self::take_frames`].
    taken: u64,
    losses: Losses,
    /// Whether it found no room, and has not read all that waited since.
    is_full: bool,
    /// Meanwhile, by port, a bit if all its frames were read.
    emptied: u64,
    /// When it looked at the interfaces.
    looked: Instant,
    /// When it asked them for losses, by the clock.
    counted: u64,
}

/// How often a paused source looks whether it is resumed.
const PAUSED_LOOK: Duration = Duration::from_millis(1);
/// The longest wait for frames, after which requests to stop or reload are seen.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How often losses of interfaces are counted while frames come, in nanoseconds: it takes a system
/// call for each.
const COUNT_EVERY: u64 = 10_000_000;
/// The queue that frames are lost at before an interface is read.
const RING_QUEUE: &str = "ring";

impl Ingress {
    pub(crate) fn new(
        mut source: Box<dyn Source>,
        writers: Vec<LaneWriter>,
        own: Option<(usize, usize)>,
        chain: &Chain,
        settings: &Settings,
        clock: Clock,
    ) -> Self {
        let steerer = Steerer::new(writers, own, chain, settings, source.drops_when_full(), clock);
        let mut descriptors = Vec::new();
        if let Some(live) = source.live() {
            live.descriptors(&mut descriptors);
        }
        let (losses, looked) = (Losses::default(), Instant::now());
        Self {
            source,
            steerer,
            descriptors,
            reported: Packets::default(),
            taken: 0,
            losses,
            is_full: false,
            emptied: 0,
            looked,
            counted: 0,
        }
    }

    /// Reports of losses name the stages of `deployment`.
    pub(crate) fn naming(mut self, deployment: &Deployment) -> Self {
        self.losses = Losses::of(deployment);
        self
    }

    /// Moves frames from the source to the lanes, as many as are available and find room, up to a
    /// burst.
    pub(crate) fn step(&mut self, control: &Control) -> IngressStep {
        let read = self.steerer.part.packets.read;
        let number = self.steerer.ingress;
        let step = self.burst(control);
        self.note_room(step, control);
        if self.steerer.part.packets.read > read {
            self.steerer.part.touch(self.steerer.clock.now());
        }
        let unreported = self.steerer.part.packets.read - self.reported.read;
        if unreported >= REPORT_EVERY || (unreported > 0 && step != IngressStep::Worked) {
            self.publish(control);
            control.set_progress(self.source.progress());
            if self.steerer.clock.now() - self.counted >= COUNT_EVERY {
                self.take_losses();
                self.look(control);
            }
        }
        if self.losses.has_more(self.steerer.part.packets.overload) {
            let stage = if control.is_paused() { None } else { self.steerer.held_by() };
            let message = self.losses.report(self.steerer.lost(), stage, self.steerer.clock.now());
            message.into_iter().for_each(|message| control.report_again(message));
        }
        match step {
            IngressStep::Idle(limit) if self.steerer.ingress > number => {
                IngressStep::Emptied(limit)
            }
            // A thread that just had work looks again before it rests.
            IngressStep::Blocked(_) if self.steerer.ingress > number => IngressStep::Worked,
            step => step,
        }
    }

    /// Notes that there is no room, until the source has nothing more.
    #[inline]
    fn note_room(&mut self, step: IngressStep, control: &Control) {
        let is_full = match step {
            IngressStep::Worked if !self.is_full => return,
            IngressStep::Worked | IngressStep::Blocked(_) => true,
            IngressStep::Emptied(_) | IngressStep::Idle(_) | IngressStep::Finished => false,
        };
        let emptied = match self.source.live().filter(|_| is_full && control.peers.is_linked()) {
            Some(live) => live.emptied(),
            None => 0,
        };
        if (is_full, emptied) != (self.is_full, self.emptied) {
            (self.is_full, self.emptied) = (is_full, emptied);
            control.peers.set_full(is_full, emptied);
        }
    }

    /// Whether frames come from interfaces, or as if they did.
    pub(crate) fn is_paced(&self) -> bool {
        self.is_live() || self.source.is_paced()
    }

    /// Whether the source reads interfaces.
    pub(crate) fn is_live(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Waits for frames of interfaces, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration, control: &Control) {
        self.look(control);
        // With an error every wait ends at once.
        if wait_readable(&self.descriptors, limit.min(WAIT_MAX)) {
            self.examine(control);
        }
    }

    /// Looks at the interfaces now and then.
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
            live.events(&mut |event| control.report_again(event));
        }
    }

    fn publish(&mut self, control: &Control) {
        let packets = &self.steerer.part.packets;
        control.read.fetch_add(packets.read - self.reported.read, Ordering::Relaxed);
        control.publish_settled(packets, &mut self.reported);
    }

    /// Counts and publishes what was lost last.
    pub(crate) fn end(&mut self, control: &Control) {
        self.take_losses();
        self.publish(control);
    }

    /// Counts frames that interfaces lost.
    fn take_losses(&mut self) {
        self.counted = self.steerer.clock.now();
        let steerer = &mut self.steerer;
        let mut lose = |port, count| {
            steerer.lose(count);
            if steerer.has_ports {
                steerer.part.port(port).lose(count);
            }
        };
        self.source.take_lost(&mut lose);
        if let Some(live) = self.source.live() {
            live.losses(&mut lose);
        }
    }

    /// Frames read since the last call.
    pub(crate) fn take_frames(&mut self) -> u64 {
        let read = self.steerer.part.packets.read;
        read - std::mem::replace(&mut self.taken, read)
    }

    /// Its counts so far.
    pub(crate) fn counts(&self) -> ThreadStats {
        let mut part = self.steerer.part.clone();
        part.time = self.steerer.time.counts;
        part
    }

    /// Its counts, with the source's final messages.
    pub(crate) fn finish(mut self) -> ThreadStats {
        self.take_losses();
        self.steerer.part.errors.extend(self.source.finish());
        self.steerer.part.warnings.extend(self.source.warnings());
        self.steerer.part.time = self.steerer.time.counts;
        self.steerer.part
    }

    fn burst(&mut self, control: &Control) -> IngressStep {
        let steerer = &mut self.steerer;
        if !steerer.announce() || !steerer.take_kept() {
            return steerer.blocked();
        }
        if steerer.ended {
            // The end itself may still wait for room in a lane's queue.
            return if steerer.flush() { IngressStep::Finished } else { steerer.blocked() };
        }
        if !steerer.ending && control.is_stopped() {
            steerer.part.ended_by = EndedBy::Stop;
            steerer.ending = true;
        }
        if steerer.ending {
            return steerer.end();
        }
        if steerer.reloads != control.reloads.asked() {
            control.reloads.deployment().iter().for_each(|new| self.losses.follow(new));
            if !steerer.announce_reload(control) {
                return steerer.blocked();
            }
        }
        if control.is_paused() {
            return match steerer.rest(PAUSED_LOOK) {
                // Frames may be there: it is no wait for frames.
                IngressStep::Idle(limit) => IngressStep::Blocked(limit),
                step => step,
            };
        }
        for _ in 0..BURSTS {
            let mut burst = Burst::new();
            match self.source.burst(&mut burst) {
                Ok(Given::Frames) => {
                    if !steerer.take_all(burst.frames()) {
                        return steerer.blocked();
                    }
                    if steerer.has_kept() {
                        break;
                    }
                }
                Ok(Given::Idle(wait)) => {
                    drop(burst);
                    if let Some(live) = self.source.live()
                        && !steerer.pass(live.now())
                    {
                        return steerer.blocked();
                    }
                    if !steerer.expire_fragments() {
                        return steerer.blocked();
                    }
                    return steerer.rest(wait);
                }
                Ok(Given::End) => return steerer.end(),
                Err(error) => {
                    steerer.part.errors.push(format!("input: {error}"));
                    return steerer.end();
                }
            }
        }
        steerer.flush_late();
        IngressStep::Worked
    }
}
