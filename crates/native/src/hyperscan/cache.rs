//! Databases kept on disk: [`Cache`].

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::sealed::{Key, Sealed, seal};
use super::{CompileError, Database, Library, Literal};

/// Bytes of all files; those that were not read for longest go when there are more.
const LEN_MAX: u64 = 1 << 30;
/// The extension of the files.
const EXTENSION: &str = "hsdb";

/// A folder of databases, one per file. A file is named by the library's version, the processor's
/// features and the literals. A file that is broken, cut, of another user or writable by others is
/// not read but written anew. If a file can't be read or written, the database is compiled as
/// without a cache. Processes may share a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In a folder, which is made when something is written to it, open to this user only.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The user's own, by the XDG Base Directory Specification: `$XDG_CACHE_HOME/warpline` or
    /// `~/.cache/warpline`. `None` if the environment has neither.
    pub fn of_user() -> Option<Self> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let folder =
            absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Self::new(folder.join("warpline")))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The database of `literals`, at least one: read from the cache, or compiled and stored.
    ///
    /// # Errors
    ///
    /// As of [`Database::compile`].
    pub fn database(
        &self,
        library: &'static Library,
        literals: &[Literal<'_>],
    ) -> Result<Database, CompileError> {
        let key = key(library, literals);
        let path = self.path(&key);
        let kept = Sealed::read(&path, &key);
        if let Some(known) = kept.and_then(|sealed| Database::from_sealed(library, &sealed)) {
            return Ok(known);
        }
        let made = Database::compile(library, literals)?;
        // Without it the next process compiles again.
        let _ = self.keep(&path, &key, &made);
        Ok(made)
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name).with_extension(EXTENSION)
    }

    fn keep(&self, path: &Path, key: &Key, database: &Database) -> io::Result<()> {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let bytes = database.to_bytes().ok_or(io::ErrorKind::OutOfMemory)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let draft = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = path.with_extension(format!("{}-{draft}.draft", std::process::id()));
        seal(path, &draft, key, &bytes)?;
        self.trim(LEN_MAX)
    }

    /// Removes the least recently read files until `len_max` bytes are left. Drafts count, since a
    /// process that was killed may have left one.
    fn trim(&self, len_max: u64) -> io::Result<()> {
        let mut files = fs::read_dir(&self.folder)?
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let is_own = path.extension().is_some_and(|e| e == EXTENSION || e == "draft");
                let about =
                    fs::symlink_metadata(&path).ok().filter(|about| is_own && about.is_file())?;
                Some((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), path))
            })
            .collect::<Vec<_>>();
        files.sort_unstable();
        let mut len: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, own, path) in &files {
            if len <= len_max {
                break;
            }
            fs::remove_file(path)?;
            len -= own;
        }
        Ok(())
    }
}

/// The hash of all that a database follows from.
fn key(library: &Library, literals: &[Literal<'_>]) -> Key {
    let mut hash = Sha256::new();
    let identity = library.identity();
    hash.update((identity.len() as u64).to_le_bytes());
    hash.update(identity);
    for literal in literals {
        hash.update((literal.bytes.len() as u64).to_le_bytes());
        hash.update([u8::from(literal.is_caseless)]);
        hash.update(literal.bytes);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
