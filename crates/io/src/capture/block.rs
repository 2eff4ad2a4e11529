//! The blocks of a pcapng file: their frame of type and two lengths, and the layouts of those that
//! hold a packet (draft-ietf-opsawg-pcapng, "General Block Structure").

use super::buffer::ReadBuffer;
use super::byte_order::ByteOrder;
use super::{CutPart, format_error};
use crate::port::SourceError;

/// The head of a block.
pub(super) struct Block {
    pub(super) number: u32,
    /// Its length in bytes, with header and trailer.
    pub(super) len: usize,
    /// Its offset in the input.
    pub(super) offset: u64,
}

/// The contents of a whole block between header and trailer.
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    /// Its place in the read buffer.
    pub(super) start: usize,
}

impl Block {
    /// The kind of block, or `None` for a block that is skipped.
    #[inline]
    pub(super) fn kind(&self) -> Option<BlockKind> {
        match self.number {
            SECTION_HEADER => Some(BlockKind::Section),
            INTERFACE => Some(BlockKind::Interface),
            2 => Some(BlockKind::Packet(Layout::Obsolete)),
            3 => Some(BlockKind::Packet(Layout::Simple)),
            ENHANCED => Some(BlockKind::Packet(Layout::Enhanced)),
            _ => None,
        }
    }

    /// "This value MUST be a multiple of 4."
    #[inline]
    pub(super) fn check_len(&self) -> Result<(), SourceError> {
        let min = match self.kind() {
            Some(BlockKind::Section) => SECTION_LEN_MIN,
            Some(BlockKind::Interface) => BLOCK_HEADER_LEN + 8 + TRAILER_LEN,
            Some(BlockKind::Packet(layout)) => BLOCK_HEADER_LEN + layout.data_at() + TRAILER_LEN,
            None => BLOCK_HEADER_LEN + TRAILER_LEN,
        };
        let len = self.len;
        let what = if len < min {
            format!("block length {len} is less than {min}")
        } else if !len.is_multiple_of(4) {
            format!("block length {len} is not a multiple of 4")
        } else if len > BLOCK_LEN_MAX && self.kind().is_some() {
            format!("block length {len} is more than {BLOCK_LEN_MAX}")
        } else {
            return Ok(());
        };
        Err(format_error(self.offset + 4, what))
    }

    /// Takes the whole block; none when the input ends in it.
    #[inline]
    pub(super) fn take<'a>(
        &self,
        order: ByteOrder,
        buffer: &'a mut ReadBuffer,
    ) -> Result<Option<Body<'a>>, SourceError> {
        if !buffer.fill(self.len)? {
            return Ok(None);
        }
        let range = buffer.take(self.len);
        let start = range.start + BLOCK_HEADER_LEN;
        let end = range.end - TRAILER_LEN;
        self.check_trailer(order.u32(buffer.slice(end..range.end), 0))?;
        Ok(Some(Body { bytes: buffer.slice(start..end), start }))
    }

    #[inline]
    fn check_trailer(&self, trailer: u32) -> Result<(), SourceError> {
        if trailer as usize == self.len {
            return Ok(());
        }
        let what = format!("block length is {} at its head and {trailer} at its end", self.len);
        Err(format_error(self.offset + (self.len - TRAILER_LEN) as u64, what))
    }
}

/// A block on its way past.
pub(super) struct Skip {
    /// Bytes up to the trailer.
    pub(super) left: u64,
    pub(super) block: Block,
}

impl Skip {
    /// Continues; false when the input ends in the block.
    pub(super) fn run(
        &mut self,
        order: ByteOrder,
        buffer: &mut ReadBuffer,
    ) -> Result<bool, SourceError> {
        if !buffer.skip(&mut self.left)? || !buffer.fill(TRAILER_LEN)? {
            return Ok(false);
        }
        let trailer = buffer.take(TRAILER_LEN);
        self.block.check_trailer(order.u32(buffer.slice(trailer), 0))?;
        Ok(true)
    }
}

/// The blocks that are read.
#[derive(Clone, Copy)]
pub(super) enum BlockKind {
    Section,
    Interface,
    Packet(Layout),
}

impl BlockKind {
    pub(super) fn part(self) -> CutPart {
        if matches!(self, Self::Packet(_)) { CutPart::Packet } else { CutPart::Block }
    }
}

/// The three blocks that hold a packet.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// Interface, time in two halves, captured and wire length.
    Enhanced,
    /// As `Enhanced`, with the interface and a count of drops in 16 bits each.
    Obsolete,
    /// The wire length alone.
    Simple,
}

pub(super) struct Lengths {
    pub(super) captured: u32,
    pub(super) wire: u32,
}

impl Layout {
    /// Where the packet begins in the block's body.
    #[inline]
    pub(super) const fn data_at(self) -> usize {
        match self {
            Self::Enhanced | Self::Obsolete => 20,
            Self::Simple => 4,
        }
    }

    /// The place of the captured length in the block's body.
    pub(super) const fn captured_at(self) -> usize {
        match self {
            Self::Enhanced | Self::Obsolete => 12,
            Self::Simple => 0,
        }
    }

    #[inline]
    pub(super) fn lengths(self, order: ByteOrder, body: &[u8], snap_len: u32) -> Lengths {
        match self {
            Self::Enhanced | Self::Obsolete => {
                Lengths { captured: order.u32(body, 12), wire: order.u32(body, 16) }
            }
            // The captured length is the lesser of the wire length and the interface's snap length.
            Self::Simple => {
                let wire = order.u32(body, 0);
                let limit = if snap_len == 0 { u32::MAX } else { snap_len };
                Lengths { captured: wire.min(limit), wire }
            }
        }
    }
}

/// The first four bytes of a pcapng file: the type of a section header, the same in both orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
pub(super) const SECTION_HEADER: u32 = u32::from_be_bytes(MAGIC);
/// The type of an interface description block.
pub(super) const INTERFACE: u32 = 1;
/// The type of an enhanced packet block.
pub(super) const ENHANCED: u32 = 6;
/// Type and length.
pub(super) const BLOCK_HEADER_LEN: usize = 8;
/// The length again.
pub(super) const TRAILER_LEN: usize = 4;
/// A section header without options.
pub(super) const SECTION_LEN_MIN: usize = 28;
/// The longest block that is read whole; others may be of any length.
const BLOCK_LEN_MAX: usize = 16 << 20;
