//! Paths that name open descriptors of the process: `/dev/stdout`, `/proc/self/fd/3`.
//!
//! Linux opens the file of such a path again, at its start. A shell that continues a file by `>>`,
//! or by several commands in `( )`, would lose the rest of it.
//!
//! Only descriptors that the process was started with have such paths. A number beyond these may
//! become a file of the process itself, such as its input.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Standard input and output.
pub const STDIN: u32 = 0;
/// See [`STDIN`].
pub const STDOUT: u32 = 1;
const STDERR: u32 = 2;
/// The most links of a path that Linux follows.
pub const LINKS_MAX: usize = 40;

/// Descriptors that the process was started with, standard streams included.
static INHERITED: OnceLock<Vec<u32>> = OnceLock::new();

/// Notes the descriptors that the process was started with. Comes before the first file that it
/// opens.
pub fn note_inherited() {
    INHERITED.get_or_init(open_descriptors);
}

/// Whether the process was started with the descriptor of this number. Standard streams count
/// always.
pub fn is_inherited(number: u32) -> bool {
    number <= STDERR || INHERITED.get_or_init(open_descriptors).contains(&number)
}

fn open_descriptors() -> Vec<u32> {
    const FOLDER: &str = "/proc/self/fd";
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The folder's own is closed by now.
    let is_open = |number: &u32| fs::symlink_metadata(format!("{FOLDER}/{number}")).is_ok();
    numbers.into_iter().filter(is_open).collect()
}

/// The number of the descriptor that `path` names, by whatever links.
pub fn descriptor_of(path: &Path) -> Option<u32> {
    let own = fs::canonicalize("/proc/self").ok()?;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        if folder.is_some_and(|folder| folder.starts_with(&own) && folder.ends_with("fd")) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = link_target(&path)?;
    }
    None
}

/// The target of the link at `path`.
pub fn link_target(path: &Path) -> Option<PathBuf> {
    let target = fs::read_link(path).ok()?;
    Some(path.parent().unwrap_or(Path::new(".")).join(target))
}

/// Opens a path that names a descriptor, to write after everything that is in its file. Standard
/// output and standard error are shared with the other writers of the same file. A descriptor that
/// the process was not started with is refused. Returns none for any other path.
pub fn continued(path: &Path) -> Option<io::Result<File>> {
    let own = match descriptor_of(path)? {
        STDOUT => io::stdout().as_fd().try_clone_to_owned(),
        STDERR => io::stderr().as_fd().try_clone_to_owned(),
        number if !is_inherited(number) => Err(io::ErrorKind::NotFound.into()),
        _ => return Some(OpenOptions::new().append(true).open(path)),
    };
    Some(own.map(File::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_many_names() {
        for (name, number) in [
            ("/dev/stdin", Some(STDIN)),
            ("/dev/stdout", Some(STDOUT)),
            ("/dev/stderr", Some(STDERR)),
            ("/dev/fd/0", Some(STDIN)),
            ("/dev/fd/7", Some(7)),
            ("/proc/self/fd/1", Some(STDOUT)),
            ("/proc/thread-self/fd/1", Some(STDOUT)),
            ("/dev/../proc/self/../self/fd/1", Some(STDOUT)),
            (&format!("/proc/{}/fd/1", std::process::id()), Some(STDOUT)),
            ("/dev/null", None),
            ("fd/1", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(descriptor_of(Path::new(name)), number, "{name}");
        }
    }
}
