//! A sink that writes a nanosecond pcap file (draft-ietf-opsawg-pcap, magic `a1b23c4d`),
//! little-endian.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use warpline_packet::{Instant, LinkType};

use super::Compression;
use super::output::{Framing, RecordOutput};
use super::pcap::{FILE_HEADER_LEN, MAGIC_NANOS, RECORD_HEADER_LEN};
use crate::port::{FRAME_LEN_MAX, Frame, Sink, SinkError, Unwritten};

/// A pcap file being written.
///
/// Such a file has one link type: that of [`PcapWriter::with_link`] or else of the first frame.
/// Frames of another are `Unsuitable`. The raw IP types (`RAW`, `IPV4`, `IPV6`) share one file,
/// as `RAW`.
///
/// Timestamps from 2106-02-07T06:28:16Z on don't fit in the format and become the last one that
/// does. A frame longer than [`FRAME_LEN_MAX`] is cut to that.
///
/// Frames are buffered, 2,048 or 1 MiB of them, and go out in whole records. [`Sink::flush`] hands
/// them on; [`PcapWriter::finish`] does too, and so does a drop, which can't report errors. A file
/// that got no frame is a header, of `ETHERNET` if no link type was chosen, written by `finish` or
/// drop (a flush before the first frame leaves the link type open). After an error nothing more is
/// written. The file is then cut back to its last whole record or, if it is compressed, to the
/// bytes of earlier writes.
pub struct PcapWriter {
    output: RecordOutput,
    /// The link type in the file header, once that is in the buffer.
    link: Option<LinkType>,
}

impl PcapWriter {
    /// Writes to the file at `path`, which is emptied if it exists.
    ///
    /// # Errors
    /// `Io` when the file can't be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, SinkError> {
        File::create(path).map(Self::from_file).map_err(SinkError::Io)
    }

    /// Writes to `file`, which is empty.
    pub fn from_file(file: File) -> Self {
        Self { output: RecordOutput::from_file(file, &FRAMING), link: None }
    }

    /// Writes to standard output.
    pub fn stdout() -> Self {
        Self::from_writer(Box::new(io::stdout()))
    }

    /// Writes to `output`, which needs no buffer of its own.
    pub fn from_writer(output: Box<dyn Write + Send>) -> Self {
        Self { output: RecordOutput::new(output, None, &FRAMING), link: None }
    }

    /// Compresses what is written.
    #[must_use]
    pub fn compressed(mut self, compression: Option<Compression>) -> Self {
        self.output.compress(compression);
        self
    }

    /// Fixes the link type before the first frame.
    #[must_use]
    pub fn with_link(mut self, link: LinkType) -> Self {
        if self.link.is_none() {
            self.begin(file_link(link));
        }
        self
    }

    /// Writes what is left, and a header at least.
    ///
    /// # Errors
    /// As [`Sink::flush`].
    pub fn finish(mut self) -> Result<(), SinkError> {
        self.close()
    }

    fn begin(&mut self, link: LinkType) {
        self.link = Some(link);
        self.output.put(&file_header(link));
    }

    /// Adds a record to an output that has not failed.
    #[inline]
    fn put(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        let link = file_link(frame.link);
        match self.link {
            None => self.begin(link),
            Some(of_file) if of_file != link => {
                let why = "link type differs from the capture's first; a .pcapng takes several";
                return Err(SinkError::Unsuitable(why));
            }
            Some(_) => {}
        }
        let bytes = &frame.bytes[..frame.bytes.len().min(FRAME_LEN_MAX)];
        self.output.make_room(RECORD_HEADER_LEN + bytes.len())?;
        let header = record_header(frame.timestamp, bytes.len() as u32, frame.wire_len);
        self.output.put(&header);
        self.output.put(bytes);
        self.output.framed(bytes.len(), frame.interface);
        Ok(())
    }
}

impl Sink for PcapWriter {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.output.check_failed()?;
        self.put(frame)
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        if let Err(error) = self.output.check_failed() {
            return (0, Err(error));
        }
        for (taken, frame) in frames.iter().enumerate() {
            if let Err(error) = self.put(frame) {
                return (taken, Err(error));
            }
        }
        (frames.len(), Ok(()))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.output.flush()
    }

    fn unwritten(&self) -> Unwritten {
        self.output.unwritten()
    }

    fn close(&mut self) -> Result<(), SinkError> {
        if self.link.is_none() {
            self.begin(LinkType::ETHERNET);
        }
        self.output.close()
    }
}

impl Drop for PcapWriter {
    fn drop(&mut self) {
        // Only `finish` reports errors.
        let _ = self.close();
    }
}

