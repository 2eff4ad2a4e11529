//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks, each with its length at both
//! ends.
//!
//! Blocks that hold a packet, an interface or a section header are read whole, so that no packet of
//! a block that is cut or has a wrong length is delivered. All others are skipped.

use std::io;

use warpline_packet::{Instant, LinkType};

use super::block::{
    BLOCK_HEADER_LEN, Block, BlockKind, Body, Layout, Lengths, MAGIC, SECTION_LEN_MIN, Skip,
    TRAILER_LEN,
};
use super::buffer::ReadBuffer;
use super::byte_order::ByteOrder;
use super::interface::Interface;
use super::{CutPart, ReadStep, Record, captured_len, cut_warning, format_error, unread_warning};
use crate::port::{FRAME_LEN_MAX, InterfaceNames, SourceError};

/// The state of a pcapng file.
pub(super) struct Pcapng {
    /// The byte order of the current section.
    order: ByteOrder,
    /// The interfaces of the current section, as far as they are kept.
    interfaces: Vec<Interface>,
    /// The names of all sections' interfaces, by number.
    names: InterfaceNames,
    /// Interfaces of earlier sections.
    before: u64,
    /// Interfaces that the current section describes.
    described: u64,
    /// A block that is being skipped.
    skip: Option<Skip>,
    /// When the last packet was captured.
    last_timestamp: Instant,
    /// Packets that came without a timestamp.
    untimed: u64,
    /// Packets that were cut to [`FRAME_LEN_MAX`].
    cut: u64,
    /// Packets of interfaces that are not kept.
    passed_over: u64,
    /// The first link type whose headers are not read.
    unread: Option<LinkType>,
}

