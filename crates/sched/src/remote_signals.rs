//! Pause and resume between instances that are linked by their ports (Simmer, sections 3.3 and
//! 3.4). The instance downstream has a [`PauseSender`], the one upstream a [`PauseReceiver`].
//!
//! A [`PauseSignal`] carries the state of the sender, which it repeats every [`Lease::refresh_ns`].
//! A pause holds for its lease only. So lost signals, a dead peer or a cut link never stop an
//! instance for longer than a lease.
//!
//! The caller authenticates messages: all that reaches these machines was made by a holder of the
//! key, but anyone may have stored it, and send it again later. Neither side stores anything over a
//! restart, and neither needs the other's clock:
//!
//! - A receiver draws a random `session` at its start, and counts `turn`s of a lease by its own
//!   clock. It answers every signal with both. A signal must have the session, and the turn now or
//!   the one before. So it is refused two leases after the receiver's answer, and by a receiver
//!   that restarted at once.
//! - A sender takes a new `epoch` at its start, from the time of day. Answers have the highest
//!   epoch that the receiver saw, in refused signals too, and the sender takes a higher one. So
//!   epochs rise over restarts even if the clock was set back.
//! - A receiver accepts rising pairs of epoch and `sequence` only. No signal counts twice, and none
//!   of an earlier life of the sender counts once a later one was accepted.
//! - An answer counts if it names a signal of this epoch that no earlier answer named.
//!
//! A signal that was withheld and is delivered late can thus pause an instance until three leases
//! after it was sent at most, and once. Every authentic signal is answered, also a repeated one: an
//! attacker that sends a copy ahead of the original must not keep the answer from the sender.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod wire;

pub use receiver::{PauseReceiver, Reception};
pub use sender::PauseSender;
pub use wire::{BODY_LEN, Message, PauseAnswer, PauseSignal, VERSION, body};

/// How long a pause holds, and how often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// Nanoseconds that a pause holds without a further signal; also the length of a turn.
    pub lease_ns: u64,
    /// Nanoseconds between two signals of the same state.
    pub refresh_ns: u64,
}

impl Lease {
    /// Three signals in a row may be lost.
    pub const DEFAULT: Self = Self { lease_ns: 500_000_000, refresh_ns: 125_000_000 };
}

impl Default for Lease {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a message was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRefusal {
    /// It is no signal.
    Malformed,
    /// It has another version.
    Version,
    /// Its authentication code is wrong.
    Forged,
    /// It is of another session, of an earlier epoch, or too old.
    Stale,
    /// It came before, or a later one did.
    Replayed,
}

impl SignalRefusal {
    /// All, in the order of [`SignalCounts::refused`].
    pub const ALL: [Self; 5] =
        [Self::Malformed, Self::Version, Self::Forged, Self::Stale, Self::Replayed];

    /// As statistics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Forged => "forged",
            Self::Stale => "stale",
            Self::Replayed => "replayed",
        }
    }
}

/// The messages of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignalCounts {
    /// Signals or answers sent.
    pub sent: u64,
    /// Those received and accepted.
    pub received: u64,
    /// Those ignored, by [`SignalRefusal`].
    pub refused: [u64; SignalRefusal::ALL.len()],
    /// Pauses that began.
    pub pauses: u64,
    /// Pauses that ended because their lease did.
    pub expired: u64,
    /// Nanoseconds in which the peer was paused, or paused this instance.
    pub paused_ns: u64,
}

impl SignalCounts {
    /// Counts a message that was ignored.
    pub fn refuse(&mut self, why: SignalRefusal) {
        self.refused[why as usize] += 1;
    }
}
