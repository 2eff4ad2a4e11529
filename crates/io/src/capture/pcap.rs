//! The pcap format (draft-ietf-opsawg-pcap): a file header of 24 bytes, then records of a header
//! of 16 bytes and the frame.

use warpline_packet::{Instant, LinkType};

use super::buffer::ReadBuffer;
use super::byte_order::ByteOrder;
use super::{Part, Record, Step, captured_len, format_error};
use crate::port::SourceError;

/// The state of a pcap file: what its header said.
pub(super) struct Pcap {
    order: ByteOrder,
    unit: Unit,
    link: LinkType,
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
        if version != (2, 4) {
            let what =
                format!("pcap version {}.{} is not supported, only 2.4", version.0, version.1);
            return Err(format_error(4, what));
        }
        // "LinkType (16 bits)"; the upper half has the frame check sequence's length.
        let link = LinkType::from_file((order.u32(header, 20) & 0xffff) as u16);
        Ok(Self { order, unit, link })
    }

    /// The next record.
    #[inline]
    pub(super) fn step(&mut self, buffer: &mut ReadBuffer) -> Result<Step, SourceError> {
        if !buffer.fill(RECORD_HEADER_LEN)? {
            let cut = buffer.ready_len() > 0;
            return Ok(if cut { Step::CutIn(Part::Packet) } else { Step::End });
        }
        let header = &buffer.ready()[..RECORD_HEADER_LEN];
        let timestamp = self.timestamp(header);
        let captured = self.order.u32(header, 8);
        let wire_len = self.order.u32(header, 12).max(captured);
        let len = captured_len(captured, buffer.offset() + 8)?;
        if !buffer.fill(RECORD_HEADER_LEN + len)? {
            return Ok(Step::CutIn(Part::Packet));
        }
        let record = buffer.take(RECORD_HEADER_LEN + len);
        let bytes = record.start + RECORD_HEADER_LEN..record.end;
        Ok(Step::Record(Record { bytes, timestamp, wire_len, link: self.link, interface: 0 }))
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

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// The magic of a file whose timestamps are in nanoseconds.
pub(super) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Length of the file header in bytes.
pub(super) const FILE_HEADER_LEN: usize = 24;
/// Length of a record's header in bytes.
pub(super) const RECORD_HEADER_LEN: usize = 16;
