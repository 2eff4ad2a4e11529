//! A device in simulated time: its kernels, and the copies in both directions.

mod slices;

use std::collections::VecDeque;

use warpline_sched::{Arbiter, GrantId, Spent};

use crate::model::{DeviceModel, DeviceSharing, LinkModel};
use crate::outcome::{DeviceOutcome, Spans};
use slices::Slices;

/// Names a launch of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) chain: usize,
    pub(crate) stage: usize,
    pub(crate) slot: usize,
}

/// A kernel that waits or runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) ticket: Ticket,
    pub(crate) packets: u64,
    /// The time that it needs with the whole device.
    pub(crate) needs_ns: u64,
}

/// A server that works on one thing after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    free_ns: u64,
    /// All the work that it was given.
    given_ns: u64,
}

impl Server {
    /// Begins as soon as it is free. Returns when it begins and when it is done.
    pub(crate) fn serve(&mut self, lasts_ns: u64, now_ns: u64) -> (u64, u64) {
        let begins_ns = self.free_ns.max(now_ns);
        self.free_ns = begins_ns.saturating_add(lasts_ns);
        self.given_ns = self.given_ns.saturating_add(lasts_ns);
        (begins_ns, self.free_ns)
    }

    /// Counts work that is done elsewhere.
    pub(crate) fn count(&mut self, lasts_ns: u64) {
        self.given_ns = self.given_ns.saturating_add(lasts_ns);
    }

    /// How long it has worked by `now_ns`.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        self.given_ns.saturating_sub(self.free_ns.saturating_sub(now_ns))
    }
}

/// Copies in one direction.
#[derive(Clone, Debug)]
struct Copies {
    link: LinkModel,
    /// By engine; with instances, by tenant.
    engines: Vec<Server>,
    /// The factor by which each is slower, by tenant.
    slower: Vec<f64>,
    bytes: u64,
}

impl Copies {
    fn new(link: LinkModel, device: &DeviceModel) -> Self {
        let DeviceSharing::Instances(sevenths) = &device.sharing else {
            let engines = vec![Server::default(); link.engines];
            return Self { link, engines, slower: vec![1.0; device.tenants], bytes: 0 };
        };
        let slower = sevenths.iter().map(|&own| 7.0 / f64::from(own)).collect();
        Self { link, engines: vec![Server::default(); device.tenants], slower, bytes: 0 }
    }

    fn copy(&mut self, tenant: usize, (bytes, copies): (u64, u32), now_ns: u64) -> (u64, u64) {
        self.bytes += bytes;
        let is_divided = self.slower[tenant] > 1.0;
        let lasts_ns = (self.link.ns(bytes, copies) as f64 * self.slower[tenant]).round() as u64;
        let engine = match is_divided {
            true => &mut self.engines[tenant],
            false => self
                .engines
                .iter_mut()
                .min_by_key(|one| one.free_ns)
                .unwrap_or_else(|| unreachable!("each link has an engine")),
        };
        engine.serve(lasts_ns, now_ns)
    }
}

/// How kernels get the device.
enum Kernels {
    /// One server, or one for each instance with the factor by which it is slower.
    Servers {
        servers: Vec<Server>,
        slower: Vec<f64>,
        /// In the order of their ends.
        running: VecDeque<Running>,
    },
    /// One server whose kernels need a grant.
    Arbiter {
        arbiter: Box<Arbiter>,
        waiting: Vec<VecDeque<Kernel>>,
        running: Vec<(Running, GrantId)>,
    },
    Slices(Slices),
}

/// A kernel with its place in time.
struct Running {
    begins_ns: u64,
    ends_ns: u64,
    tenant: usize,
    kernel: Kernel,
}

impl Running {
    /// The time that is left of it.
    fn left_ns(&self, now_ns: u64) -> u64 {
        self.ends_ns.saturating_sub(self.begins_ns.max(now_ns))
    }
}

/// See the module.
pub(crate) struct Device {
    index: usize,
    kernels: Kernels,
    to_device: Option<Copies>,
    to_host: Option<Copies>,
    server: Server,
    /// Kernel time by tenant.
    busy_ns: Vec<u64>,
    /// Counts changes, so that an event of an earlier state is recognised.
    pub(crate) generation: u64,
}

impl Device {
    pub(crate) fn new(index: usize, model: &DeviceModel) -> Self {
        let kernels = match &model.sharing {
            DeviceSharing::InOrder => Kernels::Servers {
                servers: vec![Server::default()],
                slower: vec![1.0; model.tenants],
                running: VecDeque::new(),
            },
            DeviceSharing::Instances(sevenths) => Kernels::Servers {
                servers: vec![Server::default(); model.tenants],
                slower: sevenths.iter().map(|&own| 7.0 / f64::from(own)).collect(),
                running: VecDeque::new(),
            },
            DeviceSharing::Arbiter(sharing, slots) => {
                let mut arbiter = Arbiter::new(sharing, slots)
                    .unwrap_or_else(|_| unreachable!("scenarios are checked"));
                (0..model.tenants).for_each(|tenant| arbiter.handle_present(tenant, true, 0));
                let waiting = vec![VecDeque::new(); model.tenants];
                Kernels::Arbiter { arbiter: Box::new(arbiter), waiting, running: Vec::new() }
            }
            DeviceSharing::Slices { policy, slice_ns, switch_ns, slots } => Kernels::Slices(
                Slices::new(*policy, (*slice_ns, *switch_ns), (model.tenants, *slots)),
            ),
        };
        Self {
            index,
            kernels,
            to_device: model.to_device.map(|link| Copies::new(link, model)),
            to_host: model.to_host.map(|link| Copies::new(link, model)),
            server: Server::default(),
            busy_ns: vec![0; model.tenants],
            generation: 0,
        }
    }