/// The link type that frames of `link` have in a file.
fn file_link(link: LinkType) -> LinkType {
    if link.is_raw_ip() { LinkType::RAW } else { link }
}

fn file_header(link: LinkType) -> [u8; FILE_HEADER_LEN] {
    let mut header = [0; FILE_HEADER_LEN];
    header[0..4].copy_from_slice(&MAGIC_NANOS.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&(FRAME_LEN_MAX as u32).to_le_bytes());
    header[20..24].copy_from_slice(&u32::from(link.0).to_le_bytes());
    header
}

fn record_header(timestamp: Instant, captured: u32, wire_len: u32) -> [u8; RECORD_HEADER_LEN] {
    let nanos = timestamp.as_nanos();
    let (seconds, rest) = match u32::try_from(nanos / NANOS_PER_S) {
        Ok(seconds) => (seconds, (nanos % NANOS_PER_S) as u32),
        Err(_) => (u32::MAX, NANOS_PER_S as u32 - 1),
    };
    let mut header = [0; RECORD_HEADER_LEN];
    let fields = [seconds, rest, captured, wire_len.max(captured)];
    for (place, field) in header.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    header
}

const FRAMING: Framing = Framing { header_len: FILE_HEADER_LEN, record_len };

fn record_len(record: &[u8]) -> Option<usize> {
    let len = record.get(8..12)?.first_chunk()?;
    Some(RECORD_HEADER_LEN + u32::from_le_bytes(*len) as usize)
}

