//! Compressed captures. Every way to store one reads like the capture itself. Cut, corrupt, hostile
//! and huge ones are each recognized.

use std::io::Write;

use flate2::{GzBuilder, write::GzEncoder};
use proptest::collection::vec;
use proptest::prelude::*;

use super::hostile::{small_pcap, small_pcapng};
use super::*;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    // As the program does: with a checksum, without a length.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A frame that decoders pass over (RFC 8878, 3.1.2).
fn skippable(len: u32) -> Vec<u8> {
    let mut frame = vec![0x53, 0x2a, 0x4d, 0x18];
    frame.extend(len.to_le_bytes());
    frame.resize(8 + len as usize, 0xee);
    frame
}

/// `data` in pieces, each compressed by itself.
fn members(data: &[u8], piece: usize, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    data.chunks(piece).flat_map(compress).collect()
}

/// Every way in which `data` can be stored.
fn stored(data: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut named = GzBuilder::new()
        .filename("a.pcap")
        .comment("c")
        .extra([1, 2, 3])
        .mtime(7)
        .write(Vec::new(), flate2::Compression::none());
    named.write_all(data).unwrap();
    vec![
        ("gzip", gzip(data)),
        ("gzip with all header fields, stored", named.finish().unwrap()),
        ("gzip members", members(data, 1 + data.len() / 3, gzip)),
        ("gzip members of few bytes", members(&data[..data.len().min(200)], 7, gzip)),
        ("gzip with an empty member", [gzip(b""), gzip(data), gzip(b"")].concat()),
        ("gzip and zeros", [gzip(data), vec![0; 1000]].concat()),
        ("zstd", zstd(data)),
        ("zstd by the block", zstd::bulk::compress(data, 1).unwrap()),
        ("zstd at its best", zstd::bulk::compress(data, 22).unwrap()),
        ("zstd frames", members(data, 1 + data.len() / 3, zstd)),
        ("zstd with skippable frames", [skippable(9), zstd(data), skippable(0)].concat()),
        ("zstd with an empty frame", [zstd(b""), zstd(data)].concat()),
    ]
}

#[test]
fn stored_captures_read_like_themselves() {
    let empty = PcapFile::micros().bytes;
    let sections = PcapngFile::new(true).interface(1, 0, &[(2, b"lan")]).enhanced(0, 1, 3, b"one");
    let sections =
        sections.section(false).interface(101, 0, &[(2, b"wan")]).enhanced(0, 2, 1, b"2");
    let untimed = PcapngFile::new(false).interface(1, 0, &[]).simple(3, b"abc");
    let captures =
        [small_pcap().0, small_pcapng(false).0, small_pcapng(true).0, empty, sections.bytes];
    for capture in captures.into_iter().chain([untimed.bytes]) {
        let plain = read(Manner::Whole.reader(&capture));
        assert_eq!(plain.error, None);
        for (way, file) in stored(&capture) {
            if way.ends_with("few bytes") && capture.len() > 200 {
                continue;
            }
            for manner in Manner::ALL {
                assert_eq!(read(manner.reader(&file)), plain, "{way}, {manner:?}");
            }
        }
    }
}

/// Blocks, windows and buffers end everywhere; some of it can't be compressed.
#[test]
fn long_captures_are_read_across_all_buffers() {
    let mut file = PcapFile::micros();
    let mut state = 1_u32;
    for n in 0..1500_u32 {
        let noise = n % 3 == 0;
        let frame: Vec<u8> = (0..n * 7919 % 3000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if noise { (state >> 24) as u8 } else { n as u8 }
            })
            .collect();
        file = file.packet((n, 0), &frame);
    }
    assert!(file.bytes.len() > 2 << 20);
    let plain = read(Manner::Whole.reader(&file.bytes));
    for (way, stored) in stored(&file.bytes) {
        if way.ends_with("few bytes") {
            continue;
        }
        for (manner, ask) in [(Manner::Whole, Ask::Burst), (Manner::Stutter, Ask::Both)] {
            assert!(read_by(ask, manner.reader(&stored)) == plain, "{way}, {manner:?}");
        }
    }
}

