//! Fragments in an order that functions can use: the first of a packet before all others.
//!
//! Only the first fragment has ports, so it alone shows the shard of a translated packet, and only
//! after it a function can decide about the others. Later fragments whose first one has not come
//! wait here, in any number of packets. They follow the first one into its shard.
//!
//! Memory is bounded. A fragment that finds no room, has waited too long, or whose source has too
//! many that wait continues without its first one, and so do all later fragments of its packet.
//! Functions drop them by name.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use warpline_io::{FRAME_LEN_MAX, Frame};
use warpline_packet::{FragmentKey, Instant, LinkType};

use super::held_frames::HeldFrames;

/// How long a fragment waits for the first of its packet, in packet time (RFC 8200, 4.5).
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long the shard of a packet is remembered for its later fragments.
const KNOWN_MAX: Duration = Duration::from_secs(60);
/// Packets whose shard is remembered. The oldest makes room.
const KNOWN: usize = 16_384;
/// Fragments that wait, how many of one source, and bytes of the longest. Their memory is taken at
/// the start.
const WAITING: usize = 4096;
const WAITING_OF_SOURCE: usize = 256;
const WAITING_LEN: usize = 2048;

/// The next step of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It continues, into the shard of its first fragment if that is known.
    On(Option<u8>),
    /// It waits here.
    Waits,
}

/// Packets whose first fragment came, and fragments that wait for theirs. Each step takes a time
/// that does not depend on how many wait.
pub(super) struct Fragments {
    /// Shards of packets, with the time until which they are remembered. A packet without a shard
    /// lost its first fragment.
    known: HashMap<FragmentKey, (Option<u8>, Instant)>,
    /// The same packets in the order in which they came.
    order: VecDeque<FragmentKey>,
    slots: Vec<Waiting>,
    free: Vec<usize>,
    /// The bytes of those that wait, by slot.
    bytes: Vec<u8>,
    /// The slots that have waited longest and shortest.
    oldest: usize,
    newest: usize,
    /// The first and the last slot of each packet.
    of_packet: HashMap<FragmentKey, (usize, usize)>,
    of_source: HashMap<u128, usize>,
    /// Fragments that are sent on now, after the frames at hand.
    ready: HeldFrames,
}

/// No slot.
const NONE: usize = usize::MAX;

/// A fragment that waits.
#[derive(Clone, Copy)]
struct Waiting {
    key: FragmentKey,
    since: Instant,
    len: usize,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
    /// Its neighbours in the order in which fragments came.
    older: usize,
    newer: usize,
    /// The next of its packet.
    next: usize,
}

