//! Threads that wake by timers, and when a lane notices that a launch is done.

use warpline_sched::LOOK_NS;

use super::{Event, Run};
use crate::device::Ticket;

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

    /// A kernel is done. A lane that looks now and then notices it later.
    pub(super) fn ran(&mut self, ticket: Ticket, now_ns: u64) {
        if self.scenario.timer_late_ns.is_empty() {
            return self.copy_out(ticket, now_ns);
        }
        let mut at_ns = self.chains[ticket.chain].looked_ns;
        while at_ns < now_ns {
            at_ns += LOOK_NS + self.late_ns();
        }
        self.chains[ticket.chain].unseen.push(ticket);
        self.events.add(at_ns, Event::Looks { chain: ticket.chain });
    }

    /// A lane that is not in the middle of a batch notices what is done.
    pub(super) fn look(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain];
        if own.stages.iter().any(|stage| stage.working.is_some()) {
            return;
        }
        own.looked_ns = now_ns;
        for ticket in std::mem::take(&mut own.unseen) {
            self.copy_out(ticket, now_ns);
        }
    }
}
