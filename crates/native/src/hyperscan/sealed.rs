//! Intact files that this user wrote. The library trusts what it reads, so it gets the bytes of
//! such files only.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::sys;

/// The name and first bytes of a file: the hash of everything that determines its content.
pub(crate) type Key = [u8; 32];

const MAGIC: &[u8; 16] = b"warpline sealed1";
const HEAD_LEN: usize = MAGIC.len() + 2 * size_of::<Key>();
/// Bytes of the longest file that is read.
const LEN_MAX: u64 = 1 << 30;

/// The bytes of such a file, as they were written under this key. The file has the key and a
/// SHA-256 over them. It is a plain file of this user that no other user may write. Anyone acting
/// as this user can forge one, but could also replace this program.
pub(crate) struct Sealed(Vec<u8>);

impl Sealed {
    /// Reads the file at `path`; `None` if it is missing or not as stated above. Its time of
    /// modification becomes now, to tell it from unread ones.
    pub(crate) fn read(path: &Path, key: &Key) -> Option<Self> {
        // There may be a pipe in its place, at which a plain open would wait forever.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let about = file.metadata().ok()?;
        let is_own = about.is_file() && about.uid() == sys::user() && about.mode() & 0o022 == 0;
        if !is_own || about.len() > LEN_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(about.len() as usize);
        (&file).take(LEN_MAX).read_to_end(&mut bytes).ok()?;
        let (head, content) = bytes.split_at_checked(HEAD_LEN)?;
        if head != head_of(key, content) {
            return None;
        }
        // Where that fails, the file only looks older than it is.
        let _ = file.set_modified(SystemTime::now());
        Some(Self(bytes))
    }

    /// The sealed content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[HEAD_LEN..]
    }
}

/// Writes `content` to `path` through the new file `draft`, so that the file at `path` is intact at
/// any time.
pub(crate) fn seal(path: &Path, draft: &Path, key: &Key, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    let written = file.write_all(&head_of(key, content)).and_then(|()| file.write_all(content));
    let done = written.and_then(|()| fs::rename(draft, path));
    if done.is_err() {
        fs::remove_file(draft)?;
    }
    done
}

fn head_of(key: &Key, content: &[u8]) -> Vec<u8> {
    [&MAGIC[..], key, &Sha256::digest(content)].concat()
}
