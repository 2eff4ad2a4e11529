//! Launches from start to release: the limit in flight, the watchdog, and the order.

use std::collections::VecDeque;

use super::{Launch, LaunchId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightState {
    /// Under way; the watchdog names it at this moment.
    Watched { until_ns: u64 },
    /// Under way, and named by the watchdog.
    Expired,
    /// Complete, but perhaps not those before it.
    Done,
}

#[derive(Clone, Copy, Debug)]
struct LaunchInFlight {
    launch: Launch,
    state: FlightState,
}

/// Launches that were given out and not released, in the order in which they were closed.
#[derive(Debug)]
pub(super) struct Flights {
    flights: VecDeque<LaunchInFlight>,
    slots: usize,
    in_flight: usize,
    in_flight_max: usize,
}

impl Flights {
    pub(super) fn new(in_flight_max: usize) -> Self {
        // Later launches may pass a slow one, at most as many as are in flight together. So the
        // memory for them is bounded.
        let slots = 2 * in_flight_max;
        Self { flights: VecDeque::with_capacity(slots), slots, in_flight: 0, in_flight_max }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether one more may be given out.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.in_flight_max && self.flights.len() < self.slots
    }

    pub(super) fn add(&mut self, launch: Launch, until_ns: u64) {
        self.flights.push_back(LaunchInFlight { launch, state: FlightState::Watched { until_ns } });
        self.in_flight += 1;
    }

    /// Notes that `id` is complete. Gives its launch if it was under way.
    pub(super) fn complete(&mut self, id: LaunchId) -> Option<Launch> {
        let flight = self.under_way(id)?;
        flight.state = FlightState::Done;
        let launch = flight.launch;
        self.in_flight -= 1;
        Some(launch)
    }

    /// Has the watchdog name `id` at `until_ns` and not earlier, if it didn't yet.
    pub(super) fn watch(&mut self, id: LaunchId, until_ns: u64) {
        if let Some(flight) = self.under_way(id)
            && flight.state != FlightState::Expired
        {
            flight.state = FlightState::Watched { until_ns };
        }
    }

    /// The same for one that was named.
    pub(super) fn watch_again(&mut self, id: LaunchId, until_ns: u64) {
        if let Some(flight) = self.under_way(id) {
            flight.state = FlightState::Watched { until_ns };
        }
    }

    fn under_way(&mut self, id: LaunchId) -> Option<&mut LaunchInFlight> {
        let place = id.0.checked_sub(self.flights.front()?.launch.id.0)?;
        let flight = self.flights.get_mut(usize::try_from(place).ok()?)?;
        (flight.state != FlightState::Done).then_some(flight)
    }

    /// Whether [`Flights::release`] would give something.
    pub(super) fn has_release(&self) -> bool {
        self.flights.front().is_some_and(|flight| flight.state == FlightState::Done)
    }

    /// The first, if it is complete.
    pub(super) fn release(&mut self) -> Option<Launch> {
        let first = self.flights.pop_front_if(|flight| flight.state == FlightState::Done);
        first.map(|flight| flight.launch)
    }

    /// One that is under way for too long, the first time that it is asked for.
    pub(super) fn expire(&mut self, now_ns: u64) -> Option<Launch> {
        let late = |state| matches!(state, FlightState::Watched { until_ns } if until_ns <= now_ns);
        let flight = self.flights.iter_mut().find(|flight| late(flight.state))?;
        flight.state = FlightState::Expired;
        Some(flight.launch)
    }

    /// When the watchdog names the next, as things are; `u64::MAX` is never.
    pub(super) fn expires_ns(&self) -> u64 {
        let until = |flight: &LaunchInFlight| match flight.state {
            FlightState::Watched { until_ns } => Some(until_ns),
            FlightState::Expired | FlightState::Done => None,
        };
        self.flights.iter().filter_map(until).min().unwrap_or(u64::MAX)
    }
}
