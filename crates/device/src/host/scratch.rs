//! A private folder for one run of a compiler, removed when it is dropped.

use core::time::Duration;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache;
use crate::sys::limited::{self, Ended};

/// Bytes of a compiler's output that are read.
const TEXT_MAX: u64 = 1 << 20;
/// Names that are tried: a process of the same number may have left some.
const TRIES: usize = 64;

pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A folder in the cache, or in the system's folder for temporary files if there is no cache.
    pub(super) fn new() -> io::Result<Self> {
        let base = cache::folder().unwrap_or_else(std::env::temp_dir);
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for _ in 0..TRIES {
            let folder = base.join(cache::own_name("warpline-compiler"));
            result = DirBuilder::new().mode(0o700).create(&folder).map(|()| Self(folder));
            match &result {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                _ => break,
            }
        }
        result
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `program` with `input` until it ends or `limit` has passed. It talks to files, since a
    /// pipe would block one side where the other stops.
    pub(super) fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        input: &str,
        limit: Duration,
    ) -> io::Result<Ended> {
        fs::write(self.path("input"), input)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(File::open(self.path("input"))?)
            .stdout(Stdio::from(File::create(self.path(limited::OUTPUT))?))
            .stderr(Stdio::from(File::create(self.path(limited::ERRORS))?));
        limited::run(&mut command, limit)
    }

    /// A file of the folder as text; empty if it can't be read.
    pub(super) fn text(&self, name: &str) -> String {
        let mut bytes = Vec::new();
        let file = File::open(self.path(name));
        let _ = file.and_then(|file| file.take(TEXT_MAX).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
