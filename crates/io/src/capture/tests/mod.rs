//! The capture reader over files built by hand, handed out whole and in pieces.

mod compressed;
mod files;
mod hostile;
mod names;
mod of_pcap;
mod of_pcapng;

use files::{Manner, PcapFile, PcapngFile};

use super::*;

/// A packet as a reader gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    bytes: Vec<u8>,
    nanos: u64,
    wire_len: u32,
    link: u16,
    interface: u16,
}

fn packet(bytes: &[u8], nanos: u64) -> Packet {
    Packet { bytes: bytes.to_vec(), nanos, wire_len: bytes.len() as u32, link: 1, interface: 0 }
}

/// All results of a reader for a file.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    packets: Vec<Packet>,
    /// The offset and the text of the error that ended it.
    error: Option<(u64, String)>,
    warnings: Vec<String>,
}

/// How a reader is asked for packets.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Next,
    Burst,
    /// One after the other.
    Both,
}

impl Ask {
    const ALL: [Self; 3] = [Self::Next, Self::Burst, Self::Both];

    /// The packets of one call, or its error.
    fn once(
        self,
        reader: &mut CaptureReader,
        calls: usize,
    ) -> Result<Option<Vec<Packet>>, SourceError> {
        let mut burst = Burst::new();
        let given = match (self, calls % 2) {
            (Self::Next, _) | (Self::Both, 0) => match reader.next()? {
                Next::Frame(frame) => {
                    burst.push(frame);
                    Given::Frames
                }
                Next::Idle(wait) => Given::Idle(wait),
                Next::End => Given::End,
            },
            _ => reader.burst(&mut burst)?,
        };
        let frames = burst.frames();
        assert_eq!(given == Given::Frames, !frames.is_empty());
        assert!(frames.iter().map(|frame| frame.bytes.len()).sum::<usize>() <= FRAME_LEN_MAX);
        let packets = frames.iter().map(|frame| Packet {
            bytes: frame.bytes.to_vec(),
            nanos: frame.timestamp.as_nanos(),
            wire_len: frame.wire_len,
            link: frame.link.0,
            interface: frame.interface,
        });
        Ok((given != Given::End).then(|| packets.collect()))
    }
}

fn read(input: Box<dyn Read + Send>) -> Reported {
    read_by(Ask::Next, input)
}

fn read_by(ask: Ask, input: Box<dyn Read + Send>) -> Reported {
    let mut reported = Reported { packets: Vec::new(), error: None, warnings: Vec::new() };
    let mut reader = match CaptureReader::new(input, None) {
        Ok(reader) => reader,
        Err(error) => {
            reported.error = Some(format_parts(error));
            return reported;
        }
    };
    for calls in 0.. {
        match ask.once(&mut reader, calls) {
            Ok(Some(packets)) => reported.packets.extend(packets),
            Ok(None) => break,
            Err(error) => {
                reported.error = Some(format_parts(error));
                break;
            }
        }
    }
    assert!(matches!(reader.next(), Ok(Next::End)), "nothing comes after the end");
    assert!(
        matches!(reader.burst(&mut Burst::new()), Ok(Given::End)),
        "nothing comes after the end"
    );
    assert!(reader.buffer.capacity() <= 16 << 20);
    reported.warnings = reader.warnings();
    reported
}

fn format_parts(error: SourceError) -> (u64, String) {
    match error {
        SourceError::Format { offset, what } => (offset, what),
        error @ (SourceError::Io(_) | SourceError::Of { .. }) => panic!("{error}"),
    }
}

/// Checks a file in every manner: its packets, the offset of its error, and words that occur in
/// the error or, without one, in the only warning.
fn check(name: &str, file: &[u8], packets: &[Packet], error: Option<u64>, words: &str) {
    let ways = Manner::ALL.into_iter().flat_map(|manner| Ask::ALL.map(|ask| (manner, ask)));
    for (manner, ask) in ways {
        let reported = read_by(ask, manner.reader(file));
        let name = format!("{name}, {manner:?}, {ask:?}");
        assert_eq!(reported.packets, packets, "{name}");
        assert_eq!(reported.error.as_ref().map(|e| e.0), error, "{name}: {reported:?}");
        let text = match &reported.error {
            Some((_, what)) => what.clone(),
            None => reported.warnings.concat(),
        };
        assert!(text.contains(words), "{name}: {text}");
        assert_eq!(text.is_empty(), words.is_empty(), "{name}: {text}");
    }
}

