//! The running chains, as `ctl` sees and changes them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use warpline_engine::{Deployment, Machine, MachineChain, Report};
use warpline_sched::placement::PlacementPolicy;

use super::SCHEMA;
use super::traced::Tracing;
use crate::moves::{Asked, Move};
use crate::placement::{LiveMonitor, Proposals, Terms};
use crate::reload::Reloaded;
use crate::stats_json::Shared;
use crate::tenants::Tenancy;
use crate::{outputs_shown, stats_json, summary, tenants_shown};

/// The functions on devices, with the lanes that use them.
fn devices_json(deployment: &Deployment, lanes: usize) -> Value {
    let own = deployment.instances().filter_map(|(instance, site)| {
        let on = site.on_device.as_ref()?;
        let lanes = on.launches.lanes.min(lanes);
        Some(json!({ "function": instance.name, "device": site.device_id(), "lanes": lanes }))
    });
    own.collect()
}

/// Names of policies.
#[derive(Default)]
struct PolicyNames {
    /// Of the chain file.
    file: &'static str,
    /// The present one.
    own: String,
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
    machine: Machine,
    tenancy: Arc<Tenancy>,
    proposals: Arc<Proposals>,
    started: Instant,
    /// Set to ask for a reload.
    hangup: Arc<AtomicBool>,
    reloads: Reloads,
    /// Requests of reloads that have not begun.
    waiting: Mutex<Vec<Sender<Result<Reloaded, String>>>>,
    /// Moves that were asked for.
    moves: Mutex<Vec<Asked>>,
    /// Another policy for the monitor.
    policy: Mutex<Option<PlacementPolicy>>,
    policy_names: Mutex<PolicyNames>,
    /// Whether functions stay where a client placed them.
    is_by_hand: AtomicBool,
    /// Whether a move failed after some chains had moved.
    has_moved_in_part: AtomicBool,
    /// Those of the monitor; none without one.
    terms: Mutex<Option<FileTerms>>,
    pub(super) tracing: Tracing,
}

/// The requests that get the result of a reload; none if a signal asked for it.
pub(crate) struct AskedReload(Vec<Sender<Result<Reloaded, String>>>);

/// The basis of the monitor's decisions as the chain file has it; none if it leaves no choice.
pub(crate) struct Renewed(pub(crate) Option<Terms>);

struct FileTerms {
    own: Option<Terms>,
    /// Whether the monitor has yet to take them.
    is_new: bool,
}

impl Live {
    /// The chains of `machine`, which start now and share devices so. `hangup` asks for a reload.
    pub(crate) fn new(
        machine: Machine,
        tenancy: Arc<Tenancy>,
        proposals: Arc<Proposals>,
        hangup: Arc<AtomicBool>,
    ) -> Self {
        let (started, waiting, moves) = (Instant::now(), Mutex::default(), Mutex::default());
        let (reloads, policy, is_by_hand) = (Reloads::default(), Mutex::default(), false.into());
        Self {
            machine,
            tenancy,
            proposals,
            started,
            hangup,
            reloads,
            waiting,
            moves,
            policy,
            policy_names: Mutex::default(),
            is_by_hand,
            has_moved_in_part: AtomicBool::default(),
            terms: Mutex::default(),
            tracing: Tracing::default(),
        }
    }

    /// Runs the chains.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The chains.
    pub(crate) fn chains(&self) -> &[Arc<MachineChain>] {
        self.machine.chains()
    }

    /// The chains called `name`, or all.
    pub(super) fn named(&self, name: Option<&str>) -> Result<Vec<&Arc<MachineChain>>, String> {
        let is_meant = |chain: &&Arc<MachineChain>| name.is_none_or(|name| chain.name == name);
        let meant: Vec<&Arc<MachineChain>> = self.chains().iter().filter(is_meant).collect();
        let names = || {
            let names = self.chains().iter().map(|chain| format!("{:?}", chain.name));
            names.collect::<Vec<_>>().join(", ")
        };
        match (name, meant.is_empty()) {
            (Some(name), true) => Err(format!("there is no chain {name:?}; chains: {}", names())),
            _ => Ok(meant),
        }
    }

