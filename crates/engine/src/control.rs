//! State that threads outside a running chain can read, and requests they can make.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::build::Builder;
use crate::observer::{Observation, Observer};
use crate::peers::{PeerReport, PeerState};
use crate::reload::Reloads;
use crate::snapshots::{Answers, Snapshot, Snapshots};
use crate::stats::{Packets, ThreadStats};
use crate::{Deployment, Report, Settings, Successor};

/// Shared between a running chain and its watchers.
#[derive(Default)]
pub struct Control {
    stop: AtomicBool,
    paused: AtomicBool,
    ended: AtomicBool,
    failed: AtomicBool,
    aborted: AtomicBool,
    /// Packets read so far.
    pub(crate) read: AtomicU64,
    /// Packets that reached the end of the chain so far.
    settled: Settled,
    /// Share of the source that was read, as the bits of an `f64`; not a number while unknown.
    progress: AtomicU64,
    pub(crate) reloads: Reloads,
    pub(crate) observation: Observation,
    pub(crate) peers: PeerState,
    pub(crate) snapshots: Snapshots,
    /// Its dimensions, once it runs.
    pub(crate) settings: OnceLock<Settings>,
    /// Builds lanes while it runs.
    builder: Mutex<Option<Arc<Builder>>>,
    messages: Mutex<Messages>,
}

/// Packets after which a busy thread publishes its count. Each time it takes the shared cache line
/// away from the other threads.
pub(crate) const REPORT_EVERY: u64 = 16_384;

/// Counts of packets by their outcome so far, as in [`Packets`].
#[derive(Default)]
struct Settled {
    sent: AtomicU64,
    absorbed: AtomicU64,
    dropped: AtomicU64,
    malformed: AtomicU64,
    overload: AtomicU64,
    unwritten: AtomicU64,
}

/// Messages for the operator that cannot wait.
#[derive(Default)]
struct Messages {
    /// Those that are reported once; at most one of each stage and lane.
    once: Vec<String>,
    /// Those that were not given yet, at most [`MESSAGES_MAX`].
    fresh: Vec<String>,
}

/// Messages that wait for the operator at most.
const MESSAGES_MAX: usize = 256;

impl Control {
    /// Asks the chain to stop in order: it reads no more, drains, and ends.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads no packets until [`Control::resume`]. Packets that were read continue on their way. A
    /// source that can wait waits, and others lose what comes meanwhile.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Reads packets again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// The signals of linked instances so far.
    pub fn peers(&self) -> Vec<PeerReport> {
        self.peers.reports()
    }

