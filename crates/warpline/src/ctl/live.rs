//! The running chains, as `ctl` sees and changes them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use warpline_engine::{Control, Deployment, Report};
use warpline_nf::Registry;

use super::SCHEMA;
use crate::stats_json::Shared;
use crate::tenants::Tenancy;
use crate::{outputs_shown, stats_json, summary, tenants_shown};

/// A running chain.
pub(crate) struct LiveChain {
    pub(crate) name: String,
    pub(crate) control: Control,
    /// As it is since the last reload.
    deployment: Mutex<Arc<Deployment>>,
}

impl LiveChain {
    /// The states that it may be in.
    pub(crate) const STATES: [&str; 4] = ["running", "paused", "stopping", "ended"];

    /// A chain that starts.
    fn new(deployment: Arc<Deployment>) -> Self {
        let name = deployment.chain().name.clone();
        Self { name, control: Control::default(), deployment: Mutex::new(deployment) }
    }

    /// The chain as it is since the last reload.
    pub(crate) fn deployment(&self) -> Arc<Deployment> {
        Arc::clone(&lock(&self.deployment))
    }

    /// A reload replaced it.
    pub(crate) fn replace(&self, deployment: Arc<Deployment>) {
        *lock(&self.deployment) = deployment;
    }

    /// One of [`Self::STATES`].
    pub(crate) fn state(&self) -> &'static str {
        match () {
            () if self.control.has_ended() => "ended",
            () if self.control.is_stopped() => "stopping",
            () if self.control.is_paused() => "paused",
            () => "running",
        }
    }

    fn report(&self) -> (Arc<Deployment>, Report) {
        let deployment = self.deployment();
        let report = self.control.snapshot(&deployment).report;
        (deployment, report)
    }

    fn status(&self) -> Value {
        let (deployment, report) = self.report();
        let chain = stats_json::of_chain(&deployment, &report);
        json!({
            "name": self.name,
            "state": self.state(),
            "lanes": report.lanes,
            "packets": chain["packets"],
            "rate": chain["rate"],
            "bottleneck": chain["bottleneck"],
            "peers": chain["peers"],
        })
    }
}

/// Reloads so far.
#[derive(Default)]
struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    /// Unix time of the last one, in seconds.
    last: AtomicU64,
}

/// The chains of a process.
pub(crate) struct Live {
    chains: Vec<Arc<LiveChain>>,
    tenancy: Arc<Tenancy>,
    outputs: Registry,
    started: Instant,
    /// Set to ask for a reload.
    hangup: Arc<AtomicBool>,
    reloads: Reloads,
    /// Requests that wait for the result of a reload.
    waiting: Mutex<Vec<Sender<Result<String, String>>>>,
}

impl Live {
    /// All chains of a process, which start now and share devices so. `hangup` asks for a reload.
    pub(crate) fn new(
        chains: impl Iterator<Item = Arc<Deployment>>,
        tenancy: Arc<Tenancy>,
        outputs: Registry,
        hangup: Arc<AtomicBool>,
    ) -> Self {
        let chains = chains.map(|deployment| Arc::new(LiveChain::new(deployment))).collect();
        let (started, waiting) = (Instant::now(), Mutex::default());
        let reloads = Reloads::default();
        Self { chains, tenancy, outputs, started, hangup, reloads, waiting }
    }

    /// The chains.
    pub(crate) fn chains(&self) -> &[Arc<LiveChain>] {
        &self.chains
    }

    /// The chains called `name`, or all.
    pub(super) fn named(&self, name: Option<&str>) -> Result<Vec<&Arc<LiveChain>>, String> {
        let is_meant = |chain: &&Arc<LiveChain>| name.is_none_or(|name| chain.name == name);
        let meant: Vec<&Arc<LiveChain>> = self.chains.iter().filter(is_meant).collect();
        let names = || {
            let names = self.chains.iter().map(|chain| format!("{:?}", chain.name));
            names.collect::<Vec<_>>().join(", ")
        };
        match (name, meant.is_empty()) {
            (Some(name), true) => Err(format!("there is no chain {name:?}; chains: {}", names())),
            _ => Ok(meant),
        }
    }

    /// The state of each chain.
    pub(crate) fn status(&self, name: Option<&str>) -> Result<Value, String> {
        let chains: Vec<Value> = self.named(name)?.iter().map(|chain| chain.status()).collect();
        Ok(json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "seconds": self.started.elapsed().as_secs_f64(),
            "chains": chains,
        }))
    }

    /// The statistics so far, in the form of `--stats`.
    pub(crate) fn stats(&self, name: Option<&str>) -> Result<Value, String> {
        let reports: Vec<_> = self.named(name)?.iter().map(|chain| chain.report()).collect();
        let reports: Vec<(&Deployment, &Report)> =
            reports.iter().map(|(deployment, report)| (&**deployment, report)).collect();
        let shared = Shared { tenancy: &self.tenancy, outputs: &self.outputs.counts() };
        Ok(stats_json::stats(&reports, &shared, self.started.elapsed().as_secs_f64()))
    }

    /// The same as the summary of a run.
    pub(super) fn summary(&self, name: Option<&str>) -> Result<String, String> {
        let mut text = String::new();
        for chain in self.named(name)? {
            let (deployment, report) = chain.report();
            text += &summary::summary(&deployment, &report, None, true);
        }
        text += &tenants_shown::summary(&self.tenancy);
        Ok(text + &outputs_shown::summary(&self.outputs.counts()))
    }

    /// Parts of the statistics of each chain: `functions` or `ports`.
    pub(super) fn part(&self, name: Option<&str>, key: &str) -> Result<Value, String> {
        let of = |chain: &&Arc<LiveChain>| {
            let (deployment, report) = chain.report();
            let whole = stats_json::of_chain(&deployment, &report);
            json!({ "name": chain.name, key: whole[key] })
        };
        let chains: Vec<Value> = self.named(name)?.iter().map(of).collect();
        Ok(json!({ "schema": SCHEMA, "chains": chains }))
    }

    /// How chains share devices.
    pub(crate) fn tenancy(&self) -> &Arc<Tenancy> {
        &self.tenancy
    }

    /// Asks for a reload; its result comes later.
    pub(super) fn ask_reload(&self) -> Receiver<Result<String, String>> {
        let (send, receive) = channel();
        lock(&self.waiting).push(send);
        self.hangup.store(true, Ordering::Relaxed);
        receive
    }

    /// When the chains started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Reloads done and refused, and the Unix time of the last one, 0 before the first.
    pub(crate) fn reloads(&self) -> ([u64; 2], u64) {
        let Reloads { done, refused, last } = &self.reloads;
        let [done, refused, last] = [done, refused, last].map(|own| own.load(Ordering::Relaxed));
        ([done, refused], last)
    }

    /// Counts a reload, and passes its result to the requests that wait for it.
    pub(crate) fn answer_reload(&self, result: &Result<String, String>) {
        let Reloads { done, refused, last } = &self.reloads;
        let count = if result.is_ok() { done } else { refused };
        count.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        last.store(now.as_secs(), Ordering::Relaxed);
        for waiting in lock(&self.waiting).drain(..) {
            // It may have given up.
            let _ = waiting.send(result.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
