//! The threads of `warpline run` beside the chains': one that watches them, one that reloads.
//!
//! If one of them fails, the others end: the system may refuse a thread, a thread may panic, or a
//! signal may come while one is blocked in a system call. The results so far are reported and
//! written in each case.

use std::io;
use std::process;
use std::sync::Arc;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use signal_hook::low_level::raise;
use warpline_engine::{Deployment, Machine, MachineChain, MemberError, Report};
use warpline_io_error::plain;

use super::run::print_message;
use crate::chain_file::{LeftOut, Loaded};
use crate::ctl::{Live, Socket};
use crate::metrics::Metrics;
use crate::placement::LiveMonitor;
use crate::reload::{self, Origin, Running};
use crate::top::{self, Leave};
use crate::watch::{self, Signals, Watched};
use crate::{Failure, exit_status, messages};

/// For how long a thread that waits for the system is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A chain that ran: as it was last, what was left out of its files then, and what it did.
pub(super) struct Ran {
    pub(super) deployment: Arc<Deployment>,
    pub(super) left_out: LeftOut,
    pub(super) report: Report,
}

/// The outcome of a run.
pub(super) struct RunOutcome {
    /// The chains that could start.
    pub(super) chains: Vec<Ran>,
    /// Why others could not, or did not end as they should.
    pub(super) failures: Vec<String>,
    /// The signal that ended it.
    pub(super) signal: Option<u8>,
}

impl RunOutcome {
    /// The same with another failure.
    fn and(mut self, failure: &str) -> Self {
        self.failures.push(failure.into());
        self
    }
}

/// The output of a run on standard error while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    Nothing,
    Progress,
    View,
}

/// Everything around the chains of a run.
pub(super) struct Around<'a> {
    pub(super) origin: &'a Origin<'a>,
    pub(super) signals: &'a Signals,
    pub(super) socket: Option<Socket>,
    pub(super) metrics: Option<Metrics>,
    pub(super) monitor: Option<LiveMonitor>,
    pub(super) shows: Shows,
}

/// Runs all chains side by side, which were `loaded` so. `finish` reports their outcome and returns
/// the program's result.
pub(super) fn run(
    loaded: &[Loaded],
    machine: Machine,
    around: Around<'_>,
    finish: impl Fn(RunOutcome, &Live) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let Around { origin, signals, socket, metrics, monitor, shows } = around;
    let live = Arc::new(live_of(loaded, machine, signals));
    monitor.iter().for_each(|monitor| live.start_monitor(monitor));
    let serve = |socket: Socket| socket.serve(Arc::clone(&live));
    let _server = socket.map(serve).transpose().map_err(Failure::Run)?;
    let serve = |metrics: Metrics| metrics.serve(Arc::clone(&live));
    let _metrics = metrics.map(serve).transpose().map_err(Failure::Run)?;
    let (live, finish) = (&*live, &finish);
    begin(loaded, live.machine(), signals);
    let running: Vec<Running> =
        loaded.iter().zip(live.chains()).map(|(own, chain)| Running::new(own, chain)).collect();
    thread::scope(|scope| {
        // However this ends, those threads end that serve a run.
        let _over = live.machine().over_at_drop();
        let give_up = move |signal| {
            if shows == Shows::View {
                top::restore();
            }
            leave_with(finish(unfinished(live.chains(), signal), live))
        };
        let shows_progress = shows == Shows::Progress;
        let watched = Watched { live, signals };
        start(scope, "watcher", move || {
            watch::watch(&watched, print_message, give_up, shows_progress)
        })?;
        let reloader =
            start(scope, "reloader", || reload::serve(origin, running, live, print_message))?;
        let decide = monitor.map(|monitor| || monitor.serve(live));
        let monitor = decide.map(|decide| start(scope, "placement", decide)).transpose()?;
        let show = (shows == Shows::View).then_some(|| show(live));
        let view = show.map(|show| start(scope, "view", show)).transpose()?;
        let reports = live.machine().run();
        view.map(joined_soon);
        monitor.map(joined_soon);
        let signal = signals.stops.first();
        let last = joined_soon(reloader);
        let outcome = outcome(live.chains(), reports, left_out(loaded, &last), signal);
        match last {
            // It waits for a file that it reads, perhaps indefinitely.
            None => leave_with(finish(outcome, live)),
            Some(Ok(_)) => finish(outcome, live),
            Some(Err(_)) => finish(outcome.and("the thread that reloads failed"), live),
        }
    })
}

