//! Colours on a terminal, and none where they are not wanted.

use std::process::{Command, Stdio};

use crate::harness::Demo;
use crate::top::Terminal;

const CHAIN: &str = "[chain]\nfunctions = [\"firewall\"]\n[firewall]\nrules = \"rules\"\n";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";

fn demo() -> Demo {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "drop udp from any port 1000-20000 to any\naccept from any to any\n");
    demo.write("broken.toml", "[chain]\nfunctions = [\"firewal\"]\n");
    demo
}

#[test]
fn a_terminal_gets_colours_unless_they_are_refused() {
    let demo = demo();
    for (variables, is_painted) in [("", true), ("NO_COLOR=1 ", false)] {
        let run = "run c.toml --input generate:packets=1000000000000,size=100 --output none";
        let Some(terminal) = Terminal::start_with(&demo, variables, run) else { return };
        let progress = terminal.shows_without(" dropped", " 0 dropped");
        assert!(progress.contains(" Mpps, ") && progress.contains(" left"), "{progress}");
        assert!(!progress.contains(" 0s left"), "{progress}");
        assert_eq!(terminal.painted().contains(YELLOW), is_painted, "progress");
        terminal.tmux(&["send-keys", "C-c"]);
        terminal.shows("status 130");
        assert_eq!(terminal.painted().contains(YELLOW), is_painted, "summary");
        drop(terminal);
        let Some(terminal) = Terminal::start_with(&demo, variables, "check broken.toml") else {
            return;
        };
        terminal.shows("status 2");
        assert_eq!(terminal.painted().contains(RED), is_painted, "error");
    }
}

#[test]
fn progress_is_cut_at_the_edge_of_the_terminal() {
    let demo = demo();
    let run = "run c.toml --input generate:packets=1000000000000,size=100 --output none";
    let Some(terminal) = Terminal::start_with(&demo, "stty cols 40; ", run) else { return };
    let screen = terminal.shows(" left  ");
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    let [line] = lines[..] else { panic!("several lines:\n{screen}") };
    assert!(line.chars().count() <= 40, "{line}");
}

#[test]
fn a_pipe_gets_colours_if_they_are_forced() {
    let demo = demo();
    for (force, refuse, is_painted) in
        [("", "", false), ("1", "", true), ("0", "", false), ("1", "1", false)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpline"));
        command.args(["check", "broken.toml"]).current_dir(demo.path("")).stdin(Stdio::null());
        command.env("CLICOLOR_FORCE", force).env("NO_COLOR", refuse);
        let stderr = command.output().unwrap().stderr;
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(stderr.contains(RED), is_painted, "{force:?} {refuse:?}: {stderr}");
        let plain = stderr.replace(RED, "").replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert!(plain.starts_with("error: ") && !plain.contains('\u{1b}'), "{stderr:?}");
    }
}
