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
use crate::port::{FRAME_LEN_MAX, Frame, InterfaceNames, Sink, SinkError, Unwritten};

/// A pcapng file being written: one section, an interface for each that frames came in on and each
/// link type that they have.
///
/// An interface bears the name that the source knows it by, or else `if` and its number. Frames of
/// any link type go into one file. A frame longer than [`FRAME_LEN_MAX`] is cut to that.
///
/// With [`PcapngWriter::annotated`] it takes packets that were dropped as well, each with the
/// reason as its comment (`opt_comment`).
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
        self.write(frame, "")?;
        self.output.framed(frame.bytes.len().min(FRAME_LEN_MAX), frame.interface);
        Ok(())
    }

    fn unwritten(&self) -> Unwritten {
        self.output.unwritten()
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
        // Only `finish` reports errors.
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

/// The padding that brings `len` bytes to a multiple of 4.
fn padding(len: usize) -> &'static [u8] {
    &[0; 4][..len.next_multiple_of(4) - len]
}

/// Every block has its length after its type.
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
/// The largest value of an option's length field.
const COMMENT_LEN_MAX: usize = u16::MAX as usize;
/// As many as are read back.
const INTERFACES_MAX: u32 = u16::MAX as u32;

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use warpline_packet::Instant;

    use super::*;
    use crate::port::{Next, Source};
    use crate::{CaptureReader, PcapWriter};

    /// Keeps what is written, up to `room` bytes; then the disk is full.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<Vec<u8>>>, usize);

    impl Disk {
        fn new(room: usize) -> Self {
            Self(Arc::default(), room)
        }

        fn bytes(&self) -> Vec<u8> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock().unwrap();
            let len = bytes.len().min(self.1 - kept.len());
            kept.extend_from_slice(&bytes[..len]);
            if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer() -> (PcapngWriter, Disk) {
        let disk = Disk::new(usize::MAX);
        (PcapngWriter::from_writer(Box::new(disk.clone())), disk)
    }

    fn frame(bytes: &[u8], link: LinkType, interface: u16) -> Frame<'_> {
        let timestamp = Instant::from_nanos(0x0102_0304_0506_0708);
        Frame { bytes, timestamp, wire_len: bytes.len() as u32, link, interface }
    }

    /// Without the section header, whose strings are the machine's.
    fn blocks(file: &[u8]) -> &[u8] {
        assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        &file[block_len(file).unwrap()..]
    }

    #[test]
    fn bytes_of_a_file() {
        let (mut writer, disk) = writer();
        writer.send(&Frame { wire_len: 258, ..frame(b"abcde", LinkType::ETHERNET, 3) }).unwrap();
        writer.finish().unwrap();
        let file = disk.bytes();
        let expected = [
            &[1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 4, 0][..],
            &[2, 0, 3, 0, b'i', b'f', b'3', 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0],
            &[6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 2, 1, 0, 0],
            &[b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 40, 0, 0, 0],
        ];
        assert_eq!(blocks(&file), expected.concat());
        assert_eq!(
            file[8..24],
            [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]
        );
        let header = String::from_utf8_lossy(&file[..block_len(&file).unwrap()]).into_owned();
        assert!(header.contains(concat!("warpline ", env!("CARGO_PKG_VERSION"))), "{header}");
    }

    #[test]
    fn comments_are_of_what_was_dropped() {
        for (annotates, len) in [(false, 36 + 40), (true, 36 + 40 + 36 + 16)] {
            let (writer, disk) = writer();
            let mut writer = writer.annotated(annotates);
            assert_eq!(writer.wants_dropped(), annotates);
            writer.send(&frame(b"abcd", LinkType::RAW, 0)).unwrap();
            writer.dropped(&frame(b"efgh", LinkType::RAW, 0), "why not").unwrap();
            writer.finish().unwrap();
            let file = disk.bytes();
            assert_eq!(blocks(&file).len(), len);
            if annotates {
                let comment = [1, 0, 7, 0, b'w', b'h', b'y', b' ', b'n', b'o', b't', 0, 0, 0, 0, 0];
                assert_eq!(file[file.len() - 20..file.len() - 4], comment);
            }
        }
        let (writer, disk) = writer();
        let mut writer = writer.annotated(true);
        writer.dropped(&frame(b"", LinkType::RAW, 0), &"ä".repeat(40_000)).unwrap();
        writer.finish().unwrap();
        let file = disk.bytes();
        // An odd number of bytes, and each character has two.
        assert_eq!(file[file.len() - 10 - 65534..][..4], *"ää".as_bytes());
        assert!(read(&file).1.is_empty());
    }

    #[test]
    fn without_a_frame_there_is_a_section() {
        for compression in [None, Some(Compression::Gzip), Some(Compression::Zstd)] {
            let (writer, disk) = writer();
            writer.compressed(compression).finish().unwrap();
            assert_eq!(read(&disk.bytes()), (Vec::new(), Vec::new()), "{compression:?}");
        }
    }

    type Packet = (Vec<u8>, u64, u32, u16, String);

    /// Packets with the names of their interfaces, and warnings.
    fn read(file: &[u8]) -> (Vec<Packet>, Vec<String>) {
        let input = Box::new(io::Cursor::new(file.to_vec()));
        let mut reader = CaptureReader::new(input, None).unwrap();
        let names = reader.interfaces();
        let mut packets = Vec::new();
        while let Next::Frame(frame) = reader.next().unwrap() {
            let name = names.name(frame.interface).unwrap_or_default();
            let nanos = frame.timestamp.as_nanos();
            packets.push((frame.bytes.to_vec(), nanos, frame.wire_len, frame.link.0, name));
        }
        (packets, reader.warnings())
    }

    /// A full disk leaves whole blocks or pieces, and nothing more is written after them. Missing
    /// packets are counted.
    #[test]
    fn a_full_disk_leaves_what_can_be_read() {
        let name = format!("warpline-full-disk-{}.pcapng", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut state = 1_u64;
        let mut long = [0; 60_000];
        long.fill_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        // Some pieces of a compressed file have tens of the long frames.
        let cases = [(None, 40, 7, 900), (None, 60_000, 100_003, 900_000)].into_iter().chain(
            [Compression::Gzip, Compression::Zstd]
                .map(|how| (Some(how), 60_000, 900_001, 5_000_000)),
        );
        for (compression, len, step, most) in cases {
            for room in (0..most).step_by(step) {
                let file = File::create(&path).unwrap();
                let disk = FullFile { file: file.try_clone().unwrap(), room };
                let mut output = RecordOutput::new(Box::new(disk), Some(file), &FRAMING);
                output.compress(compression);
                let mut writer = PcapngWriter::new(output);
                let mut flushed = 0;
                for number in 0..100 {
                    let bytes = long.map(|byte| byte ^ number);
                    let outcome = writer.send(&frame(&bytes[..len], LinkType::ETHERNET, 0));
                    let outcome = outcome.and_then(|()| writer.flush());
                    flushed += usize::from(outcome.is_ok());
                }
                assert!(matches!(writer.close(), Err(SinkError::Io(_))), "room {room}");
                let lost = writer.unwritten().frames() as usize;
                drop(writer);
                let kept = std::fs::read(&path).unwrap();
                let packets = if kept.is_empty() { 0 } else { read(&kept).0.len() };
                // The one at which the disk was full is neither sent nor kept from being written
                // later.
                let reported = format!("{compression:?} {room}: {packets} {lost} of {flushed}");
                assert!((flushed..=flushed + 1).contains(&(packets + lost)), "{reported}");
                assert!(compression.is_some() || packets == flushed, "{reported}");
                assert!(packets > 0 || room < 1_500_000, "{reported}");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }

    struct FullFile {
        file: File,
        room: usize,
    }

    impl Write for FullFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room);
            if len == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= len;
            self.file.write(&bytes[..len])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Every piece that was flushed can be read, before the file is whole.
    #[test]
    fn flushed_frames_are_in_the_file() {
        for compression in [None, Some(Compression::Gzip), Some(Compression::Zstd)] {
            let disk = Disk::new(usize::MAX);
            let mut writer =
                PcapWriter::from_writer(Box::new(disk.clone())).compressed(compression);
            for count in 1..20 {
                writer.send(&frame(b"abc", LinkType::ETHERNET, 0)).unwrap();
                writer.flush().unwrap();
                // Pieces of compressed files end with their records, not at flushes.
                if compression.is_none() {
                    assert_eq!(read(&disk.bytes()).0.len(), count);
                }
            }
            writer.close().unwrap();
            let len = disk.bytes().len();
            let (packets, warnings) = read(&disk.bytes());
            assert!(packets.len() == 19 && warnings.is_empty(), "{compression:?}");
            drop(writer);
            assert_eq!(disk.bytes().len(), len, "what is closed is not closed again");
        }
    }

    fn any_frame() -> impl Strategy<Value = (Vec<u8>, u64, u32, u16, u16, bool)> {
        let bytes = vec(any::<u8>(), 0..200);
        (bytes, any::<u64>(), any::<u32>(), 0_u16..300, 0_u16..4, any::<bool>())
    }

    proptest! {
        #[test]
        fn there_and_back(frames in vec(any_frame(), 0..30), way in 0_usize..3) {
            let names = InterfaceNames::default();
            for name in [Some("lan"), None, Some("wän")] {
                names.push(name.map(str::to_owned));
            }
            let (writer, disk) = writer();
            let compression = [None, Some(Compression::Gzip), Some(Compression::Zstd)][way];
            let mut writer = writer.compressed(compression).with_names(names).annotated(true);
            let (mut expected, mut unread) = (Vec::new(), None);
            for (bytes, nanos, wire_len, link, interface, is_sent) in &frames {
                let (wire_len, interface) = ((*wire_len).max(bytes.len() as u32), *interface);
                let link = LinkType::from_file(*link);
                unread = unread.or(Some(link.0).filter(|_| !link.is_read()));
                let timestamp = Instant::from_nanos(*nanos);
                let frame = Frame { bytes, timestamp, wire_len, link, interface };
                if *is_sent {
                    writer.send(&frame).unwrap();
                } else {
                    writer.dropped(&frame, "dropped by a test: odd").unwrap();
                }
                let name = ["lan", "if1", "wän", "if3"][usize::from(interface)].to_owned();
                expected.push((bytes.clone(), *nanos, wire_len, link.0, name));
            }
            writer.finish().unwrap();
            let warning = unread.map(|number| format!(
                "packets of link type {number} pass as other than IP: their headers are not read"
            ));
            prop_assert_eq!(read(&disk.bytes()), (expected, warning.into_iter().collect()));
        }
    }
}