const NANOS_PER_S: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written, `step` bytes a write, until `room` is used up; then fails.
    struct Pipe {
        got: Arc<Mutex<Vec<u8>>>,
        step: usize,
        room: usize,
        failure: io::ErrorKind,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut got = self.got.lock().unwrap();
            let len = bytes.len().min(self.step).min(self.room - got.len());
            if len == 0 {
                return Err(self.failure.into());
            }
            got.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe(step: usize, room: usize, failure: io::ErrorKind) -> (PcapWriter, Arc<Mutex<Vec<u8>>>) {
        let got = Arc::default();
        let pipe = Pipe { got: Arc::clone(&got), step, room, failure };
        (PcapWriter::from_writer(Box::new(pipe)), got)
    }

    fn open_pipe() -> (PcapWriter, Arc<Mutex<Vec<u8>>>) {
        pipe(usize::MAX, usize::MAX, io::ErrorKind::Other)
    }

    fn frame(bytes: &[u8], link: LinkType) -> Frame<'_> {
        let timestamp = Instant::from_parts(7, 8);
        Frame { bytes, timestamp, wire_len: bytes.len() as u32, link, interface: 0 }
    }

    const ETHERNET: LinkType = LinkType::ETHERNET;

    #[test]
    fn bytes_of_a_file() {
        let (mut writer, got) = open_pipe();
        writer.send(&Frame { wire_len: 258, ..frame(&[0xaa, 0xbb], ETHERNET) }).unwrap();
        writer.flush().unwrap();
        let expected = [
            &b"\x4d\x3c\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0"[..],
            &[7, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0xaa, 0xbb],
        ];
        assert_eq!(*got.lock().unwrap(), expected.concat());
    }

    #[test]
    fn without_a_frame_there_is_a_header() {
        let (writer, got) = open_pipe();
        writer.finish().unwrap();
        assert_eq!(*got.lock().unwrap(), file_header(ETHERNET));

        let (writer, got) = open_pipe();
        drop(writer.with_link(LinkType::IPV6).with_link(ETHERNET));
        assert_eq!(*got.lock().unwrap(), file_header(LinkType::RAW));
    }

    #[test]
    fn an_early_flush_leaves_the_link_type_open() {
        let (mut writer, got) = open_pipe();
        writer.flush().unwrap();
        writer.send(&frame(&[0x45], LinkType::IPV4)).unwrap();
        writer.finish().unwrap();
        assert_eq!(got.lock().unwrap()[20], 101);
    }

    #[test]
    fn one_link_type_a_file() {
        let (mut writer, got) = open_pipe();
        for link in [LinkType::IPV6, LinkType::IPV4, LinkType::RAW] {
            writer.send(&frame(&[0x45], link)).unwrap();
        }
        let refused = writer.send(&frame(&[0x45], ETHERNET));
        assert!(matches!(refused, Err(SinkError::Unsuitable(_))), "{refused:?}");
        writer.send(&frame(&[0x45], LinkType::RAW)).unwrap();
        writer.finish().unwrap();
        assert_eq!(got.lock().unwrap().len(), 24 + 4 * 17);
    }

    #[test]
    fn late_timestamps_saturate() {
        let last = Instant::from_parts(u64::from(u32::MAX), 999_999_999);
        for late in [last, last.after(core::time::Duration::from_nanos(1)), Instant::MAX] {
            let header = record_header(late, 0, 0);
            assert_eq!(header[..4], [0xff; 4]);
            assert_eq!(header[4..8], 999_999_999_u32.to_le_bytes());
        }
    }

    #[test]
    fn longest_frames_and_those_beyond() {
        let (mut writer, got) = open_pipe();
        let bytes = vec![1; FRAME_LEN_MAX + 5];
        for _ in 0..9 {
            writer.send(&frame(&bytes, ETHERNET)).unwrap();
        }
        writer.finish().unwrap();
        let got = got.lock().unwrap();
        assert_eq!(got.len(), 24 + 9 * (16 + FRAME_LEN_MAX));
        assert_eq!(got[32..36], (FRAME_LEN_MAX as u32).to_le_bytes());
        assert_eq!(got[36..40], (FRAME_LEN_MAX as u32 + 5).to_le_bytes());
    }

    /// Keeps the length of each write.
    struct Lengths(Arc<Mutex<Vec<usize>>>);

    impl Write for Lengths {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// How much is written at once of 5,000 frames of `len` bytes.
    fn lengths(len: usize, compression: Option<Compression>) -> Vec<usize> {
        let lengths = Arc::default();
        let writer = PcapWriter::from_writer(Box::new(Lengths(Arc::clone(&lengths))));
        let mut writer = writer.compressed(compression);
        let bytes = vec![7; len];
        let frames = [frame(&bytes, ETHERNET); 50];
        for _ in 0..100 {
            assert!(matches!(writer.send_burst(&frames), (50, Ok(()))));
        }
        writer.finish().unwrap();
        let lengths = lengths.lock().unwrap();
        lengths.clone()
    }

    #[test]
    fn a_write_has_2048_frames_or_a_mebibyte() {
        let (of_64, of_1000) = (2048 * (64 + 16), 1032 * (1000 + 16));
        let rest = 5000 * (1000 + 16) - 4 * of_1000;
        assert_eq!(lengths(64, None), [24 + of_64, of_64, 904 * (64 + 16)]);
        assert_eq!(lengths(1000, None), [24 + of_1000, of_1000, of_1000, of_1000, rest]);
        // One piece for the compressor.
        assert_eq!(lengths(64, Some(Compression::Gzip)).len(), 1);
    }

    #[test]
    fn short_writes_lose_nothing() {
        let (mut writer, got) = pipe(7, usize::MAX, io::ErrorKind::Other);
        for _ in 0..10 {
            writer.send(&frame(&[9; 33], ETHERNET)).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(got.lock().unwrap().len(), 24 + 10 * 49);
    }

    #[test]
    fn a_closed_pipe_stays_closed() {
        let (mut writer, got) = pipe(50, 100, io::ErrorKind::BrokenPipe);
        writer.send(&frame(&[9; 100], ETHERNET)).unwrap();
        assert!(matches!(writer.flush(), Err(SinkError::Closed)));
        assert!(matches!(writer.send(&frame(&[9], ETHERNET)), Err(SinkError::Closed)));
        assert!(matches!(writer.flush(), Err(SinkError::Closed)));
        drop(writer);
        assert_eq!(got.lock().unwrap().len(), 100);
    }

    /// A file on a disk with room for so many bytes.
    struct Disk {
        file: File,
        room: usize,
    }

    impl Write for Disk {
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

    #[test]
    fn a_full_disk_leaves_whole_records() {
        let name = format!("warpline-full-disk-{}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Two flushed records of 24 + 2 * 20 bytes, then three more in the failing buffer.
        for (room, kept) in [(24, 24), (43, 24), (44, 44), (64, 64), (83, 64), (84, 84), (123, 104)]
        {
            let file = File::create(&path).unwrap();
            let disk = Disk { file: file.try_clone().unwrap(), room };
            let output = RecordOutput::new(Box::new(disk), Some(file), &FRAMING);
            let mut writer = PcapWriter { output, link: None };
            for sent in 0..5 {
                if writer.send(&frame(&[9; 4], ETHERNET)).is_err() || sent == 1 {
                    let _ = writer.flush();
                }
            }
            let failed = writer.flush();
            assert!(matches!(failed, Err(SinkError::Io(_))), "{room}: {failed:?}");
            drop(writer);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), kept, "room for {room}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
