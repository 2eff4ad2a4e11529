//! Packets that wait until the Ethernet address of their next hop is known.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant as Clock;

use warpline_packet::Instant;

use super::view::Key;

/// Packets that are held.
pub(super) const HELD_MAX: usize = 256;
/// Those of one neighbour.
pub(super) const OF_NEIGHBOUR_MAX: usize = 64;
/// Bytes of the longest: a jumbo frame.
pub(super) const LEN_MAX: usize = 9236;
/// The kernel asks three times, once a second.
const PATIENCE: Duration = Duration::from_secs(4);

/// A packet that is held.
pub(super) struct Packet {
    pub(super) key: Key,
    pub(super) bytes: Vec<u8>,
    pub(super) timestamp: Instant,
    /// The number of the neighbour's last failure at the time.
    pub(super) failure: Option<u64>,
    /// When the kernel was last made to ask for the neighbour.
    pub(super) asked: Option<Clock>,
    since: Clock,
}

/// See the module. All memory is taken at the start.
pub(super) struct Held {
    waiting: VecDeque<Packet>,
    free: Vec<Vec<u8>>,
}

impl Held {
    pub(super) fn new() -> Self {
        let free = (0..HELD_MAX).map(|_| Vec::with_capacity(LEN_MAX)).collect();
        Self { waiting: VecDeque::with_capacity(HELD_MAX), free }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the kernel was last made to ask for a neighbour whose packets are held.
    pub(super) fn last_asked(&self, key: Key) -> Option<Clock> {
        self.waiting.iter().filter(|packet| packet.key == key).filter_map(|one| one.asked).max()
    }

    /// Takes a packet of up to [`LEN_MAX`] bytes. Returns whether the oldest made room for it: of
    /// its neighbour if that has [`OF_NEIGHBOUR_MAX`], otherwise of all.
    pub(super) fn push(
        &mut self,
        key: Key,
        (bytes, timestamp): (&[u8], Instant),
        (failure, asked): (Option<u64>, Option<Clock>),
    ) -> bool {
        let mut own = self.waiting.iter().enumerate().filter(|(_, packet)| packet.key == key);
        let oldest = own.next().map(|(at, _)| at).filter(|_| own.count() + 1 >= OF_NEIGHBOUR_MAX);
        let oldest = oldest.or_else(|| self.free.is_empty().then_some(0));
        let displaced = oldest.and_then(|at| self.waiting.remove(at));
        let is_displaced = displaced.is_some();
        displaced.into_iter().for_each(|packet| self.recycle(packet));
        let mut room = self.free.pop().unwrap_or_default();
        room.clear();
        room.extend_from_slice(bytes);
        let since = Clock::now();
        self.waiting.push_back(Packet { key, bytes: room, timestamp, failure, asked, since });
        is_displaced
    }

    /// Takes out the first packet that `is_due` or has waited for too long.
    pub(super) fn take(&mut self, is_due: impl Fn(&Packet) -> bool) -> Option<Packet> {
        let at = self.waiting.iter().position(|packet| is_due(packet) || is_late(packet))?;
        self.waiting.remove(at)
    }

    /// Gives back the room of a packet.
    pub(super) fn recycle(&mut self, packet: Packet) {
        self.free.push(packet.bytes);
    }
}

fn is_late(packet: &Packet) -> bool {
    packet.since.elapsed() > PATIENCE
}
