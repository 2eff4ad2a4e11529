//! Capture files, handed out whole and in pieces of the fuzzer's choice. The first two bytes are
//! the seed and the size of the pieces.

#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use warpline_io::{CaptureReader, FRAME_LEN_MAX, Next, PcapWriter, Sink, Source, SourceError};

fuzz_target!(|data: &[u8]| {
    let Some((&[seed, size], file)) = data.split_first_chunk::<2>() else { return };
    let whole = read(Pieces { rest: file.to_vec(), at: 0, seed: 0, size: usize::MAX });
    let size = usize::from(size) + 1;
    let pieces = read(Pieces { rest: file.to_vec(), at: 0, seed: u32::from(seed) + 1, size });
    assert_eq!(whole, pieces, "what is read doesn't depend on the reads");
});

/// Hands out at most `size` bytes at a time and, with a seed, is interrupted now and then.
struct Pieces {
    rest: Vec<u8>,
    at: usize,
    seed: u32,
    size: usize,
}

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut most = self.size;
        if self.seed != 0 {
            self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
            if self.seed >> 28 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            most = 1 + (self.seed >> 8) as usize % self.size;
        }
        let len = most.min(to.len()).min(self.rest.len() - self.at);
        to[..len].copy_from_slice(&self.rest[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// Packets, the error that ended them, and warnings.
type Told = (Vec<(Vec<u8>, u64, u32, u16, u16)>, Option<String>, Vec<String>);

fn read(input: Pieces) -> Told {
    let mut told = Told::default();
    let total = input.rest.len() as u64;
    let mut reader = match CaptureReader::new(Box::new(input), Some(total)) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(text(&error, total)), Vec::new()),
    };
    let mut writer = PcapWriter::from_writer(Box::new(io::sink()));
    loop {
        match reader.next() {
            Ok(Next::Frame(frame)) => {
                assert!(frame.bytes.len() <= FRAME_LEN_MAX);
                assert!(frame.bytes.len() <= frame.wire_len as usize);
                // One file has one link type; packets of others are refused.
                let _ = writer.send(&frame);
                let nanos = frame.timestamp.as_nanos();
                let bytes = frame.bytes.to_vec();
                told.0.push((bytes, nanos, frame.wire_len, frame.link.0, frame.interface));
            }
            Ok(Next::Idle(_)) => {}
            Ok(Next::End) => break,
            Err(error) => {
                told.1 = Some(text(&error, total));
                break;
            }
        }
        let progress = reader.progress().expect("the length is known");
        assert!((0.0..=1.0).contains(&progress));
    }
    assert!(matches!(reader.next(), Ok(Next::End)), "nothing comes after the end");
    told.2 = reader.warnings();
    told
}

fn text(error: &SourceError, total: u64) -> String {
    if let SourceError::Format { offset, .. } = error {
        assert!(*offset <= total, "a mistake is in the file");
    }
    error.to_string()
}
