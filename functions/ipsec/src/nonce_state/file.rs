//! The file of reserved numbers on disk: read whole, written whole, in one step or not at all.
//!
//! ```text
//! warpline nonces 1
//! KEY NEXT
//! sha256 HASH
//! ```
//!
//! A line for each key: its fingerprint in 32 hexadecimal digits, and the first number that is not
//! reserved. HASH is over everything before its line. Beside `FILE` there are `FILE.lock`, which
//! the process that has it locks, and for a moment `FILE.new`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Fingerprint, RECORDS_MAX};
use warpline_io_error::plain;

const FIRST_LINE: &str = "warpline nonces 1";
/// Longer than a file with [`RECORDS_MAX`] keys.
const LEN_MAX: u64 = 4 << 20;

/// The file, locked while this lives.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    new: PathBuf,
    folder: PathBuf,
    _lock: Lock,
}

/// The file beside it, locked while this lives.
#[derive(Debug)]
struct Lock(File);

pub(super) type Records = BTreeMap<Fingerprint, u64>;

impl StateFile {
    /// Locks the file at `path` and reads it; where there is none, it has no records.
    pub(super) fn open(path: &Path) -> Result<(Self, Records), String> {
        let reported = |why: String| format!("{}: {why}", path.display());
        let beside = |end: &str| {
            let mut name = path.file_name().unwrap_or_default().to_os_string();
            name.push(end);
            path.with_file_name(name)
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let lock = lock(&beside(".lock")).map_err(reported)?;
        let records = read(path).map_err(reported)?;
        let (path, new) = (path.to_path_buf(), beside(".new"));
        Ok((Self { path, new, folder, _lock: lock }, records))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents by `records`. On `Ok` they are safe on disk; otherwise either they or
    /// the old contents are.
    pub(super) fn write(&self, records: &Records) -> Result<(), String> {
        let write = || {
            match fs::remove_file(&self.new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.new)?;
            file.write_all(text(records).as_bytes())?;
            file.sync_all()?;
            fs::rename(&self.new, &self.path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| {
            format!("{}: can't be written: {}", self.path.display(), plain(&error))
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that is being started has a copy of the handle for a moment, and would keep the
        // lock.
        let _ = self.0.unlock();
    }
}

fn lock(path: &Path) -> Result<Lock, String> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| format!("can't be locked: {}", plain(&error)))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => {
            Err("it is in use: one running chain at a time may have it".into())
        }
        Err(TryLockError::Error(error)) => Err(format!("can't be locked: {}", plain(&error))),
    }
}

fn read(path: &Path) -> Result<Records, String> {
    let unreadable = |error: &std::io::Error| format!("can't be read: {}", plain(error));
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Records::new()),
        Err(error) => return Err(unreadable(&error)),
        Ok(meta) => meta,
    };
    if !meta.is_file() {
        return Err("it is not a plain file".into());
    }
    let mut file = File::open(path).map_err(|error| unreadable(&error))?;
    let mode = file.metadata().map_err(|error| unreadable(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err("other users may read or write it: `chmod 600` it".into());
    }
    let mut bytes = Vec::new();
    let read = (&mut file).take(LEN_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(&error))?;
    // Beginning anew would repeat nonces: what doesn't read is for a person to look at.
    parse(&bytes).ok_or_else(|| {
        "it is torn or was changed, so which nonces were used is not known: give the SAs new keys, \
         and remove it"
            .into()
    })
}

fn text(records: &Records) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    for (key, next) in records {
        let _ = writeln!(text, "{key} {next}");
    }
    let hash = hash(&text);
    let _ = writeln!(text, "sha256 {hash}");
    text
}

fn hash(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn parse(bytes: &[u8]) -> Option<Records> {
    let text = str::from_utf8(bytes).ok()?;
    let end = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (body, last) = text.split_at(end);
    if last.strip_prefix("sha256 ")?.strip_suffix('\n')? != hash(body) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let mut records = Records::new();
    for line in lines {
        let (key, next) = line.split_once(' ')?;
        if records.insert(fingerprint(key)?, next.parse().ok()?).is_some() {
            return None;
        }
    }
    (records.len() <= RECORDS_MAX).then_some(records)
}

fn fingerprint(hex: &str) -> Option<Fingerprint> {
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(hex, 16).ok().map(|bits| Fingerprint(bits.to_be_bytes()))
}
