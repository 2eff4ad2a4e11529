//! Files that keys name: those that are read with the table, and outputs.

use std::hash::Hash;
use std::path::{Path, PathBuf};

use warpline_outputs::Destination;
use zeroize::Zeroizing;

use super::Section;
use crate::SourceText;
use crate::folder::{Folder, text_of};
use crate::unpack::unpack_text;

impl<'a> Section<'a> {
    /// The name and the unpacked bytes of each file of a list; a single name is a list of one. A
    /// file that is missing, can't be read or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn files_bytes(&mut self, key: &str) -> Vec<(&'a str, Vec<u8>)> {
        let mut files = Vec::new();
        self.each_string(key, |section, name, span| {
            match section.folder.read_bytes(name).and_then(unpack_text) {
                Ok(bytes) => {
                    (key, &bytes).hash(&mut section.files);
                    files.push((name, bytes));
                }
                Err(why) => section.mistake_at(key, span, format!("can't read {name:?}: {why}")),
            }
        });
        files
    }

    /// The text of the file that `key` names, which may be packed. A file that is missing, can't be
    /// read, is not UTF-8 or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn file(&mut self, key: &str) -> Option<SourceText> {
        let (name, bytes) = self.file_bytes(key)?;
        self.text(key, name, bytes)
    }

    /// The name and the bytes of the file that `key` names. A file that is missing, can't be read
    /// or is larger than [`crate::FILE_LEN_MAX`] is a mistake.
    pub fn file_bytes(&mut self, key: &str) -> Option<(&'a str, Vec<u8>)> {
        let name = self.string(key)?;
        match self.folder.read_bytes(name) {
            Ok(bytes) => {
                (key, &bytes).hash(&mut self.files);
                Some((name, bytes))
            }
            Err(why) => {
                self.mistake(key, format!("can't read {name:?}: {why}"));
                None
            }
        }
    }

    /// The bytes of the file that `key` names, which are a key: at least `len_min`, and only the
    /// file's owner may read it.
    pub fn secret(&mut self, key: &str, len_min: usize) -> Option<Zeroizing<Vec<u8>>> {
        let name = self.string(key)?;
        let why = match self.folder.read_secret(name).map(Zeroizing::new) {
            Ok(bytes) if bytes.len() >= len_min => return Some(bytes),
            Ok(bytes) => format!(
                "`{key}`: {name:?} has {} bytes, a key has {len_min} at least: \
                 head -c {len_min} /dev/urandom > {name}",
                bytes.len()
            ),
            Err(why) => format!("can't read {name:?}: {why}"),
        };
        self.mistake(key, why);
        None
    }

    /// The bytes from [`Section::file_bytes`], unpacked, as text. Bytes that are not UTF-8 are a
    /// mistake.
    pub fn text(&mut self, key: &str, name: &str, bytes: Vec<u8>) -> Option<SourceText> {
        match unpack_text(bytes).and_then(text_of) {
            Ok(text) => Some(SourceText::new(name, text)),
            Err(why) => {
                self.mistake(key, format!("can't read {name:?}: {why}"));
                None
            }
        }
    }

    /// The file that `key` names, to be created when a run starts. Its path is relative to the
    /// chain file's folder, or to the current one if the chain file is part of the program. An
    /// empty name is a mistake.
    pub fn output(&mut self, key: &str) -> Option<PathBuf> {
        let name = self.string(key)?;
        if name.is_empty() {
            self.mistake(key, format!("`{key}` is empty: it must be the name of a file"));
            return None;
        }
        if name == "-" {
            let reported = format!(
                "`{key}` must be the name of a file; standard output is for --output and --alerts"
            );
            self.mistake(key, reported);
            return None;
        }
        Some(match self.folder {
            Folder::Disk(folder) => folder.join(name),
            Folder::Bundled(_) => PathBuf::from(name),
        })
    }

    /// The file, pipe or socket that `key` names, to be opened when a run starts. Paths are
    /// relative to the chain file's folder.
    pub fn destination(&mut self, key: &str) -> Option<Destination> {
        let text = self.string(key)?;
        if !text.starts_with("unix:") && !text.starts_with("tcp:") {
            return self.output(key).map(Destination::File);
        }
        let folder = match self.folder {
            Folder::Disk(folder) => folder,
            Folder::Bundled(_) => Path::new(""),
        };
        let parsed = Destination::parse(text, folder);
        parsed.map_err(|why| self.mistake(key, format!("`{key}`: {why}"))).ok()
    }
}
