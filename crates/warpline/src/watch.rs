//! Watching a run from outside: signals that end it in order, the progress bar, and news of its devices.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use warpline_engine::Control;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Steps of the bar.
const STEPS: u64 = 10_000;

/// A flag that Ctrl-C and SIGTERM set. A second one ends the program at once.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Registered in this order: the first signal arms the second's effect. A refusal leaves the
        // system's own behaviour, which ends the program.
        let _ = flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop));
        let _ = flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// Looks after running chains, each with its name, until `done`: passes the stop on, tells what can't wait for the
/// summary, draws the bar on a terminal.
pub(crate) fn watch(
    chains: &[(String, &Control)],
    stop: &AtomicBool,
    done: &AtomicBool,
    tell: impl Fn(&str),
) {
    let bar = std::io::stderr().is_terminal().then(bar);
    let controls: Vec<&Control> = chains.iter().map(|(_, control)| *control).collect();
    while !done.load(Ordering::Acquire) {
        if stop.load(Ordering::Relaxed) {
            controls.iter().for_each(|control| control.stop());
        }
        for (name, control) in chains {
            for news in control.take_news() {
                let tell = || tell(&format!("warning: chain {name:?}: {news}\n"));
                bar.as_ref().map_or_else(tell, |bar| bar.suspend(tell));
            }
        }
        if let Some(bar) = &bar {
            draw(bar, &controls);
        }
        thread::park_timeout(LOOK_EVERY);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(STEPS);
    let template = "{bar:30} {percent:>3} %  {msg}  {elapsed_precise}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn draw(bar: &ProgressBar, controls: &[&Control]) {
    let shares: Vec<f64> = controls.iter().filter_map(|control| control.progress()).collect();
    let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    bar.set_position((share * STEPS as f64) as u64);
    let read: u64 = controls.iter().map(|control| control.read()).sum();
    bar.set_message(format!("{} packets", crate::summary::grouped(read)));
}
