//! Whose slice it is. Turns follow each other in a round, and policies differ in the turns that
//! take part and in their length.
//!
//! The state between two events is constant, so it is brought to a moment only when an event or a
//! poll needs it. Rounds in which nothing happens are passed together.

use super::{Arbiter, Policy};

/// Later moments count as this one, 292 years. So the end of a slice is always later than its
/// start.
const TIME_MAX_NS: u64 = u64::MAX / 2;

/// A turn of a tenant, or of a slot without a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) tenant: Option<usize>,
    pub(super) end_ns: u64,
    /// Whether a launch was in flight in it.
    pub(super) used: bool,
}

impl Arbiter {
    /// Brings the state to `now_ns`, or leaves it where it is if that is earlier.
    pub(super) fn advance(&mut self, now_ns: u64) {
        let now_ns = now_ns.min(TIME_MAX_NS).max(self.now_ns);
        self.begin(now_ns);
        self.end_windows(now_ns);
        loop {
            match self.slice {
                None => self.forgive(now_ns),
                Some(slice) => {
                    let Some(over_ns) = self.over_ns(slice, now_ns) else { break };
                    if !self.flights.is_empty() && !self.is_owner_next() {
                        break;
                    }
                    self.pass(over_ns);
                    self.close(slice);
                }
            }
            if !self.open_next(now_ns) {
                self.slice = None;
                self.forgive(now_ns);
                break;
            }
        }
        self.pass(now_ns);
    }

    fn begin(&mut self, now_ns: u64) {
        if self.started_ns.is_none() {
            self.started_ns = Some(now_ns);
            self.window_end_ns = now_ns.saturating_add(self.window_ns());
            self.now_ns = now_ns;
        }
    }

    /// When `slice` is over, if it is by `now_ns`.
    fn over_ns(&self, slice: Slice, now_ns: u64) -> Option<u64> {
        let over_ns = match self.yields(slice) {
            true => self.now_ns,
            false => slice.end_ns.max(self.now_ns),
        };
        (over_ns <= now_ns).then_some(over_ns)
    }

    /// Whether its owner gives the rest of `slice` to others.
    pub(super) fn yields(&self, slice: Slice) -> bool {
        slice.tenant.is_some_and(|owner| match self.sharing.policy {
            Policy::FixedShare => false,
            Policy::EqualShare => !self.tenants[owner].present,
            Policy::BestEffort | Policy::RateProportional => {
                self.tenants[owner].waiting == 0 && self.flights.is_empty()
            }
        })
    }

    /// Lets time pass in the current slice.
    fn pass(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        if let Some(owner) = self.owner() {
            self.tenants[owner].own(passed_ns, self.flights.is_empty());
        }
    }

