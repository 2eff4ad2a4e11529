//! Lanes that rest: by timers, which wake them late, and until something wakes them. A lane notices
//! that a launch is done when it looks.

use warpline_sched::LOOK_NS;

use super::{Event, Run, Work};
use crate::chain::State;
use crate::device::Ticket;

/// The shortest rest.
const REST_LEAST_NS: u64 = 1_000;

impl Run<'_> {
    /// How late the next timer is.
    pub(super) fn late_ns(&mut self) -> u64 {
        let all = &self.scenario.timer_late_ns;
        if all.is_empty() {
            return 0;
        }
        let at = (self.timers.unit() * all.len() as f64).ceil() as usize;
        all[at - 1]
    }

    /// Whether lanes rest. Others notice everything at once.
    pub(super) fn lane_rests(&self) -> bool {
        !self.scenario.timer_late_ns.is_empty()
    }

    /// Something came for the lane of a chain.
    pub(super) fn ring(&mut self, chain: usize, now_ns: u64) {
        if !self.lane_rests() {
            return self.serve(chain, now_ns);
        }
        let own = &mut self.chains[chain].lane;
        if own.state == State::Waits {
            own.state = State::Woken;
            own.generation += 1;
            let event = Event::LaneWakes { chain, generation: own.generation };
            self.events.add(now_ns + self.scenario.wake_late_ns, event);
        }
    }

    pub(super) fn lane_wakes(&mut self, chain: usize, generation: u64, now_ns: u64) {
        let own = &mut self.chains[chain].lane;
        if own.generation == generation {
            own.generation += 1;
            (own.state, own.has_woken) = (State::Works, true);
            self.serve(chain, now_ns);
        }
    }

    /// The output of a launch is on the host.
    pub(super) fn returned(&mut self, ticket: Ticket, now_ns: u64) {
        if self.lane_rests() {
            return self.chains[ticket.chain].unseen.push(ticket);
        }
        if self.after(ticket, now_ns) {
            self.serve(ticket.chain, now_ns);
        }
    }

    /// A lane that is not in the middle of a batch notices launches that are done. Returns whether
    /// there were any.
    pub(super) fn look(&mut self, chain: usize, now_ns: u64) -> bool {
        let own = &mut self.chains[chain];
        if own.unseen.is_empty() || own.stages.iter().any(|stage| stage.working.is_some()) {
            return false;
        }
        for ticket in std::mem::take(&mut own.unseen) {
            self.after(ticket, now_ns);
        }
        true
    }

    /// A lane has done what it could. Without work it rests.
    pub(super) fn rest_lane(&mut self, chain: usize, has_worked: bool, now_ns: u64) {
        let own = &mut self.chains[chain].lane;
        if has_worked {
            own.naps.handle_work(|| now_ns);
        }
        if own.works > 0 || own.state != State::Works {
            return;
        }
        let limit_ns = self.lane_rest_at_most(chain, now_ns).max(REST_LEAST_NS);
        let own = &mut self.chains[chain].lane;
        let nap_ns = own.naps.poll_nap(0, now_ns);
        own.state = if nap_ns.is_some() { State::Naps } else { State::Waits };
        let rests_ns = nap_ns.unwrap_or(u64::MAX).min(limit_ns);
        let generation = own.generation;
        if rests_ns < u64::MAX {
            let at_ns = now_ns.saturating_add(rests_ns).saturating_add(self.late_ns());
            self.events.add(at_ns, Event::LaneWakes { chain, generation });
        }
        self.charge_wake(chain, now_ns);
    }

    /// A lane that woke and rests again takes time for both.
    fn charge_wake(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain];
        let wake_ns = self.scenario.lane_wake_ns.saturating_sub(self.scenario.wake_late_ns);
        if std::mem::take(&mut own.lane.has_woken) && wake_ns > 0 {
            let lane = own.model.stages[0].place.lane();
            self.occupy((lane, 0), wake_ns, Work::Rest, now_ns);
        }
    }

    /// Until the next deadline, or the next look at launches.
    fn lane_rest_at_most(&self, chain: usize, now_ns: u64) -> u64 {
        let devices = self.chains[chain].stages.iter().filter_map(|stage| stage.device.as_ref());
        let rest = devices.map(|device| {
            let next = device.batcher.poll_timeout();
            let next_ns = next.map_or(u64::MAX, |next_ns| next_ns.saturating_sub(now_ns));
            if device.batcher.in_flight() > 0 { next_ns.min(LOOK_NS) } else { next_ns }
        });
        rest.min().unwrap_or(u64::MAX)
    }
}
