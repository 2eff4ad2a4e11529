//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks, each with its length at both
//! ends.
//!
//! Blocks that hold a packet, an interface or a section header are read whole, so that no packet
//! of a block that is cut or lies about its length is delivered; all others are skipped.

use warpline_packet::Instant;

use super::buffer::ReadBuffer;
use super::byte_order::ByteOrder;
use super::interface::Interface;
use super::{Part, Record, Step, captured_len, format_error};
use crate::port::SourceError;

/// The first four bytes of a pcapng file: the type of a section header, the same in both orders.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The state of a pcapng file.
pub(super) struct Pcapng {
    /// The byte order of the current section.
    order: ByteOrder,
    /// The interfaces of all sections so far.
    interfaces: Vec<Interface>,
    /// The first interface of the current section.
    section_start: usize,
    /// A block that is being skipped.
    skip: Option<Skip>,
    /// When the last packet was captured.
    last_timestamp: Instant,
    /// Packets that came without a timestamp.
    untimed: u64,
}

impl Pcapng {
    /// Reads the first section header.
    pub(super) fn open(buffer: &mut ReadBuffer) -> Result<Self, SourceError> {
        let mut pcapng = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            section_start: 0,
            skip: None,
            last_timestamp: Instant::ZERO,
            untimed: 0,
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
    pub(super) fn step(&mut self, buffer: &mut ReadBuffer) -> Result<Step, SourceError> {
        loop {
            if let Some(skip) = &mut self.skip {
                if !skip.run(self.order, buffer)? {
                    return Ok(Step::CutIn(Part::Block));
                }
                self.skip = None;
            }
            let Some(block) = self.block(buffer)? else {
                let cut = buffer.ready_len() > 0;
                return Ok(if cut { Step::CutIn(Part::Block) } else { Step::End });
            };
            let Some(kind) = block.kind() else {
                let left = block.len as u64 - TRAILER_LEN as u64;
                self.skip = Some(Skip { left, block });
                continue;
            };
            let Some(body) = block.take(self.order, buffer)? else {
                return Ok(Step::CutIn(kind.part()));
            };
            match kind {
                Kind::Section => self.section(&block, body)?,
                Kind::Interface => self.interface(&block, body)?,
                Kind::Packet(layout) => {
                    let record = self.packet(layout, &block, body)?;
                    return Ok(Step::Record(record));
                }
            }
        }
    }

    /// What to tell about packets without a timestamp.
    pub(super) fn untimed_warning(&self) -> Option<String> {
        (self.untimed > 0).then(|| {
            format!(
                "{} packets of the capture have no timestamp; each was given that of the packet \
                 before it",
                self.untimed
            )
        })
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
        self.section_start = self.interfaces.len();
        Ok(())
    }

    fn interface(&mut self, block: &Block, body: Body<'_>) -> Result<(), SourceError> {
        if self.interfaces.len() >= INTERFACES_MAX {
            let what = format!("more than {INTERFACES_MAX} interfaces");
            return Err(format_error(block.offset, what));
        }
        let interface = Interface::parse(self.order, body.bytes).map_err(|bad| {
            format_error(block.offset + (BLOCK_HEADER_LEN + bad.at) as u64, bad.what)
        })?;
        self.interfaces.push(interface);
        Ok(())
    }

    /// The packet of a block, whose time, lengths and interface lie where `layout` says.
    #[inline]
    fn packet(
        &mut self,
        layout: Layout,
        block: &Block,
        body: Body<'_>,
    ) -> Result<Record, SourceError> {
        let order = self.order;
        let number = match layout {
            Layout::Enhanced => order.u32(body.bytes, 0),
            Layout::Obsolete => u32::from(order.u16(body.bytes, 0)),
            Layout::Simple => 0,
        };
        let place = (number as usize).saturating_add(self.section_start);
        let Some(interface) = self.interfaces.get(place) else {
            let what = format!("packet of interface {number}, which the section does not describe");
            return Err(format_error(block.offset + BLOCK_HEADER_LEN as u64, what));
        };
        let Lengths { captured, wire } = layout.lengths(order, body.bytes, interface.snap_len);
        let offset = block.offset + (BLOCK_HEADER_LEN + layout.captured_at()) as u64;
        let len = captured_len(captured, offset)?;
        let data = layout.data_at();
        if len > body.bytes.len() - data {
            let what = format!("captured length {len} is more than its block holds");
            return Err(format_error(offset, what));
        }
        match layout {
            Layout::Simple => self.untimed += 1,
            Layout::Enhanced | Layout::Obsolete => {
                let high = u64::from(order.u32(body.bytes, 4));
                let low = u64::from(order.u32(body.bytes, 8));
                self.last_timestamp = interface.instant(high << 32 | low);
            }
        }
        Ok(Record {
            bytes: body.start + data..body.start + data + len,
            timestamp: self.last_timestamp,
            wire_len: wire.max(captured),
            link: interface.link,
            // `INTERFACES_MAX` keeps the place within 16 bits.
            interface: place as u16,
        })
    }
}

/// The head of a block.
struct Block {
    number: u32,
    /// Its length in bytes, with header and trailer.
    len: usize,
    /// Its offset in the input.
    offset: u64,
}

/// What a whole block holds between header and trailer.
struct Body<'a> {
    bytes: &'a [u8],
    /// Its place in the read buffer.
    start: usize,
}

