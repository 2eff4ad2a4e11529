//! The files that a run writes: none is read or written for something else as well, and all are opened
//! before the first is emptied, so that a run that can't start has touched nothing.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use warpline_nf::config::plain;

use crate::ports::{Input, Output};

/// Files that are opened for writing and still hold what they held.
#[derive(Default)]
pub(crate) struct Writes {
    files: Vec<File>,
    /// Those that were not there before.
    new: Vec<PathBuf>,
}

/// A file's place among [`Writes`].
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

/// Files that a run may write to, each to be taken once.
pub(crate) struct Emptied(Vec<Option<File>>);

impl Writes {
    /// Opens the file at `path`, which is made if it is not there.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Place, String> {
        let is_new = fs::symlink_metadata(path).is_err();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        self.files.push(opened.map_err(|error| format!("{}: {}", path.display(), plain(&error)))?);
        if is_new {
            self.new.push(path.into());
        }
        Ok(Place(self.files.len() - 1))
    }

    /// The same for a file that a function will open again: it can be, and is emptied with the others. What
    /// is no file, a pipe, is left to the function: who reads it must not see an end before it began.
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
            // What is no file, a pipe or a terminal, has nothing to be emptied of, and says so.
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

/// Files that a run reads and writes, so that none is two things.
#[derive(Default)]
pub(crate) struct Claims {
    files: Vec<(String, PathBuf, bool)>,
}

/// Why a file is refused.
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) path: PathBuf,
}

impl Claims {
    /// Notes an input.
    pub(crate) fn read(&mut self, input: &Input) -> Result<(), Refusal> {
        input.path().map_or(Ok(()), |path| self.claim("input", path, false))
    }

    /// Notes an output.
    pub(crate) fn write(&mut self, output: &Output) -> Result<(), Refusal> {
        output.path().map_or(Ok(()), |path| self.claim("output", path, true))
    }

    /// Notes another file; refuses one that is written and also something else.
    pub(crate) fn claim(&mut self, what: &str, path: &Path, writes: bool) -> Result<(), Refusal> {
        for (other, own, written) in &self.files {
            if (writes || *written) && is_same_file(own, path) {
                let why = format!("{} is both the {other} and the {what}", path.display());
                return Err(Refusal { why, path: path.into() });
            }
        }
        self.files.push((what.into(), path.into(), writes));
        Ok(())
    }
}

#[cfg(unix)]
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(a), fs::metadata(b)) {
        // A device such as /dev/null or a terminal may be many things at once.
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => absolute(a) == absolute(b),
    }
}

#[cfg(not(unix))]
fn is_same_file(a: &Path, b: &Path) -> bool {
    absolute(a) == absolute(b)
}

/// The path with all links followed, for a file that need not be there.
fn absolute(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many links as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new(".")).join(target);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.into());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}
