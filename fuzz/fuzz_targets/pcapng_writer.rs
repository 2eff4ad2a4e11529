//! Reads back written pcapng files. The first byte selects the compression. Frames follow: five
//! bytes (interface, link type, length, action, number of bytes not captured) and the frame's
//! bytes.

#![no_main]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::captures::{Pieces, read};
use warpline_io::{Compression, Frame, InterfaceNames, PcapngWriter, Sink};
use warpline_packet::{Instant, LinkType};

#[derive(Clone, Default)]
struct SharedBytes(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no thread panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let compression =
        [None, Some(Compression::Gzip), Some(Compression::Zstd)][usize::from(how) % 3];
    let (kept, names) = (SharedBytes::default(), InterfaceNames::default());
    let writer = PcapngWriter::from_writer(Box::new(kept.clone())).compressed(compression);
    let mut writer = writer.annotated(how & 0x80 == 0).with_names(names.clone());
    let mut expected = Vec::new();
    let mut numbers = Vec::new();
    while let Some((&[interface, link, len, what, cut], tail)) = rest.split_first_chunk::<5>() {
        let (bytes, tail) = tail.split_at(usize::from(len).min(tail.len()));
        rest = tail;
        let link = LinkType::from_file(u16::from(link));
        let wire_len = bytes.len() as u32 + u32::from(cut);
        let timestamp = Instant::from_nanos(u64::from(what).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let interface = u16::from(interface);
        let frame = Frame { bytes, timestamp, wire_len, link, interface };
        match what % 4 {
            0 => names.push((cut > 0).then(|| String::from_utf8_lossy(bytes).into_owned())),
            1 => writer.flush().expect("memory takes all"),
            2 => {
                let why = String::from_utf8_lossy(bytes);
                writer.dropped(&frame, &why).expect("memory takes all");
            }
            _ => writer.send(&frame).expect("memory takes all"),
        }
        if what % 4 == 3 || (what % 4 == 2 && writer.wants_dropped()) {
            let origin = (interface, link);
            let number = numbers.iter().position(|other| *other == origin).unwrap_or_else(|| {
                numbers.push(origin);
                numbers.len() - 1
            });
            let nanos = timestamp.as_nanos();
            expected.push((bytes.to_vec(), nanos, wire_len, link.0, number as u16));
        }
    }
    writer.finish().expect("memory takes all");
    let file = kept.0.lock().expect("no thread panics").clone();
    let reported = read(Pieces::whole(&file));
    assert_eq!(reported.error, None);
    let is_of_link = |warning: &String| warning.starts_with("packets of link type ");
    assert!(reported.warnings.iter().all(is_of_link), "{:?}", reported.warnings);
    assert_eq!(reported.packets, expected);
});
