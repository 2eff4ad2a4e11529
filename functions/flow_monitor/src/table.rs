//! The flows of one shard in fixed memory: a hash table of records of one cache line each.
//!
//! Records lie where their hash says or close after (linear probing, two in three places taken at
//! most, backward-shift deletion), so that nearly every look-up waits for one line alone: an index
//! beside the records would be another wait, for the records' line isn't known before. The upper
//! bits of an IPv6 address lie apart, so that IPv4 never touches it. A hand goes round over the
//! records for those that look for flows to end.

use super::key::{Echo, FlowDirection, FlowKey, MeteredPacket};
use super::record::{Direction, End, FlowRecord, Half};
use warpline_packet::wire::tcp;
use warpline_packet::{in_small_pages, prefetch};

/// A flow that lasts.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// The earliest packet's own time, in microseconds; the times below are counted from here.
    first_us: u64,
    /// By way.
    bytes: [u64; 2],
    packets: [u32; 2],
    /// The lower 32 bits of the addresses.
    src: u32,
    dst: u32,
    hash: u32,
    src_port: u16,
    dst_port: u16,
    /// The latest packet's own time, by way.
    last_us: [u32; 2],
    /// The earliest packet's own time, of the way that doesn't have the earliest of all.
    other_first_us: u32,
    protocol: u8,
    /// The IP version, 0 where there is no flow, the [`Echo`] of its key, [`BEGUN_IN_REVERSE`] and
    /// [`APART`].
    kind: u8,
    tcp_flags: [u8; 2],
}

const UNUSED: Record = Record {
    first_us: 0,
    bytes: [0; 2],
    packets: [0; 2],
    src: 0,
    dst: 0,
    hash: 0,
    src_port: 0,
    dst_port: 0,
    last_us: [0; 2],
    other_first_us: 0,
    protocol: 0,
    kind: 0,
    tcp_flags: [0; 2],
};

/// The earliest packet went to the initiator.
const BEGUN_IN_REVERSE: u8 = 0x80;
/// The time that flows age by was not the packets' own when the last one came: it lies apart.
const APART: u8 = 0x40;
const VERSION: u8 = 0x0f;
const ECHO: u8 = ASKS | ANSWERS;
const ASKS: u8 = 0x10;
const ANSWERS: u8 = 0x20;
const FIN: u8 = tcp::flags::FIN as u8;
const RST: u8 = tcp::flags::RST as u8;

impl Record {
    fn is_used(&self) -> bool {
        self.kind != 0
    }

    #[inline(always)]
    fn version(&self) -> u8 {
        self.kind & VERSION
    }

    #[inline(always)]
    fn echo(&self) -> Echo {
        match self.kind & ECHO {
            0 => Echo::None,
            ASKS => Echo::Asks,
            _ => Echo::Answers,
        }
    }

    /// The earliest packet's own time.
    #[inline(always)]
    pub(super) fn first_us(&self) -> u64 {
        self.first_us
    }

    /// The latest packet's own time.
    #[inline(always)]
    pub(super) fn last_us(&self) -> u64 {
        self.first_us + u64::from(self.last_us[0].max(self.last_us[1]))
    }