    /// Copies to the device; returns when the copy begins and ends.
    pub(crate) fn copy_in(&mut self, tenant: usize, what: (u64, u32), now: u64) -> (u64, u64) {
        self.to_device.as_mut().map_or((now, now), |copies| copies.copy(tenant, what, now))
    }

    /// The same to the host.
    pub(crate) fn copy_out(&mut self, tenant: usize, what: (u64, u32), now: u64) -> (u64, u64) {
        self.to_host.as_mut().map_or((now, now), |copies| copies.copy(tenant, what, now))
    }

    /// Its use by `now_ns`, until which it was polled.
    pub(crate) fn outcome(&self, now_ns: u64) -> DeviceOutcome {
        let bytes = |copies: &Option<Copies>| copies.as_ref().map_or(0, |copies| copies.bytes);
        let mut busy_ns = self.busy_ns.clone();
        let mut take_off = |one: &Running| busy_ns[one.tenant] -= one.left_ns(now_ns);
        match &self.kernels {
            Kernels::Servers { running, .. } => running.iter().for_each(&mut take_off),
            Kernels::Arbiter { running, .. } => {
                running.iter().map(|(one, _)| one).for_each(&mut take_off);
            }
            Kernels::Slices(_) => {}
        }
        DeviceOutcome {
            busy_ns,
            to_device_bytes: bytes(&self.to_device),
            to_host_bytes: bytes(&self.to_host),
        }
    }

    /// Packets came for a tenant.
    pub(crate) fn arrive(&mut self, tenant: usize, packets: u64, now_ns: u64) {
        if let Kernels::Arbiter { arbiter, .. } = &mut self.kernels {
            arbiter.handle_arrivals(tenant, packets, now_ns);
        }
    }

    /// The input of a kernel is there.
    pub(crate) fn submit(&mut self, tenant: usize, kernel: Kernel, now_ns: u64, spans: &mut Spans) {
        match &mut self.kernels {
            Kernels::Servers { servers, slower, running } => {
                let needs_ns = (kernel.needs_ns as f64 * slower[tenant]).round() as u64;
                let at = tenant.min(servers.len() - 1);
                let (begins_ns, ends_ns) = servers[at].serve(needs_ns, now_ns);
                self.busy_ns[tenant] += needs_ns;
                spans.add(self.index, tenant, "kernel", (begins_ns, ends_ns));
                let place = running.partition_point(|other| other.ends_ns <= ends_ns);
                running.insert(place, Running { begins_ns, ends_ns, tenant, kernel });
            }
            Kernels::Arbiter { arbiter, waiting, .. } => {
                arbiter.handle_request(tenant, now_ns);
                waiting[tenant].push_back(kernel);
            }
            Kernels::Slices(slices) => slices.submit(tenant, kernel),
        }
    }

    /// Counts a kernel that runs on the CPU's cores.
    pub(crate) fn count(&mut self, tenant: usize, needs_ns: u64) {
        self.busy_ns[tenant] += needs_ns;
    }

    /// Kernels that are done by now.
    pub(crate) fn poll(&mut self, now_ns: u64, spans: &mut Spans, done: &mut Vec<Kernel>) {
        match &mut self.kernels {
            Kernels::Servers { running, .. } => {
                while let Some(one) = running.pop_front_if(|one| one.ends_ns <= now_ns) {
                    done.push(one.kernel);
                }
            }
            Kernels::Arbiter { arbiter, waiting, running } => {
                running.sort_by_key(|(one, _)| one.ends_ns);
                while running.first().is_some_and(|(one, _)| one.ends_ns <= now_ns) {
                    let (Running { begins_ns, ends_ns, kernel, .. }, grant) = running.remove(0);
                    let device_ns = Some(ends_ns - begins_ns);
                    let spent = Spent { packets: kernel.packets, device_ns };
                    arbiter.handle_done(grant, &spent, now_ns);
                    done.push(kernel);
                }
                while let Some(grant) = arbiter.poll_grant(now_ns) {
                    let Some(kernel) = waiting[grant.tenant].pop_front() else { break };
                    let tenant = grant.tenant;
                    let (begins_ns, ends_ns) = self.server.serve(kernel.needs_ns, now_ns);
                    self.busy_ns[tenant] += kernel.needs_ns;
                    spans.add(self.index, tenant, "kernel", (begins_ns, ends_ns));
                    running.push((Running { begins_ns, ends_ns, tenant, kernel }, grant.id));
                }
            }
            Kernels::Slices(slices) => {
                slices.poll(now_ns, (self.index, &mut self.busy_ns), spans, done);
            }
        }
    }

    /// When to poll again, if nothing is submitted before.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        match &self.kernels {
            Kernels::Servers { running, .. } => running.front().map(|one| one.ends_ns),
            Kernels::Arbiter { arbiter, running, .. } => {
                let ends = running.iter().map(|(one, _)| one.ends_ns).min();
                [ends, arbiter.poll_timeout()].into_iter().flatten().min()
            }
            Kernels::Slices(slices) => slices.next_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_work_until_the_end_of_time() {
        let mut server = Server::default();
        assert_eq!(server.serve(u64::MAX, 5), (5, u64::MAX));
        assert_eq!(server.serve(1, 6), (u64::MAX, u64::MAX));
    }
}