impl Block {
    /// What is read of it; none for a block that is skipped.
    #[inline]
    fn kind(&self) -> Option<Kind> {
        match self.number {
            SECTION_HEADER => Some(Kind::Section),
            1 => Some(Kind::Interface),
            2 => Some(Kind::Packet(Layout::Obsolete)),
            3 => Some(Kind::Packet(Layout::Simple)),
            6 => Some(Kind::Packet(Layout::Enhanced)),
            _ => None,
        }
    }

    /// "This value MUST be a multiple of 4."
    #[inline]
    fn check_len(&self) -> Result<(), SourceError> {
        let min = match self.kind() {
            Some(Kind::Section) => SECTION_LEN_MIN,
            Some(Kind::Interface) => BLOCK_HEADER_LEN + 8 + TRAILER_LEN,
            Some(Kind::Packet(layout)) => BLOCK_HEADER_LEN + layout.data_at() + TRAILER_LEN,
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
    fn take<'a>(
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
struct Skip {
    /// Bytes up to the trailer.
    left: u64,
    block: Block,
}

impl Skip {
    /// Goes on; false when the input ends in the block.
    fn run(&mut self, order: ByteOrder, buffer: &mut ReadBuffer) -> Result<bool, SourceError> {
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
enum Kind {
    Section,
    Interface,
    Packet(Layout),
}

impl Kind {
    fn part(self) -> Part {
        if matches!(self, Self::Packet(_)) { Part::Packet } else { Part::Block }
    }
}

/// The three blocks that hold a packet.
#[derive(Clone, Copy)]
enum Layout {
    /// Interface, time in two halves, captured and wire length.
    Enhanced,
    /// As `Enhanced`, with the interface and a count of drops in 16 bits each.
    Obsolete,
    /// The wire length alone.
    Simple,
}

struct Lengths {
    captured: u32,
    wire: u32,
}

impl Layout {
    /// Where the packet begins in the block's body.
    #[inline]
    const fn data_at(self) -> usize {
        match self {
            Self::Enhanced | Self::Obsolete => 20,
            Self::Simple => 4,
        }
    }

    /// Where the length that says how much was captured lies in the block's body.
    const fn captured_at(self) -> usize {
        match self {
            Self::Enhanced | Self::Obsolete => 12,
            Self::Simple => 0,
        }
    }

    #[inline]
    fn lengths(self, order: ByteOrder, body: &[u8], snap_len: u32) -> Lengths {
        match self {
            Self::Enhanced | Self::Obsolete => {
                Lengths { captured: order.u32(body, 12), wire: order.u32(body, 16) }
            }
            // What was captured is the lesser of the wire length and the interface's snap length.
            Self::Simple => {
                let wire = order.u32(body, 0);
                let limit = if snap_len == 0 { u32::MAX } else { snap_len };
                Lengths { captured: wire.min(limit), wire }
            }
        }
    }
}

/// The byte order of the section whose header begins `bytes`, of 12 bytes at least.
fn section_order(bytes: &[u8]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| order.u32(bytes, BLOCK_HEADER_LEN) == BYTE_ORDER_MAGIC)
}

/// The longest block that is read whole; others may be of any length.
const BLOCK_LEN_MAX: usize = 16 << 20;
/// Interfaces over the whole file.
const INTERFACES_MAX: usize = u16::MAX as usize;
const SECTION_HEADER: u32 = u32::from_be_bytes(MAGIC);
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const BLOCK_HEADER_LEN: usize = 8;
const TRAILER_LEN: usize = 4;
/// A section header without options.
const SECTION_LEN_MIN: usize = 28;