    /// Whether the run is over.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Its lanes are built and start.
    pub(crate) fn start(&self, builder: Builder) -> Arc<Builder> {
        let builder = Arc::new(builder);
        *self.builder.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&builder));
        builder
    }

    /// Builds lanes of the run; none before it starts and after it has ended.
    pub(crate) fn builder(&self) -> Option<Arc<Builder>> {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        *self.builder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Replaces the running chain with `successor`, after everything read so far. Returns false
    /// while another one is in progress, and after the chain has ended. The caller keeps
    /// `successor` while [`Control::is_reloading`] is true, so that no lane has to free memory.
    pub fn reload(&self, successor: &Successor) -> bool {
        self.reloads.ask(successor)
    }

    /// Whether a lane may still hold functions of the chain before the last [`Control::reload`].
    pub fn is_reloading(&self) -> bool {
        self.reloads.is_pending()
    }

    /// Has `observer` see every turn, or nothing see them. A lane follows before its next batch.
    pub fn observe(&self, observer: Option<Arc<dyn Observer>>) {
        self.observation.set(observer);
    }

    /// Messages for the operator that cannot wait: a function no longer runs where it was put, or
    /// the input loses packets. Each is returned once.
    pub fn take_messages(&self) -> Vec<String> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut messages.fresh)
    }

    /// Reports `what` to the operator, unless another lane has reported the same.
    pub(crate) fn report(&self, what: String) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if !messages.once.contains(&what) {
            messages.once.push(what.clone());
            messages.fresh.push(what);
        }
    }

    /// Reports to an operator, as often as it happens.
    pub(crate) fn report_again(&self, what: String) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.fresh.len() < MESSAGES_MAX {
            messages.fresh.push(what);
        }
    }

    /// The counts so far of the chain of `deployment`, which runs by this. Each thread answers
    /// between two rounds of its work; one that takes longer than 0.2 seconds counts as it was when
    /// it answered last.
    pub fn snapshot(&self, deployment: &Deployment) -> Snapshot {
        let functions = deployment.chain().instances.len();
        let Answers { sum: mut part, lanes: by_lane, late } =
            self.snapshots.take(ThreadStats::new(functions));
        let packets = &mut part.packets;
        // Threads answer one after the other, so some packets may have ended that were not read.
        packets.read = packets.read.max(packets.ended().saturating_sub(packets.generated));
        packets.in_flight = (packets.read + packets.generated).saturating_sub(packets.ended());
        let settings = self.settings.get().copied().unwrap_or_default();
        let Settings { lanes, cores, pressure, .. } = settings;
        let peers = self.peers();
        let report =
            Report { part, lanes, cores, pressure, peers, huge_pages: None, is_running: true };
        Snapshot { report, lanes: by_lane, late }
    }

    /// Whether its threads have started.
    pub fn has_started(&self) -> bool {
        self.snapshots.has_threads()
    }

    /// Whether each of its threads has completed a round of its work since the last call that
    /// returned true.
    pub fn take_beat(&self) -> bool {
        self.snapshots.take_beat()
    }

    /// Ends the chain at once: packets on their way are not drained. A thread that waits in a
    /// system call ends when the call returns.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        self.fail();
    }

    /// Whether that was asked.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// The counts so far of a chain whose threads don't come back after [`Control::abort`].
    pub(crate) fn unfinished(&self, functions: usize) -> ThreadStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut part = ThreadStats::new(functions);
        part.packets = Packets {
            read: of(&self.read),
            sent: of(&self.settled.sent),
            absorbed: of(&self.settled.absorbed),
            dropped: of(&self.settled.dropped),
            malformed: of(&self.settled.malformed),
            overload: of(&self.settled.overload),
            unwritten: of(&self.settled.unwritten),
            ..Packets::default()
        };
        part.abort();
        part
    }

    /// Publishes the outcomes of packets since `reported`, which becomes `now`.
    pub(crate) fn publish_settled(&self, now: &Packets, reported: &mut Packets) {
        let Settled { sent, absorbed, dropped, malformed, overload, unwritten } = &self.settled;
        for (count, more) in [
            (sent, now.sent - reported.sent),
            (absorbed, now.absorbed - reported.absorbed),
            (dropped, now.dropped - reported.dropped),
            (malformed, now.malformed - reported.malformed),
            (overload, now.overload - reported.overload),
            (unwritten, now.unwritten - reported.unwritten),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        reported.clone_from(now);
    }

    /// Whether a thread of the chain panicked or did not start: the others end too.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends every thread of the chain.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Notes a panic of the thread that holds it.
    pub(crate) fn guard(&self) -> impl Drop {
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
        }
        Guard(&self.failed)
    }

    /// Packets read so far, by all threads; a busy one may have had some thousands more.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Packets that reached the end of the chain so far, published like those that were read.
    pub fn ended(&self) -> u64 {
        let Settled { sent, absorbed, dropped, malformed, overload, unwritten } = &self.settled;
        let all = [sent, absorbed, dropped, malformed, overload, unwritten];
        all.into_iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Packets lost so far, for any reason, published like those that were read.
    pub fn lost(&self) -> u64 {
        let Settled { sent: _, absorbed: _, dropped, malformed, overload, unwritten } =
            &self.settled;
        let all = [dropped, malformed, overload, unwritten];
        all.into_iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Share of the source that was read, 0 to 1, if the source reports it.
    pub fn progress(&self) -> Option<f64> {
        let share = f64::from_bits(self.progress.load(Ordering::Relaxed));
        (share.is_finite() && share > 0.0).then_some(share.min(1.0))
    }

    pub(crate) fn set_progress(&self, share: Option<f64>) {
        self.progress.store(share.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
    }
}