impl Pcapng {
    /// Reads the first section header.
    pub(super) fn open(buffer: &mut ReadBuffer) -> Result<Self, SourceError> {
        let mut pcapng = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            names: InterfaceNames::default(),
            before: 0,
            described: 0,
            skip: None,
            last_timestamp: Instant::ZERO,
            untimed: 0,
            cut: 0,
            passed_over: 0,
            unread: None,
        };
        buffer.fill_blocking(SECTION_LEN_MIN)?;
        if let Some(block) = pcapng.block(buffer)? {
            // Interrupted reads are over once the whole block is there.
            buffer.fill_blocking(block.len)?;
            if let Some(body) = block.take(pcapng.order, buffer)? {
                pcapng.section(&block, body)?;
                return Ok(pcapng);
            }
        }
        let what = format!("section header cut short after {} bytes", buffer.bytes_read());
        Err(format_error(0, what))
    }

    /// The next packet.
    #[inline]
    pub(super) fn step(&mut self, buffer: &mut ReadBuffer) -> Result<ReadStep, SourceError> {
        let mut skipped = 0;
        loop {
            if let Some(skip) = &mut self.skip {
                if !skip.run(self.order, buffer)? {
                    return Ok(ReadStep::CutIn(CutPart::Block));
                }
                skipped += skip.block.len;
                self.skip = None;
            }
            if skipped >= SKIPPED_LEN_MAX {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
            let Some(block) = self.block(buffer)? else {
                let cut = buffer.ready_len() > 0;
                return Ok(if cut { ReadStep::CutIn(CutPart::Block) } else { ReadStep::End });
            };
            let Some(kind) = block.kind() else {
                let left = block.len as u64 - TRAILER_LEN as u64;
                self.skip = Some(Skip { left, block });
                continue;
            };
            let Some(body) = block.take(self.order, buffer)? else {
                return Ok(ReadStep::CutIn(kind.part()));
            };
            match kind {
                BlockKind::Section => self.section(&block, body)?,
                BlockKind::Interface => self.interface(&block, body)?,
                BlockKind::Packet(layout) => match self.packet(layout, &block, body)? {
                    Some(record) => return Ok(ReadStep::Record(record)),
                    None => skipped += block.len,
                },
            }
        }
    }

    /// The names of the interfaces.
    pub(super) fn names(&self) -> InterfaceNames {
        self.names.clone()
    }

    /// Warnings about the packets.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Self { untimed, passed_over, .. } = *self;
        let interfaces = self.before + self.described;
        let untimed = (untimed > 0).then(|| {
            format!(
                "packets of the capture without a timestamp: {untimed}; each was given that of the \
                 packet before it"
            )
        });
        let shared = (interfaces > SHARED_NUMBER + 1).then(|| {
            format!(
                "the capture has {interfaces} interfaces, and outputs number {SHARED_NUMBER} at \
                 most; packets of the others get the number {SHARED_NUMBER}"
            )
        });
        let passed_over = (passed_over > 0).then(|| {
            format!(
                "{passed_over} packets were not read: their interface is not among the first \
                 {INTERFACES_MAX} of its section"
            )
        });
        let unread = self.unread.map(unread_warning);
        let all = [untimed, cut_warning(self.cut), shared, passed_over, unread];
        all.into_iter().flatten().collect()
    }

    /// The head of the next block, not yet taken; none when the input ends before or in it.
    ///
    /// A section header sets the byte order, which its own length is in already.
    #[inline]
    fn block(&mut self, buffer: &mut ReadBuffer) -> Result<Option<Block>, SourceError> {
        if !buffer.fill(BLOCK_HEADER_LEN)? {
            return Ok(None);
        }
        let offset = buffer.offset();
        if buffer.ready().starts_with(&MAGIC) {
            if !buffer.fill(BLOCK_HEADER_LEN + 4)? {
                return Ok(None);
            }
            self.order = section_order(buffer.ready()).ok_or_else(|| {
                format_error(offset + 8, "section header without the byte-order magic 1a2b3c4d")
            })?;
        }
        let header = &buffer.ready()[..BLOCK_HEADER_LEN];
        let number = self.order.u32(header, 0);
        let len = self.order.u32(header, 4) as usize;
        let block = Block { number, len, offset };
        block.check_len()?;
        Ok(Some(block))
    }

    /// A new section: interfaces are counted from here.
    fn section(&mut self, block: &Block, body: Body<'_>) -> Result<(), SourceError> {
        let version = (self.order.u16(body.bytes, 4), self.order.u16(body.bytes, 6));
        // Minor version 2 added block types only; readers must treat it as 0.
        if !matches!(version, (1, 0 | 2)) {
            let what = format!("pcapng version {}.{} is not supported", version.0, version.1);
            return Err(format_error(block.offset + 12, what));
        }
        self.before += self.described;
        self.described = 0;
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, block: &Block, body: Body<'_>) -> Result<(), SourceError> {
        let mut interface = Interface::parse(self.order, body.bytes).map_err(|bad| {
            format_error(block.offset + (BLOCK_HEADER_LEN + bad.at) as u64, bad.what)
        })?;
        let unread = Some(interface.link).filter(|link| !link.is_read());
        self.unread = self.unread.or(unread);
        let name = interface.name.take();
        if self.before + self.described < SHARED_NUMBER {
            self.names.push(name);
        }
        self.described += 1;
        if self.interfaces.len() < INTERFACES_MAX {
            self.interfaces.push(interface);
        }
        Ok(())
    }

    /// The packet of a block, whose time, lengths and interface lie where `layout` says. `None` if
    /// its interface is described and not kept.
    #[inline]
    fn packet(
        &mut self,
        layout: Layout,
        block: &Block,
        body: Body<'_>,
    ) -> Result<Option<Record>, SourceError> {
        let order = self.order;
        let number = match layout {
            Layout::Enhanced => order.u32(body.bytes, 0),
            Layout::Obsolete => u32::from(order.u16(body.bytes, 0)),
            Layout::Simple => 0,
        };
        let Some(interface) = self.interfaces.get(number as usize) else {
            if u64::from(number) < self.described {
                self.passed_over += 1;
                return Ok(None);
            }
            let what = format!("packet of interface {number}, which the section does not describe");
            return Err(format_error(block.offset + BLOCK_HEADER_LEN as u64, what));
        };
        let Lengths { captured, wire } = layout.lengths(order, body.bytes, interface.snap_len);
        let offset = block.offset + (BLOCK_HEADER_LEN + layout.captured_at()) as u64;
        let len = captured_len(captured, wire, offset)?;
        let data = layout.data_at();
        if len > body.bytes.len() - data {
            let what = format!("captured length {len} is more than its block holds");
            return Err(format_error(offset, what));
        }
        let len = len.min(FRAME_LEN_MAX);
        self.cut += u64::from(captured as usize > len);
        match layout {
            Layout::Simple => self.untimed += 1,
            Layout::Enhanced | Layout::Obsolete => {
                let high = u64::from(order.u32(body.bytes, 4));
                let low = u64::from(order.u32(body.bytes, 8));
                self.last_timestamp = interface.instant(high << 32 | low);
            }
        }
        let number = (self.before + u64::from(number)).min(SHARED_NUMBER);
        let record = Record {
            bytes: body.start + data..body.start + data + len,
            timestamp: self.last_timestamp,
            wire_len: wire.max(captured),
            link: interface.link,
            interface: number as u16,
        };
        Ok(Some(record.without_fcs(interface.fcs_len)))
    }
}

/// The byte order of the section whose header begins `bytes`, of 12 bytes at least.
fn section_order(bytes: &[u8]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(bytes, BLOCK_HEADER_LEN) == BYTE_ORDER_MAGIC)
}

/// Bytes of blocks that are skipped in one step, so that the reader can stop in between. A few
/// compressed bytes can expand to blocks that take days to skip.
const SKIPPED_LEN_MAX: usize = 64 << 20;
/// Interfaces of a section that are kept.
const INTERFACES_MAX: usize = 1 << 18;
/// The number of all interfaces of the file from this on.
const SHARED_NUMBER: u64 = u16::MAX as u64;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
