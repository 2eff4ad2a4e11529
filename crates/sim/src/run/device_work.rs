//! A launch from its start to its end: copies, the kernel, and the work of the host after it.

use warpline_sched::Launch;

use super::{Event, Run, Work};
use crate::device::{Kernel, Ticket};

impl Run<'_> {
    pub(super) fn launch(&mut self, chain: usize, stage: usize, now_ns: u64) -> bool {
        let own = &mut self.chains[chain].stages[stage];
        // A lane on a core hands over the batch that it has begun before it looks at deadlines.
        if self.cores.is_some() && own.working.is_some() {
            return false;
        }
        let Some(device) = &mut own.device else { return false };
        let Some(Launch { packets, bytes, slot, .. }) = device.start(now_ns) else { return false };
        let (at, tenant) = (device.work.device, device.work.tenant);
        let crossing = device.work.to_device;
        let what = (crossing.bytes(packets as u64, bytes as u64), crossing.copies);
        let span = self.devices[at].copy_in(tenant, what, now_ns);
        self.spans.add(at, tenant, "to device", span);
        let counts = &mut self.chains[chain].counts.stages[stage];
        counts.launches += 1;
        counts.copy_in_ns += span.1 - now_ns;
        self.report(chain, stage, now_ns);
        self.events.add(span.1, Event::Copied(Ticket { chain, stage, slot }));
        true
    }

    pub(super) fn submit(&mut self, ticket: Ticket, now_ns: u64) {
        let own = &mut self.chains[ticket.chain];
        let Some(device) = &own.stages[ticket.stage].device else { return };
        let Some(launch) = device.launch(ticket.slot) else { return };
        let (packets, bytes) = (launch.packets as u64, launch.bytes as u64);
        let needs_ns = device.work.kernel.ns(packets, bytes);
        let (at, tenant) = (device.work.device, device.work.tenant);
        own.counts.stages[ticket.stage].work_ns += needs_ns;
        if self.is_on_cores(at) {
            self.devices[at].count(tenant, needs_ns);
            return self.begin_kernel(ticket, (at, needs_ns), now_ns);
        }
        self.poll_device(at, now_ns);
        let kernel = Kernel { ticket, packets, needs_ns };
        self.devices[at].submit(tenant, kernel, now_ns, &mut self.spans);
        self.poll_device(at, now_ns);
    }

    pub(super) fn poll_device(&mut self, at: usize, now_ns: u64) {
        let mut done = std::mem::take(&mut self.done);
        let device = &mut self.devices[at];
        device.poll(now_ns, &mut self.spans, &mut done);
        device.generation += 1;
        if let Some(next_ns) = device.next_ns() {
            let generation = device.generation;
            let event = Event::Device { device: at, generation };
            self.events.add(next_ns.max(now_ns), event);
        }
        for kernel in done.drain(..) {
            let stage = &self.chains[kernel.ticket.chain].stages[kernel.ticket.stage];
            let latency_ns = stage.device.as_ref().map_or(0, |device| device.work.latency_ns);
            self.events.add(now_ns + latency_ns, Event::Ran(kernel.ticket));
        }
        self.done = done;
    }

    pub(super) fn copy_out(&mut self, ticket: Ticket, now_ns: u64) {
        let own = &self.chains[ticket.chain].stages[ticket.stage];
        let Some(device) = &own.device else { return };
        let Some(launch) = device.launch(ticket.slot) else { return };
        let crossing = device.work.to_host;
        let bytes = crossing.bytes(launch.packets as u64, launch.bytes as u64);
        let (at, tenant) = (device.work.device, device.work.tenant);
        let span = self.devices[at].copy_out(tenant, (bytes, crossing.copies), now_ns);
        self.spans.add(at, tenant, "to host", span);
        let counts = &mut self.chains[ticket.chain].counts.stages[ticket.stage];
        counts.copy_out_ns += span.1 - now_ns;
        self.events.add(span.1, Event::Returned(ticket));
    }

    /// The lane does its part of a launch that is done. Returns whether that takes no time.
    pub(super) fn after(&mut self, ticket: Ticket, now_ns: u64) -> bool {
        let own = &self.chains[ticket.chain].stages[ticket.stage];
        let Some(device) = &own.device else { return false };
        let Some(launch) = device.launch(ticket.slot) else { return false };
        let lasts_ns = device.work.after.ns(launch.packets as u64, launch.bytes as u64);
        let lane = (device.work.lane, ticket.chain);
        match lasts_ns {
            0 => self.finish(ticket, now_ns),
            _ => self.occupy_lane(lane, lasts_ns, Work::After(ticket), now_ns),
        }
        lasts_ns == 0
    }

    pub(super) fn finish(&mut self, ticket: Ticket, now_ns: u64) {
        if let Some(device) = &mut self.chains[ticket.chain].stages[ticket.stage].device {
            device.finish(ticket.slot, now_ns);
        }
    }
}
