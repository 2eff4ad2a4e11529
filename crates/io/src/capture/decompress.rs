//! A compressed input, decompressed as it is read: any number of members, in bounded memory.
//!
//! All data before an error or the end is decoded first.

use core::ops::Range;
use std::io::{self, ErrorKind, Read};

use super::compression::{Compression, Decoder};
use super::format_error;

/// Gives the decompressed bytes of an input. An error of the data is a `SourceError` within an
/// [`io::Error`], with the offset in the compressed data; reads that are interrupted or would block
/// lose nothing.
pub(super) struct Decompressed {
    input: Box<dyn Read + Send>,
    decoder: Decoder,
    /// Compressed bytes; those in `rest` are read and not yet decoded.
    chunk: Vec<u8>,
    rest: Range<usize>,
    /// Compressed bytes read in all.
    bytes_read: u64,
    place: MemberPosition,
    /// The decoder may have more to give without further input.
    pending: bool,
    /// The error at the next byte to decode. It is reported after the data before it was delivered.
    corrupt: Option<String>,
    /// The error was reported.
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberPosition {
    /// In a member.
    Inside,
    /// After a member: another may follow.
    Between,
    /// In the zeros that some programs fill a gzip file up with.
    Padding,
    /// The input ended where it may.
    End,
    /// The input ended in a member.
    Cut,
}

impl Decompressed {
    /// Decompresses the bytes at `rest` of `chunk`, which begin a member, and the rest of `input`.
    ///
    /// # Errors
    /// As [`Decoder::new`].
    pub(super) fn new(
        compression: Compression,
        input: Box<dyn Read + Send>,
        chunk: Vec<u8>,
        rest: Range<usize>,
    ) -> io::Result<Self> {
        let decoder = Decoder::new(compression)?;
        let bytes_read = rest.len() as u64;
        let (place, pending, corrupt, failed) = (MemberPosition::Inside, false, None, false);
        Ok(Self { input, decoder, chunk, rest, bytes_read, place, pending, corrupt, failed })
    }

    pub(super) fn compression(&self) -> Compression {
        self.decoder.compression()
    }

    /// Offset in the compressed data of the next byte to decode.
    pub(super) fn offset(&self) -> u64 {
        self.bytes_read - self.rest.len() as u64
    }

    /// The length of the compressed data, if it ended in a member.
    pub(super) fn cut_at(&self) -> Option<u64> {
        (self.place == MemberPosition::Cut).then_some(self.bytes_read)
    }

    /// Whether the error that ended it was one of the compressed data.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Length of the memory for compressed bytes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.chunk.len()
    }

    /// One step through a member; the bytes made, none when it needs input or the member ended.
    fn decode(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let input = &self.chunk[self.rest.clone()];
        let step = match self.decoder.step(input, room) {
            Ok(step) => step,
            Err(corrupt) => {
                self.rest.start += corrupt.at;
                self.corrupt = Some(corrupt.what);
                return Ok(corrupt.made);
            }
        };
        // Nothing else ends the loop where a decoder neither takes nor gives.
        if step.taken == 0 && step.made == 0 && !step.ended && !self.rest.is_empty() {
            self.corrupt = Some("it does not go on".into());
        }
        self.rest.start += step.taken;
        self.pending = !step.ended && step.made == room.len();
        if step.ended {
            self.place = MemberPosition::Between;
        }
        Ok(step.made)
    }

    /// Checks the first byte after a member. That byte has been read.
    fn look_behind(&mut self) {
        if self.compression() == Compression::Gzip {
            match self.chunk[self.rest.start] {
                GZIP_FIRST => {}
                0 => return self.place = MemberPosition::Padding,
                _ => return self.corrupt = Some(NEITHER.into()),
            }
        }
        self.decoder.begin();
        self.place = MemberPosition::Inside;
    }

    fn skip_zeros(&mut self) {
        let zeros = self.chunk[self.rest.clone()].iter().take_while(|&&byte| byte == 0).count();
        self.rest.start += zeros;
        if !self.rest.is_empty() {
            self.corrupt = Some(NEITHER.into());
        }
    }

    /// Reads more of the input, of which all was decoded; false at its end.
    fn fill(&mut self) -> io::Result<bool> {
        let room_len = self.chunk.len();
        let len = self.input.read(&mut self.chunk)?.min(room_len);
        self.rest = 0..len;
        self.bytes_read += len as u64;
        Ok(len > 0)
    }

