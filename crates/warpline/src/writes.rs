//! The files that a run writes: all are opened before the first is emptied, so that a run that
//! can't start has touched nothing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use warpline_io::{empty_file, open_pipe};
use warpline_io_error::plain;
use warpline_nf::continued;

use crate::Failure;

/// Files that are opened for writing and still hold what they held.
#[derive(Default)]
pub(crate) struct Writes {
    files: Vec<(Option<File>, Earlier)>,
    /// Files that did not exist before.
    new: Vec<PathBuf>,
}

/// Whether a file keeps its earlier content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    Removed,
    Kept,
}

/// A file's place among [`Writes`].
#[derive(Clone, Copy)]
pub(crate) struct FileSlot(usize);

/// Files that a run may write to, each to be taken once.
pub(crate) struct Emptied(Vec<Option<File>>);

impl Writes {
    /// Opens the file at `path`, and creates it if it is missing. A descriptor of the process keeps
    /// its file as it is.
    pub(crate) fn open(&mut self, path: &Path, earlier: Earlier) -> Result<FileSlot, String> {
        let is_new = fs::symlink_metadata(path).is_err();
        let own = continued(path);
        let earlier = if own.is_some() { Earlier::Kept } else { earlier };
        let append = || OpenOptions::new().append(true).create(true).open(path);
        let opened = own.unwrap_or_else(append);
        let opened = opened.map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
        if is_new {
            self.new.push(path.into());
        }
        Ok(self.add(Some(opened), earlier))
    }

    /// The same, without waiting for the reader of a pipe. One without a reader has a place, and no
    /// file is taken from there.
    pub(crate) fn open_at_once(
        &mut self,
        path: &Path,
        earlier: Earlier,
    ) -> Result<FileSlot, String> {
        if !fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            return self.open(path, earlier);
        }
        let opened = open_pipe(path).map_err(|why| format!("{}: {}", path.display(), plain(&why)));
        opened.map(|file| self.add(file, earlier))
    }

    fn add(&mut self, file: Option<File>, earlier: Earlier) -> FileSlot {
        self.files.push((file, earlier));
        FileSlot(self.files.len() - 1)
    }

    /// The same for a file that a function will open again. Checks that it can be opened. Pipes and
    /// other special files are left to the function: their reader must not see an end before the
    /// run began.
    pub(crate) fn open_for_other(&mut self, path: &Path, earlier: Earlier) -> Result<(), String> {
        let is_special = |found: fs::Metadata| !found.is_file() && !found.is_dir();
        if fs::metadata(path).is_ok_and(is_special) {
            return Ok(());
        }
        self.open(path, earlier).map(|_| ())
    }

    /// Empties those that don't keep their content: the run begins.
    pub(crate) fn empty(mut self) -> Emptied {
        self.new.clear();
        let files = std::mem::take(&mut self.files);
        let removed = files.iter().filter(|(_, earlier)| *earlier == Earlier::Removed);
        for file in removed.filter_map(|(file, _)| file.as_ref()) {
            // A device may refuse.
            let _ = empty_file(file);
        }
        Emptied(files.into_iter().map(|(file, _)| file).collect())
    }
}

/// Writes a file that a command makes.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let why = |error| format!("{}: {}", path.display(), plain(&error));
    let create = || OpenOptions::new().write(true).create(true).truncate(true).open(path);
    let file = continued(path).unwrap_or_else(create);
    let mut file = file.map_err(|error| Failure::Usage(why(error)))?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::Run(why(error)))
}

impl Emptied {
    /// The file at `place`, the first time that it is asked for.
    pub(crate) fn take(&mut self, place: Option<FileSlot>) -> Option<File> {
        place.and_then(|FileSlot(at)| self.0.get_mut(at)?.take())
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A cut leaves its time at the file.
    #[test]
    fn a_file_is_emptied_unless_it_is_kept_or_empty() {
        use Earlier::{Kept, Removed};
        let path = std::env::temp_dir().join(format!("warpline-writes-{}", std::process::id()));
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (content, earlier, left, is_cut) in [
            ("", Removed, "", false),
            ("", Kept, "", false),
            ("old", Removed, "", true),
            ("old", Kept, "old", false),
        ] {
            fs::write(&path, content).expect("a file");
            File::options().append(true).open(&path).expect("a file").set_modified(then).unwrap();
            let mut writes = Writes::default();
            let slot = writes.open(&path, earlier).expect("a file");
            assert!(writes.empty().take(Some(slot)).is_some());
            assert_eq!(fs::read_to_string(&path).expect("a file"), left, "{content:?} {earlier:?}");
            let modified = fs::metadata(&path).and_then(|found| found.modified()).expect("a time");
            assert_eq!(modified != then, is_cut, "{content:?} {earlier:?}");
        }
        fs::remove_file(&path).expect("a file");
    }
}
