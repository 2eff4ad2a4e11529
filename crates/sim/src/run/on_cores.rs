//! Work of threads, on cores that they share if the scenario limits them.

use super::{Event, Run};
use crate::cores::Cores;
use crate::device::Ticket;
use crate::model::Scenario;
use crate::traffic::Batch;

/// Work of a thread.
pub(super) enum Work {
    /// The reader of a chain hands a batch over.
    Read { chain: usize, batch: Batch },
    /// A lane is done with a batch for a stage.
    Stage { chain: usize, stage: usize },
    /// A kernel on the CPU is done.
    Kernel { ticket: Ticket, since_ns: u64 },
    /// A lane is done with a launch.
    After(Ticket),
    /// The sender of a chain is done with a batch.
    Sent { chain: usize, batch: Batch },
    /// A thread goes to rest, which delays nothing that it did before.
    Rest,
}

/// The cores of a scenario. Its threads are lanes, then those that read and send, then one for each
/// device.
pub(super) fn cores(scenario: &Scenario) -> Option<Cores<Work>> {
    let threads = scenario.lanes + scenario.threads + scenario.devices.len();
    scenario.cores.map(|count| Cores::new(count, threads))
}

impl Run<'_> {
    /// A batch arrived; its reader takes it in.
    pub(super) fn read(&mut self, chain: usize, batch: Batch, now_ns: u64) {
        let Some(reader) = self.chains[chain].model.reader else {
            return self.arrive(chain, batch, now_ns);
        };
        // Delays count from the time at which a batch was begun.
        let read = Batch { oldest_ns: now_ns, newest_ns: now_ns, ..batch };
        let lasts_ns = reader.cost.ns(batch.packets, batch.bytes);
        let thread = self.scenario.lanes + reader.thread;
        self.occupy((thread, reader.wake_ns), lasts_ns, Work::Read { chain, batch: read }, now_ns);
    }

    /// A batch passed all stages.
    pub(super) fn send(&mut self, chain: usize, batch: Batch, now_ns: u64) {
        let Some(sender) = self.chains[chain].model.sender else {
            return self.chains[chain].send(batch, now_ns);
        };
        let lasts_ns = sender.cost.ns(batch.packets, batch.bytes);
        let thread = self.scenario.lanes + sender.thread;
        self.occupy((thread, sender.wake_ns), lasts_ns, Work::Sent { chain, batch }, now_ns);
    }

    /// Whether the kernels of a device run on shared cores.
    pub(super) fn is_on_cores(&self, device: usize) -> bool {
        self.cores.is_some() && self.scenario.devices[device].is_on_cores
    }

    /// The thread of a device.
    pub(super) fn kernel_thread(&self, device: usize) -> usize {
        self.scenario.lanes + self.scenario.threads + device
    }

    /// Gives work to a lane.
    pub(super) fn occupy_lane(&mut self, lane: usize, lasts_ns: u64, work: Work, now_ns: u64) {
        if self.cores.is_some() {
            self.lanes[lane].busy_ns += lasts_ns;
            let wake_ns = self.scenario.lane_wake_ns;
            return self.occupy((lane, wake_ns), lasts_ns, work, now_ns);
        }
        let (_, ends_ns) = self.lanes[lane].serve(lasts_ns, now_ns);
        let event = match work {
            Work::Stage { chain, stage } => Event::Worked { chain, stage },
            Work::After(ticket) => Event::Finished(ticket),
            Work::Read { .. } | Work::Kernel { .. } | Work::Sent { .. } | Work::Rest => return,
        };
        self.events.add(ends_ns, event);
    }

    /// Gives work to a thread. If it rested, waking and resting again take some time, too.
    pub(super) fn occupy(
        &mut self,
        (thread, wake_ns): (usize, u64),
        lasts_ns: u64,
        work: Work,
        now_ns: u64,
    ) {
        let Some(cores) = &mut self.cores else { return };
        let rests = cores.rests(thread, now_ns);
        cores.add(thread, (lasts_ns, work), now_ns);
        if rests && wake_ns > 0 {
            cores.add(thread, (wake_ns, Work::Rest), now_ns);
        }
        self.look_at_cores();
    }

    fn look_at_cores(&mut self) {
        let Some(cores) = &self.cores else { return };
        if let Some(next_ns) = cores.next_ns() {
            self.events.add(next_ns, Event::Cores { generation: cores.generation });
        }
    }

    pub(super) fn poll_cores(&mut self, generation: u64, now_ns: u64) {
        let Some(cores) = self.cores.as_mut().filter(|cores| cores.generation == generation) else {
            return;
        };
        let mut done = Vec::new();
        cores.poll(now_ns, &mut done);
        for work in done {
            self.worked_on(work, now_ns);
        }
        self.look_at_cores();
    }

    fn worked_on(&mut self, work: Work, now_ns: u64) {
        match work {
            Work::Read { chain, batch } => self.arrive(chain, batch, now_ns),
            Work::Stage { chain, stage } => self.worked(chain, stage, now_ns),
            Work::After(ticket) => self.handle(Event::Finished(ticket), now_ns),
            Work::Sent { chain, batch } => self.chains[chain].send(batch, now_ns),
            Work::Rest => {}
            Work::Kernel { ticket, since_ns } => {
                let own = &self.chains[ticket.chain].stages[ticket.stage];
                let Some(device) = &own.device else { return };
                let (at, tenant) = (device.work.device, device.work.tenant);
                self.events.add(now_ns + device.work.latency_ns, Event::Ran(ticket));
                self.spans.add(at, tenant, "kernel", (since_ns, now_ns));
            }
        }
    }
}
