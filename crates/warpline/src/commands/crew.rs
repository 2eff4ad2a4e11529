//! The threads of `warpline run` beside the chains': one that watches them, one that reloads.
//!
//! If one of them fails, the others end: the system may refuse a thread, a thread may panic, or a
//! signal may come while one is blocked in a system call. The results so far are reported and
//! written in each case.

use std::io;
use std::mem::take;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use signal_hook::low_level::raise;
use warpline_engine::{Deployment, Job, Ports, Report, run_all};
use warpline_io_error::plain;
use warpline_nf::{Outputs, Registry};

use super::run::{Ready, print_message};
use crate::chain_file::LeftOut;
use crate::ctl::{Live, LiveChain, Socket};
use crate::metrics::Metrics;
use crate::moves::{Placed, autos};
use crate::placement::{LiveMonitor, Proposals};
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

/// What became of a run.
pub(super) struct Outcome {
    /// The chains that could start.
    pub(super) chains: Vec<Ran>,
    /// Why others could not, or did not end as they should.
    pub(super) failures: Vec<String>,
    /// The signal that ended it.
    pub(super) signal: Option<u8>,
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
    /// The outputs of reports.
    pub(super) registry: Registry,
    pub(super) monitor: Option<LiveMonitor>,
    pub(super) proposals: Arc<Proposals>,
}

/// Runs all chains side by side. `finish` reports their outcome and returns the program's result.
pub(super) fn run(
    mut ready: Vec<Ready>,
    outputs: &Outputs,
    around: Around<'_>,
    shows: Shows,
    finish: impl Fn(Outcome) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let Around { origin, signals, socket, metrics, registry, monitor, proposals } = around;
    let shared = (registry.clone(), Arc::clone(&proposals));
    let live = Arc::new(live_of(&ready, signals, shared));
    let serve = |socket: Socket| socket.serve(Arc::clone(&live));
    let _server = socket.map(serve).transpose().map_err(Failure::Run)?;
    let serve = |metrics: Metrics| metrics.serve(Arc::clone(&live));
    let _metrics = metrics.map(serve).transpose().map_err(Failure::Run)?;
    let stops = &signals.stops;
    for ((loaded, ..), chain) in ready.iter().zip(live.chains()) {
        if loaded.starts_paused {
            chain.control.pause();
            print_message(&format!("chain {:?} starts paused; SIGUSR2 resumes it\n", chain.name));
        }
    }
    // One that came while the chains were built: they begin and end.
    if stops.count() > 0 {
        live.chains().iter().for_each(|chain| chain.control.stop());
    }
    let done = AtomicBool::new(false);
    let running = |((loaded, ..), live): (&Ready, &Arc<LiveChain>)| Running {
        live: Arc::clone(live),
        left_out: loaded.left_out.clone(),
        fixed: loaded.fixed.clone(),
        links: loaded.links.clone(),
        placed: Placed::of(&loaded.deployment),
        speeds: loaded.deployment.profile().clone(),
        autos: autos(loaded),
    };
    let running: Vec<Running> = ready.iter().zip(live.chains()).map(running).collect();
    let peers = ready.iter_mut().map(|(.., peers)| take(peers)).zip(live.chains());
    let peers: Vec<_> = peers.filter(|(peers, _)| !peers.is_empty()).collect();
    let (flag, finish, live) = (&done, &finish, &*live);
    thread::scope(|scope| {
        // However this ends, those end that go on until it is done.
        let done = Done(flag);
        let chains = live.chains();
        let give_up = move |signal| {
            if shows == Shows::View {
                top::restore();
            }
            leave_with(finish(unfinished(chains, signal)))
        };
        let shows_progress = shows == Shows::Progress;
        let watched = Watched { chains, outputs: &registry, proposals: &proposals, signals };
        let watch = move || watch::watch(&watched, flag, print_message, give_up, shows_progress);
        start(scope, "watcher", watch)?;
        for (peers, chain) in peers {
            start(scope, "signals", move || peers.serve(&chain.control, flag))?;
        }
        let serve = move || reload::serve(origin, running, live, flag, print_message);
        let reloader = start(scope, "reloader", serve)?;
        monitor.iter().for_each(|monitor| live.start_monitor(monitor.terms().clone()));
        let decide = monitor.map(|monitor| || monitor.serve(live, &proposals, flag));
        let monitor = decide.map(|decide| start(scope, "placement", decide)).transpose()?;
        let show = (shows == Shows::View).then_some(move || show(live, flag));
        let view = show.map(|show| start(scope, "view", show)).transpose()?;
        let (mut chains, mut failures) = run_chains(ready, live.chains(), outputs);
        done.set();
        view.map(joined_soon);
        monitor.map(joined_soon);
        let signal = stops.first();
        let Some(last) = joined_soon(reloader) else {
            // It waits for a file that it reads, perhaps indefinitely.
            leave_with(finish(Outcome { chains, failures, signal }))
        };
        match last {
            Ok(last) => replace_reloaded(&mut chains, last),
            Err(_) => failures.push("the thread that reloads failed".into()),
        }
        finish(Outcome { chains, failures, signal })
    })
}

