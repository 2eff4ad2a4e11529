//! Numbers frames, gives them times, and hands them to the lanes that have their state.

mod live;
mod reload;
mod waiting;

use std::time::Duration;

use warpline_io::{BURST_MAX, FRAME_LEN_MAX, Frame};
use warpline_launch::Clock;
use warpline_packet::{BatchKind, FlowHasher, Instant, Steering};

use super::fragments::Fragments;
use super::held_frames::HeldFrames;
use super::lane_writer::{LaneWriter, SteeredFrame};
use super::packet_clock::PacketClock;
use super::{IngressStep, RING_QUEUE};
use crate::stats::ThreadStats;
use crate::{Chain, Settings, lane_of};
use live::Silence;

/// The queue that frames are lost at which a source could not hold back.
const OVERLOAD_QUEUE: &str = "ingress";
/// The queue that frames are lost at which a lane's own source gave to the wrong lane.
const STEERING_QUEUE: &str = "steering";
/// How long frames wait for the packets that vote on their time, if the source pauses.
const HELD_MAX: Duration = Duration::from_secs(1);

/// An announcement to every lane, at the same place of the input.
struct Announcement {
    kind: BatchKind,
    ingress: u64,
    next_lane: usize,
}

/// Where frames are numbered, timed and handed out.
pub(super) struct Steerer {
    writers: Vec<LaneWriter>,
    steering: Steering,
    hasher: FlowHasher,
    batch_packets: usize,
    drops_when_full: bool,
    /// Whether the chain has ports, whose packets are counted.
    pub(super) has_ports: bool,
    /// The only lane, of how many, that this source feeds; steered over all of them otherwise.
    own: Option<(usize, usize)>,
    tick: Option<Duration>,
    next_tick: Instant,
    /// The time of the frame that was looked at last, or of a live source since.
    last_time: Instant,
    /// The clock of packets' timestamps.
    pub(super) time: PacketClock,
    /// The number of the input that is next.
    pub(super) ingress: u64,
    announcement: Option<Announcement>,
    /// The headers, shards and lanes of a burst's frames.
    found: Box<[SteeredFrame; BURST_MAX]>,
    /// The times that functions go by, with them.
    times: Box<[Instant; BURST_MAX]>,
    kept: HeldFrames,
    /// Room for frames that are kept while those before are taken.
    spare: HeldFrames,
    /// Where functions need the first fragment of a packet before the others.
    fragments: Option<Fragments>,
    silence: Silence,
    /// Whether a frame of the burst at hand waits.
    has_waiting: bool,
    /// Frames whose time is not decided: they come after those that are kept.
    held: HeldFrames,
    /// When the source had none for the first time since there are such.
    held_since: Option<u64>,
    /// There are no more frames, but those that are held may not be on their way.
    pub(super) ending: bool,
    pub(super) ended: bool,
    /// Reloads announced so far.
    pub(super) reloads: u32,
    pub(super) clock: Clock,
    pub(super) part: ThreadStats,
}

impl Steerer {
    pub(super) fn new(
        writers: Vec<LaneWriter>,
        own: Option<(usize, usize)>,
        chain: &Chain,
        settings: &Settings,
        drops_when_full: bool,
        clock: Clock,
    ) -> Self {
        Self {
            writers,
            steering: chain.steering.clone(),
            hasher: FlowHasher::new(chain.seed()),
            batch_packets: settings.batch_packets,
            drops_when_full,
            has_ports: !chain.ports().is_empty(),
            own,
            tick: chain.tick(),
            next_tick: Instant::ZERO,
            last_time: Instant::ZERO,
            time: PacketClock::default(),
            ingress: 0,
            announcement: None,
            found: Box::new([SteeredFrame::default(); BURST_MAX]),
            times: Box::new([Instant::ZERO; BURST_MAX]),
            kept: HeldFrames::new(),
            spare: HeldFrames::new(),
            fragments: chain.orders_fragments().then(Fragments::new),
            silence: Silence::default(),
            has_waiting: false,
            held: HeldFrames::default(),
            held_since: None,
            ending: false,
            ended: false,
            reloads: 0,
            clock,
            part: ThreadStats::new(chain.instances.len()),
        }
    }

