//! Capture files: pcap and pcapng in and out, plain or compressed, and a capture's own timing.
//!
//! [`CaptureReader`] is a source over a file or a pipe, [`PcapWriter`] and [`PcapngWriter`] are
//! sinks ([`CaptureFile`] chooses by the file's name), [`Paced`] is a source that holds each frame
//! of another back until its time has come.
//!
//! The formats are read here rather than by a library for three reasons: a record goes from the
//! read buffer to the arena in one copy, an error names the byte it found, and memory is bounded
//! whatever the lengths in the file say (one buffer of 1 MiB; a pcapng block that must be whole may
//! grow it to 16 MiB). A compressed file takes another 1 MiB, and the window that it asks for: 32
//! KiB for gzip, at most 128 MiB for zstd. The decompressed data is never held as a whole.
//!
//! Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
//!
//! Limits: a packet is cut to 256 KiB, and a record of more than 16 MiB is damage.
//! xz, bzip2 and lz4 are refused, and so is the modified pcap of old Linux systems;
//! name resolution, statistics and every other pcapng block that holds no packet is passed over.

mod block;
mod buffer;
mod byte_order;
mod chunk;
mod compression;
mod cut;
mod decompress;
mod file;
mod interface;
mod output;
mod pace;
mod pcap;
mod pcap_writer;
mod pcapng;
mod pcapng_writer;
mod pipe;
mod queued;
mod rolling;
#[cfg(test)]
mod tests;
mod trouble;

use core::ops::Range;
use core::time::Duration;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use arrayvec::ArrayVec;
use warpline_packet::{Instant, LinkType};

use crate::port::{
    BURST_MAX, Burst, FRAME_LEN_MAX, Frame, Given, InterfaceNames, Next, Source, SourceError,
};
use buffer::{NAP, ReadBuffer};
use cut::Cut;
use pcap::Pcap;
use pcapng::Pcapng;
use pipe::Pipe;

pub use compression::Compression;
pub use file::{CaptureFile, CaptureFormat, NotWritten, empty_file};
pub use pace::{BadPace, Paced};
pub use pcap_writer::PcapWriter;
pub use pcapng_writer::PcapngWriter;
pub use queued::{Destination, Queued, open_pipe};
pub use rolling::{Roll, Rolling};

/// The packets of a pcap or pcapng capture, in the order of the file, streamed. One that is
/// compressed by gzip or zstd is found to be so by its first bytes, whatever its name.
///
/// Timestamps are passed on as they stand, also where they go backwards. A capture that ends in
/// the middle of a packet gives all packets before it, `End`, and a warning. So does compressed
/// data that ends in the middle; where it is corrupt, all packets before that place come before the
/// error.
///
/// ```no_run
/// use warpline_io::{CaptureReader, Next, Source, SourceError};
///
/// fn main() -> Result<(), SourceError> {
///     let mut capture = CaptureReader::open("in.pcapng")?;
///     while let Next::Frame(frame) = capture.next()? {
///         assert!(frame.bytes.len() <= frame.wire_len as usize);
///     }
///     Ok(())
/// }
/// ```
pub struct CaptureReader {
    buffer: ReadBuffer,
    format: Format,
    /// The step after the last burst, if that was taken already.
    ahead: Option<Result<ReadStep, SourceError>>,
    /// Length of the input in bytes, as it is stored, where it is known.
    total_len: Option<u64>,
    packets: u64,
    cut: Option<Cut>,
    ended: bool,
}

impl CaptureReader {
    /// Reads a capture from `input`, whose length in bytes is `total_len` if that is known (it
    /// serves the progress only). Blocks until the file header is there.
    ///
    /// # Errors
    /// `Io` when reading fails, `Format` when what is there is no capture or its header is bad.
    pub fn new(input: Box<dyn Read + Send>, total_len: Option<u64>) -> Result<Self, SourceError> {
        let mut buffer = ReadBuffer::new(input);
        buffer.fill_blocking(MAGIC_LEN)?;
        if let Some(compression) = Compression::detect(buffer.ready()) {
            buffer.decompress(compression)?;
        }
        let format = match Format::detect(&mut buffer) {
            Ok(format) => format,
            Err(error) => return Err(cut::header_error(error, &buffer)),
        };
        Ok(Self { buffer, format, ahead: None, total_len, packets: 0, cut: None, ended: false })
    }