    /// The state of each chain.
    pub(crate) fn status(&self, name: Option<&str>) -> Result<Value, String> {
        let chains: Vec<Value> = self.named(name)?.iter().map(|chain| status(chain)).collect();
        Ok(json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "seconds": self.started.elapsed().as_secs_f64(),
            "chains": chains,
            "policy": lock(&self.policy_names).own.as_str(),
            "by_hand": self.is_by_hand(),
            "placement": self.proposals.json(),
        }))
    }

    /// The policy of the chain file. One that a client chose stays until the file has another.
    /// Returns whether it has another.
    pub(crate) fn follow_file(&self, policy: &'static str) -> bool {
        let mut names = lock(&self.policy_names);
        let is_other = names.file != policy;
        if is_other {
            *names = PolicyNames { file: policy, own: policy.into() };
        }
        is_other
    }

    /// A client chose a policy.
    pub(crate) fn name_policy(&self, policy: &str) {
        lock(&self.policy_names).own = policy.into();
    }

    /// The statistics so far, in the form of `--stats`.
    pub(crate) fn stats(&self, name: Option<&str>) -> Result<Value, String> {
        let reports: Vec<_> = self.named(name)?.iter().map(|chain| chain.report()).collect();
        let reports: Vec<(&Deployment, &Report)> =
            reports.iter().map(|(deployment, report)| (&**deployment, report)).collect();
        let (tenancy, proposals) = (&*self.tenancy, &*self.proposals);
        let shared = Shared { tenancy, outputs: &self.machine.outputs().counts(), proposals };
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
        Ok(text + &outputs_shown::summary(&self.machine.outputs().counts()))
    }

    /// Parts of the statistics of each chain: `functions` or `ports`.
    pub(super) fn part(&self, name: Option<&str>, key: &str) -> Result<Value, String> {
        let of = |chain: &&Arc<MachineChain>| {
            let (deployment, report) = chain.report();
            let whole = stats_json::of_chain(&deployment, &report);
            json!({ "name": chain.name, key: whole[key] })
        };
        let chains: Vec<Value> = self.named(name)?.iter().map(of).collect();
        Ok(json!({ "schema": SCHEMA, "chains": chains }))
    }

    /// The decisions of the monitor.
    pub(crate) fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// How chains share devices.
    pub(crate) fn tenancy(&self) -> &Arc<Tenancy> {
        &self.tenancy
    }

    /// Asks for a reload; its result comes later.
    pub(super) fn ask_reload(&self) -> Receiver<Result<Reloaded, String>> {
        let (send, receive) = channel();
        let mut waiting = lock(&self.waiting);
        waiting.push(send);
        self.hangup.store(true, Ordering::Relaxed);
        receive
    }

    /// Begins the reload that was asked for, if one was. A later request takes another: this one
    /// may have read the files before they changed.
    pub(crate) fn take_reload(&self) -> Option<AskedReload> {
        let mut waiting = lock(&self.waiting);
        let is_asked = self.hangup.swap(false, Ordering::Relaxed);
        is_asked.then(|| AskedReload(std::mem::take(&mut *waiting)))
    }

    /// Asks for a move; its result comes later.
    pub(crate) fn ask_move(&self, asked: Move) -> Receiver<Result<String, String>> {
        let (send, receive) = channel();
        lock(&self.moves).push((asked, send));
        receive
    }

    /// The moves that were asked for.
    pub(crate) fn take_moves(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.moves))
    }

    /// A client placed functions: by `policy` from now on, or where it wanted them.
    pub(crate) fn placed_by(&self, policy: Option<PlacementPolicy>) {
        self.is_by_hand.store(policy.is_none(), Ordering::Relaxed);
        if let Some(policy) = &policy {
            self.proposals.follow(policy.name());
        }
        *lock(&self.policy) = policy;
    }

    /// Whether functions stay where a client placed them.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.is_by_hand.load(Ordering::Relaxed)
    }

    /// A move failed after some chains had moved.
    pub(crate) fn moved_in_part(&self) {
        self.has_moved_in_part.store(true, Ordering::Relaxed);
    }

    /// Whether a move failed after some chains had moved; once.
    pub(crate) fn take_moved_in_part(&self) -> bool {
        self.has_moved_in_part.swap(false, Ordering::Relaxed)
    }

    /// Another policy for the monitor; once.
    pub(crate) fn take_policy(&self) -> Option<PlacementPolicy> {
        lock(&self.policy).take()
    }

    /// There is this monitor.
    pub(crate) fn start_monitor(&self, monitor: &LiveMonitor) {
        let own = Some(monitor.terms().clone());
        *lock(&self.terms) = Some(FileTerms { own, is_new: false });
        self.proposals.start(monitor.policy());
    }

    /// The chain file was read again. Returns whether the monitor gets other terms.
    pub(crate) fn renew_terms(&self, new: Option<Terms>) -> bool {
        let mut terms = lock(&self.terms);
        let Some(terms) = terms.as_mut().filter(|terms| terms.own != new) else { return false };
        *terms = FileTerms { own: new, is_new: true };
        true
    }

    /// Other terms for the monitor; once.
    pub(crate) fn take_terms(&self) -> Option<Renewed> {
        let mut terms = lock(&self.terms);
        let terms = terms.as_mut().filter(|terms| terms.is_new)?;
        terms.is_new = false;
        Some(Renewed(terms.own.clone()))
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
    pub(crate) fn answer_reload(&self, asked: AskedReload, result: &Result<Reloaded, String>) {
        let Reloads { done, refused, last } = &self.reloads;
        let count = if result.is_ok() { done } else { refused };
        count.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        last.store(now.as_secs(), Ordering::Relaxed);
        for waiting in asked.0 {
            // It may have given up.
            let _ = waiting.send(result.clone());
        }
    }
}

fn status(chain: &MachineChain) -> Value {
    let (deployment, report) = chain.report();
    let whole = stats_json::of_chain(&deployment, &report);
    json!({
        "name": chain.name,
        "state": chain.state(),
        "lanes": report.lanes,
        "devices": devices_json(&deployment, report.lanes),
        "packets": whole["packets"],
        "rate": whole["rate"],
        "bottleneck": whole["bottleneck"],
        "peers": whole["peers"],
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_result_of_a_reload_that_began_later() {
        let none = Machine::default();
        let live = Live::new(none, Arc::default(), Arc::default(), Arc::default());
        let [first, also] = [live.ask_reload(), live.ask_reload()];
        let slow = live.take_reload().expect("a reload");
        assert!(live.take_reload().is_none(), "one reload is for both");
        let later = live.ask_reload();
        let done = Reloaded { text: "nothing changed".into(), restart: Vec::new() };
        live.answer_reload(slow, &Ok(done));
        assert!([first, also].iter().all(|one| matches!(one.try_recv(), Ok(Ok(_)))));
        assert!(later.try_recv().is_err(), "its own reload has yet to begin");
        let broken = live.take_reload().expect("a reload");
        live.answer_reload(broken, &Err("1 mistake".into()));
        assert_eq!(later.try_recv().expect("a result").expect_err("a refusal"), "1 mistake");
        assert_eq!(live.reloads().0, [1, 1]);
    }
}
