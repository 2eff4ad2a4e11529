//! `ctl top` and `run --live`: on a terminal, and in a pipe.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::ends::signal;
use crate::harness::{Demo, LIMIT, wait};

const CHAIN: &str =
    "[chain]\nname = \"edge\"\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"rules\"\n";
const PROGRAM: &str = env!("CARGO_BIN_EXE_warpline");
const RUN: &str = "run c.toml --input generate:packets=1000000000000,size=100 --socket c.sock";

fn demo() -> Demo {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "drop udp from any port 1000-20000 to any\naccept from any to any\n");
    demo
}

/// A terminal of 80 columns and 24 rows in a server of its own.
pub(crate) struct Terminal {
    folder: PathBuf,
    socket: String,
}

impl Terminal {
    /// Runs the program with `arguments` in it; `None` without tmux.
    pub(crate) fn start(demo: &Demo, arguments: &str) -> Option<Self> {
        Self::start_with(demo, "", arguments)
    }

    /// The same with variables of the environment, each followed by a space.
    pub(crate) fn start_with(demo: &Demo, variables: &str, arguments: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("WARPLINE_REQUIRE_PEERS").is_none(), "tmux is missing");
            return None;
        }
        // A server that ends still has its socket when the next one starts.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let socket = format!("tmux{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let terminal = Self { folder: demo.path(""), socket };
        // A terminal that closes sends SIGHUP, which reloads.
        let program = format!("{variables}timeout --foreground 100 {PROGRAM} {arguments}");
        terminal.open(&format!("{program}; echo status $?; cat"));
        Some(terminal)
    }

    fn open(&self, command: &str) {
        self.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command]);
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.folder.join(&self.socket);
        let mut command = Command::new("tmux");
        command.arg("-S").arg(socket).args(arguments).current_dir(&self.folder);
        let output = command.env("TERM", "xterm-256color").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen with its colours.
    pub(crate) fn painted(&self) -> String {
        self.tmux(&["capture-pane", "-e", "-p"])
    }

    /// Waits until the screen has `text`.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.shows_without(text, "\0")
    }

    /// Waits until the screen has `text`, and not `other`.
    #[track_caller]
    pub(crate) fn shows_without(&self, text: &str, other: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(text) && !screen.contains(other) {
                return screen;
            }
            assert!(begun.elapsed() < LIMIT, "{text:?} is shown:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Whether a part of the screen is yellow, by either of its sequences.
fn is_yellow(painted: &str) -> bool {
    painted.contains("\u{1b}[33m") || painted.contains("38;5;3m")
}

#[test]
fn top_shows_a_running_chain() {
    let demo = demo();
    let child = demo.start(&format!("{RUN} --quiet"));
    let begun = Instant::now();
    while demo.warpline("ctl --socket c.sock status").status != Some(0) {
        assert!(begun.elapsed() < LIMIT, "it serves its socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let Some(terminal) = Terminal::start(&demo, "ctl top --socket c.sock") else { return };
    let screen = terminal.shows("rule ");
    assert!(screen.contains("edge  running"), "{screen}");
    assert!(screen.contains("drop/s"), "{screen}");
    assert!(is_yellow(&terminal.painted()), "drops are yellow");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "5"]);
    terminal.shows("arrows scroll");
    terminal.tmux(&["send-keys", "q"]);
    terminal.shows("status 0");
    drop(terminal);
    let plain = Terminal::start_with(&demo, "NO_COLOR=1 ", "ctl top --socket c.sock").unwrap();
    plain.shows("rule ");
    assert!(!is_yellow(&plain.painted()));
    signal(&child, "TERM");
    wait(child).expect(143);
}

#[test]
fn a_live_run_ends_by_ctrl_c() {
    let demo = demo();
    let Some(terminal) = Terminal::start(&demo, &format!("{RUN} --live")) else { return };
    terminal.shows("edge  running");
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.shows("status 130");
    assert!(screen.contains("edge: "), "the summary follows:\n{screen}");
}

#[test]
fn a_pipe_is_a_mistake() {
    let demo = demo();
    let why = demo.warpline("ctl top --socket c.sock").expect(2).stderr;
    assert!(why.contains("needs a terminal") && why.contains("ctl stats"), "{why}");
    let why = demo.warpline("run c.toml --input generate:packets=1 --live").expect(2).stderr;
    assert!(why.contains("needs a terminal") && why.contains("ctl stats"), "{why}");
}

/// A view of a closed terminal ends, also where SIGHUP is ignored, and a run continues without it.
#[test]
fn views_of_closed_terminals_end() {
    let demo = demo();
    let run = format!("{RUN} --live");
    let Some(terminal) = Terminal::start_with(&demo, "exec ", &run) else { return };
    terminal.shows("edge  running");
    drop(terminal);
    let top = Terminal { folder: demo.path(""), socket: "top".into() };
    top.open(&format!("trap '' HUP; exec {PROGRAM} ctl top --socket c.sock"));
    top.shows("edge  running");
    drop(top);
    let is_top = |folder: &PathBuf| {
        let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|word| word == b"top")
    };
    let begun = Instant::now();
    while let Some(folder) = processes(&demo).find(is_top) {
        assert!(begun.elapsed() < LIMIT, "{} ends", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    demo.warpline("ctl stop --socket c.sock").expect(0);
    while let Some(folder) = processes(&demo).next() {
        assert!(begun.elapsed() < LIMIT, "{} ends", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folders in `/proc` of processes that run in the folder of `demo`.
fn processes(demo: &Demo) -> impl Iterator<Item = PathBuf> {
    let folder = demo.path("").canonicalize().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(move |own| std::fs::read_link(own.join("cwd")).is_ok_and(|cwd| cwd == folder))
}
