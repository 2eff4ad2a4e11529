//! Captures for the fuzz targets: inputs in pieces, and all that a reader says of them.

use std::io::{self, Read};

use warpline_io::{
    CaptureReader, FRAME_LEN_MAX, Next, PcapWriter, PcapngWriter, Sink, Source, SourceError,
};

/// Hands out at most `size` bytes at a time and, with a seed, is interrupted now and then.
pub struct Pieces {
    rest: Vec<u8>,
    at: usize,
    seed: u32,
    size: usize,
}

impl Pieces {
    /// All of `file` at once.
    pub fn whole(file: &[u8]) -> Self {
        Self { rest: file.to_vec(), at: 0, seed: 0, size: usize::MAX }
    }

    /// `file` in pieces of up to `size` + 1 bytes.
    pub fn of(file: &[u8], seed: u8, size: u8) -> Self {
        Self { seed: u32::from(seed) + 1, size: usize::from(size) + 1, ..Self::whole(file) }
    }
}

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut most = self.size;
        if self.seed != 0 {
            self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) | 1;
            match self.seed >> 28 {
                0 => return Err(io::ErrorKind::Interrupted.into()),
                1 => return Err(io::ErrorKind::WouldBlock.into()),
                _ => {}
            }
            most = 1 + (self.seed >> 8) as usize % self.size;
        }
        let len = most.min(to.len()).min(self.rest.len() - self.at);
        to[..len].copy_from_slice(&self.rest[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// A packet: bytes, time in nanoseconds, length on the wire, link type, interface.
pub type Packet = (Vec<u8>, u64, u32, u16, u16);

/// The output of a reader.
#[derive(Debug, Default, PartialEq)]
pub struct Reported {
    /// Packets.
    pub packets: Vec<Packet>,
    /// The error that ended them.
    pub error: Option<String>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// Reads a capture and writes it again; checks what holds of every packet and error.
pub fn read(input: Pieces) -> Reported {
    let mut reported = Reported::default();
    let total = input.rest.len() as u64;
    let mut reader = match CaptureReader::new(Box::new(input), Some(total)) {
        Ok(reader) => reader,
        Err(error) => return Reported { error: Some(text(&error, total)), ..reported },
    };
    let mut pcap = PcapWriter::from_writer(Box::new(io::sink()));
    let pcapng = PcapngWriter::from_writer(Box::new(io::sink()));
    let mut pcapng = pcapng.with_names(reader.interfaces());
    loop {
        match reader.next() {
            Ok(Next::Frame(frame)) => {
                assert!(frame.bytes.len() <= FRAME_LEN_MAX);
                assert!(frame.bytes.len() <= frame.wire_len as usize);
                // One pcap has one link type; packets of others are refused.
                let _ = pcap.send(&frame);
                pcapng.send(&frame).expect("pcapng takes every frame");
                let nanos = frame.timestamp.as_nanos();
                let bytes = frame.bytes.to_vec();
                reported.packets.push((
                    bytes,
                    nanos,
                    frame.wire_len,
                    frame.link.0,
                    frame.interface,
                ));
            }
            Ok(Next::Idle(_)) => {}
            Ok(Next::End) => break,
            Err(error) => {
                reported.error = Some(text(&error, total));
                break;
            }
        }
        let progress = reader.progress().expect("the length is known");
        assert!((0.0..=1.0).contains(&progress));
        if reported.packets.len() >= PACKETS_MAX {
            break;
        }
    }
    reported.warnings = reader.warnings();
    if reported.packets.len() < PACKETS_MAX {
        assert!(matches!(reader.next(), Ok(Next::End)), "nothing comes after the end");
    }
    reported
}

fn text(error: &SourceError, total: u64) -> String {
    if let SourceError::Format { offset, what } = error {
        let is_inside = what.contains("decompressed");
        assert!(*offset <= total || is_inside, "a mistake is in the file");
    }
    error.to_string()
}

/// So many packets of a bomb are enough.
const PACKETS_MAX: usize = 100_000;
