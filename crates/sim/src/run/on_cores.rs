//! Work of threads, on cores that they share if the scenario limits them.

use std::ops::Range;

use super::{Event, Run};
use crate::chain::State;
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
    /// A reader woke its lane for a batch.
    Rang { chain: usize, is_full: bool },
    /// A reader goes to rest for so long, or until the next packet comes.
    ReaderRests { chain: usize, nap_ns: Option<u64> },
}

/// The cores of a scenario. Its threads are lanes, then those that read and send, then one for each
/// device.
pub(super) fn cores(scenario: &Scenario) -> Option<Cores<Work>> {
    let of_devices = (0..scenario.devices.len()).map(|device| scenario.threads_of(device));
    let threads = scenario.lanes + scenario.threads + of_devices.sum::<usize>();
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
        self.occupy_woken((thread, sender.wake_ns), lasts_ns, Work::Sent { chain, batch }, now_ns);
    }

    /// Whether the kernels of a device run on shared cores.
    pub(super) fn is_on_cores(&self, device: usize) -> bool {
        self.cores.is_some() && self.scenario.devices[device].is_on_cores
    }

    /// The threads of a device.
    pub(super) fn kernel_threads(&self, device: usize) -> Range<usize> {
        let scenario = self.scenario;
        let before = (0..device).map(|device| scenario.threads_of(device)).sum::<usize>();
        let first = scenario.lanes + scenario.threads + before;
        first..first + scenario.threads_of(device)
    }

    /// A kernel begins, in equal parts on the threads of its device.
    pub(super) fn begin_kernel(
        &mut self,
        ticket: Ticket,
        (at, needs_ns): (usize, u64),
        now_ns: u64,
    ) {
        let threads = self.kernel_threads(at);
        self.parts.push((ticket, threads.len()));
        let part_ns = needs_ns.div_ceil(threads.len() as u64);
        for thread in threads {
            let kernel = Work::Kernel { ticket, since_ns: now_ns };
            self.occupy_woken((thread, 0), part_ns, kernel, now_ns);
        }
    }

    /// Whether the last part of a kernel is done.
    fn is_kernel_done(&mut self, ticket: Ticket) -> bool {
        let Some(at) = self.parts.iter().position(|(own, _)| *own == ticket) else { return false };
        self.parts[at].1 -= 1;
        let is_done = self.parts[at].1 == 0;
        if is_done {
            self.parts.swap_remove(at);
        }
        is_done
    }

    /// Gives work to a lane.
    pub(super) fn occupy_lane(
        &mut self,
        (lane, chain): (usize, usize),
        lasts_ns: u64,
        work: Work,
        now_ns: u64,
    ) {
        self.chains[chain].lane.works += 1;
        if self.cores.is_some() {
            self.lanes[lane].count(lasts_ns);
            let wake_ns = if self.lane_rests() { 0 } else { self.scenario.lane_wake_ns };
            return self.occupy((lane, wake_ns), lasts_ns, work, now_ns);
        }
        let (_, ends_ns) = self.lanes[lane].serve(lasts_ns, now_ns);
        let event = match work {
            Work::Stage { chain, stage } => Event::Worked { chain, stage },
            Work::After(ticket) => Event::Finished(ticket),
            _ => return,
        };
        self.events.add(ends_ns, event);
    }

    /// Gives work to a thread that something else wakes, which takes some time.
    pub(super) fn occupy_woken(
        &mut self,
        (thread, wake_ns): (usize, u64),
        lasts_ns: u64,
        work: Work,
        now_ns: u64,
    ) {
        let rests = self.cores.as_ref().is_some_and(|cores| cores.rests(thread, now_ns));
        let late_ns = if rests { self.scenario.wake_late_ns } else { 0 };
        let wake_ns = wake_ns.saturating_sub(late_ns);
        self.occupy((thread, wake_ns), lasts_ns + late_ns, work, now_ns);
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
            Work::Read { chain, batch } => {
                let own = &self.chains[chain];
                let lane_waited = own.lane.state == State::Waits;
                let is_full = batch.packets == own.model.batch_packets;
                self.arrive(chain, batch, now_ns);
                self.after_read(chain, (lane_waited, is_full), now_ns);
            }
            Work::Stage { chain, stage } => self.worked(chain, stage, now_ns),
            Work::After(ticket) => self.handle(Event::Finished(ticket), now_ns),
            Work::Sent { chain, batch } => self.chains[chain].send(batch, now_ns),
            Work::Rest => {}
            Work::Rang { chain, is_full } => self.reads_on(chain, is_full, now_ns),
            Work::ReaderRests { chain, nap_ns } => self.reader_rests_for(chain, nap_ns, now_ns),
            Work::Kernel { ticket, since_ns } => {
                if !self.is_kernel_done(ticket) {
                    return;
                }
                let own = &self.chains[ticket.chain].stages[ticket.stage];
                let Some(device) = &own.device else { return };
                let (at, tenant) = (device.work.device, device.work.tenant);
                self.events.add(now_ns + device.work.latency_ns, Event::Ran(ticket));
                self.spans.add(at, tenant, "kernel", (since_ns, now_ns));
            }
        }
    }
}