#[test]
fn files_cut_at_every_byte() {
    let (capture, ends) = small_pcap();
    let plain = read(Manner::Whole.reader(&capture));
    for (name, file) in [("gzip", gzip(&capture)), ("zstd", zstd(&capture))] {
        for len in 4..file.len() {
            for manner in [Manner::Whole, Manner::OneByte] {
                let reported = read(manner.reader(&file[..len]));
                assert!(plain.packets.starts_with(&reported.packets), "{name} cut at {len}");
                if let Some((at, what)) = &reported.error {
                    assert_eq!(*at, len as u64);
                    assert_eq!(*what, format!("{name} data cut short in the capture's header"));
                    continue;
                }
                let start = format!("capture cut short at byte {len} of its {name} data ");
                let end = format!(" packet {}; read up to there", reported.packets.len() + 1);
                let [warning] = &reported.warnings[..] else { panic!("{reported:?}") };
                assert!(warning.starts_with(&start) && warning.ends_with(&end), "{warning}");
            }
        }
        // All but the checksum is there.
        let reported = read(Manner::Whole.reader(&file[..file.len() - 1]));
        assert_eq!(reported.packets.len(), ends.len(), "{name}");
        assert!(reported.warnings[0].contains(" data before packet 4;"), "{reported:?}");
    }
}

/// If a capture was cut before compression, the warning is about the capture and not about the
/// compressed data.
#[test]
fn a_cut_capture_compressed_whole() {
    let (capture, _) = small_pcap();
    for file in [gzip(&capture[..50]), zstd(&capture[..50])] {
        let reported = read(Manner::Whole.reader(&file));
        let text = "capture cut short at byte 50 of its decompressed data in the middle of \
                    packet 2; read up to there";
        assert_eq!((reported.packets.len(), &reported.warnings[..]), (1, &[text.to_owned()][..]));
    }
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let (capture, _) = small_pcapng(false);
    let plain = read(Manner::Whole.reader(&capture));
    for (name, file) in [("gzip", gzip(&capture)), ("zstd", zstd(&capture))] {
        for at in 4..file.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = file.clone();
                changed[at] ^= change;
                let reported = read(Manner::Whole.reader(&changed));
                let cut = reported.warnings.iter().any(|text| text.contains("cut short"));
                let noticed = reported.error.is_some() || cut;
                assert!(noticed || reported == plain, "{name} {at} {change}: {reported:?}");
            }
        }
    }
}

#[test]
fn errors_name_their_place() {
    let (capture, _) = small_pcap();
    let good = gzip(&capture);
    let len = good.len() as u64;
    let mut sum = good.clone();
    sum[good.len() - 8] ^= 1;
    let lying = PcapFile::micros().record((0, 0), u32::MAX, 0, b"").bytes;
    let twice = gzip(&gzip(&capture));
    let big_window = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x90, 0, 0, 0, 0, 0];
    for (name, file, offset, words, packets) in [
        ("sum", &sum[..], len - 8..len + 1, "corrupt gzip data: incorrect data check", 3),
        (
            "behind",
            &[&good[..], b"etc"].concat(),
            len..len + 1,
            "what follows is neither gzip nor zeros",
            3,
        ),
        (
            "behind zeros",
            &[&good[..], b"\0\0\x1f\x8b"].concat(),
            len + 2..len + 3,
            "what follows is neither",
            3,
        ),
        (
            "behind a frame",
            &[&zstd(&capture)[..], b"anything"].concat(),
            zstd(&capture).len() as u64..zstd(&capture).len() as u64 + 1,
            "corrupt zstd data: unknown frame descriptor",
            3,
        ),
        ("method", &[0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 0], 0..11, "corrupt gzip data", 0),
        ("window of 256 MiB", &big_window, 0..11, "too much memory", 0),
        (
            "inside",
            &gzip(&lying),
            32..33,
            "captured length 4294967295 is more than 16777216 (in the decompressed gzip data)",
            0,
        ),
        ("no capture", &zstd(b"text"), 0..1, "begins with bytes 74 65 78 74", 0),
        ("nothing", &gzip(b""), 0..1, "the input is empty", 0),
        ("twice", &twice, 0..1, "gzip compressed; decompress first", 0),
    ] {
        for manner in Manner::ALL {
            let reported = read(manner.reader(file));
            let (at, what) =
                reported.error.unwrap_or_else(|| panic!("{name}: {:?}", reported.packets));
            assert!(what.contains(words), "{name}: {what}");
            assert!(offset.contains(&at), "{name}: {at} is not in {offset:?}");
            assert_eq!(reported.packets.len(), packets, "{name}");
        }
    }
}

