//! The chains of a process, with their ports, links and outputs: how they run side by side, stop,
//! and are replaced while packets flow.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, ScopedJoinHandle};
use std::time::Duration;

use warpline_io::neighbours::Follower;
use warpline_io_error::plain;
use warpline_nf::{Outputs, Registry};

use crate::sys::leave;
use crate::{
    Background, Control, Cores, Deployment, Peers, Ports, Report, Settings, StartError, Successor,
    run_to,
};

/// How often a caller looks whether all lanes have a successor.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A chain that is ready to run, with everything that it reads and writes.
pub struct Member {
    deployment: Arc<Deployment>,
    settings: Settings,
    ports: Ports,
    peers: Peers,
    follower: Option<Follower>,
}

impl Member {
    /// A chain with these dimensions and ports.
    pub fn new(deployment: Arc<Deployment>, settings: Settings, ports: Ports) -> Self {
        Self { deployment, settings, ports, peers: Peers::default(), follower: None }
    }

    /// With links to other instances.
    #[must_use]
    pub fn with_peers(self, peers: Peers) -> Self {
        Self { peers, ..self }
    }

    /// With the neighbours that its ports need.
    #[must_use]
    pub fn with_follower(self, follower: Option<Follower>) -> Self {
        Self { follower, ..self }
    }
}

/// A chain of a [`Machine`].
pub struct MachineChain {
    /// Its name.
    pub name: String,
    /// Stops, pauses and observes it.
    pub control: Control,
    /// As it is since the last reload or move.
    deployment: Mutex<Arc<Deployment>>,
    /// Until it runs.
    member: Mutex<Option<Member>>,
    /// Once it has ended.
    ended: Mutex<Option<Report>>,
}

impl MachineChain {
    /// The states that it may be in.
    pub const STATES: [&str; 4] = ["running", "paused", "stopping", "ended"];

    fn new(member: Member) -> Self {
        let deployment = Arc::clone(&member.deployment);
        Self {
            name: deployment.chain().name.clone(),
            control: Control::default(),
            deployment: Mutex::new(deployment),
            member: Mutex::new(Some(member)),
            ended: Mutex::default(),
        }
    }

    /// One of [`Self::STATES`].
    pub fn state(&self) -> &'static str {
        match () {
            () if self.control.has_ended() => "ended",
            () if self.control.is_stopped() => "stopping",
            () if self.control.is_paused() => "paused",
            () => "running",
        }
    }

    /// The chain as it is since the last reload or move.
    pub fn deployment(&self) -> Arc<Deployment> {
        Arc::clone(&lock(&self.deployment))
    }

    /// The same, with its counts so far.
    pub fn report(&self) -> (Arc<Deployment>, Report) {
        let deployment = self.deployment();
        let report = self.control.snapshot(&deployment).report;
        (deployment, report)
    }

    /// Replaces it, and waits until no lane has the deployment before, which the caller then frees.
    /// Returns false if the chain ended before.
    pub fn replace(&self, successor: &Successor) -> bool {
        if !self.control.reload(successor) {
            return false;
        }
        while self.control.is_reloading() && !self.control.has_ended() {
            thread::park_timeout(LOOK_EVERY);
        }
        if successor.moves() && !successor.has_moved() {
            return false;
        }
        let chain = successor.deployment().chain();
        chain.instances.iter().for_each(|instance| instance.function.reloaded());
        *lock(&self.deployment) = Arc::clone(successor.deployment());
        true
    }

    /// Its counts if the process ends now: those of its end, or those so far if its threads don't
    /// return after [`Control::abort`]. Its reports may wait for readers after its end.
    pub fn unfinished(&self) -> Report {
        if let Some(report) = &*lock(&self.ended) {
            return report.clone();
        }
        if self.control.has_ended() {
            return Report { is_running: false, ..self.report().1 };
        }
        let part = self.control.unfinished(self.deployment().chain().instances.len());
        let (pressure, cores, peers) = (Default::default(), Cores::ANY, self.control.peers());
        Report { part, lanes: 0, cores, pressure, peers, huge_pages: None, is_running: false }
    }

    /// Runs it until it ends, and exchanges signals with its links meanwhile.
    fn run(&self, outputs: &Outputs) -> Result<Report, MemberError> {
        let member = lock(&self.member).take().ok_or(MemberError::Twice)?;
        let Member { deployment, settings, ports, peers, follower: _follower } = member;
        thread::scope(|scope| {
            // After a panic, too, or the thread of signals would stay.
            let _ends = EndAtDrop(&self.control);
            if !peers.is_empty() {
                let serve = || peers.serve(&self.control);
                let signals = Builder::new().name("signals".into()).spawn_scoped(scope, serve);
                signals.map_err(|error| MemberError::Thread(plain(&error)))?;
            }
            let report = run_to(&deployment, &settings, ports, outputs, &self.control)
                .map_err(MemberError::Start)?;
            *lock(&self.ended) = Some(report.clone());
            Ok(report)
        })
    }
}

