//! The flows of one shard in fixed memory: a hash table of records of one cache line each.
//!
//! Records lie where their hash says or close after (linear probing, two in three places taken at
//! most, backward-shift deletion), so that nearly every look-up waits for one line alone: an index
//! beside the records would be another wait, for the records' line isn't known before. The upper
//! bits of an IPv6 address lie apart, so that IPv4 never touches it. A hand goes round over the
//! records for those that look for flows to end.

mod record;

use warpline_packet::{in_small_pages, prefetch};

pub(super) use self::record::Record;
use self::record::UNUSED;
use super::key::{FlowDirection, FlowKey, MeteredPacket};
use super::record::{Direction, End, FlowRecord};

/// The upper 96 bits of source and destination.
type Upper = [u32; 6];

fn upper(src: u128, dst: u128) -> Upper {
    let of = |address: u128, shift: u32| (address >> shift) as u32;
    [of(src, 96), of(src, 64), of(src, 32), of(dst, 96), of(dst, 64), of(dst, 32)]
}

fn whole(upper: &[u32], low: u32) -> u128 {
    upper.iter().chain([&low]).fold(0, |bits, &word| bits << 32 | u128::from(word))
}

/// How far from where its hash says a record may lie, so that no look-up is long, whatever packets
/// come.
const REACH: usize = 128;

/// The flows of one shard.
pub(super) struct FlowTable {
    records: Vec<Record>,
    uppers: Vec<Upper>,
    /// When the last packet came by the time that flows age by, in microseconds, where that is not
    /// the latest packet's own.
    aged_us: Vec<u64>,
    capacity: usize,
    len: usize,
    hand: usize,
}