/// A gibibyte of zeros takes time and no memory.
#[test]
fn bombs_are_read_through() {
    let zeros = 1_u64 << 30;
    let len = zeros as u32 + 12;
    let before = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 1, 1, b"a").bytes;
    let before = [&before[..], &[0x77, 0, 0, 0], &len.to_le_bytes()].concat();
    let behind = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 2, 1, b"b").bytes;
    let behind = [&len.to_le_bytes(), &behind[..]].concat();
    let write = |to: &mut dyn Write| {
        let mut capture = before.chain(io::repeat(0).take(zeros)).chain(&behind[..]);
        io::copy(&mut capture, to).unwrap();
    };
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    write(&mut gzip);
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    write(&mut zstd);
    for file in [gzip.finish().unwrap(), zstd.finish().unwrap()] {
        assert!(file.len() < 16 << 20, "{}", file.len());
        let mut reader = CaptureReader::new(Box::new(io::Cursor::new(file)), None).unwrap();
        for expected in [b"a", b"b"] {
            let given = loop {
                match reader.next().unwrap() {
                    // The reader may return between packets, so that it can be stopped.
                    Next::Idle(_) => {}
                    Next::Frame(frame) => break frame.bytes.to_vec(),
                    Next::End => panic!("no packet"),
                }
            };
            assert_eq!(given, expected);
        }
        assert!(matches!(reader.next(), Ok(Next::End)));
        assert_eq!(reader.buffer.capacity(), 1 << 20);
        assert_eq!(reader.buffer.compressed().unwrap().capacity(), 1 << 20);
    }
}

#[test]
fn progress_counts_compressed_bytes() {
    let mut capture = PcapFile::micros();
    for n in 0..5000 {
        capture = capture.packet((n, 0), &[n as u8; 1000]);
    }
    for file in [gzip(&capture.bytes), zstd(&capture.bytes)] {
        let total = file.len() as u64;
        let mut reader = CaptureReader::new(Manner::Short.reader(&file), Some(total)).unwrap();
        let mut last = reader.progress().unwrap();
        assert!(last < 0.5);
        while let Ok(Next::Frame(_)) = reader.next() {
            let progress = reader.progress().unwrap();
            assert!((last..=1.0).contains(&progress));
            last = progress;
        }
        assert_eq!(reader.progress(), Some(1.0));
    }
}

/// A pipe that is silent in the middle of a member, for as long as it likes.
#[test]
fn silence_is_no_end() {
    struct Silent(Vec<u8>, usize);
    impl Read for Silent {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            // A hundred times nothing, then a byte.
            match self.0.is_empty() {
                _ if !self.1.is_multiple_of(100) => Err(io::ErrorKind::WouldBlock.into()),
                true => Ok(0),
                false => {
                    room[0] = self.0.remove(0);
                    Ok(1)
                }
            }
        }
    }
    let (capture, _) = small_pcap();
    let plain = read(Manner::Whole.reader(&capture));
    for file in [gzip(&capture), zstd(&capture)] {
        let start = file[..file.len() / 2].to_vec();
        let rest = file[file.len() / 2..].to_vec();
        let input = io::Cursor::new(start).chain(Silent(rest, 0));
        assert_eq!(read_by(Ask::Both, Box::new(input)), plain);
    }
}

/// Reads a file in every manner, which must come to the same packets and the same kind of end.
fn same_in_every_manner(file: &[u8]) -> Result<(), TestCaseError> {
    let whole = read(Manner::Whole.reader(file));
    for (ask, manner) in Ask::ALL.into_iter().cycle().zip(Manner::ALL) {
        let reported = read_by(ask, manner.reader(file));
        prop_assert_eq!(&reported.packets, &whole.packets);
        prop_assert_eq!(&reported.warnings, &whole.warnings);
        prop_assert_eq!(reported.error.is_some(), whole.error.is_some());
    }
    if let Some((at, what)) = whole.error {
        prop_assert!(at <= file.len() as u64 || what.contains("decompressed"));
    }
    Ok(())
}

fn any_stored() -> impl Strategy<Value = Vec<u8>> {
    let captures = [small_pcap().0, small_pcapng(false).0, small_pcapng(true).0];
    let files: Vec<_> = captures.iter().flat_map(|capture| stored(capture)).collect();
    prop::sample::select(files).prop_map(|(_, file)| file)
}

proptest! {
    #[test]
    fn altered(
        mut file in any_stored(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        same_in_every_manner(&file)?;
        file.truncate(cut.index(file.len()));
        same_in_every_manner(&file)?;
    }

    #[test]
    fn noise_behind_a_magic(kind in 0_usize..4, noise in vec(any::<u8>(), 0..300)) {
        let start: &[u8] = match kind {
            0 => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
            1 => &[0x1f, 0x8b, 8, 0x1f],
            2 => &[0x28, 0xb5, 0x2f, 0xfd],
            // A window of 1 KiB and a block that says to be of 64 compressed bytes.
            _ => &[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 5, 2, 0],
        };
        same_in_every_manner(&[start, &noise].concat())?;
    }
}
