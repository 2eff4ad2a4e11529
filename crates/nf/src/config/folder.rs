//! The files that a chain file names: where they are found, and how they are read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::diagnostic::may_have_keys;

/// Files named in a chain file may be this large.
pub const FILE_LEN_MAX: u64 = 1 << 30;

/// And devices.
const DEVICE_LEN_MAX: u64 = 64 << 20;

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

    /// Whether the file called `name` may have keys ([`may_have_keys`]).
    pub fn has_keys(self, name: &str) -> bool {
        let Self::Disk(folder) = self else { return false };
        let path = folder.join(name);
        if !std::fs::metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let bytes = Zeroizing::new(read_bytes(&path).unwrap_or_default());
        // Bytes that are not UTF-8 may stand beside a key.
        bytes.utf8_chunks().any(|chunk| may_have_keys(chunk.valid()))
    }

    /// The bytes of the file called `name`, or why they can't be had.
    pub fn read_bytes(self, name: &str) -> Result<Vec<u8>, String> {
        match self {
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

pub(super) fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes)
        .map_err(|error| format!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to()))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, FILE_LEN_MAX)
}

fn read_at_most(path: &Path, len_max: u64) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| plain(&error))?;
    let meta = file.metadata().map_err(|error| plain(&error))?;
    if meta.is_dir() {
        return Err("it is a folder".into());
    }
    // A device may have no end.
    let len_max =
        if meta.file_type().is_char_device() { len_max.min(DEVICE_LEN_MAX) } else { len_max };
    let too_large = || format!("it is larger than {} MiB", len_max >> 20);
    if meta.len() > len_max {
        return Err(too_large());
    }
    // In one place from the start: a file of keys leaves no copies behind.
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    file.take(len_max + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > len_max {
        return Err(too_large());
    }
    Ok(bytes)
}

/// An operating system's error without its number.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}
