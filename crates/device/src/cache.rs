//! Compiled kernels on disk, in `$XDG_CACHE_HOME/warpline` or `~/.cache/warpline`. A file's name is
//! made from everything that its content depends on, so it never becomes stale. Without such a
//! folder nothing is stored.
//!
//! A file ends with its SHA-256. Drivers run damaged code (a page that a crash left as zeros), and
//! the process dies.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use core::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

const DIGEST_LEN: usize = 32;
/// Bytes that a kept program may have.
const LEN_MAX: u64 = 256 << 20;

/// The folder, created if missing. It is used only if it belongs to this user and no other user may
/// write there, because code is loaded from it.
pub(crate) fn folder() -> Option<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        Some(path) if path.is_absolute() => path,
        _ => PathBuf::from(env::var_os("HOME")?).join(".cache"),
    };
    let folder = base.join("warpline");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    is_ours(&folder).then_some(folder)
}

fn is_ours(folder: &Path) -> bool {
    let own = fs::metadata("/proc/self").map(|meta| meta.uid());
    match (fs::symlink_metadata(folder), own) {
        (Ok(meta), Ok(own)) => meta.is_dir() && meta.uid() == own && meta.mode() & 0o022 == 0,
        _ => false,
    }
}

/// The bytes stored under `name`, if they are intact.
pub(crate) fn read(name: &str) -> Option<Vec<u8>> {
    let mut bytes = read_whole(&folder()?.join(name)).ok()?;
    let len = bytes.len().checked_sub(DIGEST_LEN)?;
    let digest = bytes.split_off(len);
    (Sha256::digest(&bytes)[..] == digest).then_some(bytes)
}

/// A file's bytes. Anything but a file of a program's size is refused: a pipe would be waited for.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LEN_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Keeps `bytes` under `name`. Failing to is no error: it is made again next time.
pub(crate) fn write(name: &str, bytes: &[u8]) {
    if let Some(folder) = folder() {
        let whole = [bytes, &Sha256::digest(bytes)[..]].concat();
        let _ = write_whole(&folder, name, &whole);
    }
}

/// The file appears under its name only when it is whole, also when two programs write it at once.
fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = folder.join(own_name(name));
    let written = fs::File::create_new(&part)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&part, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// A name that no other writer has.
pub(crate) fn own_name(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}.{}-{count}", std::process::id())
}
