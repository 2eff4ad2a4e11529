//! Ingress: pulls frames from a source, numbers and times them, and steers them into lanes' batches.
//!
//! Every frame gets the next number of the input; a tick, which tells functions the time, gets one too
//! and goes to every lane, so that it lies at the same place of the input on each. A source that can
//! wait is not asked while there is no room; one that can't loses frames here, counted, before
//! any work was spent on them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpline_io::{BURST_MAX, Burst, FRAME_LEN_MAX, Frame, Given, Source};
use warpline_packet::{Arrival, Batch, Headers, Instant, Kind, LinkType, Placer, Steering};

use crate::clock::Clock;
use crate::lane::Queue;
use crate::stats::Part;
use crate::{Chain, Control, Settings, lane_of};

/// The queue that frames are lost at which a source could not hold back.
const OVERLOAD_QUEUE: &str = "ingress";
/// The queue that frames are lost at which a lane's own source gave to the wrong lane.
const STEERING_QUEUE: &str = "steering";
/// Bursts of the source taken before anything else gets its turn.
const BURSTS: usize = 8;

/// What a call of [`Ingress::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done; call again.
    Worked,
    /// Nothing to do for at most this long: no frame, or no room.
    Idle(Duration),
    /// The end of the input went to every lane.
    Finished,
}

/// A lane as ingress sees it.
pub(crate) struct Feed {
    pub(crate) placer: Placer,
    pub(crate) pool: Queue,
    pub(crate) queue: Queue,
    open: Option<Batch>,
    /// The number of the first packet of the open batch.
    first: u64,
}

impl Feed {
    pub(crate) fn new(placer: Placer, pool: Queue, queue: Queue) -> Self {
        Self { placer, pool, queue, open: None, first: 0 }
    }

    /// Hands the open batch to the lane; says whether there was room, or nothing to hand over. One
    /// that has nothing yet stays.
    fn flush(&mut self) -> bool {
        let Some(batch) = self.open.take_if(|b| b.kind() != Kind::Packets || !b.is_empty()) else {
            return true;
        };
        self.open = self.queue.push(batch).err();
        self.open.is_none()
    }

    /// Puts a frame in the open batch, and hands the batch over when it is full. Says whether there
    /// was room. Inlined, as what is known of a frame then stays in registers.
    #[inline(always)]
    fn place(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        arrival: &Arrival,
        batch_packets: usize,
        clock: &Clock,
    ) -> bool {
        let is_open = self.open.as_ref().is_some_and(|b| b.takes_packets(batch_packets));
        if !is_open && !self.open_next(clock) {
            return false;
        }
        let Some(batch) = &mut self.open else { return false };
        let Ok(index) = batch.push(bytes, headers, arrival, &mut self.placer) else { return false };
        if index == 0 {
            self.first = arrival.ingress;
        }
        if index + 1 == batch_packets {
            self.flush();
        }
        true
    }

    /// Opens a batch, behind what an earlier hand-over found no room for.
    #[cold]
    #[inline(never)]
    fn open_next(&mut self, clock: &Clock) -> bool {
        if !self.flush() {
            return false;
        }
        if self.open.is_none() {
            self.open = self.pool.pop();
            if let Some(batch) = &mut self.open {
                batch.set_opened(clock.now());
            }
        }
        self.open.is_some()
    }
}

/// Something that every lane is told at the same place of the input.
struct Announcement {
    kind: Kind,
    ingress: u64,
    next_lane: usize,
}

/// Frames that found no room yet, copied out of their source.
#[derive(Default)]
struct Kept {
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
    fn keep(&mut self, frame: &Frame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame.bytes);
        self.heads.push_back(Head {
            bytes: start..self.bytes.len(),
            timestamp: frame.timestamp,
            wire_len: frame.wire_len,
            link: frame.link,
            interface: frame.interface,
        });
    }

    fn first(&self) -> Option<Frame<'_>> {
        self.heads.front().map(|head| Frame {
            bytes: &self.bytes[head.bytes.clone()],
            timestamp: head.timestamp,
            wire_len: head.wire_len,
            link: head.link,
            interface: head.interface,
        })
    }
}

