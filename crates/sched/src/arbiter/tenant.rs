//! One tenant of a device.

use super::{TenantEvidence, demand::Demand};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Turns that it has in a round.
    pub(super) turns: u64,
    /// Length of each of its turns.
    pub(super) quantum_ns: u64,
    pub(super) present: bool,
    /// Launches that wait for a grant.
    pub(super) waiting: u64,
    waiting_since_ns: u64,
    /// Time that its next turns are shorter, because its launches took longer than its slices.
    pub(super) debt_ns: u64,
    pub(super) demand: Demand,
    pub(super) evidence: TenantEvidence,
}

impl Tenant {
    pub(super) fn new(turns: u64, quantum_ns: u64) -> Self {
        Self {
            turns,
            quantum_ns,
            present: false,
            waiting: 0,
            waiting_since_ns: 0,
            debt_ns: 0,
            demand: Demand::default(),
            evidence: TenantEvidence::default(),
        }
    }

    pub(super) fn round_ns(&self) -> u64 {
        self.turns * self.quantum_ns
    }

    pub(super) fn set_waiting(&mut self, waiting: u64, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.waiting_since_ns).saturating_mul(self.waiting);
        let evidence = &mut self.evidence;
        evidence.waiting_ns = evidence.waiting_ns.saturating_add(waited_ns);
        (self.waiting, self.waiting_since_ns) = (waiting, now_ns);
    }

    /// Lets one of its turns pass. Returns the time that its debt leaves of it.
    pub(super) fn pay(&mut self) -> u64 {
        let paid_ns = self.debt_ns.min(self.quantum_ns);
        self.debt_ns -= paid_ns;
        self.quantum_ns - paid_ns
    }

    /// Lets whole rounds pass.
    pub(super) fn pay_rounds(&mut self, rounds: u64) {
        self.debt_ns = self.debt_ns.saturating_sub(rounds.saturating_mul(self.round_ns()));
    }

    /// Owns all its slices of whole rounds.
    pub(super) fn own_rounds(&mut self, rounds: u64, idle: bool) {
        let (slices, owned_ns) = (rounds * self.turns, rounds * self.round_ns());
        self.evidence.slices += slices;
        self.evidence.owned_ns += owned_ns;
        if idle {
            self.evidence.slices_wasted += slices;
            self.evidence.idle_ns += owned_ns;
        }
    }

    pub(super) fn own(&mut self, owned_ns: u64, idle: bool) {
        self.evidence.owned_ns += owned_ns;
        if idle {
            self.evidence.idle_ns += owned_ns;
        }
    }
}