    /// Lets time pass for a device without work. No tenant waits, so debts become smaller.
    fn forgive(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        for tenant in &mut self.tenants {
            tenant.debt_ns = tenant.debt_ns.saturating_sub(passed_ns);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Charges a slice that is over. Launches still in flight continue in the owner's next one.
    fn close(&mut self, slice: Slice) {
        let Some(owner) = slice.tenant else { return };
        let tenant = &mut self.tenants[owner];
        let late_ns = self.now_ns.saturating_sub(slice.end_ns);
        let overrun_ns = if self.flights.is_empty() { late_ns } else { 0 };
        tenant.debt_ns = tenant.debt_ns.saturating_add(overrun_ns);
        tenant.evidence.overrun_ns += overrun_ns;
        tenant.evidence.slices_wasted += u64::from(!slice.used);
    }

    /// Opens the next slice. Returns false if no turn takes part.
    fn open_next(&mut self, now_ns: u64) -> bool {
        self.set_quanta();
        while self.turns.iter().any(|&tenant| self.takes_part(tenant)) {
            self.skip_rounds(now_ns);
            for _ in 0..self.turns.len() {
                self.turn = (self.turn + 1) % self.turns.len();
                if self.open(now_ns) {
                    return true;
                }
            }
        }
        false
    }

    /// Opens the slice of the current turn, if its tenant takes part and its debt leaves time.
    fn open(&mut self, now_ns: u64) -> bool {
        let tenant = self.turns[self.turn];
        let takes_part = self.takes_part(tenant);
        let left_ns = match tenant {
            Some(tenant) => self.tenants[tenant].pay(),
            None => self.sharing.slice_ns,
        };
        if !takes_part || left_ns == 0 {
            return false;
        }
        match tenant {
            Some(tenant) => {
                // A caller that polls late takes no time from a tenant that waits.
                if self.tenants[tenant].waiting > 0 && self.flights.is_empty() {
                    self.now_ns = now_ns;
                }
                self.tenants[tenant].evidence.slices += 1;
            }
            None => self.unassigned_slices += 1,
        }
        let (end_ns, used) = (self.now_ns.saturating_add(left_ns), !self.flights.is_empty());
        self.slice = Some(Slice { tenant, end_ns, used });
        true
    }

    /// Passes whole rounds in which no slice has work: its tenant has none, or pays a debt.
    fn skip_rounds(&mut self, now_ns: u64) {
        let Some(rounds) = self.empty_rounds(now_ns).filter(|&rounds| rounds > 0) else { return };
        let idle = self.flights.is_empty();
        let mut passed_ns = rounds * self.unassigned_ns();
        for place in 0..self.tenants.len() {
            let takes_part = self.takes_part(Some(place));
            let tenant = &mut self.tenants[place];
            if takes_part && tenant.debt_ns == 0 {
                tenant.own_rounds(rounds, idle);
                passed_ns += rounds * tenant.round_ns();
            }
            tenant.pay_rounds(rounds);
        }
        if self.sharing.policy == Policy::FixedShare {
            self.unassigned_slices += rounds * self.unassigned;
        }
        self.now_ns += passed_ns;
    }

    /// Rounds until `now_ns` without work; none if one must be looked at turn by turn.
    fn empty_rounds(&self, now_ns: u64) -> Option<u64> {
        let idle = self.flights.is_empty();
        let (mut rounds, mut round_ns) = (u64::MAX, self.unassigned_ns());
        if !idle && round_ns > 0 {
            return None;
        }
        for (place, tenant) in self.tenants.iter().enumerate() {
            if !self.takes_part(Some(place)) {
                continue;
            }
            if tenant.debt_ns >= tenant.round_ns() {
                rounds = rounds.min(tenant.debt_ns / tenant.round_ns());
            } else if tenant.debt_ns > 0 || (idle && tenant.waiting > 0) {
                return None;
            } else {
                round_ns += tenant.round_ns();
            }
            if !idle && self.owner() != Some(place) {
                return None;
            }
        }
        let in_time = (now_ns - self.now_ns).checked_div(round_ns);
        Some(rounds.min(in_time.unwrap_or(u64::MAX)))
    }

    fn unassigned_ns(&self) -> u64 {
        match self.sharing.policy {
            Policy::FixedShare => self.unassigned * self.sharing.slice_ns,
            _ => 0,
        }
    }

    /// Whether turns of `tenant` take part in a round.
    fn takes_part(&self, tenant: Option<usize>) -> bool {
        let Some(tenant) = tenant else { return true };
        match self.sharing.policy {
            Policy::FixedShare => true,
            Policy::EqualShare => self.tenants[tenant].present,
            Policy::BestEffort | Policy::RateProportional => {
                let in_flight = !self.flights.is_empty() && self.owner() == Some(tenant);
                self.tenants[tenant].waiting > 0 || in_flight
            }
        }
    }

    /// Whether the next turn that takes part is the owner's too, so that its launches may continue.
    fn is_owner_next(&self) -> bool {
        let mut following =
            (1..=self.turns.len()).map(|step| self.turns[(self.turn + step) % self.turns.len()]);
        let next = following.find(|&tenant| self.takes_part(tenant));
        next.is_some_and(|tenant| tenant.is_some() && tenant == self.owner())
    }

    /// The tenant that has the slice.
    pub(super) fn owner(&self) -> Option<usize> {
        self.slice?.tenant
    }
}
