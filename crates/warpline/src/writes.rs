//! The files that a run writes: all are opened before the first is emptied, so that a run that
//! can't start has touched nothing.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use warpline_io_error::plain;

/// Files that are opened for writing and still hold what they held.
#[derive(Default)]
pub(crate) struct Writes {
    files: Vec<File>,
    /// Files that did not exist before.
    new: Vec<PathBuf>,
}

/// A file's place among [`Writes`].
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

/// Files that a run may write to, each to be taken once.
pub(crate) struct Emptied(Vec<Option<File>>);

impl Writes {
    /// Opens the file at `path`, and creates it if it is missing.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Place, String> {
        let is_new = fs::symlink_metadata(path).is_err();
        let opened = OpenOptions::new().append(true).create(true).open(path);
        self.files.push(opened.map_err(|error| format!("{}: {}", path.display(), plain(&error)))?);
        if is_new {
            self.new.push(path.into());
        }
        Ok(Place(self.files.len() - 1))
    }

    /// The same for a file that a function will open again. Checks that it can be opened, and
    /// empties it with the others. Pipes and other special files are left to the function: their
    /// reader must not see an end before the run began.
    pub(crate) fn open_for_other(&mut self, path: &Path) -> Result<(), String> {
        let is_special = |found: fs::Metadata| !found.is_file() && !found.is_dir();
        if fs::metadata(path).is_ok_and(is_special) {
            return Ok(());
        }
        self.open(path).map(|_| ())
    }

    /// Empties all of them: the run begins.
    pub(crate) fn empty(mut self) -> Emptied {
        self.new.clear();
        let files = std::mem::take(&mut self.files);
        for file in &files {
            // Pipes and terminals can't be emptied, and return an error.
            let _ = file.set_len(0);
        }
        Emptied(files.into_iter().map(Some).collect())
    }
}

impl Emptied {
    /// The file at `place`, the first time that it is asked for.
    pub(crate) fn take(&mut self, place: Option<Place>) -> Option<File> {
        place.and_then(|Place(at)| self.0.get_mut(at)?.take())
    }
}

impl Drop for Writes {
    /// Takes away what was made for nothing.
    fn drop(&mut self) {
        for path in &self.new {
            let _ = fs::remove_file(path);
        }
    }
}