    /// No room: what is open goes ahead, so that no lane waits for a number that lies here.
    pub(super) fn blocked(&mut self) -> IngressStep {
        self.flush();
        IngressStep::Blocked(Duration::from_millis(1))
    }

    /// Hands over every open batch; returns whether there was room for all.
    pub(super) fn flush(&mut self) -> bool {
        let mut all = true;
        for writer in &mut self.writers {
            all &= writer.flush();
        }
        all
    }

    /// Hands over batches that fill so slowly that the other lanes would have to wait for them.
    pub(super) fn flush_late(&mut self) {
        let lag = (2 * self.batch_packets * self.writers.len()) as u64;
        for writer in &mut self.writers {
            if writer.open.is_some() && writer.first + lag < self.ingress {
                writer.flush();
            }
        }
    }

    /// The source has nothing for `wait`: what is open goes ahead, and in time what is held.
    pub(super) fn rest(&mut self, wait: Duration) -> IngressStep {
        let now = self.clock.now();
        let gathers = self.writers.iter_mut().map(|writer| writer.rest(now)).min();
        let wait = wait.min(gathers.unwrap_or(wait));
        if self.held.is_empty() {
            return IngressStep::Idle(wait);
        }
        let waited = Duration::from_nanos(now - *self.held_since.get_or_insert(now));
        match HELD_MAX.checked_sub(waited).filter(|left| !left.is_zero()) {
            Some(left) => IngressStep::Idle(wait.min(left)),
            None if self.take_held(true) => IngressStep::Worked,
            None => self.blocked(),
        }
    }

    /// No more frames come.
    pub(super) fn end(&mut self) -> IngressStep {
        self.ending = true;
        // Frames that are kept may be fragments that have yet to wait.
        if !self.take_held(true) || !self.take_kept() {
            return self.blocked();
        }
        if let Some(fragments) = &mut self.fragments {
            fragments.end(self.last_time);
            fragments.move_ready(&mut self.kept);
        }
        if !self.take_kept() {
            return self.blocked();
        }
        debug_assert!(self.fragments.as_ref().is_none_or(Fragments::is_empty));
        self.ended = true;
        self.start_announcement(BatchKind::Finish);
        IngressStep::Worked
    }

