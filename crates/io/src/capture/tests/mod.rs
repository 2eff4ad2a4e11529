//! The capture reader over files built by hand, handed out whole and in pieces.

mod compressed;
mod files;
mod hostile;
mod names;

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

/// All that a reader says about a file.
#[derive(Debug, PartialEq, Eq)]
struct Told {
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

fn read(input: Box<dyn Read + Send>) -> Told {
    read_by(Ask::Next, input)
}

fn read_by(ask: Ask, input: Box<dyn Read + Send>) -> Told {
    let mut told = Told { packets: Vec::new(), error: None, warnings: Vec::new() };
    let mut reader = match CaptureReader::new(input, None) {
        Ok(reader) => reader,
        Err(error) => {
            told.error = Some(format_parts(error));
            return told;
        }
    };
    for calls in 0.. {
        match ask.once(&mut reader, calls) {
            Ok(Some(packets)) => told.packets.extend(packets),
            Ok(None) => break,
            Err(error) => {
                told.error = Some(format_parts(error));
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
    told.warnings = reader.warnings();
    told
}

fn format_parts(error: SourceError) -> (u64, String) {
    match error {
        SourceError::Format { offset, what } => (offset, what),
        SourceError::Io(error) => panic!("{error}"),
    }
}

/// Checks a file in every manner: its packets, the offset of its error, and words that occur in
/// the error or, without one, in the only warning.
fn check(name: &str, file: &[u8], packets: &[Packet], error: Option<u64>, words: &str) {
    let ways = Manner::ALL.into_iter().flat_map(|manner| Ask::ALL.map(|ask| (manner, ask)));
    for (manner, ask) in ways {
        let told = read_by(ask, manner.reader(file));
        let name = format!("{name}, {manner:?}, {ask:?}");
        assert_eq!(told.packets, packets, "{name}");
        assert_eq!(told.error.as_ref().map(|e| e.0), error, "{name}: {told:?}");
        let text = match &told.error {
            Some((_, what)) => what.clone(),
            None => told.warnings.concat(),
        };
        assert!(text.contains(words), "{name}: {text}");
        assert_eq!(text.is_empty(), words.is_empty(), "{name}: {text}");
    }
}

const S: u64 = 1_000_000_000;

#[test]
fn pcap_variants() {
    for (big, magic, unit) in [
        (false, 0xa1b2_c3d4, 1000),
        (true, 0xa1b2_c3d4, 1000),
        (false, 0xa1b2_3c4d, 1),
        (true, 0xa1b2_3c4d, 1),
    ] {
        let file = PcapFile::new(big, magic, 1)
            .packet((10, 999_999), b"first")
            .packet((u32::MAX, 1), b"")
            .packet((9, 0), &[7; 300]);
        let expected = [
            packet(b"first", 10 * S + 999_999 * unit),
            packet(b"", u64::from(u32::MAX) * S + unit),
            packet(&[7; 300], 9 * S),
        ];
        check(&format!("{magic:x} {big}"), &file.bytes, &expected, None, "");
    }
}

#[test]
fn pcap_fields() {
    // Four bytes of frame check sequence and its flag, above the link type.
    let file = PcapFile::new(true, 0xa1b2_c3d4, 0x2400_0071).packet((0, 0), b"sll");
    let sll = Packet { link: 113, ..packet(b"sll", 0) };
    check("link type with upper bits", &file.bytes, &[sll], None, "");

    let file = PcapFile::new(false, 0xa1b2_c3d4, 12).packet((0, 0), b"raw");
    check(
        "raw IP by number 12",
        &file.bytes,
        &[Packet { link: 101, ..packet(b"raw", 0) }],
        None,
        "",
    );

    let file = PcapFile::micros().packet((1, 1_000_001), b"a").packet((1, u32::MAX), b"b");
    let nanos = [2 * S + 1000, S + u64::from(u32::MAX) * 1000];
    check("micros", &file.bytes, &[packet(b"a", nanos[0]), packet(b"b", nanos[1])], None, "");

    let file = PcapFile::micros().record((0, 0), 3, 1500, b"cut").record((0, 0), 3, 2, b"odd");
    let expected = [Packet { wire_len: 1500, ..packet(b"cut", 0) }, packet(b"odd", 0)];
    check("lengths", &file.bytes, &expected, None, "");
}

/// libpcap's `sf-pcap.c`: "The captured and on-the-wire lengths are swapped" in files of versions before 2.3
/// and of 543.0; in those of 2.3 where the captured one would be the longer.
#[test]
fn pcap_of_older_versions() {
    for (major, minor, is_swapped) in [
        (2u16, 0u16, true),
        (2, 1, true),
        (2, 2, true),
        (543, 0, true),
        (2, 3, true),
        (2, 3, false),
    ] {
        let lengths = |captured, wire| if is_swapped { (wire, captured) } else { (captured, wire) };
        for big in [false, true] {
            let mut file = PcapFile::new(big, 0xa1b2_c3d4, 1);
            let bytes = |half: u16| if big { half.to_be_bytes() } else { half.to_le_bytes() };
            file.bytes[4..6].copy_from_slice(&bytes(major));
            file.bytes[6..8].copy_from_slice(&bytes(minor));
            let (first, second) = lengths(3, 1500);
            let file = file.record((0, 0), first, second, b"cut").packet((0, 1), b"whole");
            let expected = [Packet { wire_len: 1500, ..packet(b"cut", 0) }, packet(b"whole", 1000)];
            check(&format!("{major}.{minor}, big {big}"), &file.bytes, &expected, None, "");
        }
    }
    let mut file = PcapFile::micros();
    file.bytes[6] = 2;
    let file = file.record((0, 0), 3, FRAME_LEN_MAX as u32 + 1, b"cut");
    check("the captured one is second", &file.bytes, &[], Some(24 + 12), "captured length");
}

#[test]
fn pcap_length_beyond_all_frames() {
    let long = FRAME_LEN_MAX as u32 + 1;
    for (len, wire) in [(long, long - 1), ((16 << 20) + 1, u32::MAX), (u32::MAX, u32::MAX)] {
        let file = PcapFile::micros().packet((0, 0), b"ok").record((0, 0), len, wire, &[0; 400]);
        let at = 24 + 18 + 8;
        check("lying", &file.bytes, &[packet(b"ok", 0)], Some(at), "captured length");
    }
    let file = PcapFile::micros().packet((0, 0), b"ok").record((0, 0), long, long, &[0; 400]);
    check("cut", &file.bytes, &[packet(b"ok", 0)], None, "in the middle of packet 2");
    let longest = vec![5; FRAME_LEN_MAX];
    let file = PcapFile::micros().packet((0, 0), &longest).packet((0, 0), &longest);
    let told = read(Manner::Whole.reader(&file.bytes));
    assert_eq!(told.packets, [packet(&longest, 0), packet(&longest, 0)]);
}

/// Records of up to 16 MiB are read on; a packet of more than a frame's length is cut.
#[test]
fn long_records_are_cut() {
    for len in [FRAME_LEN_MAX + 1, 4_000_000, (16 << 20) - 36] {
        let long: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let cut = Packet { wire_len: len as u32, ..packet(&long[..FRAME_LEN_MAX], 0) };
        let expected = [cut, packet(b"next", 0)];
        let (wire, time) = (len as u32, (0, 0));
        let pcap = PcapFile::micros().packet(time, &long).packet(time, b"next").bytes;
        let ng = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 0, wire, &long);
        let ng = ng.enhanced(0, 0, 4, b"next").bytes;
        for file in [pcap, ng] {
            let told = read(Manner::Whole.reader(&file));
            assert!(told.packets == expected && told.error.is_none(), "{len}: {:?}", told.error);
            assert_eq!(
                told.warnings,
                ["1 packets are longer than 262144 bytes and were cut to that"]
            );
        }
    }
}

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
fn pcapng_blocks() {
    for big in [false, true] {
        let file = PcapngFile::new(big)
            .block(5, &[1; 40])
            .interface(1, 0, &[(2, b"eth0"), (9, &[9]), (0, b"")])
            .block(4, b"")
            .enhanced(0, 5 * S + 1, 6, b"epb")
            .block(0x0bad_c0de, &[2; 3000])
            .obsolete(0, 5 * S, b"old")
            .enhanced(0, u64::MAX, 4, b"four");
        let expected = [
            Packet { wire_len: 6, ..packet(b"epb", 5 * S + 1) },
            packet(b"old", 5 * S),
            packet(b"four", u64::MAX),
        ];
        check(&format!("big {big}"), &file.bytes, &expected, None, "");
    }
}

#[test]
fn pcapng_sections_and_interfaces() {
    let file = PcapngFile::new(false)
        .interface(1, 0, &[])
        .interface(101, 0, &[(9, &[0x80 | 10])])
        .enhanced(1, 1536, 2, b"ip")
        .enhanced(0, 7, 1, b"e")
        .section(true)
        .interface(113, 0, &[(14, &[0, 0, 0, 0, 0, 0, 0, 9])])
        .enhanced(0, 1, 3, b"sll")
        .section(false)
        .interface(229, 0, &[])
        .enhanced(0, 2, 2, b"v6");
    let expected = [
        Packet { link: 101, interface: 1, ..packet(b"ip", S + S / 2) },
        packet(b"e", 7000),
        Packet { link: 113, interface: 2, ..packet(b"sll", 9 * S + 1000) },
        Packet { link: 229, interface: 3, ..packet(b"v6", 2000) },
    ];
    check("sections", &file.bytes, &expected, None, "");
}

#[test]
fn pcapng_simple_packets() {
    let file = PcapngFile::new(false)
        .interface(1, 6, &[])
        .simple(4, b"full")
        .enhanced(0, 3, 1, b"e")
        .simple(1500, b"sixsix");
    let snapped = Packet { wire_len: 1500, ..packet(b"sixsix", 3000) };
    let expected = [packet(b"full", 0), packet(b"e", 3000), snapped];
    check("simple", &file.bytes, &expected, None, "2 packets of the capture have no timestamp");
}

#[test]
fn pcapng_errors_name_their_byte() {
    let start = || PcapngFile::new(true).interface(1, 0, &[]).enhanced(0, 1, 2, b"ok");
    // Section 28, interface 20, packet 36 bytes.
    let at = 84;
    let fixed = [0; 20];
    for (name, file, offset, words) in [
        ("short", start().lying(9, b"", 8, 8), at + 4, "less than 12"),
        ("zero", start().lying(9, b"", 0, 0), at + 4, "less than 12"),
        ("odd", start().lying(9, b"abcd", 17, 17), at + 4, "not a multiple of 4"),
        ("tail", start().lying(9, b"abcd", 16, 20), at + 12, "16 at its head and 20 at its end"),
        ("tail of packet", start().lying(6, &fixed, 32, 36), at + 28, "at its head"),
        ("short packet", start().lying(6, b"", 28, 28), at + 4, "less than 32"),
        ("huge packet", start().lying(6, &fixed, 1 << 25, 0), at + 4, "more than 16777216"),
        ("interface", start().enhanced(1, 0, 1, b"x"), at + 8, "interface 1"),
        ("interface of old", start().obsolete(9, 0, b"x"), at + 8, "interface 9"),
        ("far interface", start().enhanced(u32::MAX, 0, 1, b"x"), at + 8, "interface 4294967295"),
        ("other section's", start().section(true).simple(1, b"x"), at + 36, "interface 0"),
        ("captured", start().enhanced_saying(0, 0, (5, 5), b"four"), at + 20, "its block holds"),
        ("captured all", start().enhanced_saying(0, 0, (u32::MAX, 5), b"x"), at + 20, "16777216"),
        (
            "longer than it was",
            start().enhanced_saying(0, 0, (1 << 20, 5), b"x"),
            at + 20,
            "262144",
        ),
        ("simple", start().simple(5, b"four"), at + 8, "its block holds"),
        ("option", start().interface(1, 0, &[(9, &[1, 2])]), at + 16, "if_tsresol"),
        ("no order", start().block(0x0a0d_0d0a, &[0; 16]), at + 8, "byte-order magic"),
    ] {
        check(name, &file.bytes, &[packet(b"ok", 1000)], Some(offset), words);
    }
    let mut newer = PcapngFile::new(false).bytes;
    newer[12] = 2;
    check("version", &newer, &[], Some(12), "version 2.0");
    newer[12..15].copy_from_slice(&[1, 0, 2]);
    check("version 1.2", &newer, &[], None, "");
}

/// Numbers have 16 bits: interfaces beyond share the last, in one section or in many.
#[test]
fn any_number_of_interfaces() {
    for by_section in [false, true] {
        let mut file = PcapngFile::new(false);
        for number in 0..70_000 {
            if by_section {
                file = file.section(number % 2 == 1);
            }
            file = file.interface([1, 101][number % 2], 0, &[(2, b"lan")]);
            if by_section && [0, 65_534, 65_535, 69_999].contains(&number) {
                file = file.enhanced(0, 0, 4, b"some");
            }
        }
        if !by_section {
            for number in [0, 65_534, 65_535, 69_999] {
                file = file.enhanced(number, 0, 4, b"some");
            }
        }
        let mut reader = CaptureReader::new(Box::new(io::Cursor::new(file.bytes)), None).unwrap();
        let names = reader.interfaces();
        let mut seen = Vec::new();
        while let Next::Frame(frame) = reader.next().unwrap() {
            seen.push((frame.interface, names.name(frame.interface).is_some(), frame.link.0));
        }
        let expected =
            [(0, true, 1), (65_534, true, 1), (u16::MAX, false, 101), (u16::MAX, false, 101)];
        assert_eq!(seen, expected, "{by_section}");
        let text = "the capture has 70000 interfaces; those from 65535 on share that number";
        assert_eq!(reader.warnings(), [text]);
    }
}

/// Packets of interfaces beyond those that are kept are counted; one without a description is damage.
#[test]
fn interfaces_beyond_what_is_kept() {
    let mut file = PcapngFile::new(false);
    for _ in 0..(1 << 18) + 2 {
        file = file.interface(1, 0, &[]);
    }
    let file = file.enhanced((1 << 18) + 1, 0, 4, b"lost").enhanced(7, 0, 4, b"kept");
    let at = file.bytes.len() as u64;
    let told = read(Manner::Whole.reader(&file.enhanced((1 << 18) + 2, 0, 1, b"?").bytes));
    assert_eq!(told.packets, [Packet { interface: 7, ..packet(b"kept", 0) }]);
    assert_eq!(told.error.map(|(place, _)| place), Some(at + 8));
    assert!(told.warnings[1].starts_with("1 packets were not read"), "{:?}", told.warnings);
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
    let told = read(Manner::Whole.reader(&file.bytes));
    assert_eq!(told.packets.len(), 2000);
    for (n, packet) in told.packets.iter().enumerate() {
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
