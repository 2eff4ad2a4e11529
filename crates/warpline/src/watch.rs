//! Watching a run from outside: signals that end it in order, the progress bar, and news of its devices.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use warpline_engine::{Chain, Control};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long threads may take to end at once.
const PATIENCE: Duration = Duration::from_secs(2);
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

/// Has a write beyond the limit on a file's size (`ulimit -f`) fail like one to a full disk, not end the program.
pub(crate) fn ignore_size_limit() {
    // To be told in a flag is all: then the system ends nothing.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The signals that end a run.
pub(crate) struct Stops {
    /// None where the system refused: then they end the program, as they do by themselves.
    signals: Option<Mutex<Signals>>,
    /// The number of the first that came.
    first: AtomicU8,
}

impl Stops {
    /// From here on Ctrl-C and SIGTERM end nothing by themselves.
    pub(crate) fn new() -> Self {
        let signals = Signals::new([SIGINT, SIGTERM]).ok().map(Mutex::new);
        Self { signals, first: AtomicU8::new(0) }
    }

    /// The first that came.
    pub(crate) fn first(&self) -> Option<u8> {
        Some(self.first.load(Ordering::Acquire)).filter(|number| *number > 0)
    }

    /// How many came since.
    fn take(&self) -> usize {
        let Some(signals) = &self.signals else { return 0 };
        let mut signals = signals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for number in signals.pending() {
            count += 1;
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            let _ = self.first.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
        }
        count
    }
}

/// Looks after running chains until `done`: has them stop at a signal, and at once at a second one; tells what can't
/// wait for the summary, draws the bar on a terminal. `give_up` ends the program where a thread doesn't end.
pub(crate) fn watch(
    chains: &[(Arc<Chain>, &Control)],
    stops: &Stops,
    done: &AtomicBool,
    tell: impl Fn(&str),
    give_up: impl Fn(u8),
) {
    let bar = std::io::stderr().is_terminal().then(bar);
    let controls: Vec<&Control> = chains.iter().map(|(_, control)| *control).collect();
    let (mut came, mut hurried) = (0, None);
    while !done.load(Ordering::Acquire) {
        came += stops.take();
        if came > 0 {
            controls.iter().for_each(|control| control.stop());
        }
        if came > 1 {
            let since = *hurried.get_or_insert_with(Instant::now);
            controls.iter().for_each(|control| control.abort());
            if since.elapsed() > PATIENCE {
                give_up(stops.first().unwrap_or(0));
            }
        }
        for (chain, control) in chains {
            let name = &chain.name;
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
