//! A flow's place in the table: one cache line.

use warpline_packet::wire::tcp;

use crate::key::{Echo, FlowDirection, FlowKey, MeteredPacket};
use crate::record::Half;

/// A flow that lasts.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Record {
    /// The earliest packet's own time, in microseconds; the times below are counted from here.
    first_us: u64,
    /// By way.
    bytes: [u64; 2],
    packets: [u32; 2],
    /// The lower 32 bits of the addresses.
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) hash: u32,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    /// The latest packet's own time, by way.
    last_us: [u32; 2],
    /// The earliest packet's own time, of the way that doesn't have the earliest of all.
    other_first_us: u32,
    pub(super) protocol: u8,
    /// The IP version, 0 where there is no flow, the [`Echo`] of its key, [`BEGUN_IN_REVERSE`] and
    /// [`APART`].
    kind: u8,
    tcp_flags: [u8; 2],
}

pub(super) const UNUSED: Record = Record {
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
    /// Of a flow whose first packet goes this way, without that packet.
    pub(super) fn new(key: &FlowKey, way: FlowDirection, first: &MeteredPacket) -> Self {
        let echo = match key.echo {
            Echo::None => 0,
            Echo::Asks => ASKS,
            Echo::Answers => ANSWERS,
        };
        Self {
            first_us: first.own_us,
            src: key.src as u32,
            dst: key.dst as u32,
            hash: first.hash,
            src_port: key.src_port,
            dst_port: key.dst_port,
            protocol: key.protocol,
            kind: key.version | echo | (way as u8) << 7,
            ..UNUSED
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.kind != 0
    }

    /// Whether the time that flows age by lies apart.
    #[inline(always)]
    pub(super) fn is_apart(&self) -> bool {
        self.kind & APART != 0
    }

    #[inline(always)]
    pub(super) fn version(&self) -> u8 {
        self.kind & VERSION
    }

    #[inline(always)]
    pub(super) fn echo(&self) -> Echo {
        match self.kind & ECHO {
            0 => Echo::None,
            ASKS => Echo::Asks,
            _ => Echo::Answers,
        }
    }

    /// The earliest packet's own time.
    #[inline(always)]
    pub(crate) fn first_us(&self) -> u64 {
        self.first_us
    }

    /// The latest packet's own time.
    #[inline(always)]
    pub(crate) fn last_us(&self) -> u64 {
        self.first_us + u64::from(self.last_us[0].max(self.last_us[1]))
    }

    /// Whether the connection ended: FIN from both sides, or RST.
    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        let [forward, reverse] = self.tcp_flags;
        forward & reverse & FIN != 0 || (forward | reverse) & RST != 0
    }

    /// Whether it can't count another packet.
    #[inline(always)]
    pub(crate) fn is_worn(&self) -> bool {
        self.packets[0].max(self.packets[1]) == u32::MAX
    }

    /// Whether a packet is none but the next one: no end of the record is near, and no time differs
    /// from another.
    #[inline(always)]
    pub(super) fn is_next(&self, seen: &MeteredPacket, idle_us: u64, active_us: u64) -> bool {
        // Where it is earlier than the last one, the difference is larger than any limit.
        let quiet_us = seen.own_us.wrapping_sub(self.last_us());
        seen.own_us == seen.now_us
            && !self.is_apart()
            && quiet_us <= idle_us
            && seen.own_us - self.first_us <= active_us
            && !self.is_closed()
            && !self.is_worn()
    }

    /// Counts the next packet ([`Record::is_next`]).
    #[inline(always)]
    pub(super) fn count_next(&mut self, way: FlowDirection, seen: &MeteredPacket) {
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
    pub(super) fn count(&mut self, way: FlowDirection, seen: &MeteredPacket) {
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
        let is_apart = self.last_us() != seen.now_us;
        self.kind = self.kind & !APART | if is_apart { APART } else { 0 };
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
    pub(super) fn restart(&mut self, way: FlowDirection, own_us: u64) {
        let own = Self {
            first_us: own_us,
            kind: self.kind & (VERSION | ECHO) | (way as u8) << 7,
            ..*self
        };
        let (bytes, packets, last_us, tcp_flags) = ([0; 2], [0; 2], [0; 2], [0; 2]);
        *self = Self { bytes, packets, last_us, tcp_flags, other_first_us: 0, ..own };
    }

    pub(super) fn half(&self, way: FlowDirection) -> Half {
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
