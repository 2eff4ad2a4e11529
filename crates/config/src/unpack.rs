//! Files that may be packed with gzip (RFC 1952), zstd (RFC 8878) or bzip2. Their first bytes
//! identify the format, and they are unpacked as they are read.

use std::io::{self, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use warpline_io_error::plain;

use crate::FILE_LEN_MAX;

/// The maximum length of an unpacked file. A dump is read record by record and never held whole.
pub const UNPACKED_LEN_MAX: u64 = 1 << 33;
/// A packed file may unpack to [`UNPACKED_LEAST`] and so many times its own length. A million
/// routes to successive hosts pack to a 44th with zstd.
const UNPACKED_FOLD: u64 = 64;
const UNPACKED_LEAST: u64 = 16 << 20;
/// Bytes that identify the format of a file.
const HEAD_LEN: usize = 12;

/// The unpacked content of a file.
pub struct Unpacked<'a> {
    head: [u8; HEAD_LEN],
    head_len: usize,
    rest: Box<dyn Read + 'a>,
    is_packed: bool,
}

/// Begins to unpack a file.
///
/// # Errors
/// If the packed data is invalid.
pub fn unpack(bytes: &[u8]) -> io::Result<Unpacked<'_>> {
    let (mut rest, is_packed): (Box<dyn Read + '_>, _) = match bytes {
        [0x1f, 0x8b, ..] => (Box::new(MultiGzDecoder::new(bytes)), true),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => (Box::new(MultiBzDecoder::new(bytes)), true),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (Box::new(zstd::Decoder::with_buffer(bytes)?), true),
        _ => (Box::new(bytes), false),
    };
    if is_packed {
        let len_max = UNPACKED_LEAST + UNPACKED_FOLD * bytes.len() as u64;
        let bounded = Bounded { rest, len_max, left: len_max };
        rest = Box::new(BufReader::with_capacity(1 << 16, bounded));
    }
    let mut head = [0; HEAD_LEN];
    let head_len = fill(&mut rest, &mut head)?;
    Ok(Unpacked { head, head_len, rest, is_packed })
}

/// The content of a text file, or why it cannot be unpacked.
pub(crate) fn unpack_text(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let unreadable = |error: &io::Error| format!("can't be unpacked: {}", plain(error));
    let unpacked = unpack(&bytes).map_err(|error| unreadable(&error))?;
    if !unpacked.is_packed() {
        drop(unpacked);
        return Ok(bytes);
    }
    let (mut text, reader) = (Vec::new(), unpacked.into_reader());
    reader.take(FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    match text.len() as u64 > FILE_LEN_MAX {
        true => Err(format!("it unpacks to more than {} MiB", FILE_LEN_MAX >> 20)),
        false => Ok(text),
    }
}

/// The content of a packed file, up to a length that no honest one has.
struct Bounded<'a> {
    rest: Box<dyn Read + 'a>,
    len_max: u64,
    left: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let len = self.rest.read(room)?;
        match self.left.checked_sub(len as u64) {
            Some(left) => self.left = left,
            None => {
                let why =
                    format!("it unpacks to more than {} MiB, as no table does", self.len_max >> 20);
                return Err(io::Error::other(why));
            }
        }
        Ok(len)
    }
}

impl<'a> Unpacked<'a> {
    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    /// Whether the file is packed at all.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// All of it; more than [`UNPACKED_LEN_MAX`] bytes are cut off.
    pub fn into_reader(self) -> impl Read + 'a {
        let Self { head, head_len, rest, .. } = self;
        io::Cursor::new(head).take(head_len as u64).chain(rest).take(UNPACKED_LEN_MAX)
    }
}

/// Reads until `to` is full or there is no more; gives the bytes read.
pub fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < to.len() {
        match from.read(&mut to[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut packer = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    #[test]
    fn packed_text_is_unpacked() {
        let text = b"accept tcp any any any 80\ndrop\n".repeat(1000);
        let (one, other) = text.split_at(777);
        for pack in [gzip, bzip2, zstd] {
            let packed = pack(&text);
            assert_eq!(unpack_text(packed.clone()).unwrap(), text);
            let members = [pack(one), pack(other)].concat();
            assert_eq!(unpack_text(members).unwrap(), text, "members one after the other");
            let cut = packed[..packed.len() / 2].to_vec();
            assert!(unpack_text(cut).unwrap_err().starts_with("can't be unpacked: "));
            assert_eq!(unpack_text(pack(b"")).unwrap(), b"");
        }
        assert_eq!(unpack_text(text.clone()).unwrap(), text);
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; UNPACKED_LEAST as usize + (24 << 20)];
        // A number in each thousand bytes: gzip packs them to a 237th.
        let thousand = |(at, part): (usize, &[u8])| [&at.to_le_bytes(), part].concat();
        let numbered: Vec<u8> = zeros.chunks(1000).enumerate().flat_map(thousand).collect();
        for packed in [gzip(&zeros), bzip2(&zeros), zstd(&zeros), gzip(&numbered)] {
            let why = unpack_text(packed).map(|text| text.len()).unwrap_err();
            assert!(why.contains("it unpacks to more than"), "{why}");
        }
    }
}
