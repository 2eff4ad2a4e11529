//! A device and its tenants in virtual time. The device runs launches one after the other, as they
//! are granted.

use std::collections::VecDeque;

use super::*;

/// The work of a tenant.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) slots: usize,
    pub(super) present: bool,
    /// Time between two launches; none if there is always another one.
    pub(super) every_ns: Option<u64>,
    /// Device time of a launch, with the spread around it.
    pub(super) cost_ns: u64,
    pub(super) spread_ns: u64,
    pub(super) packets: u64,
    /// Whether the device measures its launches.
    pub(super) measured: bool,
}

impl Load {
    /// Always has a launch of `cost_ns`.
    pub(super) fn busy(cost_ns: u64) -> Self {
        let (slots, present, every_ns) = (1, true, None);
        Self { slots, present, every_ns, cost_ns, spread_ns: 0, packets: 1, measured: true }
    }

    /// Present without work.
    pub(super) fn idle() -> Self {
        Self { every_ns: Some(u64::MAX / 2), ..Self::busy(1) }
    }

    pub(super) fn absent() -> Self {
        Self { present: false, ..Self::busy(1) }
    }
}

struct Running {
    grant: Grant,
    started_ns: u64,
    end_ns: u64,
}

/// See the module.
pub(super) struct World {
    pub(super) arbiter: Arbiter,
    loads: Vec<Load>,
    running: VecDeque<Running>,
    /// When the next launch of each tenant comes.
    next_ns: Vec<u64>,
    /// The device time of the second launch of a pair.
    second_ns: Vec<Option<u64>>,
    requested: Vec<u64>,
    granted: Vec<u64>,
    /// Device time of launches that ended.
    pub(super) used_ns: Vec<u64>,
    /// Whether evidence is read between events.
    pub(super) is_watched: bool,
    now_ns: u64,
    random: u64,
}

impl World {
    pub(super) fn new(sharing: &Sharing, loads: &[Load], seed: u64) -> Self {
        let slots: Vec<usize> = loads.iter().map(|load| load.slots).collect();
        let mut arbiter = Arbiter::new(sharing, &slots).unwrap();
        for (tenant, load) in loads.iter().enumerate() {
            arbiter.handle_present(tenant, load.present, 0);
        }
        let first = |load: &Load| load.every_ns.map_or(0, |every_ns| every_ns / 2);
        Self {
            arbiter,
            loads: loads.to_vec(),
            running: VecDeque::new(),
            next_ns: loads.iter().map(first).collect(),
            second_ns: vec![None; loads.len()],
            requested: vec![0; loads.len()],
            granted: vec![0; loads.len()],
            used_ns: vec![0; loads.len()],
            is_watched: false,
            now_ns: 0,
            random: seed | 1,
        }
    }

    /// Runs until `until_ns`.
    pub(super) fn run(&mut self, until_ns: u64) {
        while self.now_ns < until_ns {
            self.end_launches();
            self.make_requests();
            self.take_grants();
            self.check();
            let ends = self.running.front().map(|first| first.end_ns);
            let paced = self.loads.iter().zip(&self.next_ns);
            let arrives = paced.filter(|(load, _)| load.every_ns.is_some()).map(|(_, &next)| next);
            let polls = self.arbiter.poll_timeout().map(|at_ns| at_ns.max(self.now_ns));
            let next = arrives.chain(ends).chain(polls).min().unwrap_or(until_ns);
            assert!(next > self.now_ns, "nothing changes by polling again");
            let next = next.min(until_ns);
            if self.is_watched {
                let between_ns =
                    self.now_ns + next.wrapping_mul(self.now_ns | 1) % (next - self.now_ns);
                self.arbiter.evidence(between_ns);
            }
            self.now_ns = next;
        }
    }

    /// The part of the time that `tenant` used the device.
    pub(super) fn share(&self, tenant: usize) -> f64 {
        self.used_ns[tenant] as f64 / self.now_ns as f64
    }

    pub(super) fn set_every_ns(&mut self, tenant: usize, every_ns: u64) {
        self.loads[tenant].every_ns = Some(every_ns);
    }

    fn end_launches(&mut self) {
        while let Some(done) = self.running.pop_front_if(|first| first.end_ns <= self.now_ns) {
            let tenant = done.grant.tenant;
            let took_ns = done.end_ns - done.started_ns;
            self.used_ns[tenant] += took_ns;
            let load = &self.loads[tenant];
            let device_ns = load.measured.then_some(took_ns);
            let spent = Spent { packets: load.packets, device_ns };
            assert!(self.arbiter.handle_done(done.grant.id, &spent, self.now_ns));
        }
    }

    fn make_requests(&mut self) {
        for tenant in 0..self.loads.len() {
            let load = self.loads[tenant].clone();
            while let Some(every_ns) = load.every_ns
                && self.next_ns[tenant] <= self.now_ns
            {
                self.next_ns[tenant] += every_ns;
                self.arbiter.handle_arrivals(tenant, load.packets, self.now_ns);
                self.request(tenant);
            }
            while load.every_ns.is_none() && load.present && self.arbiter.waiting(tenant) < 4 {
                self.request(tenant);
            }
        }
    }

    fn request(&mut self, tenant: usize) {
        let taken = self.arbiter.handle_request(tenant, self.now_ns);
        assert_eq!(taken, self.loads[tenant].present);
        self.requested[tenant] += u64::from(taken);
    }

    fn take_grants(&mut self) {
        while let Some(grant) = self.arbiter.poll_grant(self.now_ns) {
            self.granted[grant.tenant] += 1;
            assert!(self.loads[grant.tenant].present);
            let took_ns = self.took_ns(grant.tenant);
            let started_ns = self.running.back().map_or(self.now_ns, |last| last.end_ns);
            self.running.push_back(Running { grant, started_ns, end_ns: started_ns + took_ns });
            self.make_requests();
        }
    }

    /// Holds whenever there is nothing more to poll.
    fn check(&self) {
        let sharing = self.arbiter.sharing();
        assert!(self.running.len() <= sharing.in_flight_max);
        let mut owners = self.running.iter().map(|one| one.grant.tenant);
        let owner = owners.next();
        assert!(owners.all(|tenant| Some(tenant) == owner), "two tenants share the device");
        let waits = (0..self.loads.len()).any(|tenant| self.arbiter.waiting(tenant) > 0);
        let idles = self.running.is_empty();
        assert!(!(sharing.policy.is_work_conserving() && waits && idles), "wastes a slice");
        for tenant in 0..self.loads.len() {
            let waiting = self.requested[tenant] - self.granted[tenant];
            assert_eq!(self.arbiter.waiting(tenant), waiting, "every request is granted once");
        }
    }

    /// Device time of the next launch. Two in a row have the mean together, so chance moves no
    /// share.
    fn took_ns(&mut self, tenant: usize) -> u64 {
        let Load { cost_ns, spread_ns, .. } = self.loads[tenant];
        match self.second_ns[tenant].take() {
            Some(took_ns) => took_ns,
            None => {
                let took_ns = cost_ns - spread_ns / 2 + self.random_below(spread_ns + 1);
                self.second_ns[tenant] = Some(2 * cost_ns - took_ns);
                took_ns
            }
        }
    }

    fn random_below(&mut self, bound: u64) -> u64 {
        // Xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}