/// One source and the lanes it feeds.
pub(crate) struct Ingress {
    source: Box<dyn Source>,
    desk: Desk,
}

/// Where frames are numbered, timed and handed out.
struct Desk {
    feeds: Vec<Feed>,
    steering: Steering,
    batch_packets: usize,
    drops_when_full: bool,
    /// The only lane, of how many, that this source feeds; steered over all of them otherwise.
    own: Option<(usize, usize)>,
    tick: Option<Duration>,
    next_tick: Instant,
    now: Instant,
    /// The next number of the input.
    ingress: u64,
    announcement: Option<Announcement>,
    kept: Kept,
    ended: bool,
    /// Reloads announced so far.
    reloads: u32,
    clock: Clock,
    part: Part,
}

impl Ingress {
    pub(crate) fn new(
        source: Box<dyn Source>,
        feeds: Vec<Feed>,
        own: Option<(usize, usize)>,
        chain: &Chain,
        settings: &Settings,
        clock: Clock,
    ) -> Self {
        let desk = Desk {
            feeds,
            steering: chain.steering.clone(),
            batch_packets: settings.batch_packets,
            drops_when_full: source.drops_when_full(),
            own,
            tick: chain.tick(),
            next_tick: Instant::ZERO,
            now: Instant::ZERO,
            ingress: 0,
            announcement: None,
            kept: Kept {
                bytes: Vec::with_capacity(FRAME_LEN_MAX),
                heads: VecDeque::with_capacity(BURST_MAX),
            },
            ended: false,
            reloads: 0,
            clock,
            part: Part::new(chain.instances.len()),
        };
        Self { source, desk }
    }

    /// Moves frames from the source to the lanes, as many as are there and find room, up to a burst.
    pub(crate) fn step(&mut self, control: &Control) -> Step {
        let read = self.desk.part.packets.read;
        let number = self.desk.ingress;
        let step = self.burst(control);
        if self.desk.part.packets.read > read {
            self.desk.part.touch(self.desk.clock.now());
            control.read.store(self.desk.part.packets.read, Ordering::Relaxed);
            control.set_progress(self.source.progress());
        }
        match step {
            // Whoever just had work looks again before it rests.
            Step::Idle(_) if self.desk.ingress > number => Step::Worked,
            step => step,
        }
    }

