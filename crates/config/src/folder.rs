//! The files that a chain file names: their location and how they are read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use warpline_io_error::plain;
use zeroize::Zeroizing;

use crate::diagnostic::may_have_keys;
use crate::unpack::unpack_text;

/// Files named in a chain file may be this large.
pub const FILE_LEN_MAX: u64 = 1 << 30;

/// And devices.
const DEVICE_LEN_MAX: u64 = 64 << 20;

/// The rights of all users but a file's owner.
const OTHERS: u32 = 0o077;

/// Where files that a chain file names are found.
#[derive(Clone, Copy, Debug)]
pub enum Folder<'a> {
    /// Relative to a folder on disk.
    Disk(&'a Path),
    /// Among files that come with the program, by name.
    Bundled(&'a [(&'a str, &'a str)]),
}

impl Folder<'_> {
    /// The text of the file called `name`, or why it can't be had.
    pub fn read(self, name: &str) -> Result<String, String> {
        text_of(self.read_bytes(name)?)
    }

    /// Whether the file called `name` may have keys (`may_have_keys`).
    pub fn has_keys(self, name: &str) -> bool {
        let Self::Disk(folder) = self else { return false };
        let path = folder.join(name);
        if !std::fs::metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let bytes = read_bytes(&path).and_then(unpack_text).unwrap_or_default();
        let bytes = Zeroizing::new(bytes);
        // Bytes that are not UTF-8 may stand beside a key.
        bytes.utf8_chunks().any(|chunk| may_have_keys(chunk.valid()))
    }

    /// The bytes of the file called `name`, which only its owner may read.
    pub(crate) fn read_secret(self, name: &str) -> Result<Vec<u8>, String> {
        if let Self::Disk(folder) = self {
            let mode = std::fs::metadata(folder.join(name)).map_err(|error| plain(&error))?.mode();
            if mode & OTHERS != 0 {
                let mode = mode & 0o777;
                return Err(format!("other users may use it (mode {mode:o}): chmod 600 {name:?}"));
            }
        }
        self.read_bytes(name)
    }

    /// The bytes of the file called `name`, or why they can't be had.
    pub fn read_bytes(self, name: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Disk(_) if name.is_empty() => Err("the name is empty".into()),
            Self::Disk(folder) => read_bytes(&folder.join(name)),
            Self::Bundled(files) => {
                let file = files.iter().find(|(own, _)| *own == name);
                file.map(|(_, text)| text.as_bytes().to_vec())
                    .ok_or_else(|| "no such bundled file".into())
            }
        }
    }
}

/// Reads a text file of at most `len_max` bytes.
pub fn read_text(path: &Path, len_max: u64) -> Result<String, String> {
    text_of(read_at_most(path, len_max)?)
}

/// Reads a text file that may be packed ([`crate::unpack`]).
pub fn read_packed_text(path: &Path, len_max: u64) -> Result<String, String> {
    text_of(unpack_text(read_at_most(path, len_max)?)?)
}

pub(crate) fn text_of(mut bytes: Vec<u8>) -> Result<String, String> {
    drop_mark(&mut bytes);
    let is_utf16 = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| bytes.starts_with(mark));
    String::from_utf8(bytes).map_err(|error| match error.utf8_error().valid_up_to() {
        0 if is_utf16 => "it is UTF-16 text; save it as UTF-8".into(),
        at => format!("byte {at} is not UTF-8 text"),
    })
}

/// Drops the byte order mark that some editors write at the start of UTF-8 text.
fn drop_mark(bytes: &mut Vec<u8>) {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, FILE_LEN_MAX)
}

fn read_at_most(path: &Path, len_max: u64) -> Result<Vec<u8>, String> {
    let file = open(path).map_err(|error| plain(&error))?;
    let meta = file.metadata().map_err(|error| plain(&error))?;
    if meta.file_type().is_fifo() {
        return read_pipe(file, len_max);
    }
    if meta.is_dir() {
        return Err("it is a folder".into());
    }
    // A device may have no end.
    let len_max =
        if meta.file_type().is_char_device() { len_max.min(DEVICE_LEN_MAX) } else { len_max };
    if meta.len() > len_max {
        return Err(too_large(len_max));
    }
    // In one place from the start: a file of keys leaves no copies behind.
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    file.take(len_max + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > len_max {
        return Err(too_large(len_max));
    }
    drop_mark(&mut bytes);
    Ok(bytes)
}

fn too_large(len_max: u64) -> String {
    format!("it is larger than {} MiB", len_max >> 20)
}

/// Opens a file to read it; to open a named pipe does not wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo()) {
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    }
    options.read(true).open(path)
}

/// Reads a pipe for as long as a program has it open to write, however slowly that writes.
fn read_pipe(mut file: File, len_max: u64) -> Result<Vec<u8>, String> {
    let opened = Instant::now();
    let mut chunk = Zeroizing::new(vec![0; PIPE_CHUNK_LEN]);
    // Grown by hand, so that no copy of a key is left behind.
    let mut bytes = Zeroizing::new(Vec::new());
    loop {
        match file.read(&mut chunk) {
            Ok(0) if !bytes.is_empty() => break,
            Ok(0) if opened.elapsed() < WRITER_PATIENCE => thread::sleep(PIPE_NAP),
            Ok(0) => return Err("it is a pipe, and no program writes to it".into()),
            Ok(len) if (bytes.len() + len) as u64 > len_max => return Err(too_large(len_max)),
            Ok(len) => {
                if bytes.capacity() < bytes.len() + len {
                    let mut larger = Vec::with_capacity(2 * bytes.len() + len);
                    larger.extend_from_slice(&bytes);
                    bytes = Zeroizing::new(larger);
                }
                bytes.extend_from_slice(&chunk[..len]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PIPE_NAP),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(plain(&error)),
        }
    }
    drop_mark(&mut bytes);
    Ok(std::mem::take(&mut *bytes))
}

/// How long a pipe may be without a writer before the first byte.
const WRITER_PATIENCE: Duration = Duration::from_secs(2);
const PIPE_NAP: Duration = Duration::from_millis(2);
const PIPE_CHUNK_LEN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        for (bytes, text) in [
            (&b"\xef\xbb\xbfaccept"[..], Ok("accept")),
            (b"\xef\xbb\xbf", Ok("")),
            (b"a\xef\xbb\xbf", Ok("a\u{feff}")),
            (b"\xff\xfea\0", Err("it is UTF-16 text; save it as UTF-8")),
            (b"\xfe\xff\0a", Err("it is UTF-16 text; save it as UTF-8")),
            (b"a\xff", Err("byte 1 is not UTF-8 text")),
        ] {
            let path = std::env::temp_dir().join(format!("warpline-mark-{}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            let read = read_text(&path, 100);
            std::fs::remove_file(&path).unwrap();
            assert_eq!(read.as_deref().map_err(String::as_str), text);
            assert_eq!(text_of(bytes.to_vec()).as_deref().map_err(String::as_str), text);
        }
    }
}
