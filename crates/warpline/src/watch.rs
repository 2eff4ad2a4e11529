//! Watching a run from outside: signals that end it in order, the progress bar, and messages about
//! its devices.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals as Pending;
use warpline_engine::{Control, Machine, MachineChain};

use crate::ctl::Live;
use crate::messages;
use crate::paint;
use crate::service::Service;
use crate::summary::grouped;

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

/// Has a write beyond the limit on a file's size (`ulimit -f`) fail like one to a full disk, not
/// end the program.
pub(crate) fn ignore_size_limit() {
    // With a handler in place the system does not end the program. The flag itself is unread.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// The signals of a run, from its beginning on.
pub(crate) struct Signals {
    /// Those that end it.
    pub(crate) stops: Arc<Stops>,
    /// SIGHUP, which asks for a reload.
    pub(crate) hangup: Arc<AtomicBool>,
    /// SIGUSR2, which pauses or resumes.
    pub(crate) toggle: Arc<AtomicBool>,
    /// SIGUSR1, which opens the files of reports again.
    pub(crate) reopen: Arc<AtomicBool>,
}

impl Signals {
    /// From here on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 only leave a note.
    pub(crate) fn catch() -> Self {
        let (hangup, toggle, reopen) = (Arc::default(), Arc::default(), Arc::default());
        // A refusal leaves the system's own behaviour, which ends the program.
        let _ = flag::register(SIGHUP, Arc::clone(&hangup));
        let _ = flag::register(SIGUSR2, Arc::clone(&toggle));
        let _ = flag::register(SIGUSR1, Arc::clone(&reopen));
        Self { stops: Arc::new(Stops::new()), hangup, toggle, reopen }
    }

    /// Guards the time before the run begins, which is until its value is dropped. After SIGINT or
    /// SIGTERM the run has two seconds to begin; otherwise, or at a second signal, the program
    /// ends. It may wait for a pipe, or build many rules.
    pub(crate) fn end_what_does_not_begin(&self) -> Beginning {
        let begun = Arc::new(AtomicBool::new(false));
        let (stops, flag) = (Arc::clone(&self.stops), Arc::clone(&begun));
        let guard = move || {
            let mut first = None;
            while !flag.load(Ordering::Acquire) {
                let came = stops.count();
                let since = (came > 0).then(|| *first.get_or_insert_with(Instant::now));
                if since.is_some_and(|since| came > 1 || since.elapsed() > PATIENCE) {
                    let number = stops.first().unwrap_or(0);
                    messages::write("a signal ended it before a packet was read\n");
                    messages::settle();
                    std::process::exit(128 + i32::from(number));
                }
                thread::park_timeout(LOOK_EVERY);
            }
        };
        // Without a thread a signal is heard once the run begins.
        let guard = thread::Builder::new().name("beginning".into()).spawn(guard).ok();
        Beginning { begun, guard }
    }
}

/// See [`Signals::end_what_does_not_begin`].
pub(crate) struct Beginning {
    begun: Arc<AtomicBool>,
    guard: Option<JoinHandle<()>>,
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.begun.store(true, Ordering::Release);
        if let Some(guard) = self.guard.take() {
            guard.thread().unpark();
            // The guard returns no value.
            let _ = guard.join();
        }
    }
}

/// The signals that end a run.
pub(crate) struct Stops {
    /// None where the system refused: then they end the program, as they do by themselves.
    signals: Option<Mutex<Pending>>,
    /// The number of the first that came.
    first: AtomicU8,
    /// How many came.
    count: AtomicUsize,
}

impl Stops {
    /// From here on Ctrl-C and SIGTERM end nothing by themselves.
    fn new() -> Self {
        let signals = Pending::new([SIGINT, SIGTERM]).ok().map(Mutex::new);
        Self { signals, first: AtomicU8::new(0), count: AtomicUsize::new(0) }
    }

    /// The first that came.
    pub(crate) fn first(&self) -> Option<u8> {
        Some(self.first.load(Ordering::Acquire)).filter(|number| *number > 0)
    }

