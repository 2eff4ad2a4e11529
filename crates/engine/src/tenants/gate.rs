//! The gate: one arbiter for all streams of a device, with the quotas of its tenants.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_device::Failure;
use warpline_sched::{Arbiter, Evidence, GrantId, MemoryQuota, Sharing, SharingError, Spent};

type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// See the module.
pub(super) struct Gate {
    clock: Clock,
    state: Mutex<GateState>,
}

struct GateState {
    arbiter: Arbiter,
    members: Vec<Member>,
}

struct Member {
    /// Open streams. The tenant is present while it has any.
    streams: usize,
    quota: MemoryQuota,
    memory_peak: u64,
}

impl Gate {
    pub(super) fn new(
        sharing: &Sharing,
        slots: &[usize],
        quotas: impl Iterator<Item = MemoryQuota>,
        clock: Clock,
    ) -> Result<Self, SharingError> {
        let arbiter = Arbiter::new(sharing, slots)?;
        let member = |quota| Member { streams: 0, quota, memory_peak: 0 };
        let members = quotas.map(member).collect();
        Ok(Self { clock, state: Mutex::new(GateState { arbiter, members }) })
    }

    /// The evidence, and the most memory of each tenant.
    pub(super) fn report(&self) -> (Evidence, Vec<u64>) {
        let (mut state, now) = self.state();
        let peaks = state.members.iter().map(|member| member.memory_peak).collect();
        (state.arbiter.evidence(now), peaks)
    }

    /// The state, and the time.
    fn state(&self) -> (MutexGuard<'_, GateState>, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Time is read under the lock, so that the arbiter never sees it step back.
        let now = (self.clock)();
        (state, now)
    }
}

/// A tenant at the gate.
#[derive(Clone)]
pub(super) struct Seat {
    gate: Arc<Gate>,
    tenant: usize,
}

impl Seat {
    pub(super) fn new(gate: Arc<Gate>, tenant: usize) -> Self {
        Self { gate, tenant }
    }

    /// A stream was opened.
    pub(super) fn enter(&self) {
        let (mut state, now) = self.gate.state();
        state.members[self.tenant].streams += 1;
        state.arbiter.handle_present(self.tenant, true, now);
    }

    /// A stream was closed.
    pub(super) fn leave(&self) {
        let (mut state, now) = self.gate.state();
        let member = &mut state.members[self.tenant];
        member.streams = member.streams.saturating_sub(1);
        if member.streams == 0 {
            state.arbiter.handle_present(self.tenant, false, now);
        }
    }

    /// Items came whose work follows.
    pub(super) fn arrived(&self, items: u64) {
        let (mut state, now) = self.gate.state();
        state.arbiter.handle_arrivals(self.tenant, items, now);
    }

    /// The kernels of a work are ready to start.
    pub(super) fn request(&self) {
        let (mut state, now) = self.gate.state();
        state.arbiter.handle_request(self.tenant, now);
    }

    /// The request of a work that is given up.
    pub(super) fn withdraw(&self) {
        let (mut state, now) = self.gate.state();
        state.arbiter.handle_withdraw(self.tenant, now);
    }

    /// A grant, if it is the tenant's turn.
    pub(super) fn poll_grant(&self) -> Option<GrantId> {
        let (mut state, now) = self.gate.state();
        state.arbiter.poll_grant_for(self.tenant, now).map(|grant| grant.id)
    }

    /// The kernels that were granted ended; they worked on so many items.
    pub(super) fn done(&self, grant: GrantId, items: u64) {
        let (mut state, now) = self.gate.state();
        let spent = Spent { packets: items, device_ns: None };
        state.arbiter.handle_done(grant, &spent, now);
    }

    /// They were given up, and may never end.
    pub(super) fn lost(&self, grant: GrantId) {
        let (mut state, now) = self.gate.state();
        state.arbiter.handle_lost(grant, now);
    }

    /// Takes memory of the quota, until the result is dropped.
    ///
    /// # Errors
    /// [`Failure::OutOfMemory`], with the bytes that are free.
    pub(super) fn take_memory(&self, bytes: u64) -> Result<TakenMemory, Failure> {
        let (mut state, _) = self.gate.state();
        let member = &mut state.members[self.tenant];
        match member.quota.take(bytes) {
            Ok(()) => member.memory_peak = member.memory_peak.max(member.quota.used()),
            Err(why) => {
                let (wanted, free) = (bytes as usize, Some(why.free as usize));
                return Err(Failure::OutOfMemory { wanted, free });
            }
        }
        Ok(TakenMemory { seat: self.clone(), bytes })
    }
}

/// Memory of a quota, given back when it is dropped.
pub(super) struct TakenMemory {
    seat: Seat,
    bytes: u64,
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        let (mut state, _) = self.seat.gate.state();
        state.members[self.seat.tenant].quota.give(self.bytes);
    }
}
