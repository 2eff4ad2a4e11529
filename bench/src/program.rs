//! The program that was built beside a bench, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// See the module. The folder is deleted at the end.
pub struct Program {
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// `warpline` beside this bench (`cargo build --release -p warpline`).
    ///
    /// # Panics
    /// There is no room for a folder.
    pub fn beside() -> Self {
        let path = std::env::current_exe().expect("a path");
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("bench");
        let folder = std::env::temp_dir().join(format!("warpline-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self { path: path.with_file_name("warpline"), folder }
    }

    /// Writes a file into the folder.
    ///
    /// # Panics
    /// There is no room.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("room for a file");
    }

    /// The program with arguments, in the folder, without its output.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs the program.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, arguments: &[&str]) {
        let status = self.command(arguments).status().expect("the program");
        assert!(status.success(), "{arguments:?}");
    }

    /// Runs the program. Returns how much of the machine's cores it and other processes took.
    ///
    /// # Panics
    /// It fails, or Linux does not report processor times.
    pub fn used(&self, arguments: &[&str]) -> CoresUsed {
        let cores = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let (began, [own, all]) = (Instant::now(), [children_seconds(), all_seconds()]);
        self.run(arguments);
        let seconds = began.elapsed().as_secs_f64() * cores;
        let own = children_seconds() - own;
        let others = (all_seconds() - all - own).max(0.0);
        CoresUsed { cores, own: own / seconds, others: others / seconds, seconds: own }
    }

    /// Runs the program. Returns the seconds of the processor that it took, or its thread of this
    /// name, to a fifth of a second of its time.
    ///
    /// # Panics
    /// It fails.
    pub fn timed(&self, arguments: &[&str], thread: Option<&str>) -> f64 {
        let mut run = self.command(arguments).spawn().expect("the program");
        let mut last = 0.0;
        loop {
            if let Ok(Some(status)) = run.try_wait() {
                assert!(status.success(), "{arguments:?}");
                return last;
            }
            last = processor_seconds(run.id(), thread).unwrap_or(last);
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Runs the program, which prints JSON.
    ///
    /// # Panics
    /// It fails, or prints something else.
    pub fn printed(&self, arguments: &[&str]) -> Value {
        let ended = self.command(arguments).stdout(Stdio::piped()).output().expect("the program");
        assert!(ended.status.success(), "{arguments:?}");
        serde_json::from_slice(&ended.stdout).expect("JSON")
    }

    /// A file of the folder.
    ///
    /// # Panics
    /// There is none, or it isn't JSON.
    pub fn json(&self, name: &str) -> Value {
        let text = fs::read(self.folder.join(name)).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// The time of all cores during a run of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoresUsed {
    /// Cores of the machine.
    pub cores: f64,
    /// The part that the program took, from 0 to 1.
    pub own: f64,
    /// The part of other processes and other virtual machines.
    pub others: f64,
    /// The program's part in seconds of a core.
    pub seconds: f64,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Linux reports times in hundredths of a second.
const TICKS_PER_S: f64 = 100.0;

/// Seconds of the processor that ended processes of this one took.
fn children_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    // The fields after the name are the state and 12 numbers, then the times of children.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    fields.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

/// Seconds in which cores were in use.
fn all_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("Linux");
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<f64> = line.split_whitespace().filter_map(|one| one.parse().ok()).collect();
    // User, nice, system, idle, waiting, interrupts twice, and other virtual machines.
    let used = [0, 1, 2, 5, 6, 7].into_iter().filter_map(|at| fields.get(at));
    used.sum::<f64>() / TICKS_PER_S
}

/// Seconds of the processor that a process or one of its threads took so far.
fn processor_seconds(process: u32, thread: Option<&str>) -> Option<f64> {
    let process = PathBuf::from(format!("/proc/{process}"));
    let is_own = |task: &PathBuf, name: &str| {
        fs::read_to_string(task.join("comm")).is_ok_and(|own| own.trim() == name)
    };
    let of_thread = |name: &str| {
        let tasks = fs::read_dir(process.join("task")).ok()?.flatten().map(|one| one.path());
        tasks.into_iter().find(|task| is_own(task, name))
    };
    let from: PathBuf = match thread {
        Some(name) => of_thread(name)?,
        None => Path::to_path_buf(&process),
    };
    let stat = fs::read_to_string(from.join("stat")).ok()?;
    // The fields after the name are the state and 10 numbers, then user and system time.
    let times = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    Some(times.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S)
}
