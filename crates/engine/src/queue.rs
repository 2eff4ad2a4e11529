//! Queues of batches: bounded ones between two threads, and those before a lane's stages. The
//! former hold a number of full batches, or more that are not full.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use warpline_packet::Batch;

use crate::bell::Bell;

/// A queue that threads share.
pub(crate) type Queue = Arc<BatchQueue>;

/// See the module. When ticks of packet time close batches with few packets, it holds enough of
/// them to keep the next thread busy while this one sleeps.
pub(crate) struct BatchQueue {
    /// Boxed, since a batch with its columns' places is too long to copy at each hand-over.
    batches: ArrayQueue<Box<Batch>>,
    /// Packets that wait.
    packets: AtomicUsize,
    packets_max: usize,
    /// The stage for which the taker paused the giver, plus one; 0 if it did not.
    held_by: AtomicUsize,
    /// Packets that the giver lost for want of room.
    lost: AtomicU64,
    /// Wakes the taker, if it waits for that.
    bell: Option<Arc<Bell>>,
    /// Wakes the giver at the end of a pause.
    resume_bell: Option<Arc<Bell>>,
}

impl BatchQueue {
    /// For `batches` batches, one at least.
    pub(crate) fn new(batches: usize) -> Self {
        Self::holding(batches, usize::MAX)
    }

    /// For `batches` batches, at least one, while they have less than `packets_max` packets.
    pub(crate) fn holding(batches: usize, packets_max: usize) -> Self {
        Self {
            batches: ArrayQueue::new(batches.max(1)),
            packets: AtomicUsize::new(0),
            packets_max,
            held_by: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            bell: None,
            resume_bell: None,
        }
    }

    /// Rings `bell` for each batch that it takes.
    pub(crate) fn ringing(mut self, bell: Option<Arc<Bell>>) -> Self {
        self.bell = bell;
        self
    }

    /// Rings `bell` at the end of each pause.
    pub(crate) fn resuming(mut self, bell: Option<Arc<Bell>>) -> Self {
        self.resume_bell = bell;
        self
    }

    /// How many batches it has room for: those are taken, however many packets they hold.
    pub(crate) fn room(&self) -> usize {
        let is_full = self.packets.load(Ordering::Relaxed) >= self.packets_max;
        match is_full || self.held_by.load(Ordering::Relaxed) > 0 {
            true => 0,
            false => self.batches.capacity() - self.batches.len(),
        }
    }

    /// Pauses the giver for a stage that falls behind; the giver then finds no room. Resumes it for
    /// none.
    pub(crate) fn hold(&self, stage: Option<usize>) {
        self.held_by.store(stage.map_or(0, |stage| stage + 1), Ordering::Relaxed);
        if let (None, Some(bell)) = (stage, &self.resume_bell) {
            bell.ring();
        }
    }

    /// The stage for which the giver is paused.
    pub(crate) fn held_by(&self) -> Option<usize> {
        self.held_by.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The giver lost packets for want of room.
    pub(crate) fn lose(&self, packets: u64) {
        self.lost.fetch_add(packets, Ordering::Relaxed);
    }

    /// Packets that the giver lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Packets that wait.
    pub(crate) fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed)
    }

    /// How many batches are in it.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Adds a batch at the end, or returns it if the queue is full.
    pub(crate) fn push(&self, batch: Box<Batch>) -> Result<(), Box<Batch>> {
        let packets = batch.len();
        // Before it can be taken out again.
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.batches.push(batch).inspect_err(|_| {
            self.packets.fetch_sub(packets, Ordering::Relaxed);
        })?;
        if let Some(bell) = &self.bell {
            bell.ring();
        }
        Ok(())
    }

    /// The first one.
    pub(crate) fn pop(&self) -> Option<Box<Batch>> {
        let batch = self.batches.pop()?;
        self.packets.fetch_sub(batch.len(), Ordering::Relaxed);
        Some(batch)
    }
}

/// Batches that wait before a stage.
pub(crate) struct StageQueue {
    pub(crate) batches: VecDeque<(Box<Batch>, usize)>,
    /// Packets of them that are not dropped.
    pub(crate) packets: usize,
}

impl StageQueue {
    pub(crate) fn with_capacity(batches: usize) -> Self {
        Self { batches: VecDeque::with_capacity(batches), packets: 0 }
    }

    pub(crate) fn push(&mut self, batch: Box<Batch>) {
        let packets = batch.forward_count();
        self.packets += packets;
        self.batches.push_back((batch, packets));
    }