    /// Whether the connection ended: FIN from both sides, or RST.
    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        let [forward, reverse] = self.tcp_flags;
        forward & reverse & FIN != 0 || (forward | reverse) & RST != 0
    }

    /// Whether it can't count another packet.
    #[inline(always)]
    pub(super) fn is_worn(&self) -> bool {
        self.packets[0].max(self.packets[1]) == u32::MAX
    }

    /// Whether a packet is none but the next one: no end of the record is near, and no time differs
    /// from another.
    #[inline(always)]
    fn is_next(&self, seen: &MeteredPacket, idle_us: u64, active_us: u64) -> bool {
        // Where it is earlier than the last one, the difference is larger than any limit.
        let quiet_us = seen.own_us.wrapping_sub(self.last_us());
        seen.own_us == seen.now_us
            && self.kind & APART == 0
            && quiet_us <= idle_us
            && seen.own_us - self.first_us <= active_us
            && !self.is_closed()
            && !self.is_worn()
    }

    /// Counts the next packet ([`Record::is_next`]).
    #[inline(always)]
    fn count_next(&mut self, way: FlowDirection, seen: &MeteredPacket) {
        let (at, after) = (way as usize, (seen.own_us - self.first_us) as u32);
        if self.packets[at] == 0 {
            self.other_first_us = after;
        }
        self.packets[at] += 1;
        self.bytes[at] += u64::from(seen.len);
        self.last_us[at] = after;
        self.tcp_flags[at] |= seen.tcp_flags;
    }

    /// Counts a packet, whose own time is less than 2^32 microseconds from all others' of the
    /// record.
    #[inline(always)]
    fn count(&mut self, way: FlowDirection, seen: &MeteredPacket) {
        if seen.own_us < self.first_us {
            self.begin_earlier(way, seen.own_us);
        }
        let (at, after) = (way as usize, (seen.own_us - self.first_us) as u32);
        let began = self.kind >> 7 == way as u8;
        if !began && (self.packets[at] == 0 || after < self.other_first_us) {
            self.other_first_us = after;
        }
        self.packets[at] += 1;
        self.bytes[at] += u64::from(seen.len);
        self.last_us[at] = self.last_us[at].max(after);
        self.tcp_flags[at] |= seen.tcp_flags;
    }

    /// Has the record begin at a packet that came late and goes this way.
    #[cold]
    #[inline(never)]
    fn begin_earlier(&mut self, way: FlowDirection, own_us: u64) {
        let by = (self.first_us - own_us) as u32;
        for at in 0..2 {
            self.last_us[at] =
                self.last_us[at].saturating_add(if self.packets[at] > 0 { by } else { 0 });
        }
        let is_same_way = self.kind >> 7 == way as u8;
        self.other_first_us = if is_same_way { self.other_first_us.saturating_add(by) } else { by };
        self.kind = self.kind & !BEGUN_IN_REVERSE | (way as u8) << 7;
        self.first_us = own_us;
    }

    /// Starts the next record of the same flow at a packet that goes this way.
    fn restart(&mut self, way: FlowDirection, own_us: u64) {
        let own = Self {
            first_us: own_us,
            kind: self.kind & (VERSION | ECHO) | (way as u8) << 7,
            ..*self
        };
        let (bytes, packets, last_us, tcp_flags) = ([0; 2], [0; 2], [0; 2], [0; 2]);
        *self = Self { bytes, packets, last_us, tcp_flags, other_first_us: 0, ..own };
    }

    fn half(&self, way: FlowDirection) -> Half {
        let at = way as usize;
        if self.packets[at] == 0 {
            return Half::default();
        }
        let began = self.kind >> 7 == way as u8;
        Half {
            packets: self.packets[at].into(),
            bytes: self.bytes[at],
            first_us: self.first_us + if began { 0 } else { self.other_first_us.into() },
            last_us: self.first_us + u64::from(self.last_us[at]),
            tcp_flags: self.tcp_flags[at],
        }
    }
}

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
        if record.kind & APART == 0 { record.last_us() } else { self.aged_us[number as usize] }
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
        record.kind &= !APART;
        if record.last_us() != seen.now_us {
            record.kind |= APART;
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
        let echo = match key.echo {
            Echo::None => 0,
            Echo::Asks => ASKS,
            Echo::Answers => ANSWERS,
        };
        let record = &mut self.records[number as usize];
        *record = Record {
            first_us: seen.own_us,
            src: key.src as u32,
            dst: key.dst as u32,
            hash: seen.hash,
            src_port: key.src_port,
            dst_port: key.dst_port,
            protocol: key.protocol,
            kind: key.version | echo | (way as u8) << 7,
            ..UNUSED
        };
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
        self.records[hole].kind = 0;
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
