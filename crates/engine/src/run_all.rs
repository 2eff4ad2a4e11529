//! Runs several chains side by side, each on a thread of its own, until all have ended.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, Builder, ScopedJoinHandle};

use warpline_io_error::plain;
use warpline_nf::Outputs;

use crate::sys::leave;
use crate::{Control, Cores, Deployment, Ports, Report, Settings, StartError, run_to};

/// One of several deployments that run side by side.
pub struct Job<'a> {
    /// The chain and where it runs.
    pub deployment: Arc<Deployment>,
    /// Its dimensions.
    pub settings: Settings,
    /// Where its packets come from and go to.
    pub ports: Ports,
    /// Stops and reloads it.
    pub control: &'a Control,
}

/// Why one of several chains gives no report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// It could not start.
    Start(StartError),
    /// The operating system gave no thread for it, and why.
    Thread(String),
    /// One of its threads panicked, which printed a message itself.
    Panicked,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(why) => why.fmt(f),
            Self::Thread(why) => write!(f, "cannot spawn thread: {why}"),
            Self::Panicked => f.write_str("one of its threads failed"),
        }
    }
}

impl std::error::Error for JobError {}

/// Runs all `jobs` until the last has ended, and gives their reports in the same order. A chain
/// that fails stops no other. Their functions write to `outputs` together. All threads of the
/// process but lanes leave the cores that lanes run on.
pub fn run_all(jobs: Vec<Job<'_>>, outputs: &Outputs) -> Vec<Result<Report, JobError>> {
    leave(&cores_of(&jobs));
    thread::scope(|scope| {
        let mut started = Vec::with_capacity(jobs.len());
        for Job { deployment, settings, ports, control } in jobs {
            let work = move || run_to(&deployment, &settings, ports, outputs, control);
            let run = Builder::new().name("chain".into()).spawn_scoped(scope, work);
            started.push(run.map_err(|error| JobError::Thread(plain(&error))));
        }
        started.into_iter().map(|run| run.and_then(ended)).collect()
    })
}

/// The cores that lanes run on.
fn cores_of(jobs: &[Job<'_>]) -> Vec<u16> {
    let of = |job: &Job<'_>| job.settings.fit(&job.deployment).cores;
    jobs.iter().map(of).flat_map(|cores| cores.numbers().to_vec()).collect()
}

fn ended(run: ScopedJoinHandle<'_, Result<Report, StartError>>) -> Result<Report, JobError> {
    match run.join() {
        Ok(report) => report.map_err(JobError::Start),
        Err(_) => Err(JobError::Panicked),
    }
}

impl Report {
    /// The counts of a chain whose threads don't come back after [`Control::abort`].
    pub fn unfinished(deployment: &Deployment, control: &Control) -> Self {
        let part = control.unfinished(deployment.chain().instances.len());
        let pressure = crate::PressureOptions::default();
        let (cores, peers) = (Cores::ANY, control.peers());
        Self { part, lanes: 0, cores, pressure, peers, huge_pages: None, is_running: false }
    }
}
