//! The time slices of a device's own scheduler, as virtual GPUs have them. They preempt kernels.
//!
//! With `best_effort` tenants with work take turns, and a tenant without work yields. The other
//! policies divide time into periodic slots, of the tenants (`equal_share`) or of the device
//! (`fixed_share`), whether or not they have work.

use std::collections::VecDeque;

use warpline_sched::Policy;

use super::Kernel;
use crate::outcome::Spans;

/// See the module.
pub(super) struct Slices {
    policy: Policy,
    slice_ns: u64,
    switch_ns: u64,
    /// Slots of a period.
    period: u64,
    /// Kernels by tenant; `needs_ns` of the first is what is left of it.
    queues: Vec<VecDeque<Kernel>>,
    turn: Option<Turn>,
    /// The last tenant that ran.
    last: Option<usize>,
    /// Everything until then is accounted for.
    clock_ns: u64,
    /// Time lost to switches.
    pub(super) switched_ns: u64,
}

#[derive(Clone, Copy)]
struct Turn {
    tenant: usize,
    /// When kernels may run.
    ready_ns: u64,
    ends_ns: u64,
}

impl Slices {
    pub(super) fn new(
        policy: Policy,
        (slice_ns, switch_ns): (u64, u64),
        (tenants, slots): (usize, usize),
    ) -> Self {
        let period = if policy == Policy::FixedShare { slots } else { tenants };
        Self {
            policy,
            slice_ns,
            switch_ns,
            period: period.max(1) as u64,
            queues: vec![VecDeque::new(); tenants],
            turn: None,
            last: None,
            clock_ns: 0,
            switched_ns: 0,
        }
    }

    pub(super) fn submit(&mut self, tenant: usize, kernel: Kernel) {
        self.queues[tenant].push_back(kernel);
    }

    fn has_work(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Brings the state to `now_ns`.
    pub(super) fn poll(
        &mut self,
        now_ns: u64,
        (device, busy_ns): (usize, &mut [u64]),
        spans: &mut Spans,
        done: &mut Vec<Kernel>,
    ) {
        loop {
            let Some(turn) = self.turn else {
                match self.has_work() {
                    true if self.open(now_ns) => continue,
                    _ => break,
                }
            };
            let begins_ns = self.clock_ns.max(turn.ready_ns);
            let Some(first) = self.queues[turn.tenant].front_mut() else {
                if self.policy != Policy::BestEffort && turn.ends_ns > now_ns {
                    break;
                }
                self.turn = None;
                continue;
            };
            let until_ns = turn.ends_ns.min(now_ns).max(begins_ns);
            let ran_ns = first.needs_ns.min(until_ns - begins_ns);
            first.needs_ns -= ran_ns;
            busy_ns[turn.tenant] += ran_ns;
            spans.add(device, turn.tenant, "kernel", (begins_ns, begins_ns + ran_ns));
            self.clock_ns = begins_ns.min(now_ns).max(self.clock_ns) + ran_ns;
            let is_done = first.needs_ns == 0;
            if is_done {
                done.extend(self.queues[turn.tenant].pop_front());
            } else if turn.ends_ns <= now_ns {
                self.clock_ns = self.clock_ns.max(turn.ends_ns);
                self.turn = None;
            } else {
                break;
            }
        }
        self.clock_ns = self.clock_ns.max(now_ns);
    }

    /// Opens the next turn. Returns false if no tenant can run before `now_ns` or at it.
    fn open(&mut self, now_ns: u64) -> bool {
        match self.policy {
            Policy::BestEffort | Policy::RateProportional => self.open_next(),
            Policy::EqualShare | Policy::FixedShare => self.open_slot(now_ns),
        }
    }

    fn open_next(&mut self) -> bool {
        let count = self.queues.len();
        let first = self.last.map_or(0, |last| last + 1);
        let with_work = (0..count).map(|step| (first + step) % count);
        let Some(tenant) = with_work.into_iter().find(|&one| !self.queues[one].is_empty()) else {
            return false;
        };
        let switch_ns = if self.last == Some(tenant) { 0 } else { self.switch_ns };
        self.switched_ns += switch_ns;
        let ready_ns = self.clock_ns + switch_ns;
        self.turn = Some(Turn { tenant, ready_ns, ends_ns: ready_ns + self.slice_ns });
        self.last = Some(tenant);
        true
    }

    /// The slot at the clock, or the next one whose tenant has work.
    fn open_slot(&mut self, now_ns: u64) -> bool {
        loop {
            let number = self.clock_ns / self.slice_ns;
            let (begins_ns, tenant) = (number * self.slice_ns, (number % self.period) as usize);
            let ends_ns = begins_ns + self.slice_ns;
            if self.queues.get(tenant).is_some_and(|queue| !queue.is_empty()) {
                let ready_ns = begins_ns + self.switch_ns;
                self.turn = Some(Turn { tenant, ready_ns, ends_ns });
                return true;
            }
            if ends_ns > now_ns {
                return false;
            }
            self.clock_ns = ends_ns;
        }
    }

    /// When something changes by itself.
    pub(super) fn next_ns(&self) -> Option<u64> {
        if !self.has_work() {
            return None;
        }
        let slot_end_ns = (self.clock_ns / self.slice_ns + 1) * self.slice_ns;
        let Some(turn) = self.turn else { return Some(slot_end_ns) };
        let done_ns = self.queues[turn.tenant]
            .front()
            .map(|first| self.clock_ns.max(turn.ready_ns) + first.needs_ns);
        Some(done_ns.map_or(turn.ends_ns, |done_ns| done_ns.min(turn.ends_ns)))
    }
}