    /// How many came so far.
    pub(crate) fn count(&self) -> usize {
        if let Some(signals) = &self.signals {
            let mut signals = signals.lock().unwrap_or_else(PoisonError::into_inner);
            for number in signals.pending() {
                let number = u8::try_from(number).unwrap_or(u8::MAX);
                let _ = self.first.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
                self.count.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.count.load(Ordering::Acquire)
    }
}

/// The inputs of [`watch`].
pub(crate) struct Watched<'a> {
    pub(crate) live: &'a Live,
    pub(crate) signals: &'a Signals,
}

/// Manages running chains until the run is over. Stops them at a signal, and at once at a second
/// one. Pauses and resumes them, prints warnings that can't wait for the summary, and draws the bar
/// on a terminal. `give_up` ends the program if a thread doesn't end.
pub(crate) fn watch(
    watched: &Watched<'_>,
    report: impl Fn(&str),
    give_up: impl Fn(u8),
    shows_progress: bool,
) {
    let Watched { live, signals } = watched;
    let machine = live.machine();
    let Signals { stops, toggle, reopen, .. } = signals;
    let bar = (shows_progress && std::io::stderr().is_terminal()).then(bar);
    let (mut hurried, mut service) = (None, Service::new());
    while !machine.is_over() {
        let came = stops.count();
        if came > 0 {
            machine.stop();
        }
        if came > 1 {
            let since = *hurried.get_or_insert_with(Instant::now);
            machine.abort();
            if since.elapsed() > PATIENCE {
                give_up(stops.first().unwrap_or(0));
            }
        }
        service.look(machine);
        if toggle.swap(false, Ordering::Relaxed) {
            report(toggle_pause(machine));
        }
        if reopen.swap(false, Ordering::Relaxed) {
            machine.outputs().reopen();
        }
        for message in messages_of(watched, shows_progress) {
            let print = || report(&format!("{message}\n"));
            bar.as_ref().map_or_else(print, |bar| bar.suspend(print));
        }
        if let Some(bar) = &bar {
            draw(bar, machine);
        }
        thread::park_timeout(LOOK_EVERY);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    // Of the end itself.
    let warnings = machine.outputs().take_warnings();
    warnings.iter().for_each(|warning| report(&format!("warning: {warning}\n")));
}

/// Messages about chains and outputs since the last call, and proposals if they are `shown`.
fn messages_of(watched: &Watched<'_>, shown: bool) -> Vec<String> {
    let of_chain = |chain: &Arc<MachineChain>| {
        let name = &chain.name;
        let message = chain.control.take_messages().into_iter();
        message.map(|message| format!("chain {name:?}: {message}")).collect::<Vec<_>>()
    };
    let of_chains = watched.live.machine().chains().iter().flat_map(of_chain);
    let warnings = of_chains.chain(watched.live.machine().outputs().take_messages());
    let warnings = warnings.map(|message| format!("warning: {message}"));
    let proposals = watched.live.proposals().take_messages().into_iter().filter(|_| shown);
    warnings.chain(proposals.map(|message| format!("placement: {message}"))).collect()
}

/// Resumes chains if one is paused, or pauses all. Returns a message about it.
fn toggle_pause(machine: &Machine) -> &'static str {
    if machine.is_paused() {
        machine.resume();
        return "resumed: chains read packets again\n";
    }
    machine.pause();
    "paused: chains read no packets until the next SIGUSR2\n"
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(STEPS);
    // The message is cut at the edge of the terminal, so that the line does not wrap.
    let template = "{bar:10} {percent:>3} %  {prefix}{wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn draw(bar: &ProgressBar, machine: &Machine) {
    let controls = || machine.chains().iter().map(|chain| &chain.control);
    let shares: Vec<f64> = controls().filter_map(Control::progress).collect();
    let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    bar.set_position((share * STEPS as f64) as u64);
    let read: u64 = controls().map(Control::read).sum();
    let elapsed = bar.elapsed();
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = read as f64 / seconds / 1e6;
    let lost: u64 = controls().map(Control::lost).sum();
    let dropped = format!("{} dropped", grouped(lost));
    let dropped = if lost > 0 && paint::is_wanted() { paint::yellow(&dropped) } else { dropped };
    if let Some(left) = time_left(elapsed, share) {
        bar.set_prefix(format!("{:#} left  ", HumanDuration(left)));
    }
    bar.set_message(format!("{} packets {rate:.2} Mpps, {dropped}", grouped(read)));
}

/// The time that the rest takes, if it takes as long as this share; at most 10,000 days.
fn time_left(elapsed: Duration, share: f64) -> Option<Duration> {
    let seconds = elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share;
    (share > 0.0).then(|| Duration::from_secs_f64(seconds.min(864e6)))
}
