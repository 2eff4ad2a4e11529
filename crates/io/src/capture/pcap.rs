//! The pcap format (draft-ietf-opsawg-pcap): a file header of 24 bytes, then records of a header
//! of 16 bytes and the frame.
//!
//! Read are versions 2.0 to 2.4, and 543.0 of DG/UX. They differ in the order of a record's two
//! lengths: up to 2.2 the wire's comes first, and files of 2.3 have either order, as libpcap knows.

use warpline_packet::{Instant, LinkType};

use super::buffer::ReadBuffer;
use super::byte_order::ByteOrder;
use super::{CutPart, ReadStep, Record, captured_len, format_error};
use crate::port::{FRAME_LEN_MAX, SourceError};

/// The state of a pcap file: what its header said.
pub(super) struct Pcap {
    order: ByteOrder,
    unit: Unit,
    pub(super) link: LinkType,
    /// Bytes of the frame check sequence at the end of each packet.
    fcs_len: u32,
    lengths: Lengths,
    /// Bytes of the last record that are still to be passed over.
    skip: u64,
    /// Packets that were cut to [`FRAME_LEN_MAX`].
    pub(super) cut: u64,
}

/// The order of the two lengths in a record's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lengths {
    /// The captured length first.
    CapturedFirst,
    /// The wire length first.
    WireFirst,
    /// Either; the captured one is not the longer.
    ShorterIsCaptured,
}

impl Lengths {
    /// The order in files of a version; `None` for a version that is not known.
    fn of(version: (u16, u16)) -> Option<Self> {
        match version {
            (2, 0..=2) | (543, 0) => Some(Self::WireFirst),
            (2, 3) => Some(Self::ShorterIsCaptured),
            (2, 4) => Some(Self::CapturedFirst),
            _ => None,
        }
    }

    /// The captured length and the wire's, of the two as they stand.
    #[inline]
    fn sort(self, first: u32, second: u32) -> (u32, u32) {
        match self {
            Self::CapturedFirst => (first, second),
            Self::WireFirst => (second, first),
            Self::ShorterIsCaptured => (first.min(second), first.max(second)),
        }
    }
}

/// The unit of a timestamp's second half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Micros,
    Nanos,
}

/// The byte order and the time unit of the file that begins with `magic`, if that is pcap.
pub(super) fn kind(magic: [u8; 4]) -> Option<(ByteOrder, Unit)> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| match order.u32(&magic, 0) {
        MAGIC_MICROS => Some((order, Unit::Micros)),
        MAGIC_NANOS => Some((order, Unit::Nanos)),
        _ => None,
    })
}

/// Whether `magic` is that of the variant whose record headers are longer.
pub(super) fn is_modified(magic: [u8; 4]) -> bool {
    [u32::from_le_bytes(magic), u32::from_be_bytes(magic)].contains(&MAGIC_MODIFIED)
}

impl Pcap {
    /// Reads the file header.
    pub(super) fn open(
        buffer: &mut ReadBuffer,
        order: ByteOrder,
        unit: Unit,
    ) -> Result<Self, SourceError> {
        if !buffer.fill_blocking(FILE_HEADER_LEN)? {
            let what = format!("pcap header cut short: {} of 24 bytes", buffer.ready_len());
            return Err(format_error(0, what));
        }
        let range = buffer.take(FILE_HEADER_LEN);
        let header = buffer.slice(range);
        let version = (order.u16(header, 4), order.u16(header, 6));
        let Some(lengths) = Lengths::of(version) else {
            let (major, minor) = version;
            let what = format!("pcap version {major}.{minor} is not supported, only 2.0 to 2.4");
            return Err(format_error(4, what));
        };
        let link_field = order.u32(header, 20);
        let link = LinkType::from_file((link_field & 0xffff) as u16);
        let fcs_len = fcs_len(link_field);
        Ok(Self { order, unit, link, fcs_len, lengths, skip: 0, cut: 0 })
    }

    /// The next record.
    #[inline]
    pub(super) fn step(&mut self, buffer: &mut ReadBuffer) -> Result<ReadStep, SourceError> {
        if self.skip > 0 && !buffer.skip(&mut self.skip)? {
            return Ok(ReadStep::CutIn(CutPart::Packet));
        }
        if !buffer.fill(RECORD_HEADER_LEN)? {
            let cut = buffer.ready_len() > 0;
            return Ok(if cut { ReadStep::CutIn(CutPart::Packet) } else { ReadStep::End });
        }
        let header = &buffer.ready()[..RECORD_HEADER_LEN];
        let timestamp = self.timestamp(header);
        let (first, second) = (self.order.u32(header, 8), self.order.u32(header, 12));
        let (captured, wire) = self.lengths.sort(first, second);
        let wire_len = wire.max(captured);
        let at = if captured == first { 8 } else { 12 };
        let captured = captured_len(captured, wire, buffer.offset() + at)?;
        let len = captured.min(FRAME_LEN_MAX);
        if !buffer.fill(RECORD_HEADER_LEN + len)? {
            return Ok(ReadStep::CutIn(CutPart::Packet));
        }
        let record = buffer.take(RECORD_HEADER_LEN + len);
        self.skip = (captured - len) as u64;
        self.cut += u64::from(self.skip > 0);
        let bytes = record.start + RECORD_HEADER_LEN..record.end;
        let record = Record { bytes, timestamp, wire_len, link: self.link, interface: 0 };
        Ok(ReadStep::Record(record.without_fcs(self.fcs_len)))
    }

    /// A second half of a second or more is carried over.
    #[inline]
    fn timestamp(&self, header: &[u8]) -> Instant {
        let seconds = u64::from(self.order.u32(header, 0));
        let rest = u64::from(self.order.u32(header, 4));
        let nanos = match self.unit {
            Unit::Micros => rest * 1000,
            Unit::Nanos => rest,
        };
        Instant::from_parts(seconds, nanos)
    }
}

/// "If the "f" bit is set, then the FCS bits provide the number of 16-bit (2 byte) words of FCS
/// that are appended to each packet", section 4 of the draft.
fn fcs_len(link_field: u32) -> u32 {
    let has_fcs = link_field & 0x0400_0000 != 0;
    if has_fcs { 2 * (link_field >> 28) } else { 0 }
}

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// The magic of a file whose timestamps are in nanoseconds.
pub(super) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Length of the file header in bytes.
pub(super) const FILE_HEADER_LEN: usize = 24;
/// Length of a record's header in bytes.
pub(super) const RECORD_HEADER_LEN: usize = 16;
