//! Launches that were granted and have not ended.

use super::{Grant, GrantId};

#[derive(Clone, Copy, Debug)]
struct GrantInFlight {
    grant: Grant,
    since_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    flights: Vec<GrantInFlight>,
    in_flight_max: usize,
    granted_ever: u64,
    /// When the last launch ended.
    ended_ns: u64,
}

/// A launch that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) tenant: usize,
    /// Time since its grant.
    pub(super) granted_ns: u64,
    /// Time since its grant or the end of the launch before it, if that was later.
    pub(super) alone_ns: u64,
}

impl Flights {
    pub(super) fn new(in_flight_max: usize) -> Self {
        let flights = Vec::with_capacity(in_flight_max);
        Self { flights, in_flight_max, granted_ever: 0, ended_ns: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.flights.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.flights.len() < self.in_flight_max
    }

    pub(super) fn add(&mut self, tenant: usize, now_ns: u64) -> Grant {
        let grant = Grant { id: GrantId(self.granted_ever), tenant };
        self.granted_ever += 1;
        self.flights.push(GrantInFlight { grant, since_ns: now_ns });
        grant
    }

    pub(super) fn end(&mut self, id: GrantId, now_ns: u64) -> Option<Ended> {
        let place = self.flights.iter().position(|flight| flight.grant.id == id)?;
        let GrantInFlight { grant, since_ns } = self.flights.swap_remove(place);
        let alone_ns = now_ns.saturating_sub(since_ns.max(self.ended_ns));
        self.ended_ns = now_ns;
        let granted_ns = now_ns.saturating_sub(since_ns);
        Some(Ended { tenant: grant.tenant, granted_ns, alone_ns })
    }
}
