//! The upstream side: is paused by signals.

use super::{Lease, PauseAnswer, PauseSignal, SignalCounts, SignalRefusal};

/// The pause of one instance downstream; see the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseReceiver {
    lease: Lease,
    session: u64,
    started_ns: u64,
    now_ns: u64,
    /// The last accepted signal.
    epoch: u64,
    sequence: u64,
    /// The highest epoch of any authentic signal.
    seen: u64,
    /// The begin and the end of the pause.
    held: Option<(u64, u64)>,
    pub(super) counts: SignalCounts,
}

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// For the sender of the datagram.
    pub answer: PauseAnswer,
    /// Why the signal was ignored; nothing if it was accepted, or is a greeting.
    pub refused: Option<SignalRefusal>,
}

impl PauseReceiver {
    /// The random number of its start.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// A receiver that nothing pauses. `session` is a random number; 0 counts as 1.
    pub fn new(lease: Lease, session: u64, now_ns: u64) -> Self {
        Self {
            lease,
            session: session.max(1),
            started_ns: now_ns,
            now_ns,
            epoch: 0,
            sequence: 0,
            seen: 0,
            held: None,
            counts: SignalCounts::default(),
        }
    }

    /// Whether a pause holds.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// An authentic signal came.
    pub fn handle_signal(&mut self, signal: &PauseSignal, now_ns: u64) -> Reception {
        self.handle_timeout(now_ns);
        self.seen = self.seen.max(signal.epoch);
        let check = self.check(signal);
        match check {
            Ok(()) => self.accept(signal),
            Err(why) if signal.session > 0 => self.counts.refuse(why),
            Err(_) => {}
        }
        self.counts.sent += 1;
        let PauseSignal { epoch, sequence, .. } = *signal;
        let answer = PauseAnswer {
            epoch,
            sequence,
            session: self.session,
            turn: self.turn(),
            seen: self.seen,
            accepted: (epoch, sequence) == (self.epoch, self.sequence),
        };
        Reception { answer, refused: check.err().filter(|_| signal.session > 0) }
    }

    /// Ends a pause whose lease is over.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.held.is_some_and(|(_, until)| until <= self.now_ns) {
            self.release();
            self.counts.expired += 1;
        }
    }

    /// When the lease of the pause is over.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.held.map(|(_, until)| until)
    }

    /// Counts a message that is not authentic.
    pub fn refuse(&mut self, why: SignalRefusal) {
        self.counts.refuse(why);
    }

    /// Its counts until `now_ns`.
    pub fn counts(&self, now_ns: u64) -> SignalCounts {
        let open = self.held.map_or(0, |(since, until)| now_ns.min(until).saturating_sub(since));
        SignalCounts { paused_ns: self.counts.paused_ns + open, ..self.counts }
    }

    fn turn(&self) -> u64 {
        (self.now_ns - self.started_ns) / self.lease.lease_ns.max(1)
    }

    fn check(&self, signal: &PauseSignal) -> Result<(), SignalRefusal> {
        let turn = self.turn();
        let is_fresh = signal.turn == turn || turn.checked_sub(1) == Some(signal.turn);
        if signal.session != self.session || !is_fresh || signal.epoch < self.epoch {
            return Err(SignalRefusal::Stale);
        }
        match (signal.epoch, signal.sequence) > (self.epoch, self.sequence) {
            true => Ok(()),
            false => Err(SignalRefusal::Replayed),
        }
    }

    fn accept(&mut self, signal: &PauseSignal) {
        (self.epoch, self.sequence) = (signal.epoch, signal.sequence);
        self.counts.received += 1;
        if !signal.pause {
            self.release();
            return;
        }
        // No longer than this side's own lease, whatever the signal says.
        let lease_ns = u64::from(signal.lease_ms).saturating_mul(1_000_000);
        let until = self.now_ns.saturating_add(lease_ns.min(self.lease.lease_ns));
        self.counts.pauses += u64::from(self.held.is_none());
        let since = self.held.map_or(self.now_ns, |(since, _)| since);
        self.held = Some((since, until));
    }

    fn release(&mut self) {
        if let Some((since, until)) = self.held.take() {
            self.counts.paused_ns += self.now_ns.min(until).saturating_sub(since);
        }
    }
}