impl FlowTable {
    /// With room for `capacity` flows and no more.
    pub(super) fn new(capacity: usize) -> Self {
        let places = 2 * (capacity * 3 / 4 + 1);
        // A look-up waits for one line, which is asked for ahead. With a million flows huge pages
        // make that slower: 7.9 Mpps instead of 9.5 (`bench/record/whole-program-2026-11-25.md`).
        let (records, uppers) = in_small_pages(|| (vec![UNUSED; places], vec![[0; 6]; places]));
        Self { records, uppers, aged_us: vec![0; places], capacity, len: 0, hand: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many places the hand goes over, those without a flow too.
    pub(super) fn places(&self) -> usize {
        self.records.len()
    }

    /// The place that a hash names: an even one, so that nearly all records are in one of two
    /// places whose lines are fetched together.
    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * (self.records.len() as u64 / 2)) >> 32) as usize * 2
    }

    #[inline(always)]
    fn behind(&self, place: usize) -> usize {
        if place + 1 == self.records.len() { 0 } else { place + 1 }
    }

    /// How far `to` lies after `from`.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.records.len() - from }
    }

    #[inline(always)]
    pub(super) fn record(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// When the last packet of a flow came, by the time that flows age by.
    #[inline(always)]
    pub(super) fn last_now_us(&self, number: u32) -> u64 {
        let record = &self.records[number as usize];
        if record.is_apart() { self.aged_us[number as usize] } else { record.last_us() }
    }

    /// Counts a packet in the common case. Returns whether this was the common case.
    #[inline(always)]
    pub(super) fn count_next(
        &mut self,
        number: u32,
        way: FlowDirection,
        seen: &MeteredPacket,
        (idle_us, active_us): (u64, u64),
    ) -> bool {
        let record = &mut self.records[number as usize];
        let is_next = record.is_next(seen, idle_us, active_us);
        if is_next {
            record.count_next(way, seen);
        }
        is_next
    }

    /// Counts a packet, whose own time is less than 2^32 microseconds from all others' of the
    /// record.
    pub(super) fn count(&mut self, number: u32, way: FlowDirection, seen: &MeteredPacket) {
        let record = &mut self.records[number as usize];
        record.count(way, seen);
        if record.is_apart() {
            self.aged_us[number as usize] = seen.now_us;
        }
    }

    /// Starts the next record of the same flow at a packet that goes this way, and counts the
    /// packet.
    pub(super) fn restart(&mut self, number: u32, way: FlowDirection, seen: &MeteredPacket) {
        self.records[number as usize].restart(way, seen.own_us);
        self.count(number, way, seen);
    }

    /// The flow of a packet, and which way of it the packet goes.
    #[inline(always)]
    pub(super) fn find(&self, seen: &MeteredPacket) -> Option<(u32, FlowDirection)> {
        let mut at = self.home(seen.hash);
        for _ in 0..REACH {
            if !self.records[at].is_used() {
                return None;
            }
            if let Some(way) = self.matches(at as u32, seen) {
                return Some((at as u32, way));
            }
            at = self.behind(at);
        }
        None
    }

    #[inline(always)]
    fn matches(&self, number: u32, seen: &MeteredPacket) -> Option<FlowDirection> {
        let (record, key) = (&self.records[number as usize], &seen.key);
        if record.hash != seen.hash
            || (record.protocol, record.version()) != (key.protocol, key.version)
        {
            return None;
        }
        if self.is_at(number, key) {
            return Some(FlowDirection::Forward);
        }
        self.is_at(number, &key.reversed()).then_some(FlowDirection::Reverse)
    }

    /// Whether a flow of the same version has these endpoints, this way.
    #[inline(always)]
    fn is_at(&self, number: u32, key: &FlowKey) -> bool {
        let record = &self.records[number as usize];
        (record.src, record.dst) == (key.src as u32, key.dst as u32)
            && (record.src_port, record.dst_port) == (key.src_port, key.dst_port)
            && record.echo() == key.echo
            && (key.version == 4 || self.uppers[number as usize] == upper(key.src, key.dst))
    }

    /// Asks for what [`FlowTable::find`] will read first.
    #[inline(always)]
    pub(super) fn fetch(&self, hash: u32) {
        let home = self.home(hash);
        if let Some([first, second]) = self.records.get(home..home + 2) {
            prefetch(first);
            prefetch(second);
        }
    }

    /// The first place without a flow where one of this hash may lie.
    fn vacant(&self, hash: u32) -> Option<usize> {
        let mut at = self.home(hash);
        for _ in 0..REACH.min(self.records.len()) {
            if !self.records[at].is_used() {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    /// The flow in whose place one of this hash has to begin, where there is no other place for it.
    pub(super) fn crowded(&self, hash: u32) -> Option<u32> {
        if self.vacant(hash).is_some() { None } else { Some(self.home(hash) as u32) }
    }

    /// Takes in the flow of a packet that has none, and counts it, unless there is no room.
    pub(super) fn insert(&mut self, seen: &MeteredPacket) {
        if let Some(place) = self.vacant(seen.hash).filter(|_| !self.is_full()) {
            self.len += 1;
            self.begin(place as u32, seen);
        }
    }

    /// Starts a new flow in a place that the packet's flow may have, and counts the packet. Who
    /// answers is not the initiator.
    pub(super) fn begin(&mut self, number: u32, seen: &MeteredPacket) {
        let (way, key) = match seen.answers {
            true => (FlowDirection::Reverse, seen.key.reversed()),
            false => (FlowDirection::Forward, seen.key),
        };
        self.records[number as usize] = Record::new(&key, way, seen);
        self.count(number, way, seen);
        if key.version == 6 {
            self.uppers[number as usize] = upper(key.src, key.dst);
        }
    }

    /// Takes out a flow; others may move to where they were looked for before.
    pub(super) fn remove(&mut self, number: u32) {
        let mut hole = number as usize;
        let mut at = self.behind(hole);
        // Records at least `REACH` places past the hole can't move to it.
        while self.distance(hole, at) < REACH && self.records[at].is_used() {
            let home = self.home(self.records[at].hash);
            // A record may move to the hole unless its home is past the hole.
            if self.distance(home, at) >= self.distance(hole, at) {
                self.records[hole] = self.records[at];
                self.uppers[hole] = self.uppers[at];
                self.aged_us[hole] = self.aged_us[at];
                hole = at;
            }
            at = self.behind(at);
            if at == hole {
                break;
            }
        }
        self.records[hole] = UNUSED;
        self.len -= 1;
    }

    /// Moves the hand on by one place; the flow there, if there is one.
    pub(super) fn advance(&mut self) -> Option<u32> {
        self.hand = self.behind(self.hand);
        self.records[self.hand].is_used().then_some(self.hand as u32)
    }

    /// The flows, by place.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        (0..self.records.len() as u32).filter(|&n| self.records[n as usize].is_used())
    }

    /// The record to report for a flow that ends. Its source is a side that sent something.
    pub(super) fn finished(&self, number: u32, end: End) -> FlowRecord {
        let record = &self.records[number as usize];
        let (mut src, mut dst) = (record.src.into(), record.dst.into());
        if record.version() == 6 {
            let upper = &self.uppers[number as usize];
            (src, dst) = (whole(&upper[..3], record.src), whole(&upper[3..], record.dst));
        }
        let key = FlowKey {
            src,
            dst,
            src_port: record.src_port,
            dst_port: record.dst_port,
            protocol: record.protocol,
            version: record.version(),
            echo: record.echo(),
        };
        let (forward, reverse) =
            (record.half(FlowDirection::Forward), record.half(FlowDirection::Reverse));
        let direction = Direction::Initiator;
        let finished = FlowRecord { key, forward, reverse, end, direction };
        if forward.packets == 0 { finished.reversed() } else { finished }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Echo;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A packet of flow `name` that is looked for where `hash` says.
    fn seen(name: u16, hash: u32) -> MeteredPacket {
        let (version, src) = match name % 2 {
            0 => (4, 0),
            _ => (6, u128::from(name) << 90 | 1),
        };
        let echo = Echo::None;
        let key =
            FlowKey { src, dst: 0, src_port: name, dst_port: 1000, protocol: 0, version, echo };
        MeteredPacket {
            key,
            hash,
            len: 1,
            own_us: 0,
            now_us: 0,
            ingress: 0,
            tcp_flags: 0,
            answers: false,
        }
    }

    proptest! {
        /// Few hashes, so that clusters form, wrap around and are cut.
        #[test]
        fn holds_what_a_map_holds(steps in prop::collection::vec((0..20u16, 0..6u32), 1..400)) {
            let mut table = FlowTable::new(12);
            let mut held = BTreeMap::new();
            let hash_of = |name: u16| [0, 1 << 29, 0xf800_0000, u32::MAX][usize::from(name % 4)];
            for (name, count) in steps {
                let packet = seen(name, hash_of(name));
                match table.find(&packet) {
                    Some((number, _)) if count == 0 => {
                        table.remove(number);
                        held.remove(&name);
                    }
                    Some((number, way)) => {
                        table.count(number, way, &packet);
                        *held.get_mut(&name).unwrap() += 1;
                    }
                    None if !table.is_full() => {
                        table.insert(&packet);
                        held.insert(name, 1);
                    }
                    None => {}
                }
                prop_assert_eq!(table.len(), held.len());
                prop_assert_eq!(table.used().count(), held.len());
                for name in 0..20 {
                    let packet = seen(name, hash_of(name));
                    let found = table.find(&packet).map(|(number, way)| {
                        let record = table.finished(number, End::Idle);
                        assert_eq!((record.key, way), (packet.key, FlowDirection::Forward));
                        record.forward.packets
                    });
                    prop_assert_eq!(found, held.get(&name).copied());
                }
            }
        }
    }

    #[test]
    fn no_look_up_is_long() {
        let mut table = FlowTable::new(1000);
        for name in 0..REACH as u16 {
            assert_eq!(table.crowded(7), None);
            table.insert(&seen(name, 7));
        }
        let more = seen(500, 7);
        table.insert(&more);
        assert_eq!((table.len(), table.find(&more)), (REACH, None), "it has to take a place");
        let number = table.crowded(7).unwrap();
        table.begin(number, &more);
        assert_eq!(table.find(&more), Some((number, FlowDirection::Forward)));
        assert_eq!(table.len(), REACH);
    }
}