const S: u64 = 1_000_000_000;

#[test]
fn not_a_capture() {
    let version = |major, minor| {
        let mut file = PcapFile::micros().bytes;
        file[4..8].copy_from_slice(&[major, 0, minor, 0]);
        file
    };
    let (older, newer) = (version(1, 4), version(2, 5));
    let modified = PcapFile::new(true, 0xa1b2_cd34, 1).bytes;
    for (file, offset, words) in [
        (&b""[..], 0, "the input is empty"),
        (b"\xd4\xc3\xb2", 0, "ends after 3 bytes"),
        (b"\xfd7zXZ\x00", 0, "xz compressed; decompress first"),
        (b"BZh91AY", 0, "bzip2 compressed"),
        (b"PK\x03\x04", 0, "begins with bytes 50 4b 03 04"),
        (&modified, 0, "modified pcap"),
        (&older, 4, "version 1.4"),
        (&newer, 4, "version 2.5"),
        (&PcapFile::micros().bytes[..23], 0, "header cut short: 23 of 24"),
        (&PcapngFile::new(false).bytes[..27], 0, "section header cut short after 27 bytes"),
        (&PcapngFile::new(true).bytes[..5], 0, "section header cut short after 5 bytes"),
    ] {
        check(words, file, &[], Some(offset), words);
    }
}

#[test]
fn long_blocks_pass_through_a_small_buffer() {
    let len = 40 << 20;
    let file = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 1, 1, b"a").bytes;
    let head = [&file[..], &[0x77, 0, 0, 0], &(len as u32 + 12).to_le_bytes()].concat();
    let rest = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 2, 1, b"b").bytes;
    let tail = [&(len as u32 + 12).to_le_bytes(), &rest[..]].concat();
    let input = io::Cursor::new(head).chain(io::repeat(0xff).take(len)).chain(&*tail.leak());

    let mut reader = CaptureReader::new(Box::new(input), None).unwrap();
    for expected in [b"a", b"b"] {
        let Ok(Next::Frame(frame)) = reader.next() else { panic!("no packet") };
        assert_eq!(frame.bytes, expected);
    }
    assert!(matches!(reader.next(), Ok(Next::End)));
    assert_eq!(reader.buffer.capacity(), 1 << 20);
}

#[test]
fn records_across_the_buffer_s_end() {
    let frame = |n: usize| vec![n as u8; n * 7919 % 9000];
    let mut file = PcapFile::micros();
    for n in 0..2000 {
        file = file.packet((n as u32, 0), &frame(n));
    }
    assert!(file.bytes.len() > 8 << 20);
    let reported = read(Manner::Whole.reader(&file.bytes));
    assert_eq!(reported.packets.len(), 2000);
    for (n, packet) in reported.packets.iter().enumerate() {
        assert!(packet.bytes == frame(n) && packet.nanos == n as u64 * S, "packet {n}");
    }
}

#[test]
fn progress_and_files() {
    let name = format!("warpline-capture-{}.pcap", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = PcapFile::micros().packet((1, 2), &[3; 60]).packet((1, 2), &[3; 60]).bytes;
    std::fs::write(&path, &file).unwrap();
    let mut reader = CaptureReader::open(&path).unwrap();
    assert_eq!(reader.progress(), Some(24.0 / 176.0));
    assert!(matches!(reader.next(), Ok(Next::Frame(_))));
    assert_eq!(reader.progress(), Some(100.0 / 176.0));
    while let Ok(Next::Frame(_)) = reader.next() {}
    assert_eq!(reader.progress(), Some(1.0));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(CaptureReader::open(&path), Err(SourceError::Io(_))));
}

#[test]
fn a_failed_read_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let start = io::Cursor::new(PcapFile::micros().packet((0, 0), b"ok").bytes);
    let mut reader = CaptureReader::new(Box::new(start.chain(Broken)), None).unwrap();
    assert!(matches!(reader.next(), Ok(Next::Frame(_))));
    assert!(matches!(reader.next(), Err(SourceError::Io(_))));
    assert!(matches!(reader.next(), Ok(Next::End)));
}