    /// Opens a capture file, or a named pipe, which is `Idle` while nothing comes.
    ///
    /// # Errors
    /// As [`CaptureReader::new`], and `Io` when the file can't be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_file() || meta.is_dir() {
            return Self::new(Box::new(file), Some(meta.len()));
        }
        Self::new(Box::new(Pipe::new(file)?), None)
    }

    /// Reads a capture from standard input; it is `Idle` while nothing comes.
    ///
    /// # Errors
    /// As [`CaptureReader::new`].
    pub fn stdin() -> Result<Self, SourceError> {
        Self::new(Box::new(Pipe::new(io::stdin())?), None)
    }

    /// Takes the next record. A read that was interrupted or would block gives `Idle` and loses
    /// nothing.
    #[inline]
    fn advance(&mut self) -> Result<Advance, SourceError> {
        if self.ended {
            return Ok(Advance::End);
        }
        let step = match self.ahead.take() {
            Some(step) => step,
            None => self.format.step(&mut self.buffer),
        };
        match step {
            Ok(ReadStep::Record(record)) => {
                self.packets += 1;
                Ok(Advance::Record(record))
            }
            Ok(ReadStep::End) => Ok(self.end(None)),
            Ok(ReadStep::CutIn(part)) => Ok(self.end(Some(part))),
            Err(error) => match wait_before_retry(&error) {
                Some(wait) => Ok(Advance::Idle(wait)),
                None => {
                    self.ended = true;
                    Err(cut::placed(error, &self.buffer))
                }
            },
        }
    }

    /// The end, in the middle of `part` if that was not whole.
    fn end(&mut self, part: Option<CutPart>) -> Advance {
        self.ended = true;
        self.cut = Cut::find(&self.buffer, part, self.packets + 1);
        Advance::End
    }

    /// Takes the records that follow `records` and are whole in the buffer, of [`FRAME_LEN_MAX`]
    /// bytes together.
    #[inline]
    fn take_ready(&mut self, records: &mut ArrayVec<Record, BURST_MAX>) {
        let mut room =
            FRAME_LEN_MAX - records.iter().map(|record| record.bytes.len()).sum::<usize>();
        self.buffer.hold(true);
        while !records.is_full() {
            match self.format.step(&mut self.buffer) {
                Ok(ReadStep::Record(record)) if record.bytes.len() <= room => {
                    room -= record.bytes.len();
                    self.packets += 1;
                    records.push(record);
                }
                Err(SourceError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                step => {
                    self.ahead = Some(step);
                    break;
                }
            }
        }
        self.buffer.hold(false);
    }
}

/// The result of [`CaptureReader::advance`].
enum Advance {
    Record(Record),
    Idle(Duration),
    End,
}

impl Source for CaptureReader {
    /// The next packet. A read that was interrupted or would block gives `Idle`, loses nothing,
    /// and is taken up again by the next call.
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        Ok(match self.advance()? {
            Advance::Record(record) => Next::Frame(record.frame(&self.buffer)),
            Advance::Idle(wait) => Next::Idle(wait),
            Advance::End => Next::End,
        })
    }

    /// The next packet, and those after it that are read already.
    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let mut records = ArrayVec::new();
        match self.advance()? {
            Advance::Record(record) => records.push(record),
            Advance::Idle(wait) => return Ok(Given::Idle(wait)),
            Advance::End => return Ok(Given::End),
        }
        self.take_ready(&mut records);
        for record in &records {
            burst.push(record.frame(&self.buffer));
        }
        Ok(Given::Frames)
    }

    fn warnings(&self) -> Vec<String> {
        let own = match &self.format {
            Format::Pcapng(pcapng) => pcapng.warnings(),
            Format::Pcap(pcap) => {
                let is_unread = self.packets > 0 && !pcap.link.is_read();
                let unread = is_unread.then(|| unread_warning(pcap.link));
                cut_warning(pcap.cut).into_iter().chain(unread).collect()
            }
        };
        self.cut.as_ref().map(Cut::warning).into_iter().chain(own).collect()
    }

    /// The share of the input's bytes that was consumed: of the compressed ones, where it is that.
    fn progress(&self) -> Option<f64> {
        let offset = match self.buffer.compressed() {
            Some(input) => input.offset(),
            None => self.buffer.offset(),
        };
        match self.total_len? {
            0 => Some(1.0),
            total => Some((offset as f64 / total as f64).min(1.0)),
        }
    }

    fn interfaces(&self) -> InterfaceNames {
        match &self.format {
            Format::Pcapng(pcapng) => pcapng.names(),
            Format::Pcap(_) => InterfaceNames::default(),
        }
    }
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Format {
    /// The next record, the end, or an error with its place.
    #[inline]
    fn step(&mut self, buffer: &mut ReadBuffer) -> Result<ReadStep, SourceError> {
        match self {
            Self::Pcap(pcap) => pcap.step(buffer),
            Self::Pcapng(pcapng) => pcapng.step(buffer),
        }
    }

    /// Tells the format by its first four bytes and reads the file header.
    fn detect(buffer: &mut ReadBuffer) -> Result<Self, SourceError> {
        buffer.fill_blocking(MAGIC_LEN)?;
        let ready = buffer.ready();
        let Some(&magic) = ready.first_chunk::<MAGIC_LEN>() else {
            let what = match ready.len() {
                0 => "the input is empty, not a capture".to_owned(),
                len => format!("not a capture: the input ends after {len} bytes"),
            };
            return Err(format_error(0, what));
        };
        if magic == block::MAGIC {
            return Pcapng::open(buffer).map(Self::Pcapng);
        }
        if let Some((order, unit)) = pcap::kind(magic) {
            return Pcap::open(buffer, order, unit).map(Self::Pcap);
        }
        Err(format_error(0, refusal(magic)))
    }
}