    /// What it counted, with the source's last words.
    pub(crate) fn finish(mut self) -> Part {
        self.desk.part.warnings.extend(self.source.warnings());
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
        if control.is_stopped() {
            return desk.end();
        }
        if desk.reloads != control.reloads.asked() && !desk.announce_reload(control) {
            return desk.blocked();
        }
        for _ in 0..BURSTS {
            let mut burst = Burst::new();
            match self.source.burst(&mut burst) {
                Ok(Given::Frames) => {
                    if !desk.take_all(&burst) {
                        return desk.blocked();
                    }
                }
                Ok(Given::Idle(wait)) => {
                    desk.flush();
                    return Step::Idle(wait);
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

impl Desk {
    /// No room: what is open goes ahead, so that no lane waits for a number that lies here.
    fn blocked(&mut self) -> Step {
        self.flush();
        Step::Idle(Duration::from_millis(1))
    }

    /// Hands over every open batch; says whether there was room for all.
    fn flush(&mut self) -> bool {
        let mut all = true;
        for feed in &mut self.feeds {
            all &= feed.flush();
        }
        all
    }

    /// Hands over batches that fill so slowly that the other lanes would have to wait for them.
    fn flush_late(&mut self) {
        let lag = (2 * self.batch_packets * self.feeds.len()) as u64;
        for feed in &mut self.feeds {
            if feed.open.is_some() && feed.first + lag < self.ingress {
                feed.flush();
            }
        }
    }

    fn end(&mut self) -> Step {
        self.ended = true;
        self.start_announcement(Kind::Finish);
        Step::Worked
    }

    /// Takes frames in. Says whether there was room for all; those that found none are kept.
    #[inline(always)]
    fn take_all(&mut self, frames: &[Frame<'_>]) -> bool {
        self.part.packets.read += frames.len() as u64;
        self.part.bytes_read += frames.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
        for (at, frame) in frames.iter().enumerate() {
            if !self.take(frame) {
                frames[at..].iter().for_each(|frame| self.kept.keep(frame));
                return false;
            }
        }
        true
    }

    /// Takes the frames in that found no room before, as far as they find some now; says whether none is
    /// left.
    fn take_kept(&mut self) -> bool {
        let mut kept = std::mem::take(&mut self.kept);
        while let Some(frame) = kept.first()
            && self.take(&frame)
        {
            kept.heads.pop_front();
        }
        if kept.heads.is_empty() {
            kept.bytes.clear();
        }
        self.kept = kept;
        self.kept.heads.is_empty()
    }

    /// Takes a frame in. Says no where it found no room and has to wait; one that can't is counted lost.
    #[inline(always)]
    fn take(&mut self, frame: &Frame<'_>) -> bool {
        self.now = self.now.max(frame.timestamp);
        if self.is_tick_due() {
            self.start_announcement(Kind::Tick(self.now));
            if !self.announce() {
                return false;
            }
        }
        // A longer one has no place in a slab, and would wait for it forever.
        let bytes = &frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)];
        let wire_len = frame.wire_len.max(frame.bytes.len() as u32);
        let mut headers = Headers::default();
        headers.find(bytes, frame.link, wire_len as usize);
        let steered = self.steering.steer(bytes, &headers);
        let arrival = Arrival {
            timestamp: self.now,
            captured: frame.timestamp,
            ingress: self.ingress,
            wire_len,
            link: frame.link,
            interface: frame.interface,
            shard: steered.shard,
            flow_hash: steered.flow_hash,
        };
        if self.own.is_some_and(|(lane, lanes)| lane_of(steered.shard, lanes) != lane) {
            // Its state is on another lane: nobody here may let it through.
            self.part.overloaded(STEERING_QUEUE, 1);
            return true;
        }
        let lane = lane_of(arrival.shard, self.feeds.len());
        let placed =
            self.feeds[lane].place(bytes, &headers, &arrival, self.batch_packets, &self.clock);
        self.ingress += u64::from(placed);
        placed || self.lose()
    }

    /// A frame found no room: says whether it is lost because of it.
    #[cold]
    #[inline(never)]
    fn lose(&mut self) -> bool {
        if self.drops_when_full {
            self.part.overloaded(OVERLOAD_QUEUE, 1);
        }
        self.drops_when_full
    }

    fn is_tick_due(&mut self) -> bool {
        let Some(every) = self.tick else { return false };
        let first = self.next_tick == Instant::ZERO;
        let due = !first && self.now >= self.next_tick;
        if first || due {
            self.next_tick = self.now.after(every);
            if self.next_tick <= self.now {
                // Time can't go on any more: no tick a packet.
                self.tick = None;
            }
        }
        due
    }

    /// Tells the lanes what is to be told, each behind what it got so far. Says whether all know.
    fn announce(&mut self) -> bool {
        let Some(announcement) = &mut self.announcement else { return true };
        while let Some(feed) = self.feeds.get_mut(announcement.next_lane) {
            if !feed.flush() {
                return false;
            }
            // A batch that was opened and found no room for a frame is still empty.
            let empty = feed.open.take().or_else(|| feed.pool.pop());
            let Some(mut batch) = empty else { return false };
            batch.set_opened(self.clock.now());
            batch.mark(announcement.kind, announcement.ingress);
            feed.open = Some(batch);
            feed.flush();
            announcement.next_lane += 1;
        }
        self.announcement = None;
        true
    }

    /// Tells the lanes that functions were built anew. Says whether all know.
    #[cold]
    fn announce_reload(&mut self, control: &Control) -> bool {
        self.reloads = control.reloads.asked();
        if let Some(chain) = control.reloads.chain() {
            self.steering = chain.steering.clone();
            self.start_announcement(Kind::Reload);
        }
        self.announce()
    }

    /// Begins to tell every lane `kind`, which takes the next number of the input.
    fn start_announcement(&mut self, kind: Kind) {
        self.announcement = Some(Announcement { kind, ingress: self.ingress, next_lane: 0 });
        self.ingress += 1;
    }
}
