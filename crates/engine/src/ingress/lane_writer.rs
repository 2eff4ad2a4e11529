//! The entrance of a lane: places frames in its arena and hands full batches to its queue.

use warpline_io::Frame;
use warpline_launch::Clock;
use warpline_packet::{
    Arrival, Batch, BatchKind, FlowHasher, Headers, Instant, Placer, Steered, Steering,
};

use std::sync::Arc;

use crate::moves::NextLanes;
use crate::queue::Queue;

/// A lane as ingress sees it.
pub(crate) struct LaneWriter {
    placer: Placer,
    pool: Queue,
    /// Batches that came back from the pool. The last is used first, so that few are in use while
    /// few are needed.
    #[expect(clippy::vec_box, reason = "it is swapped with every batch")]
    idle: Vec<Box<Batch>>,
    queue: Queue,
    pub(super) open: Option<Box<Batch>>,
    /// Packets that the open batch still takes.
    room: usize,
    /// The number of its first packet.
    pub(super) first: u64,
    batch_packets: usize,
    /// Its successor after an announced reload, if functions move.
    next: Option<Next>,
}

/// The entrance of a lane after a move.
struct Next {
    writer: Box<LaneWriter>,
    lane: usize,
    lanes: Arc<NextLanes>,
}

impl LaneWriter {
    pub(crate) fn new(placer: Placer, pool: Queue, queue: Queue, batch_packets: usize) -> Self {
        let idle = Vec::with_capacity(pool.len());
        Self { placer, pool, idle, queue, open: None, room: 0, first: 0, batch_packets, next: None }
    }

    /// The reload that is announced next moves functions: `lanes` has the entrance of `lane` for
    /// all later packets.
    pub(super) fn prepare_move(&mut self, lane: usize, lanes: &Arc<NextLanes>) {
        let next = |writer| Next { writer, lane, lanes: Arc::clone(lanes) };
        self.next = lanes.take_writer(lane).map(next);
    }

    /// The stage for which its lane takes nothing.
    pub(super) fn held_by(&self) -> Option<usize> {
        self.queue.held_by()
    }

    /// Packets for its lane are lost, because it has no room.
    pub(super) fn lose(&self, packets: u64) {
        self.queue.lose(packets);
    }

    /// Hands the open batch to the lane; returns whether there was room, or nothing to hand over.
    /// An empty one stays open.
    pub(super) fn flush(&mut self) -> bool {
        let Some(batch) = &mut self.open else { return true };
        batch.compare();
        if batch.kind() == BatchKind::Packets && batch.is_empty() {
            return true;
        }
        if self.queue.room() > 0 {
            if batch.kind() == BatchKind::Reload && self.next.is_some() {
                return self.switch();
            }
            self.open = self.open.take().and_then(|batch| self.queue.push(batch).err());
        }
        let open = self.open.as_ref().filter(|batch| batch.kind() == BatchKind::Packets);
        self.room = open.map_or(0, |batch| self.batch_packets - batch.len());
        self.open.is_none()
    }

    /// Hands over an announced move, and continues with the new memory.
    #[cold]
    fn switch(&mut self) -> bool {
        let (Some(marker), Some(next)) = (self.open.take(), self.next.take()) else { return true };
        let (Next { mut writer, lane, lanes }, queue) = (next, Arc::clone(&self.queue));
        std::mem::swap(self, &mut writer);
        lanes.leave_writer(lane, writer);
        // The caller of the move frees it, once this is on its way.
        drop(lanes);
        let pushed = queue.push(marker);
        debug_assert!(pushed.is_ok(), "room was asked for");
        true
    }

    /// Puts frames in open batches, and hands over those that are full. Each frame comes with its
    /// parsed headers and its time for functions. Returns how many found room.
    #[inline(always)]
    pub(super) fn place(
        &mut self,
        frames: &[Frame<'_>],
        (found, times): (&[SteeredFrame], &[Instant]),
        next: &mut u64,
        clock: &Clock,
    ) -> usize {
        let mut placed = 0;
        while placed < frames.len() && (self.room > 0 || self.open_next(clock)) {
            let Some(batch) = &mut self.open else { break };
            if self.room == self.batch_packets {
                self.first = *next;
            }
            let run = placed..frames.len().min(placed + self.room);
            let frames = frames[run.clone()].iter().zip(&found[run.clone()]).zip(&times[run]);
            let first = *next;
            let rows = frames.enumerate().map(|(at, ((frame, found), now))| {
                (frame.bytes, &found.headers, found.arrival(frame, *now, first + at as u64))
            });
            let Ok(count) = batch.place(rows, &mut self.placer) else { break };
            (placed, *next) = (placed + count, *next + count as u64);
            self.room -= count;
            if self.room == 0 {
                self.flush();
            }
        }
        placed
    }

    /// Opens a batch, after the packets that had no room at an earlier hand-over.
    #[cold]
    #[inline(never)]
    fn open_next(&mut self, clock: &Clock) -> bool {
        if !self.flush() {
            return false;
        }
        if self.open.is_none() {
            self.open = self.take_idle();
        }
        let Some(batch) = &mut self.open else { return false };
        batch.set_opened(clock.now());
        self.room = self.batch_packets;
        true
    }

    /// An idle batch.
    fn take_idle(&mut self) -> Option<Box<Batch>> {
        while let Some(batch) = self.pool.pop() {
            self.idle.push(batch);
        }
        self.idle.pop()
    }

    /// Hands over a batch of `kind`, after everything the lane got so far; returns whether there
    /// was room.
    pub(super) fn announce(&mut self, kind: BatchKind, ingress: u64, clock: &Clock) -> bool {
        if !self.flush() {
            return false;
        }
        // A batch that was opened and found no room for a frame is still empty.
        let Some(mut batch) = self.open.take().or_else(|| self.take_idle()) else { return false };
        batch.set_opened(clock.now());
        batch.mark(kind, ingress);
        self.open = Some(batch);
        self.flush();
        true
    }
}

/// The results of parsing and steering a frame, before it is placed.
#[derive(Clone, Copy, Default)]
pub(super) struct SteeredFrame {
    pub(super) headers: Headers,
    pub(super) steered: Steered,
    /// The lane that holds its shard.
    pub(super) lane: u8,
    /// Whether it is a fragment that waits for the first of its packet.
    pub(super) waits: bool,
}

impl SteeredFrame {
    /// Where the frame's headers lie and where it goes.
    #[inline(always)]
    pub(super) fn read(&mut self, frame: &Frame<'_>, steering: &Steering, hasher: &FlowHasher) {
        (self.headers, self.waits) = (Headers::default(), false);
        self.headers.find(frame.bytes, frame.link, frame.wire_len as usize);
        self.steered = steering.steer(hasher, frame.bytes, &self.headers);
    }

    /// The columns of the frame as number `ingress` of the input, at `timestamp`.
    #[inline(always)]
    fn arrival(&self, frame: &Frame<'_>, timestamp: Instant, ingress: u64) -> Arrival {
        Arrival {
            timestamp,
            captured: frame.timestamp,
            ingress,
            wire_len: frame.wire_len.max(frame.bytes.len() as u32),
            link: frame.link,
            interface: frame.interface,
            shard: self.steered.shard,
            flow_hash: self.steered.flow_hash,
        }
    }
}