/// The result of one step over the input.
enum ReadStep {
    Record(Record),
    End,
    /// The input ended inside a record.
    CutIn(CutPart),
}

/// One packet: its place in the read buffer, good until that is filled again, and its metadata.
struct Record {
    bytes: Range<usize>,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    interface: u16,
}

impl Record {
    /// Without the last `len` bytes of the packet, its frame check sequence. It would be wrong once
    /// the frame has changed, and none is written.
    #[inline]
    fn without_fcs(mut self, len: u32) -> Self {
        if len > 0 {
            self.wire_len = self.wire_len.saturating_sub(len);
            let kept = self.bytes.len().min(self.wire_len as usize);
            self.bytes.end = self.bytes.start + kept;
        }
        self
    }

    fn frame<'a>(&self, buffer: &'a ReadBuffer) -> Frame<'a> {
        Frame {
            bytes: buffer.slice(self.bytes.clone()),
            timestamp: self.timestamp,
            wire_len: self.wire_len,
            link: self.link,
            interface: self.interface,
        }
    }
}

/// The part that was incomplete at the end of the input.
#[derive(Clone, Copy)]
enum CutPart {
    Packet,
    /// A pcapng block without a packet, or one whose type is cut off too.
    Block,
}

/// How long to wait before a failed read is tried again, where that makes sense.
fn wait_before_retry(error: &SourceError) -> Option<Duration> {
    let SourceError::Io(error) = error else { return None };
    match error.kind() {
        io::ErrorKind::Interrupted => Some(Duration::ZERO),
        io::ErrorKind::WouldBlock => Some(NAP),
        _ => None,
    }
}

/// Why an input that begins with `magic` is not read.
fn refusal(magic: [u8; MAGIC_LEN]) -> String {
    const COMPRESSED: [(&[u8], &str); 5] = [
        // Within the same: one layer is undone.
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0xfd, b'7', b'z', b'X'], "xz"),
        (b"BZh", "bzip2"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
    ];
    if let Some((_, name)) = COMPRESSED.iter().find(|(start, _)| magic.starts_with(start)) {
        return format!("{name} compressed; decompress first");
    }
    let [a, b, c, d] = magic;
    if pcap::is_modified(magic) {
        return "modified pcap (magic a1b2cd34) is not supported; convert it to pcap".to_owned();
    }
    format!("neither pcap nor pcapng: begins with bytes {a:02x} {b:02x} {c:02x} {d:02x}")
}

fn format_error(offset: u64, what: impl Into<String>) -> SourceError {
    SourceError::Format { offset, what: what.into() }
}

/// The captured length of a packet, which the file has at `offset`. A length that no frame has is
/// accepted up to [`RECORD_LEN_MAX`] and the packet's own; beyond that the file is damaged.
#[inline]
fn captured_len(len: u32, wire: u32, offset: u64) -> Result<usize, SourceError> {
    let captured = len as usize;
    if captured <= FRAME_LEN_MAX || (captured <= RECORD_LEN_MAX && len <= wire) {
        return Ok(captured);
    }
    let what = match captured <= RECORD_LEN_MAX {
        true => format!("captured length {len} is more than {FRAME_LEN_MAX} and the packet's own"),
        false => format!("captured length {len} is more than {RECORD_LEN_MAX}"),
    };
    Err(format_error(offset, what))
}

/// The warning about packets that were longer than any frame.
fn cut_warning(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!("{count} packets are longer than {FRAME_LEN_MAX} bytes and were cut to that")
    })
}

/// The warning about packets whose headers are not read.
fn unread_warning(link: LinkType) -> String {
    let LinkType(number) = link;
    format!("packets of link type {number} pass as other than IP: their headers are not read")
}

/// The longest record that is believed.
const RECORD_LEN_MAX: usize = 16 << 20;
const MAGIC_LEN: usize = 4;