/// Pauses chains that start paused, and stops all if a signal came while they were built: they
/// begin and end.
fn begin(loaded: &[Loaded], machine: &Machine, signals: &Signals) {
    for (_, chain) in loaded.iter().zip(machine.chains()).filter(|(own, _)| own.starts_paused) {
        chain.control.pause();
        print_message(&format!("chain {:?} starts paused; SIGUSR2 resumes it\n", chain.name));
    }
    if signals.stops.count() > 0 {
        machine.stop();
    }
}

/// Rules and lines that were skipped last, by chain.
fn left_out(loaded: &[Loaded], last: &Option<thread::Result<Vec<Running>>>) -> Vec<LeftOut> {
    match last {
        Some(Ok(last)) => last.iter().map(|running| running.left_out.clone()).collect(),
        _ => loaded.iter().map(|own| own.left_out.clone()).collect(),
    }
}

/// The outcome of `chains`, as they were last.
fn outcome(
    chains: &[Arc<MachineChain>],
    reports: Vec<Result<Report, MemberError>>,
    left_out: Vec<LeftOut>,
    signal: Option<u8>,
) -> RunOutcome {
    let mut outcome = RunOutcome { chains: Vec::new(), failures: Vec::new(), signal };
    for ((chain, report), left_out) in chains.iter().zip(reports).zip(left_out) {
        match report {
            Ok(report) => {
                outcome.chains.push(Ran { deployment: chain.deployment(), left_out, report });
            }
            Err(why) => outcome.failures.push(format!("chain {:?}: {why}", chain.name)),
        }
    }
    outcome
}

/// Shows the chains on the terminal until they end, or until a key.
fn show(live: &Live) {
    let look = || Ok((live.stats(None)?, live.status(None)?));
    match top::view(io::stderr(), true, || live.machine().is_over(), look) {
        Ok(Leave::Interrupt) => {
            // Ctrl-C of a terminal that does not turn it into a signal.
            let _ = raise(SIGINT);
        }
        Ok(Leave::Quit | Leave::Ended) => {}
        Err(why) => print_message(&format!("--live: {why}\n")),
    }
}

/// The chains that start, as `ctl` sees them.
fn live_of(loaded: &[Loaded], machine: Machine, signals: &Signals) -> Live {
    let tenancy = loaded.first().map(|own| Arc::clone(&own.tenancy)).unwrap_or_default();
    let live = Live::new(machine, tenancy, Arc::default(), Arc::clone(&signals.hangup));
    if let Some(own) = loaded.first() {
        live.follow_file(own.table.policy_name());
    }
    live
}

/// Starts a thread; a run without it does not begin.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    let started = Builder::new().name(name.into()).spawn_scoped(scope, work);
    started.map_err(|error| Failure::Run(no_thread(&error)))
}

fn no_thread(error: &io::Error) -> String {
    format!("cannot spawn thread: {}", plain(error))
}

/// The result of a thread that ends within [`PATIENCE`].
fn joined_soon<T>(thread: ScopedJoinHandle<'_, T>) -> Option<thread::Result<T>> {
    let started = Instant::now();
    while !thread.is_finished() {
        if started.elapsed() > PATIENCE {
            return None;
        }
        thread.thread().unpark();
        thread::sleep(LOOK_EVERY);
    }
    Some(thread.join())
}

/// The counts so far of chains whose threads don't end.
fn unfinished(chains: &[Arc<MachineChain>], signal: u8) -> RunOutcome {
    let reports = chains.iter().map(|chain| Ok(chain.unfinished())).collect();
    outcome(chains, reports, vec![LeftOut::default(); chains.len()], Some(signal))
}

/// Ends the program, whatever its threads wait for.
fn leave_with(finished: Result<(), Failure>) -> ! {
    let status = exit_status(finished);
    messages::settle();
    process::exit(status.into())
}