/// Shows the chains on the terminal until they end, or until a key.
fn show(live: &Live, done: &AtomicBool) {
    let look = || Ok((live.stats(None)?, live.status(None)?));
    match top::view(io::stderr(), true, || done.load(Ordering::Acquire), look) {
        Ok(Leave::Interrupt) => {
            // Ctrl-C of a terminal that does not turn it into a signal.
            let _ = raise(SIGINT);
        }
        Ok(Leave::Quit | Leave::Ended) => {}
        Err(why) => print_message(&format!("--live: {why}\n")),
    }
}

/// The chains that start, as `ctl` sees them.
fn live_of(ready: &[Ready], signals: &Signals, shared: (Registry, Arc<Proposals>)) -> Live {
    let tenancy = ready.first().map(|(loaded, ..)| Arc::clone(&loaded.tenancy));
    let deployments = ready.iter().map(|(loaded, ..)| Arc::clone(&loaded.deployment));
    let hangup = Arc::clone(&signals.hangup);
    let live = Live::new(deployments, tenancy.unwrap_or_default(), shared, hangup);
    ready.iter().take(1).for_each(|(loaded, ..)| live.follow_file(loaded.table.policy_name()));
    live
}

/// Reports are of the chains that ran last.
fn replace_reloaded(chains: &mut [Ran], last: Vec<Running>) {
    for running in last {
        let name = &running.live.name;
        let ran = chains.iter_mut().find(|ran| ran.deployment.chain().name == *name);
        let Some(ran) = ran else { continue };
        (ran.deployment, ran.left_out) = (running.live.deployment(), running.left_out);
    }
}

/// Says when it is over, also by a panic.
struct Done<'a>(&'a AtomicBool);

impl Done<'_> {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.set();
    }
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

/// Runs the chains until all have ended.
fn run_chains(
    ready: Vec<Ready>,
    live: &[Arc<LiveChain>],
    outputs: &Outputs,
) -> (Vec<Ran>, Vec<String>) {
    let (mut jobs, mut loaded) = (Vec::new(), Vec::new());
    for ((own, source, sink, _), live) in ready.into_iter().zip(live) {
        let (deployment, settings) = (Arc::clone(&own.deployment), own.settings);
        let control = &live.control;
        jobs.push(Job { deployment, settings, ports: Ports::Shared(source, sink), control });
        loaded.push((own.deployment, own.left_out));
    }
    let (mut chains, mut failures) = (Vec::new(), Vec::new());
    for ((deployment, left_out), report) in loaded.into_iter().zip(run_all(jobs, outputs)) {
        match report {
            Ok(report) => chains.push(Ran { deployment, left_out, report }),
            Err(why) => failures.push(format!("chain {:?}: {why}", deployment.chain().name)),
        }
    }
    (chains, failures)
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
fn unfinished(chains: &[Arc<LiveChain>], signal: u8) -> Outcome {
    let ran = |chain: &Arc<LiveChain>| {
        let deployment = chain.deployment();
        let report = Report::unfinished(&deployment, &chain.control);
        Ran { deployment, left_out: LeftOut::default(), report }
    };
    let chains = chains.iter().map(ran).collect();
    Outcome { chains, failures: Vec::new(), signal: Some(signal) }
}

/// Ends the program, whatever its threads wait for.
fn leave_with(finished: Result<(), Failure>) -> ! {
    let status = exit_status(finished);
    messages::settle();
    process::exit(status.into())
}