    /// Takes frames in. Returns whether there was room for all; frames without room are kept.
    pub(super) fn take_all(&mut self, frames: &[Frame<'_>]) -> bool {
        self.part.packets.read += frames.len() as u64;
        if self.has_ports {
            frames.iter().for_each(|one| self.part.port(one.interface).read(one.bytes.len()));
        }
        self.held_since = None;
        self.silence = Silence::default();
        if !self.held.is_empty() {
            self.hold(frames);
            return self.take_held(false);
        }
        let timed = self.time(frames, false);
        let (frames, undecided) = frames.split_at(timed);
        self.hold(undecided);
        let bytes = self.find(frames);
        self.part.bytes_read += bytes as u64;
        // A frame that is too long for a slab would wait for room forever. Sources give at most
        // `FRAME_LEN_MAX` bytes a burst. If one gives more, its frames are kept, and cut there.
        let now = self.order_fragments(frames, &[]);
        let taken = if bytes > FRAME_LEN_MAX { 0 } else { self.take(&frames[..now]) };
        self.keep(frames, (taken, now), &[]);
        taken == now
    }

    /// Gives the frames of a burst their times, as far as these are decided; returns how many.
    #[inline(never)]
    fn time(&mut self, frames: &[Frame<'_>], is_all: bool) -> usize {
        self.time.time(frames, is_all, &mut *self.times)
    }

    /// Packets were lost before their lanes were known; each lane gets an equal part of them.
    pub(super) fn lose(&mut self, packets: u64) {
        let lanes = self.writers.len().max(1) as u64;
        for (lane, writer) in self.writers.iter().enumerate() {
            writer.lose((packets + lane as u64) / lanes);
        }
        self.part.packets.read += packets;
        self.part.overloaded(RING_QUEUE, packets);
    }

    /// Takes in frames that [`Steerer::find`] has seen, and returns their number: those that follow
    /// found no room and have to wait. If the source can't wait, they are counted as lost instead.
    fn take(&mut self, frames: &[Frame<'_>]) -> usize {
        let mut at = 0;
        while let Some(found) = self.found[..frames.len()].get(at) {
            let lane = found.lane;
            if found.waits {
                at += 1;
                continue;
            }
            if !self.is_own(found) {
                // Its state is on another lane, so no function here may let it through.
                self.part.overloaded(STEERING_QUEUE, 1);
                at += 1;
                continue;
            }
            let end = self.run_end(frames, at);
            if end == at {
                // A tick comes first.
                if !self.announce() {
                    return at;
                }
                continue;
            }
            let known = (&self.found[at..end], &self.times[at..end]);
            let writer = &mut self.writers[usize::from(lane)];
            let placed = writer.place(&frames[at..end], known, &mut self.ingress, &self.clock);
            at += placed;
            if at < end {
                if !self.drops_when_full {
                    return at;
                }
                writer.lose(1);
                self.part.overloaded(OVERLOAD_QUEUE, 1);
                at += 1;
            }
        }
        frames.len()
    }

    /// Finds the headers and lanes of a burst's frames, and returns their bytes. It is a loop of
    /// its own because timing and placing need all registers too.
    #[inline(never)]
    fn find(&mut self, frames: &[Frame<'_>]) -> usize {
        let (hasher, found) = (self.hasher, &mut self.found[..frames.len()]);
        let mut find = |steering: &Steering| {
            let each = frames.iter().zip(&mut *found);
            each.fold(0, |bytes, (frame, found)| {
                found.read(frame, steering, &hasher);
                bytes + frame.bytes.len()
            })
        };
        let bytes = match &self.steering {
            // The usual key gets a loop of its own, in which the compiler knows the key.
            Steering::AddressPair => find(&Steering::AddressPair),
            other => find(other),
        };
        if self.writers.len() > 1 {
            for found in &mut self.found[..frames.len()] {
                found.lane = lane_of(found.steered.shard, self.writers.len()) as u8;
            }
        }
        bytes
    }

    /// The end of the frames from `at` on that go to one lane without a tick before any of them.
    /// Returns `at` itself if an announcement was started that comes first.
    fn run_end(&mut self, frames: &[Frame<'_>], at: usize) -> usize {
        let mut end = frames.len();
        if self.has_waiting {
            let waits = self.found[at..end].iter().position(|found| found.waits);
            end = waits.map_or(end, |count| at + count);
        }
        if self.writers.len() > 1 || self.own.is_some_and(|(_, lanes)| lanes > 1) {
            let same = |found: &SteeredFrame| {
                let first = &self.found[at];
                found.lane == first.lane && self.is_own(found)
            };
            end = self.found[at..end].iter().position(|f| !same(f)).map_or(end, |n| at + n);
        }
        if self.tick.is_none() {
            return end;
        }
        let now = self.times[at];
        if self.next_tick == Instant::ZERO {
            self.set_next_tick(now);
        }
        match self.times[at..end].iter().position(|now| *now >= self.next_tick) {
            Some(0) => {
                self.start_announcement(BatchKind::Tick { now, captured: frames[at].timestamp });
                self.set_next_tick(now);
                at
            }
            Some(before) => at + before,
            None => end,
        }
    }

    fn is_own(&self, found: &SteeredFrame) -> bool {
        self.own.is_none_or(|(own, lanes)| lane_of(found.steered.shard, lanes) == own)
    }

    /// Sets when the next tick is due, counted from `now`.
    fn set_next_tick(&mut self, now: Instant) {
        let Some(every) = self.tick else { return };
        self.next_tick = now.after(every);
        if self.next_tick <= now {
            // Time has reached its maximum: without this, every packet would start a tick.
            self.tick = None;
        }
    }

    /// Sends the announcement to the lanes, each after everything it got so far. Returns whether
    /// all have it.
    pub(super) fn announce(&mut self) -> bool {
        let Some(announcement) = &mut self.announcement else { return true };
        while let Some(writer) = self.writers.get_mut(announcement.next_lane) {
            if !writer.announce(announcement.kind, announcement.ingress, &self.clock) {
                return false;
            }
            announcement.next_lane += 1;
        }
        self.announcement = None;
        true
    }

    /// Begins to announce `kind` to every lane. It takes the next number of the input.
    fn start_announcement(&mut self, kind: BatchKind) {
        self.announcement = Some(Announcement { kind, ingress: self.ingress, next_lane: 0 });
        self.ingress += 1;
    }
}
