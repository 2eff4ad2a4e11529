//! gzip (RFC 1952) and zstd (RFC 8878): told apart, decoded by steps, encoded by whole members.
//!
//! A gzip *member* and a zstd *frame* each decompress by themselves, and a file may be many of them
//! in a row; both are called members here.
//!
//! gzip is zlib-rs, which is Rust and reads twice as fast as miniz_oxide. zstd is the original C
//! library, which a linker's C compiler builds: in Rust there is no encoder near it, and no decoder
//! within a third of its speed.

use std::io;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::bulk::Compressor;
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};
use zstd::zstd_safe::compress_bound;

/// How a capture file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Compression {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// How the data that begins with `start` is compressed, if it is.
    pub(super) fn detect(start: &[u8]) -> Option<Self> {
        let &[a, b, c, d, ..] = start else { return None };
        match [a, b, c, d] {
            [0x1f, 0x8b, _, _] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            // A skippable frame (RFC 8878, 3.1.2), which parallel compressors begin with.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Decodes one member after the other.
pub(super) enum Decoder {
    Gzip(Decompress),
    Zstd {
        frames: ZstdDecoder<'static>,
        /// Bytes up to the end of the next block: so many are given at once, so that a block that
        /// is corrupt is named by its own place.
        next: usize,
    },
}

/// What a step of a decoder came to.
pub(super) struct Step {
    /// Bytes taken of the input.
    pub(super) taken: usize,
    /// Bytes written to the room.
    pub(super) made: usize,
    /// Whether the member ended.
    pub(super) ended: bool,
}

/// Data that can't be decoded.
pub(super) struct Corrupt {
    /// Bytes of the step's input before the place, so far as is known.
    pub(super) at: usize,
    pub(super) what: String,
}

impl Decoder {
    /// # Errors
    /// The library's where it has no memory.
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        match compression {
            Compression::Gzip => Ok(Self::Gzip(Decompress::new_gzip(GZIP_WINDOW_BITS))),
            Compression::Zstd => {
                let mut frames = ZstdDecoder::new()?;
                frames.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Ok(Self::Zstd { frames, next: ZSTD_HEAD_LEN })
            }
        }
    }

    pub(super) const fn compression(&self) -> Compression {
        match self {
            Self::Gzip(_) => Compression::Gzip,
            Self::Zstd { .. } => Compression::Zstd,
        }
    }

    /// Another member begins.
    pub(super) fn begin(&mut self) {
        match self {
            Self::Gzip(member) => *member = Decompress::new_gzip(GZIP_WINDOW_BITS),
            // The library goes on by itself.
            Self::Zstd { .. } => {}
        }
    }

    /// Decodes from `input` into `room`. A step that fills the room may have more to give without
    /// further input; any other needs some.
    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, Corrupt> {
        match self {
            Self::Gzip(member) => {
                let (taken, made) = (member.total_in(), member.total_out());
                let status = member.decompress(input, room, FlushDecompress::None);
                let taken = (member.total_in() - taken) as usize;
                let status = status.map_err(|error| {
                    let what = error.message().unwrap_or("it does not decode").to_owned();
                    Corrupt { at: taken, what }
                })?;
                let made = (member.total_out() - made) as usize;
                Ok(Step { taken, made, ended: status == Status::StreamEnd })
            }
            Self::Zstd { frames, next } => {
                let input = &input[..input.len().min(*next)];
                let status = frames
                    .run_on_buffers(input, room)
                    .map_err(|error| Corrupt { at: 0, what: error.to_string().to_lowercase() })?;
                let ended = status.remaining == 0;
                *next = if ended { ZSTD_HEAD_LEN } else { status.remaining };
                Ok(Step { taken: status.bytes_read, made: status.bytes_written, ended })
            }
        }
    }
}

/// Encodes whole members.
pub(super) enum Encoder {
    Gzip(Compress),
    Zstd(Compressor<'static>),
}

impl Encoder {
    /// # Errors
    /// The library's where it has no memory.
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        match compression {
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Ok(Self::Gzip(Compress::new_gzip(level, GZIP_WINDOW_BITS)))
            }
            Compression::Zstd => {
                let mut frames = Compressor::new(ZSTD_LEVEL)?;
                frames.include_checksum(true)?;
                Ok(Self::Zstd(frames))
            }
        }
    }

    /// Makes `member` the compressed form of `data`.
    pub(super) fn encode(&mut self, data: &[u8], member: &mut Vec<u8>) -> io::Result<()> {
        member.clear();
        match self {
            Self::Gzip(encoder) => {
                encoder.reset();
                loop {
                    member.reserve(data.len() / 2 + 1024);
                    let rest = &data[encoder.total_in() as usize..];
                    let status = encoder.compress_vec(rest, member, FlushCompress::Finish)?;
                    if status == Status::StreamEnd {
                        return Ok(());
                    }
                }
            }
            Self::Zstd(encoder) => {
                member.reserve(compress_bound(data.len()));
                encoder.compress_to_buffer(data, member).map(drop)
            }
        }
    }
}

/// The largest window that the format has: 32 KiB.
const GZIP_WINDOW_BITS: u8 = 15;
/// Of a capture of text over UDP, level 1 made 0.39 at 341 MB/s, 2 made 0.30 at 256 MB/s, and the
/// usual 6 made 0.25 at 63 MB/s.
const GZIP_LEVEL: u32 = 2;
/// The windows that are taken, 128 MiB at most: what the `zstd` program takes unless told.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// The library's fast level: 905 MB/s on that capture.
const ZSTD_LEVEL: i32 = 1;
/// Bytes that say how long the head of a frame is.
const ZSTD_HEAD_LEN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(compression: Compression, member: &[u8]) -> Vec<u8> {
        let mut decoder = Decoder::new(compression).unwrap();
        let (mut at, mut made) = (0, Vec::new());
        loop {
            let mut room = [0; 999];
            let Ok(step) = decoder.step(&member[at..], &mut room) else {
                panic!("corrupt at {at}")
            };
            at += step.taken;
            made.extend_from_slice(&room[..step.made]);
            if step.ended {
                assert_eq!(at, member.len());
                return made;
            }
        }
    }

    #[test]
    fn members_decode_to_what_they_were_made_of() {
        let noise = |n: usize| (n.wrapping_mul(2_654_435_761) >> 7) as u8;
        for compression in [Compression::Gzip, Compression::Zstd] {
            let mut encoder = Encoder::new(compression).unwrap();
            let mut member = Vec::new();
            for len in [0, 1, 100, 300_000, 1 << 20] {
                for data in [vec![7; len], (0..len).map(noise).collect()] {
                    encoder.encode(&data, &mut member).unwrap();
                    assert_eq!(decoded(compression, &member), data, "{compression:?} {len}");
                    assert_eq!(Compression::detect(&member), Some(compression));
                }
            }
        }
    }
}