    /// The error of data that is corrupt here.
    fn error(&mut self, what: &str) -> io::Error {
        self.failed = true;
        let name = self.compression().name();
        let error = format_error(self.offset(), format!("corrupt {name} data: {what}"));
        io::Error::new(ErrorKind::InvalidData, error)
    }
}

impl Read for Decompressed {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        let mut members = 0;
        loop {
            if matches!(self.place, MemberPosition::End | MemberPosition::Cut) {
                return Ok(0);
            }
            if members == EMPTY_MEMBERS_MAX {
                return Err(ErrorKind::Interrupted.into());
            }
            if let Some(what) = self.corrupt.take() {
                return Err(self.error(&what));
            }
            if self.rest.is_empty() && !self.pending && !self.fill()? {
                let cut = self.place == MemberPosition::Inside;
                self.place = if cut { MemberPosition::Cut } else { MemberPosition::End };
                continue;
            }
            match self.place {
                MemberPosition::Between => {
                    members += 1;
                    self.look_behind();
                }
                MemberPosition::Padding => self.skip_zeros(),
                _ => match self.decode(room)? {
                    0 => {}
                    made => return Ok(made),
                },
            }
        }
    }
}

/// The error for other data after the last member.
const NEITHER: &str = "what follows is neither gzip nor zeros";
/// Empty members that one call skips, so that the reader can stop in between.
const EMPTY_MEMBERS_MAX: u32 = 1000;
/// The first byte of a gzip member.
const GZIP_FIRST: u8 = 0x1f;

#[cfg(test)]
mod tests {
    use super::super::compression::Encoder;
    use super::*;

    /// Decompresses `file` into rooms of `room_len` bytes.
    fn read(compression: Compression, file: &[u8], room_len: usize) -> Vec<u8> {
        let input = Box::new(io::Cursor::new(file.to_vec()));
        let mut input = Decompressed::new(compression, input, vec![0; 64], 0..0).unwrap();
        let (mut room, mut all) = (vec![0; room_len], Vec::new());
        loop {
            match input.read(&mut room).unwrap() {
                0 => return all,
                len => all.extend_from_slice(&room[..len]),
            }
        }
    }

    /// Endless data that decompresses to nothing must not keep the reader from stopping.
    #[test]
    fn members_of_nothing_are_interrupted() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let (mut file, mut encoder) = (Vec::new(), Encoder::new(compression).unwrap());
            encoder.encode(&[], &mut file).unwrap();
            encoder.finish(&mut file).unwrap();
            let empty = file.repeat(4500);
            file = Vec::new();
            let mut encoder = Encoder::new(compression).unwrap();
            encoder.encode(b"all", &mut file).unwrap();
            encoder.finish(&mut file).unwrap();
            let input = Box::new(io::Cursor::new([empty, file].concat()));
            let mut input = Decompressed::new(compression, input, vec![0; 64], 0..0).unwrap();
            let (mut room, mut interrupted) = ([0; 9], 0);
            let len = loop {
                match input.read(&mut room) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => interrupted += 1,
                    read => break read.unwrap(),
                }
            };
            assert_eq!((&room[..len], interrupted), (&b"all"[..], 4), "{compression:?}");
        }
    }

    /// A few bytes stand for many: those that did not fit at once come too, also where the data
    /// ends.
    #[test]
    fn nothing_stays_behind_in_the_decoder() {
        let data: Vec<u8> = (0..20_u8).flat_map(|n| vec![n; 5000]).collect();
        for compression in [Compression::Gzip, Compression::Zstd] {
            let (mut file, mut encoder) = (Vec::new(), Encoder::new(compression).unwrap());
            encoder.encode(&data, &mut file).unwrap();
            encoder.finish(&mut file).unwrap();
            for len in 0..=file.len() {
                let whole = read(compression, &file[..len], 1 << 17);
                assert!(data.starts_with(&whole));
                for room_len in [1, 7] {
                    let unpacked = read(compression, &file[..len], room_len);
                    assert_eq!(unpacked.len(), whole.len(), "{compression:?} cut at {len}");
                }
            }
            assert_eq!(read(compression, &file, 9), data);
        }
    }
}