    /// Adds the rows of a batch whose packets were all dropped to the last one, if those were too.
    /// Returns the batch, without them if they were added.
    pub(crate) fn absorb(
        &mut self,
        mut batch: Box<Batch>,
        order: &mut Vec<u16>,
    ) -> (Box<Batch>, bool) {
        let last = self.batches.back_mut();
        let is_absorbed = last.is_some_and(|(last, _)| last.absorb_dropped(&mut batch, order));
        (batch, is_absorbed)
    }

    pub(crate) fn pop(&mut self) -> Option<Box<Batch>> {
        let (batch, packets) = self.batches.pop_front()?;
        self.packets -= packets;
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use warpline_packet::{Arena, ArenaLayout, Arrival, Headers, HeapMemory, Instant, LinkType};

    use super::*;

    /// Batches with so many packets.
    fn batches(lens: &[usize]) -> Vec<Batch> {
        let layout = ArenaLayout {
            slabs: 2,
            emit_slabs: 1,
            tables: lens.len(),
            slots: 4,
            scratch_words: 0,
            headroom: 0,
            tailroom: 0,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let arrival = Arrival {
            timestamp: Instant::ZERO,
            captured: Instant::ZERO,
            ingress: 0,
            wire_len: 60,
            link: LinkType::ETHERNET,
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        let fill = |(table, &len): (_, &usize)| {
            let mut batch = Batch::new(table);
            for _ in 0..len {
                batch
                    .push(&[0; 60], &Headers::default(), &arrival, &mut arena.ingress)
                    .expect("room");
            }
            batch
        };
        arena.tables.drain(..).zip(lens).map(fill).collect()
    }

    #[test]
    fn full_batches_leave_less_room_than_others() {
        let rooms = |lens: &[usize]| -> Vec<usize> {
            let queue = BatchQueue::holding(3, 8);
            let room = |batch| {
                assert!(queue.push(Box::new(batch)).is_ok());
                queue.room()
            };
            let rooms = batches(lens).into_iter().map(room).collect();
            while queue.pop().is_some() {}
            assert_eq!((queue.room(), queue.len()), (3, 0));
            rooms
        };
        assert_eq!(rooms(&[4, 4]), [2, 0]);
        assert_eq!(rooms(&[0, 1, 4]), [2, 1, 0]);
        assert_eq!(rooms(&[4, 3, 1]), [2, 1, 0]);
    }

    #[test]
    fn a_batch_beyond_all_comes_back_and_counts_nothing() {
        let queue = BatchQueue::holding(1, 8);
        let mut batches = batches(&[1, 4]).into_iter();
        let [first, second] = [batches.next(), batches.next()].map(|batch| batch.expect("two"));
        assert!(queue.push(Box::new(first)).is_ok());
        let back = queue.push(Box::new(second)).expect_err("one is all");
        assert_eq!((back.len(), queue.pop().map(|batch| batch.len())), (4, Some(1)));
        assert_eq!(queue.packets.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_end_of_a_pause_rings() {
        let bell = Arc::new(Bell::default());
        let queue = BatchQueue::new(1).resuming(Some(Arc::clone(&bell)));
        assert!(!bell.arm());
        queue.hold(Some(0));
        assert!(bell.arm() && queue.room() == 0);
        queue.hold(None);
        assert!(!bell.arm() && queue.room() == 1);
    }

    /// Batches whose packets were all dropped share one table as far as it has rows, so that many
    /// of them leave tables for packets that come.
    #[test]
    fn dropped_batches_before_a_stage_share_a_table() {
        let mut queue = StageQueue::with_capacity(8);
        let mut order = Vec::with_capacity(8);
        let mut absorbed = Vec::new();
        for (number, mut batch) in batches(&[1, 2, 1, 1, 2, 1]).into_iter().enumerate() {
            // The first and the fourth have packets.
            if number % 3 != 0 {
                assert_eq!(batch.overload(7), batch.len() as u64);
            }
            let len = batch.len();
            let (batch, is_absorbed) = queue.absorb(Box::new(batch), &mut order);
            absorbed.push(is_absorbed);
            match is_absorbed {
                true => assert!(batch.is_empty()),
                false => {
                    assert_eq!(batch.len(), len);
                    queue.push(batch);
                }
            }
        }
        assert_eq!(absorbed, [false, false, true, false, false, true]);
        assert_eq!(queue.packets, 2);
        let lens: Vec<usize> = std::iter::from_fn(|| queue.pop()).map(|one| one.len()).collect();
        assert_eq!(lens, [1, 3, 1, 3]);
        // A table has 64 rows.
        let mut full = batches(&[40, 40]).into_iter();
        let (mut first, mut second) = (full.next().expect("one"), full.next().expect("another"));
        for batch in [&mut first, &mut second] {
            batch.overload(7);
        }
        assert!(!first.absorb_dropped(&mut second, &mut order));
        assert_eq!((first.len(), second.len()), (40, 40));
    }
}
