//! The entrance of a lane: places frames in its arena and hands full batches to its queue.

use warpline_io::Frame;
use warpline_launch::Clock;
use warpline_packet::{
    Arrival, Batch, BatchKind, FlowHasher, Headers, Instant, Placer, Steered, Steering,
};

use std::sync::Arc;
use std::time::Duration;

use crate::moves::NextLanes;
use crate::queue::Queue;

/// How long a batch gathers packets while most batches are in use. A slow source would fill all
/// slabs with batches of one packet.
const GATHERING_MAX: Duration = Duration::from_micros(200);

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
    /// All batches, in use or not.
    batches: usize,
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
        let batches = pool.len();
        Self {
            placer,
            pool,
            idle: Vec::with_capacity(batches),
            queue,
            open: None,
            room: 0,
            first: 0,
            batch_packets,
            batches,
            next: None,
        }
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

    /// The source has nothing at `now`. Hands the open batch over, or returns how long it still
    /// gathers packets because most batches are in use.
    pub(super) fn rest(&mut self, now: u64) -> Duration {
        if let Some(batch) = self.open.as_ref().filter(|batch| !batch.is_empty())
            && self.idle.len() + self.pool.len() < self.batches / 2
        {
            let age = Duration::from_nanos(now.saturating_sub(batch.opened()));
            if let Some(left) = GATHERING_MAX.checked_sub(age).filter(|left| !left.is_zero()) {
                return left;
            }
        }
        self.flush();
        Duration::MAX
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

#[cfg(test)]
mod tests {
    use warpline_packet::{Arena, ArenaLayout, HeapMemory, LinkType};

    use super::*;
    use crate::queue::BatchQueue;

    const BATCHES: usize = 8;

    /// A lane's entrance, its queue and its pool.
    fn writer(clock: &Clock) -> (LaneWriter, Queue, Queue) {
        let layout = ArenaLayout {
            slabs: BATCHES,
            emit_slabs: 0,
            tables: BATCHES,
            slots: 64,
            scratch_words: 0,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory");
        let arena = Arena::new(Box::new(memory), &layout).expect("an arena");
        let [pool, queue] = [(); 2].map(|()| Arc::new(BatchQueue::new(BATCHES)));
        for table in arena.tables {
            let mut batch = Batch::new(table);
            batch.set_opened(clock.now());
            pool.push(Box::new(batch)).expect("room");
        }
        let writer = LaneWriter::new(arena.ingress, Arc::clone(&pool), Arc::clone(&queue), 64);
        (writer, queue, pool)
    }

    fn place(writer: &mut LaneWriter, number: &mut u64, clock: &Clock) {
        let bytes = [0; 60];
        let frame = Frame {
            bytes: &bytes,
            timestamp: Instant::ZERO,
            wire_len: 60,
            link: LinkType::ETHERNET,
            interface: 0,
        };
        let found = ([SteeredFrame::default()], [Instant::ZERO]);
        let placed = writer.place(&[frame], (&found.0, &found.1), number, clock);
        assert_eq!(placed, 1, "packet {number}");
    }

    /// A slow source fills half of the batches with single packets, and the others gather more.
    #[test]
    fn few_batches_that_are_left_gather_packets() {
        let clock = Clock::start();
        let (mut writer, queue, pool) = writer(&clock);
        let mut number = 0;
        for _ in 0..BATCHES / 2 {
            place(&mut writer, &mut number, &clock);
            assert_eq!(writer.rest(clock.now()), Duration::MAX);
        }
        assert_eq!(queue.len(), BATCHES / 2);
        place(&mut writer, &mut number, &clock);
        let opened = writer.open.as_ref().expect("an open batch").opened();
        let after = |time: Duration| opened + time.as_nanos() as u64;
        for microseconds in [0, 50, 199] {
            let now = Duration::from_micros(microseconds);
            assert_eq!(writer.rest(after(now)), GATHERING_MAX - now);
            place(&mut writer, &mut number, &clock);
        }
        assert_eq!(writer.rest(after(GATHERING_MAX)), Duration::MAX);
        let lens: Vec<usize> =
            std::iter::from_fn(|| queue.pop()).map(|batch| batch.len()).collect();
        assert_eq!(lens, [1, 1, 1, 1, 4]);
        assert_eq!(pool.len() + writer.idle.len(), BATCHES - 5);
    }
}