impl Waiting {
    const UNUSED: Self = Self {
        key: FragmentKey { src: 0, dst: 0, ident: 0, version: 0, protocol: 0 },
        since: Instant::ZERO,
        len: 0,
        timestamp: Instant::ZERO,
        wire_len: 0,
        link: LinkType::ETHERNET,
        interface: 0,
        older: NONE,
        newer: NONE,
        next: NONE,
    };
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self {
            // Maps that are at most half full never grow.
            known: HashMap::with_capacity(2 * KNOWN),
            order: VecDeque::with_capacity(KNOWN),
            slots: vec![Waiting::UNUSED; WAITING],
            free: (0..WAITING).collect(),
            bytes: vec![0; WAITING * WAITING_LEN],
            oldest: NONE,
            newest: NONE,
            of_packet: HashMap::with_capacity(2 * WAITING),
            of_source: HashMap::with_capacity(2 * WAITING),
            ready: HeldFrames::with_capacity(WAITING, FRAME_LEN_MAX),
        }
    }

    /// A first fragment goes to `shard`. Returns whether others waited for it, which are ready now.
    pub(super) fn first(&mut self, key: FragmentKey, shard: u8, now: Instant) -> bool {
        self.know(key, Some(shard), now);
        let Some((mut slot, _)) = self.of_packet.remove(&key) else { return false };
        while let Some(waiting) = self.slots.get(slot) {
            let next = waiting.next;
            self.leave(slot, now, Some(shard));
            slot = next;
        }
        true
    }

    fn know(&mut self, key: FragmentKey, shard: Option<u8>, now: Instant) {
        let until = now.after(KNOWN_MAX);
        if self.known.insert(key, (shard, until)).is_none() {
            if self.order.len() == KNOWN
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(key);
        }
    }

    /// A later fragment comes, which may have to wait for its first one.
    pub(super) fn later(&mut self, key: FragmentKey, frame: &Frame<'_>, now: Instant) -> Course {
        if let Some(&(shard, until)) = self.known.get(&key)
            && until > now
        {
            return Course::On(shard);
        }
        let is_full = self.of_source.get(&key.src).is_some_and(|&n| n >= WAITING_OF_SOURCE);
        if is_full || frame.bytes.len() > WAITING_LEN {
            return Course::On(None);
        }
        if self.free.is_empty() {
            self.give_up_oldest(now);
        }
        let Some(slot) = self.free.pop() else { return Course::On(None) };
        self.enter(slot, key, frame, now);
        Course::Waits
    }

    fn enter(&mut self, slot: usize, key: FragmentKey, frame: &Frame<'_>, now: Instant) {
        let &Frame { bytes, timestamp, wire_len, link, interface } = frame;
        let (len, older) = (bytes.len(), self.newest);
        self.bytes[slot * WAITING_LEN..][..len].copy_from_slice(bytes);
        self.slots[slot] = Waiting {
            key,
            since: now,
            len,
            timestamp,
            wire_len,
            link,
            interface,
            older,
            ..Waiting::UNUSED
        };
        match self.slots.get_mut(older) {
            Some(older) => older.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        let (_, last) = self.of_packet.entry(key).or_insert((slot, NONE));
        if let Some(last) = self.slots.get_mut(*last) {
            last.next = slot;
        }
        *last = slot;
        *self.of_source.entry(key.src).or_default() += 1;
    }

    /// Fragments that waited too long at `now` are ready without their first one. Returns whether
    /// there are any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        self.expire_after(now, now)
    }

    /// The same while the source has no packets, since one at `last`.
    pub(super) fn expire_after(&mut self, last: Instant, now: Instant) -> bool {
        let any = self.has_expired(now);
        while self.has_expired(now) {
            self.give_up_oldest(last);
        }
        any
    }

    /// Whether no fragment waits.
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// Whether a fragment waited too long at `now`.
    #[inline]
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.slots.get(self.oldest).is_some_and(|one| one.since.after(WAIT_MAX) <= now)
    }

    /// No more frames come: all that wait are ready.
    pub(super) fn end(&mut self, now: Instant) {
        while self.oldest != NONE {
            self.give_up_oldest(now);
        }
    }

    /// The fragment that waited longest continues without its first one. It is the first that waits
    /// of its packet.
    fn give_up_oldest(&mut self, now: Instant) {
        let slot = self.oldest;
        let Some(&Waiting { key, next, .. }) = self.slots.get(slot) else { return };
        self.know(key, None, now);
        match (next, self.of_packet.get_mut(&key)) {
            (NONE, _) => _ = self.of_packet.remove(&key),
            (next, Some((first, _))) => *first = next,
            (_, None) => {}
        }
        self.leave(slot, now, None);
    }

    /// The fragment in `slot`, which its packet has forgotten, is ready for `shard`.
    fn leave(&mut self, slot: usize, now: Instant, shard: Option<u8>) {
        let Waiting { key, since, len, older, newer, .. } = self.slots[slot];
        match self.slots.get_mut(older) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        if let Some(count) = self.of_source.get_mut(&key.src) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&key.src);
            }
        }
        let Waiting { timestamp, wire_len, link, interface, .. } = self.slots[slot];
        let bytes = &self.bytes[slot * WAITING_LEN..][..len];
        let frame = Frame { bytes, timestamp, wire_len, link, interface };
        self.ready.keep_on(&frame, now.max(since), Some(Course::On(shard)));
        self.free.push(slot);
    }

    /// Adds the fragments that are ready to those that are kept for the next turn.
    pub(super) fn move_ready(&mut self, kept: &mut HeldFrames) {
        if self.ready.is_empty() {
            return;
        }
        let frames = self.ready.frames().zip(self.ready.courses());
        frames.for_each(|((frame, now), course)| kept.keep_on(&frame, now, course));
        let count = self.ready.len();
        self.ready.forget(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(src: u128, ident: u32) -> FragmentKey {
        FragmentKey { src, dst: 9, ident, version: 4, protocol: 17 }
    }

    fn frame(bytes: &[u8]) -> Frame<'_> {
        Frame {
            bytes,
            timestamp: Instant::ZERO,
            wire_len: bytes.len() as u32,
            link: LinkType::ETHERNET,
            interface: 0,
        }
    }

    fn ready(fragments: &mut Fragments) -> Vec<Vec<u8>> {
        let mut kept = HeldFrames::default();
        fragments.move_ready(&mut kept);
        kept.frames().map(|(frame, _)| frame.bytes.to_vec()).collect()
    }

    const NOW: Instant = Instant::from_secs(5);

    #[test]
    fn later_fragments_wait_for_the_first_in_any_order() {
        let mut own = Fragments::new();
        for (ident, bytes) in [(1, b"1b"), (2, b"2b"), (1, b"1c")] {
            assert_eq!(own.later(key(7, ident), &frame(bytes), NOW), Course::Waits);
        }
        assert!(own.first(key(7, 1), 33, NOW));
        assert_eq!(ready(&mut own), [b"1b".to_vec(), b"1c".to_vec()]);
        assert_eq!(own.later(key(7, 1), &frame(b"1d"), NOW), Course::On(Some(33)));
        assert!(!own.expire(NOW.after(WAIT_MAX - Duration::from_nanos(1))));
        assert_eq!(ready(&mut own), [[0; 0]; 0]);
        assert!(own.expire(NOW.after(WAIT_MAX)));
        assert_eq!(ready(&mut own), [b"2b".to_vec()]);
        assert_eq!((own.free.len(), own.of_source.len(), own.of_packet.len()), (WAITING, 0, 0));
        let late = NOW.after(KNOWN_MAX);
        assert_eq!(own.later(key(7, 2), &frame(b"2c"), late), Course::On(None), "given up");
        assert_eq!(own.later(key(7, 1), &frame(b"1e"), late), Course::Waits, "forgotten");
    }

    /// Later packets may have times soon after the last one.
    #[test]
    fn fragments_expire_in_silence_at_the_time_of_the_last_packet() {
        let mut own = Fragments::new();
        assert_eq!(own.later(key(7, 1), &frame(b"1b"), NOW), Course::Waits);
        let last = NOW.after(Duration::from_secs(1));
        assert!(!own.expire_after(last, NOW.after(WAIT_MAX - Duration::from_nanos(1))));
        assert!(!own.is_empty());
        assert!(own.expire_after(last, NOW.after(WAIT_MAX)));
        assert!(own.is_empty());
        let mut kept = HeldFrames::default();
        own.move_ready(&mut kept);
        assert_eq!(kept.frames().map(|(_, time)| time).collect::<Vec<_>>(), [last]);
    }

    #[test]
    fn a_flood_is_bounded_by_source_and_in_all() {
        let mut own = Fragments::new();
        let mut waits = |src, ident| own.later(key(src, ident), &frame(b"x"), NOW) == Course::Waits;
        assert!((0..WAITING_OF_SOURCE as u32).all(|ident| waits(1, ident)));
        assert!(!waits(1, 99_999) && waits(2, 1));
        for src in 3..3 + 2 * WAITING as u128 {
            assert!(waits(src, 1));
        }
        assert!(own.free.is_empty());
        own.end(NOW);
        assert_eq!(ready(&mut own).len(), WAITING_OF_SOURCE + 1 + 2 * WAITING);
        for ident in 0..2 * KNOWN as u32 {
            own.first(key(1, ident), 1, NOW);
        }
        assert!(own.known.len() <= KNOWN && own.order.len() <= KNOWN);
    }
}
