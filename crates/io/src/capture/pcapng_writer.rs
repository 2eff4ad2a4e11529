//! A sink that writes a pcapng file (draft-ietf-opsawg-pcapng), little-endian, with times in
//! nanoseconds.

use std::collections::HashMap;
use std::env::consts;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use warpline_packet::LinkType;

use super::Compression;
use super::block::{BLOCK_HEADER_LEN, ENHANCED, INTERFACE, SECTION_HEADER, TRAILER_LEN};
use super::interface::{IF_NAME, IF_TSRESOL, OPT_END};
use super::output::{Framing, RecordOutput};
use super::pcapng::BYTE_ORDER_MAGIC;
use crate::port::{FRAME_LEN_MAX, Frame, InterfaceNames, Sink, SinkError};

/// A pcapng file being written: one section, an interface for each that frames came in on and each
/// link type that they have.
///
/// An interface bears the name that the source knows it by, or else `if` and its number. Frames of
/// any link type go into one file. A frame longer than [`FRAME_LEN_MAX`] is cut to that.
///
/// With [`PcapngWriter::annotated`] it takes packets that were dropped as well, each with the reason
/// as its comment (`opt_comment`).
///
/// Buffering, errors and what is left of a file then are as with [`PcapWriter`](super::PcapWriter);
/// a file that got no frame is a section header.
pub struct PcapngWriter {
    output: RecordOutput,
    names: InterfaceNames,
    annotates: bool,
    /// The number in the file of a frame's interface and link type.
    interfaces: HashMap<Origin, u32>,
    /// The origin of the last frame, which the next one mostly shares.
    last: Option<(Origin, u32)>,
    /// The section header is in the buffer.
    begun: bool,
}

/// Where a frame is from: an interface of the source, and its link type.
type Origin = (u16, LinkType);

impl PcapngWriter {
    /// Writes to the file at `path`, which is emptied if it exists.
    ///
    /// # Errors
    /// `Io` when the file can't be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, SinkError> {
        File::create(path).map(Self::from_file).map_err(SinkError::Io)
    }

    /// Writes to `file`, which is empty.
    pub fn from_file(file: File) -> Self {
        Self::new(RecordOutput::from_file(file, &FRAMING))
    }

    /// Writes to `output`, which needs no buffer of its own.
    pub fn from_writer(output: Box<dyn Write + Send>) -> Self {
        Self::new(RecordOutput::new(output, None, &FRAMING))
    }

    /// Compresses what is written.
    #[must_use]
    pub fn compressed(mut self, compression: Option<Compression>) -> Self {
        self.output.compress(compression);
        self
    }

    /// Takes the names of interfaces from there.
    #[must_use]
    pub fn with_names(mut self, names: InterfaceNames) -> Self {
        self.names = names;
        self
    }

    /// Whether packets that were dropped are written as well.
    #[must_use]
    pub fn annotated(mut self, annotates: bool) -> Self {
        self.annotates = annotates;
        self
    }

    /// Writes what is left, and a section header at least.
    ///
    /// # Errors
    /// As [`Sink::flush`].
    pub fn finish(mut self) -> Result<(), SinkError> {
        self.close()
    }

    fn new(output: RecordOutput) -> Self {
        let (names, interfaces) = (InterfaceNames::default(), HashMap::new());
        Self { output, names, annotates: false, interfaces, last: None, begun: false }
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.output.put(&section_header());
        }
    }

    /// The number in the file of where `frame` is from, which is described there before it is used.
    #[inline]
    fn interface(&mut self, frame: &Frame<'_>) -> Result<u32, SinkError> {
        let origin = (frame.interface, frame.link);
        match self.last {
            Some((last, number)) if last == origin => Ok(number),
            _ => self.look_up(origin),
        }
    }

    #[cold]
    fn look_up(&mut self, origin: Origin) -> Result<u32, SinkError> {
        let number = match self.interfaces.get(&origin) {
            Some(&number) => number,
            None => {
                let number = self.interfaces.len() as u32;
                if number >= INTERFACES_MAX {
                    return Err(SinkError::Unsuitable("more than 65535 interfaces and link types"));
                }
                let (interface, link) = origin;
                let name = self.names.name(interface).unwrap_or_else(|| format!("if{interface}"));
                let block = interface_description(link, &name);
                self.output.make_room(block.len())?;
                self.output.put(&block);
                self.interfaces.insert(origin, number);
                number
            }
        };
        self.last = Some((origin, number));
        Ok(number)
    }

    fn write(&mut self, frame: &Frame<'_>, comment: &str) -> Result<(), SinkError> {
        self.output.check_failed()?;
        self.begin();
        let interface = self.interface(frame)?;
        let bytes = &frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)];
        let comment = &comment[..comment.floor_char_boundary(COMMENT_LEN_MAX)];
        let options_len =
            if comment.is_empty() { 0 } else { option_len(comment.len()) + OPTION_HEADER_LEN };
        let fixed_len = BLOCK_HEADER_LEN + ENHANCED_LEN + TRAILER_LEN;
        let len = fixed_len + bytes.len().next_multiple_of(4) + options_len;
        self.output.make_room(len)?;
        self.output.put(&enhanced_header(frame, interface, len, bytes.len()));
        self.output.put(bytes);
        self.output.put(padding(bytes.len()));
        if !comment.is_empty() {
            self.output.put(&option_header(OPT_COMMENT, comment.len()));
            self.output.put(comment.as_bytes());
            self.output.put(padding(comment.len()));
            self.output.put(&option_header(OPT_END, 0));
        }
        self.output.put(&(len as u32).to_le_bytes());
        Ok(())
    }
}

