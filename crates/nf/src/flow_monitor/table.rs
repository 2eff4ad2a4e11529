//! The flows of one shard in fixed memory: a record of one cache line each, found by an index of tags.
//!
//! What an IPv6 address has beyond 32 bits lies apart, so that IPv4 never touches it. A hand goes round
//! over the records for those that look for flows to end.

use super::index::Index;
use super::key::{FlowKey, Seen, Way};
use super::record::{Direction, End, FlowRecord, Half};
use warpline_packet::wire::tcp;

/// A flow that lasts.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// When the first packet came, in microseconds; the times below are counted from here.
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
    /// When the last packet came, by way.
    last_us: [u32; 2],
    /// When the first packet came of the way that didn't begin.
    other_first_us: u32,
    protocol: u8,
    /// The IP version, 0 where there is no flow, and [`BEGUN_IN_REVERSE`].
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

const BEGUN_IN_REVERSE: u8 = 0x80;
const FIN: u8 = tcp::flags::FIN as u8;
const RST: u8 = tcp::flags::RST as u8;

impl Record {
    fn is_used(&self) -> bool {
        self.kind != 0
    }

    #[inline(always)]
    fn version(&self) -> u8 {
        self.kind & !BEGUN_IN_REVERSE
    }

    /// When its first packet came.
    #[inline(always)]
    pub(super) fn first_us(&self) -> u64 {
        self.first_us
    }

    /// When its last packet came.
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

    /// Counts a packet, less than 2^32 microseconds after the first.
    #[inline(always)]
    pub(super) fn count(&mut self, way: Way, seen: &Seen) {
        let (at, after) = (way as usize, seen.now_us.saturating_sub(self.first_us) as u32);
        let began = self.kind >> 7 == way as u8;
        if self.packets[at] == 0 && !began {
            self.other_first_us = after;
        }
        self.packets[at] += 1;
        self.bytes[at] += u64::from(seen.len);
        self.last_us[at] = after;
        self.tcp_flags[at] |= seen.tcp_flags;
    }

    /// Starts the next record of the same flow at a packet that goes this way.
    pub(super) fn restart(&mut self, way: Way, now_us: u64) {
        let own = Self { first_us: now_us, kind: self.version() | (way as u8) << 7, ..*self };
        let (bytes, packets, last_us, tcp_flags) = ([0; 2], [0; 2], [0; 2], [0; 2]);
        *self = Self { bytes, packets, last_us, tcp_flags, other_first_us: 0, ..own };
    }

    fn half(&self, way: Way) -> Half {
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

/// The flows of one shard.
pub(super) struct FlowTable {
    records: Vec<Record>,
    uppers: Vec<Upper>,
    index: Index,
    free: Vec<u32>,
    hand: usize,
}

impl FlowTable {
    /// With room for `capacity` flows and no more.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            records: vec![UNUSED; capacity],
            uppers: vec![[0; 6]; capacity],
            index: Index::new(capacity),
            free: (0..capacity as u32).rev().collect(),
            hand: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.records.len()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    #[inline(always)]
    pub(super) fn record(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    #[inline(always)]
    pub(super) fn record_mut(&mut self, number: u32) -> &mut Record {
        &mut self.records[number as usize]
    }

    /// The flow of a packet, and which way of it the packet goes.
    #[inline(always)]
    pub(super) fn find(&self, seen: &Seen) -> Option<(u32, Way)> {
        let mut way = Way::Forward;
        let number = self.index.find(seen.hash, |number| match self.matches(number, seen) {
            Some(found) => {
                way = found;
                true
            }
            None => false,
        })?;
        Some((number, way))
    }

    #[inline(always)]
    fn matches(&self, number: u32, seen: &Seen) -> Option<Way> {
        let (record, key) = (&self.records[number as usize], &seen.key);
        if record.hash != seen.hash
            || (record.protocol, record.version()) != (key.protocol, key.version)
        {
            return None;
        }
        if self.is_at(number, key) {
            return Some(Way::Forward);
        }
        self.is_at(number, &key.reversed()).then_some(Way::Reverse)
    }

    /// Whether a flow of the same version has these endpoints, this way.
    #[inline(always)]
    fn is_at(&self, number: u32, key: &FlowKey) -> bool {
        let record = &self.records[number as usize];
        (record.src, record.dst) == (key.src as u32, key.dst as u32)
            && (record.src_port, record.dst_port) == (key.src_port, key.dst_port)
            && (key.version == 4 || self.uppers[number as usize] == upper(key.src, key.dst))
    }

    /// Touches what [`FlowTable::find`] will read, and gives something of it: look-ups of several packets
    /// that are begun one after the other wait for memory together.
    #[inline(always)]
    pub(super) fn touch(&self, slot: u32) -> u32 {
        let number = self.index.number(slot).unwrap_or(0);
        self.records.get(number as usize).map_or(0, |record| record.hash)
    }

    /// What the index says first about a hash, for [`FlowTable::touch`].
    #[inline(always)]
    pub(super) fn peek(&self, hash: u32) -> u32 {
        self.index.peek(hash)
    }

    /// Takes in the flow of a packet that has none, and counts it; `None` where the table is full.
    pub(super) fn insert(&mut self, seen: &Seen) -> Option<u32> {
        let number = self.free.pop()?;
        self.index.insert(seen.hash, number);
        self.begin(number, seen);
        Some(number)
    }

    /// Starts a new flow of the same endpoints at a packet of theirs, and counts it. Who answers is not the
    /// initiator.
    pub(super) fn begin(&mut self, number: u32, seen: &Seen) {
        let (way, key) = match seen.answers {
            true => (Way::Reverse, seen.key.reversed()),
            false => (Way::Forward, seen.key),
        };
        let record = &mut self.records[number as usize];
        *record = Record {
            first_us: seen.now_us,
            src: key.src as u32,
            dst: key.dst as u32,
            hash: seen.hash,
            src_port: key.src_port,
            dst_port: key.dst_port,
            protocol: key.protocol,
            kind: key.version | (way as u8) << 7,
            ..UNUSED
        };
        record.count(way, seen);
        if key.version == 6 {
            self.uppers[number as usize] = upper(key.src, key.dst);
        }
    }

    /// Takes out a flow.
    pub(super) fn remove(&mut self, number: u32) {
        let records = &self.records;
        self.index.remove(records[number as usize].hash, number, |n| records[n as usize].hash);
        self.records[number as usize].kind = 0;
        self.free.push(number);
    }

    /// Moves the hand on by one place; the flow there, if there is one.
    pub(super) fn advance(&mut self) -> Option<u32> {
        self.hand = if self.hand + 1 >= self.records.len() { 0 } else { self.hand + 1 };
        self.records.get(self.hand).is_some_and(Record::is_used).then_some(self.hand as u32)
    }

    /// The flows, by place.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        (0..self.records.len() as u32).filter(|&n| self.records[n as usize].is_used())
    }

    /// What is to be told of a flow that ends: its source is a side that sent something.
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
        };
        let (forward, reverse) = (record.half(Way::Forward), record.half(Way::Reverse));
        let direction = Direction::Initiator;
        let finished = FlowRecord { key, forward, reverse, end, direction };
        if forward.packets == 0 { finished.reversed() } else { finished }
    }
}
