//! Runs the built program with a time limit, in a folder of its own.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No run of a test takes nearly as long; one that does hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    /// Fails the test unless the exit status is `status`.
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "stderr:\n{}", self.stderr);
        self
    }
}

/// A folder with the demo in it.
pub(crate) struct Demo {
    folder: TempDir,
}

impl Demo {
    pub(crate) fn new() -> Self {
        let demo = Self { folder: TempDir::new().unwrap() };
        demo.warpline("demo .").expect(0);
        demo
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs the program with the words of `arguments` (`\u{b7}` in a word stands for a space).
    pub(crate) fn warpline(&self, arguments: &str) -> Ended {
        self.warpline_with(arguments, b"")
    }

    /// The same with `input` on standard input.
    pub(crate) fn warpline_with(&self, arguments: &str, input: &[u8]) -> Ended {
        let mut child = self.start(arguments);
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // It may end without reading all of it.
        let feed = thread::spawn(move || drop(stdin.write_all(&input)));
        let ended = wait(child);
        feed.join().unwrap();
        ended
    }

    /// Starts the program; [`wait`] for it.
    pub(crate) fn start(&self, arguments: &str) -> Child {
        self.start_with(arguments, &[])
    }

    /// The same with more in its environment.
    pub(crate) fn start_with(&self, arguments: &str, environment: &[(&str, &OsStr)]) -> Child {
        start(self.folder.path(), arguments, environment)
    }
}

/// A started program, which does not outlive the test that has it.
pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn of(child: std::process::Child) -> Self {
        Self(child)
    }
}

impl Deref for Child {
    type Target = std::process::Child;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended is none to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, arguments: &str, environment: &[(&str, &OsStr)]) -> Child {
    let words = arguments.split_whitespace().map(|word| word.replace('\u{b7}', " "));
    let child = Command::new(env!("CARGO_BIN_EXE_warpline"))
        .current_dir(folder)
        .args(words)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Child(child.unwrap())
}

/// Waits until `child` ends, at most [`LIMIT`].
pub(crate) fn wait(mut child: Child) -> Ended {
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            let stderr = String::from_utf8_lossy(&stderr.join().unwrap()).into_owned();
            panic!("it hangs; stderr:\n{stderr}");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let stderr = String::from_utf8(stderr.join().unwrap()).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ended { status: status.code(), stdout: stdout.join().unwrap(), stderr }
}

/// Reads a pipe to its end, in a thread of its own.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// Runs another program, which must succeed; gives what it writes to standard output.
pub(crate) fn output_of(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}
