//! Files that were cut, altered, or made of noise, and the way there and back.

use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::port::Sink;

pub(super) fn small_pcap() -> (Vec<u8>, Vec<usize>) {
    let file = PcapFile::micros().packet((1, 1), b"one").packet((2, 2), b"");
    let file = file.packet((3, 3), b"the third");
    (file.bytes, vec![24 + 19, 24 + 19 + 16, 24 + 19 + 16 + 25])
}

/// A file with every block that is read, and the offsets at which its packets' blocks end.
pub(super) fn small_pcapng(big: bool) -> (Vec<u8>, Vec<usize>) {
    let mut ends = Vec::new();
    let mut file = PcapngFile::new(big).interface(1, 0, &[(2, b"lan"), (9, &[6])]);
    file = file.enhanced(0, 9, 3, b"one");
    ends.push(file.bytes.len());
    file = file.block(5, &[0; 12]).simple(4, b"two2");
    ends.push(file.bytes.len());
    file = file.section(!big).interface(101, 0, &[(9, &[9]), (14, &[0; 8])]).obsolete(0, 8, b"3");
    ends.push(file.bytes.len());
    (file.bytes, ends)
}

#[test]
fn files_cut_at_every_byte() {
    for (file, ends) in [small_pcap(), small_pcapng(false), small_pcapng(true)] {
        let header_len = if file[0] == 0x0a { 28 } else { 24 };
        let whole = read(Manner::Whole.reader(&file));
        assert_eq!(whole.packets.len(), ends.len());
        for len in 0..file.len() {
            for manner in [Manner::Whole, Manner::OneByte] {
                let reported = read_by(Ask::ALL[len % 3], manner.reader(&file[..len]));
                let count = ends.iter().filter(|&&end| end <= len).count();
                assert_eq!(reported.packets, whole.packets[..count], "cut at {len}");
                assert_eq!(
                    reported.error.is_some(),
                    len < header_len,
                    "cut at {len}: {reported:?}"
                );
                let cut = reported.warnings.iter().find(|text| text.contains("cut short"));
                if let Some(text) = cut {
                    assert!(text.contains(&format!("at byte {len} in ")), "{text}");
                    assert!(text.contains(&format!("packet {}; read", count + 1)), "{text}");
                } else if len >= header_len {
                    assert!(block_ends(&file).contains(&len), "cut at {len} without a warning");
                }
            }
        }
    }
}

/// The offsets at which the small files may end without being cut short.
fn block_ends(file: &[u8]) -> Vec<usize> {
    if file[0] != 0x0a {
        return vec![24, 43, 59];
    }
    let mut ends = vec![28, 28 + 36];
    for len in [36, 24, 20, 28, 40] {
        ends.push(ends[ends.len() - 1] + len);
    }
    ends
}

/// Skipped blocks may be endless, since a few compressed bytes can expand to many blocks.
#[test]
fn skipping_is_interrupted() {
    let mut file = PcapngFile::new(false).interface(1, 0, &[]);
    for _ in 0..5 {
        file = file.block(5, &vec![0; 30 << 20]);
    }
    let file = file.enhanced(0, 9, 3, b"one").bytes;
    let mut reader = CaptureReader::new(Box::new(io::Cursor::new(file)), None).unwrap();
    let mut idle = 0;
    while let Next::Idle(_) = reader.next().unwrap() {
        idle += 1;
    }
    assert_eq!((idle, reader.packets), (1, 1));
}

#[test]
fn truncated_files_are_reported() {
    let (file, _) = small_pcap();
    let reported = read(Manner::Whole.reader(&file[..50]));
    let text = "capture cut short at byte 50 in the middle of packet 2; read up to there";
    assert_eq!(reported.warnings, [text]);
}

/// Keeps what a writer writes.
#[derive(Clone, Default)]
pub(super) struct SharedBytes(pub(super) Arc<Mutex<Vec<u8>>>);

impl io::Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn any_frame() -> impl Strategy<Value = (Vec<u8>, u64, u32)> {
    let last = u64::from(u32::MAX) * S + S - 1;
    (vec(any::<u8>(), 0..200), 0..=last, any::<u32>())
}

proptest! {
    #[test]
    fn there_and_back(frames in vec(any_frame(), 0..30), link in 0_u16..=300) {
        let kept = SharedBytes::default();
        let link = LinkType::from_file(link);
        let mut writer = PcapWriter::from_writer(Box::new(kept.clone())).with_link(link);
        let mut expected = Vec::new();
        for (bytes, nanos, wire_len) in &frames {
            let wire_len = (*wire_len).max(bytes.len() as u32);
            let timestamp = Instant::from_nanos(*nanos);
            writer.send(&Frame { bytes, timestamp, wire_len, link, interface: 9 }).unwrap();
            let link = if link.is_raw_ip() { 101 } else { link.0 };
            expected.push(Packet { wire_len, link, ..packet(bytes, *nanos) });
        }
        writer.finish().unwrap();
        let file = kept.0.lock().unwrap().clone();
        let reported = read(Manner::Whole.reader(&file));
        let text =
            format!("packets of link type {} pass as other than IP: their headers are not read",
                link.0);
        let is_unread = !frames.is_empty() && !link.is_read();
        let warnings = if is_unread { vec![text] } else { Vec::new() };
        prop_assert_eq!(reported, Reported { packets: expected, error: None, warnings });
    }

    #[test]
    fn noise(start in 0_usize..5, noise in vec(any::<u8>(), 0..600)) {
        let file = match start {
            0 => noise,
            1 => [PcapFile::micros().bytes, noise].concat(),
            2 => [PcapFile::new(true, 0xa1b2_3c4d, 1).bytes, noise].concat(),
            n => [PcapngFile::new(n == 3).interface(1, 0, &[]).bytes, noise].concat(),
        };
        same_in_every_manner(&file)?;
    }

    /// Noise that looks like blocks and records: small numbers where lengths are.
    #[test]
    fn small_numbers(start in 0_usize..3, numbers in vec(0_u32..64, 0..200)) {
        let noise: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let file = match start {
            0 => PcapFile::micros().bytes,
            1 => PcapngFile::new(false).bytes,
            _ => PcapngFile::new(false).interface(1, 0, &[]).bytes,
        };
        same_in_every_manner(&[file, noise].concat())?;
    }

    #[test]
    fn altered(which in 0_usize..3,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (mut file, _) = [small_pcap(), small_pcapng(false), small_pcapng(true)][which].clone();
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        same_in_every_manner(&file)?;
    }
}

/// Reads a file in every manner, which must come to the same.
fn same_in_every_manner(file: &[u8]) -> Result<(), TestCaseError> {
    let whole = read(Manner::Whole.reader(file));
    let captured: usize = whole.packets.iter().map(|packet| packet.bytes.len()).sum();
    prop_assert!(captured <= file.len());
    for packet in &whole.packets {
        prop_assert!(packet.wire_len as usize >= packet.bytes.len());
    }
    for (manner, ask) in Manner::ALL.into_iter().zip([Ask::Burst, Ask::Both].into_iter().cycle()) {
        prop_assert_eq!(&read_by(ask, manner.reader(file)), &whole);
    }
    Ok(())
}
