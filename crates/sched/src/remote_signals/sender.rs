//! The downstream side: pauses the instance upstream.

use super::{Lease, PauseAnswer, PauseSignal, SignalCounts, SignalRefusal};

/// The state of this instance for one instance upstream; see the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseSender {
    lease: Lease,
    epoch: u64,
    /// The number of the last signal.
    sequence: u64,
    /// The number of the last signal that an answer named.
    answered: u64,
    session: u64,
    turn: u64,
    /// When the pause began.
    paused: Option<u64>,
    /// When the next signal is due.
    next_ns: u64,
    pub(super) counts: SignalCounts,
}

impl PauseSender {
    /// A sender that pauses nothing. `epoch` is the time of day, or any number that is larger than
    /// those before it as a rule.
    pub fn new(lease: Lease, epoch: u64, now_ns: u64) -> Self {
        Self {
            lease,
            epoch: epoch.max(1),
            sequence: 0,
            answered: 0,
            session: 0,
            turn: 0,
            paused: None,
            next_ns: now_ns,
            counts: SignalCounts::default(),
        }
    }

    /// Whether it pauses the instance upstream.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// The random number of the receiver's start, once it has answered; 0 before.
    pub fn peer_session(&self) -> u64 {
        self.session
    }

    /// This instance is nearly full, or is not any more. Signals a change at once.
    pub fn handle_pressure(&mut self, pause: bool, now_ns: u64) {
        match (self.paused, pause) {
            (None, true) => {
                self.paused = Some(now_ns);
                self.counts.pauses += 1;
            }
            (Some(since), false) => {
                self.paused = None;
                self.counts.paused_ns += now_ns.saturating_sub(since);
            }
            _ => return,
        }
        self.next_ns = now_ns;
    }

    /// An authentic answer came. A signal that was refused is repeated at once, as it should have
    /// been.
    ///
    /// # Errors
    /// Why the answer was ignored.
    pub fn handle_answer(
        &mut self,
        answer: &PauseAnswer,
        now_ns: u64,
    ) -> Result<(), SignalRefusal> {
        let check = match () {
            () if answer.epoch != self.epoch => Err(SignalRefusal::Stale),
            () if answer.sequence <= self.answered || answer.sequence > self.sequence => {
                Err(SignalRefusal::Replayed)
            }
            () => Ok(()),
        };
        if let Err(why) = check {
            self.counts.refuse(why);
            return Err(why);
        }
        self.counts.received += 1;
        self.answered = answer.sequence;
        (self.session, self.turn) = (answer.session, answer.turn);
        if !answer.accepted && answer.sequence == self.sequence {
            self.next_ns = now_ns;
        }
        if answer.seen > self.epoch {
            self.epoch = answer.seen.saturating_add(1);
            self.next_ns = now_ns;
        }
        Ok(())
    }

    /// The signal that is due at `now_ns`.
    pub fn poll_signal(&mut self, now_ns: u64) -> Option<PauseSignal> {
        if now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns.saturating_add(self.lease.refresh_ns);
        self.sequence += 1;
        self.counts.sent += 1;
        Some(PauseSignal {
            epoch: self.epoch,
            sequence: self.sequence,
            session: self.session,
            turn: self.turn,
            lease_ms: u32::try_from(self.lease.lease_ns / 1_000_000).unwrap_or(u32::MAX),
            pause: self.is_paused(),
        })
    }

    /// When the next signal is due.
    pub fn poll_timeout(&self) -> u64 {
        self.next_ns
    }

    /// Counts a message that is not authentic.
    pub fn refuse(&mut self, why: SignalRefusal) {
        self.counts.refuse(why);
    }

    /// Its counts until `now_ns`.
    pub fn counts(&self, now_ns: u64) -> SignalCounts {
        let open = self.paused.map_or(0, |since| now_ns.saturating_sub(since));
        SignalCounts { paused_ns: self.counts.paused_ns + open, ..self.counts }
    }
}