/// Why a chain gives no report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberError {
    /// It could not start.
    Start(StartError),
    /// The operating system gave no thread for it, and why.
    Thread(String),
    /// One of its threads panicked, which printed a message itself.
    Panicked,
    /// Its machine ran before.
    Twice,
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(why) => why.fmt(f),
            Self::Thread(why) => write!(f, "cannot spawn thread: {why}"),
            Self::Panicked => f.write_str("one of its threads failed"),
            Self::Twice => f.write_str("it ran before"),
        }
    }
}

impl std::error::Error for MemberError {}

/// All chains of a process. Its methods may be called while it runs.
#[derive(Default)]
pub struct Machine {
    chains: Vec<Arc<MachineChain>>,
    /// The cores of their lanes.
    cores: Vec<u16>,
    outputs: Outputs,
    is_over: AtomicBool,
    /// Synthetic work of tenants of their devices.
    _background: Vec<Background>,
}

impl Machine {
    /// Of these chains, whose functions write to `outputs` together. `background` loads devices for
    /// as long as the machine exists.
    pub fn new(members: Vec<Member>, outputs: Outputs, background: Vec<Background>) -> Self {
        let cores = members.iter().map(|one| one.settings.fit(&one.deployment).cores);
        let cores = cores.flat_map(|cores| cores.numbers().to_vec()).collect();
        let chains = members.into_iter().map(|one| Arc::new(MachineChain::new(one))).collect();
        let is_over = AtomicBool::new(false);
        Self { chains, cores, outputs, is_over, _background: background }
    }

    /// Its chains, in the order in which they were given.
    pub fn chains(&self) -> &[Arc<MachineChain>] {
        &self.chains
    }

    /// The outputs of reports.
    pub fn outputs(&self) -> &Registry {
        self.outputs.registry()
    }

    /// Runs all chains until the last has ended, and returns their reports in order. A chain that
    /// fails stops no other. All threads of the process but lanes leave the cores of lanes.
    pub fn run(&self) -> Vec<Result<Report, MemberError>> {
        let _over = self.over_at_drop();
        leave(&self.cores);
        thread::scope(|scope| {
            let start = |chain: &Arc<MachineChain>| {
                let chain = Arc::clone(chain);
                let work = move || chain.run(&self.outputs);
                let run = Builder::new().name("chain".into()).spawn_scoped(scope, work);
                run.map_err(|error| MemberError::Thread(plain(&error)))
            };
            let started: Vec<_> = self.chains.iter().map(start).collect();
            started.into_iter().map(|run| run.and_then(ended)).collect()
        })
    }

    /// All chains drain and end.
    pub fn stop(&self) {
        self.each(Control::stop);
    }

    /// All chains end at once.
    pub fn abort(&self) {
        self.each(Control::abort);
    }

    /// No chain reads packets until [`Machine::resume`].
    pub fn pause(&self) {
        self.each(Control::pause);
    }

    /// All chains read packets again.
    pub fn resume(&self) {
        self.each(Control::resume);
    }

    /// Whether a chain is paused.
    pub fn is_paused(&self) -> bool {
        self.chains.iter().any(|chain| chain.control.is_paused())
    }

    /// Whether a chain was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.chains.iter().any(|chain| chain.control.is_stopped())
    }

    /// Whether the threads of all chains have started.
    pub fn has_started(&self) -> bool {
        self.chains.iter().all(|chain| chain.control.has_started())
    }

    /// Whether each thread has completed a round of its work since the last call that returned
    /// true.
    pub fn take_beat(&self) -> bool {
        self.chains.iter().all(|chain| chain.control.take_beat())
    }

    /// Whether [`Machine::run`] is over, for threads that serve the chains until then.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The run is over when the result is dropped. For callers that may fail before it.
    pub fn over_at_drop(&self) -> impl Drop + '_ {
        OverAtDrop(self)
    }

    fn each(&self, act: impl Fn(&Control)) {
        self.chains.iter().for_each(|chain| act(&chain.control));
    }
}

struct OverAtDrop<'a>(&'a Machine);

impl Drop for OverAtDrop<'_> {
    fn drop(&mut self) {
        self.0.each(Control::end);
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// Ends a chain that panics.
struct EndAtDrop<'a>(&'a Control);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn ended(run: ScopedJoinHandle<'_, Result<Report, MemberError>>) -> Result<Report, MemberError> {
    run.join().unwrap_or(Err(MemberError::Panicked))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
