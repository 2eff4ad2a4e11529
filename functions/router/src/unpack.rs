//! Files that may be packed with gzip (RFC 1952) or bzip2. Their first bytes identify the format,
//! and they are unpacked as they are read.

use std::io::{self, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

/// The maximum length of an unpacked file. A dump is read record by record and never held whole.
pub const UNPACKED_LEN_MAX: u64 = 1 << 33;
/// A packed file may unpack to [`UNPACKED_LEAST`] and so many times its own length: no table packs
/// so well.
const UNPACKED_FOLD: u64 = 256;
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
pub(super) fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
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
