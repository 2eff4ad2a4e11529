//! A child process with a time limit. At the limit it is killed, with all its children.

use core::time::Duration;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;

/// Time between two looks at the child.
const REST: Duration = Duration::from_millis(2);

/// Names of the files that take a child's standard output and standard error.
pub(crate) const OUTPUT: &str = "output";
pub(crate) const ERRORS: &str = "errors";

/// How a child ended.
pub(crate) enum Ended {
    /// By itself.
    Exit(ExitStatus),
    /// Its time was over.
    Killed,
}

impl Ended {
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Exit(status) if status.success())
    }

    /// In words, for a child that had `limit`.
    pub(crate) fn how(&self, limit: Duration) -> String {
        match self {
            Self::Exit(status) => format!("ended with {status}"),
            Self::Killed => format!("did not end within {limit:?} and was killed"),
        }
    }
}

/// Runs `command` in a process group of its own.
///
/// # Errors
/// It can't be started.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Ended> {
    let started = Instant::now();
    let mut child = command.process_group(0).spawn()?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Ended::Exit(status)),
            Ok(None) if started.elapsed() < limit => thread::sleep(REST),
            Ok(None) => {
                kill(&mut child);
                return Ok(Ended::Killed);
            }
            Err(why) => {
                kill(&mut child);
                return Err(why);
            }
        }
    }
}

fn kill(child: &mut Child) {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the child was not waited for, so its number names its own group and no other.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    let _ = child.wait();
}
