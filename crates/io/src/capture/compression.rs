//! gzip (RFC 1952) and zstd (RFC 8878): detection, stepwise decoding, and encoding of whole
//! buffers.
//!
//! A gzip *member* and a zstd *frame* each decompress by themselves, and a file may be many of them
//! in a row; both are called members here. Each gzip buffer is encoded as a member of its own. A
//! zstd file is one frame in all, because Wireshark up to at least 4.0 reads no second frame.
//!
//! gzip is zlib-rs, which is Rust and reads twice as fast as miniz_oxide. zstd is the reference
//! library, in C, built by the compiler that linking needs anyway; those in Rust decode at a
//! quarter (ruzstd) to a half (structured-zstd, which is young) of its speed.

use std::io;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::stream::raw::{
    CParameter, DParameter, Decoder as ZstdDecoder, Encoder as ZstdEncoder, InBuffer, Operation,
    OutBuffer,
};

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

/// The result of one decoder step.
pub(super) struct DecoderStep {
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
    /// Bytes written to the room before that.
    pub(super) made: usize,
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
            // The zstd library starts the next frame by itself.
            Self::Zstd { .. } => {}
        }
    }

    /// Decodes from `input` into `room`. A step that fills the room may have more to give without
    /// further input; any other needs some.
    pub(super) fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<DecoderStep, Corrupt> {
        match self {
            Self::Gzip(member) => {
                let (start, made) = (member.total_in(), member.total_out());
                let status = member.decompress(input, room, FlushDecompress::None);
                let taken = (member.total_in() - start) as usize;
                let made = (member.total_out() - made) as usize;
                match status {
                    Ok(status) => {
                        Ok(DecoderStep { taken, made, ended: status == Status::StreamEnd })
                    }
                    Err(error) => {
                        let what = error.message().unwrap_or("it does not decode").to_owned();
                        Err(Corrupt { at: taken, made, what })
                    }
                }
            }
            Self::Zstd { frames, next } => {
                let input = &input[..input.len().min(*next)];
                // A step is a block at most, and one that is corrupt gives nothing.
                let status = frames.run_on_buffers(input, room).map_err(|error| Corrupt {
                    at: 0,
                    made: 0,
                    what: error.to_string().to_lowercase(),
                })?;
                let ended = status.remaining == 0;
                *next = if ended { ZSTD_HEAD_LEN } else { status.remaining };
                Ok(DecoderStep { taken: status.bytes_read, made: status.bytes_written, ended })
            }
        }
    }
}

/// Encodes a file piece by piece; every piece can be decoded once it is there.
pub(super) enum Encoder {
    Gzip(Compress),
    Zstd(ZstdEncoder<'static>),
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
                let mut frame = ZstdEncoder::new(ZSTD_LEVEL)?;
                frame.set_parameter(CParameter::ChecksumFlag(true))?;
                Ok(Self::Zstd(frame))
            }
        }
    }

    /// Adds the compressed form of `data` to `to`.
    pub(super) fn encode(&mut self, data: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Gzip(member) => {
                member.reset();
                loop {
                    to.reserve(ROOM_LEN);
                    let rest = &data[member.total_in() as usize..];
                    let status = member.compress_vec(rest, to, FlushCompress::Finish)?;
                    if status == Status::StreamEnd {
                        return Ok(());
                    }
                }
            }
            Self::Zstd(frame) => {
                let mut input = InBuffer::around(data);
                repeat(to, |to| {
                    frame.run(&mut input, to)?;
                    Ok(input.pos() == data.len())
                })?;
                repeat(to, |to| Ok(frame.flush(to)? == 0))
            }
        }
    }

    /// Adds what a file ends with.
    pub(super) fn finish(&mut self, to: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Gzip(_) => Ok(()),
            Self::Zstd(frame) => repeat(to, |to| Ok(frame.finish(to, true)? == 0)),
        }
    }
}

/// Repeats `step`, each time with room for more at the end of `to`, until it returns that it is
/// done.
fn repeat(
    to: &mut Vec<u8>,
    mut step: impl FnMut(&mut OutBuffer<'_, Vec<u8>>) -> io::Result<bool>,
) -> io::Result<()> {
    loop {
        to.reserve(ROOM_LEN);
        let end = to.len();
        if step(&mut OutBuffer::around_pos(to, end))? {
            return Ok(());
        }
    }
}

/// The largest window that the format has: 32 KiB.
const GZIP_WINDOW_BITS: u8 = 15;
/// Of a capture of text over UDP, level 1 made 0.39 at 341 MB/s, 2 made 0.30 at 256 MB/s, and the
/// usual 6 made 0.25 at 63 MB/s.
const GZIP_LEVEL: u32 = 2;
/// The largest window that is accepted: 128 MiB, the default limit of the `zstd` program.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// The library's fast level: 905 MB/s on that capture.
const ZSTD_LEVEL: i32 = 1;
/// Room that an encoder is given at least, in bytes.
const ROOM_LEN: usize = 1 << 16;
/// The bytes needed to find the length of a frame's header.
const ZSTD_HEAD_LEN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// The decoded bytes of `file`, and the number of its members.
    fn decoded(compression: Compression, file: &[u8]) -> (Vec<u8>, usize) {
        let mut decoder = Decoder::new(compression).unwrap();
        let (mut at, mut made, mut members) = (0, Vec::new(), 0);
        loop {
            let mut room = [0; 999];
            let Ok(step) = decoder.step(&file[at..], &mut room) else { panic!("corrupt at {at}") };
            at += step.taken;
            made.extend_from_slice(&room[..step.made]);
            if step.ended {
                members += 1;
                if at == file.len() {
                    return (made, members);
                }
                decoder.begin();
            }
        }
    }

    #[test]
    fn pieces_decode_to_what_they_were_made_of() {
        let noise = |n: usize| (n.wrapping_mul(2_654_435_761) >> 7) as u8;
        for (compression, members) in [(Compression::Gzip, 10), (Compression::Zstd, 1)] {
            let mut encoder = Encoder::new(compression).unwrap();
            let (mut file, mut all) = (Vec::new(), Vec::new());
            for len in [0, 1, 100, 300_000, 1 << 20] {
                for data in [vec![7; len], (0..len).map(noise).collect()] {
                    encoder.encode(&data, &mut file).unwrap();
                    all.extend(data);
                }
            }
            encoder.finish(&mut file).unwrap();
            assert_eq!(Compression::detect(&file), Some(compression));
            assert_eq!(decoded(compression, &file), (all, members));
        }
    }
}