impl Sink for PcapngWriter {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.write(frame, "")
    }

    fn wants_dropped(&self) -> bool {
        self.annotates
    }

    fn dropped(&mut self, frame: &Frame<'_>, why: &str) -> Result<(), SinkError> {
        if self.annotates { self.write(frame, why) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.output.flush()
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.begin();
        self.output.close()
    }
}

impl Drop for PcapngWriter {
    fn drop(&mut self) {
        // Whoever wants to know of errors calls `finish`.
        let _ = self.close();
    }
}

/// The section header: its length is not known ("-1"), its writer is.
fn section_header() -> Vec<u8> {
    let mut body = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
    body.extend_from_slice(&[1, 0, 0, 0]);
    body.extend_from_slice(&u64::MAX.to_le_bytes());
    put_option(&mut body, SHB_HARDWARE, consts::ARCH.as_bytes());
    put_option(&mut body, SHB_OS, consts::OS.as_bytes());
    put_option(&mut body, SHB_USERAPPL, concat!("warpline ", env!("CARGO_PKG_VERSION")).as_bytes());
    put_option(&mut body, OPT_END, &[]);
    block(SECTION_HEADER, &body)
}

fn interface_description(link: LinkType, name: &str) -> Vec<u8> {
    let mut body = link.0.to_le_bytes().to_vec();
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&(FRAME_LEN_MAX as u32).to_le_bytes());
    put_option(&mut body, IF_NAME, name.as_bytes());
    // "the resolution of the timestamp as a negative power of 10"
    put_option(&mut body, IF_TSRESOL, &[9]);
    put_option(&mut body, OPT_END, &[]);
    block(INTERFACE, &body)
}

/// The head of an enhanced packet block, up to the packet.
fn enhanced_header(
    frame: &Frame<'_>,
    interface: u32,
    len: usize,
    captured: usize,
) -> [u8; BLOCK_HEADER_LEN + ENHANCED_LEN] {
    let nanos = frame.timestamp.as_nanos();
    let (len, captured) = (len as u32, captured as u32);
    let (high, low) = ((nanos >> 32) as u32, nanos as u32);
    let fields = [ENHANCED, len, interface, high, low, captured, frame.wire_len.max(captured)];
    let mut header = [0; BLOCK_HEADER_LEN + ENHANCED_LEN];
    for (place, field) in header.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    header
}

/// A block of `body`, which is a multiple of 4 bytes.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (BLOCK_HEADER_LEN + body.len() + TRAILER_LEN) as u32;
    let mut block = kind.to_le_bytes().to_vec();
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(body);
    block.extend_from_slice(&len.to_le_bytes());
    block
}

fn put_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&option_header(code, value.len()));
    body.extend_from_slice(value);
    body.extend_from_slice(padding(value.len()));
}

fn option_header(code: u16, len: usize) -> [u8; OPTION_HEADER_LEN] {
    let [[a, b], [c, d]] = [code.to_le_bytes(), (len as u16).to_le_bytes()];
    [a, b, c, d]
}

const fn option_len(value_len: usize) -> usize {
    OPTION_HEADER_LEN + value_len.next_multiple_of(4)
}

/// What brings `len` bytes to a multiple of 4.
fn padding(len: usize) -> &'static [u8] {
    &[0; 4][..len.next_multiple_of(4) - len]
}

/// Every block says its length behind its type.
const FRAMING: Framing = Framing { header_len: 0, record_len: block_len };

fn block_len(block: &[u8]) -> Option<usize> {
    let len = block.get(4..8)?.first_chunk()?;
    Some(u32::from_le_bytes(*len) as usize)
}

/// Interface, time in two halves, captured and wire length.
const ENHANCED_LEN: usize = 20;
const OPTION_HEADER_LEN: usize = 4;
const OPT_COMMENT: u16 = 1;
const SHB_HARDWARE: u16 = 2;
const SHB_OS: u16 = 3;
const SHB_USERAPPL: u16 = 4;
/// What an option's length can say.
const COMMENT_LEN_MAX: usize = u16::MAX as usize;
/// As many as are read back.
const INTERFACES_MAX: u32 = u16::MAX as u32;
