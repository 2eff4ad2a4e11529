//! All interleavings of few tenants with few launches: every state that requests, ends, losses,
//! arrivals and departures of tenants can reach is visited once.
//!
//! Time passes in units. A launch takes one unit at least and three slices at most. States are
//! compared by the rest of slices, debts and launches, so there are finitely many, although
//! runs have no end.

use std::collections::{BTreeMap, VecDeque};

use super::*;

/// Limits of an exploration.
#[derive(Clone, Copy, Debug)]
struct Small {
    policy: Policy,
    slots: &'static [usize],
    device_slots: usize,
    in_flight_max: usize,
    /// Launches of a tenant that may wait.
    waiting_max: u64,
    /// Tenants that may leave and come.
    restless: &'static [usize],
    units_per_slice: u64,
    /// Measured demand of each tenant, if there is any.
    needs: &'static [u64],
}

impl Small {
    fn unit_ns(&self) -> u64 {
        MS / self.units_per_slice
    }

    /// Units after which a launch has ended or is given up.
    fn age_max(&self) -> u64 {
        3 * self.units_per_slice
    }

    fn sharing(&self) -> Sharing {
        let Self { policy, in_flight_max, device_slots, .. } = *self;
        Sharing { policy, slice_ns: MS, in_flight_max, slots: device_slots }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Request(usize),
    Withdraw(usize),
    Present(usize, bool),
    Done(usize),
    Lost(usize),
    Tick,
}

/// The arbiter and the tenants' knowledge.
#[derive(Clone)]
struct Node {
    arbiter: Arbiter,
    /// Launches in flight, with their age in units.
    running: Vec<(Grant, u64)>,
    waiting: Vec<u64>,
    present: Vec<bool>,
    units: u64,
}

impl Node {
    fn new(small: &Small) -> Self {
        let mut arbiter = attended(&small.sharing(), small.slots);
        for (tenant, &need) in arbiter.tenants.iter_mut().zip(small.needs) {
            tenant.demand.add_launch(1, MS);
            tenant.demand.add_arrivals(need);
            tenant.demand.end_windows(1);
        }
        // The demand stays, so there are finitely many states.
        arbiter.window_end_ns = u64::MAX;
        let tenants = small.slots.len();
        let (waiting, present) = (vec![0; tenants], vec![true; tenants]);
        Self { arbiter, running: Vec::new(), waiting, present, units: 0 }
    }

    fn events(&self, small: &Small) -> Vec<Event> {
        let tenants = 0..self.waiting.len();
        let can_request =
            |&tenant: &usize| self.present[tenant] && self.waiting[tenant] < small.waiting_max;
        let can_end = |&place: &usize| self.running[place].1 > 0;
        let waits = |&tenant: &usize| self.waiting[tenant] > 0;
        let running = 0..self.running.len();
        let mut events: Vec<Event> = Vec::new();
        events.extend(tenants.clone().filter(can_request).map(Event::Request));
        events.extend(tenants.filter(waits).map(Event::Withdraw));
        let turned = |&tenant: &usize| Event::Present(tenant, !self.present[tenant]);
        events.extend(small.restless.iter().map(turned));
        events.extend(running.clone().filter(can_end).map(Event::Done));
        events.extend(running.filter(can_end).map(Event::Lost));
        if self.running.iter().all(|&(_, age)| age < small.age_max()) {
            events.push(Event::Tick);
        }
        events
    }

    /// Lets `event` happen and takes all grants. Returns which tenants got one.
    fn handle(&mut self, small: &Small, event: Event) -> Vec<bool> {
        let now_ns = self.units * small.unit_ns();
        match event {
            Event::Request(tenant) => {
                assert!(self.arbiter.handle_request(tenant, now_ns));
                self.waiting[tenant] += 1;
            }
            Event::Withdraw(tenant) => {
                assert!(self.arbiter.handle_withdraw(tenant, now_ns));
                self.waiting[tenant] -= 1;
            }
            Event::Present(tenant, present) => {
                self.arbiter.handle_present(tenant, present, now_ns);
                (self.present[tenant], self.waiting[tenant]) = (present, 0);
            }
            Event::Done(place) => {
                let (grant, _) = self.running.remove(place);
                assert!(self.arbiter.handle_done(grant.id, &Spent::default(), now_ns));
                assert!(!self.arbiter.handle_lost(grant.id, now_ns), "ends twice");
            }
            Event::Lost(place) => {
                let (grant, _) = self.running.remove(place);
                assert!(self.arbiter.handle_lost(grant.id, now_ns));
                assert!(!self.arbiter.handle_done(grant.id, &Spent::default(), now_ns));
            }
            Event::Tick => return self.tick(small),
        }
        self.take_grants(now_ns)
    }

    /// Lets a unit pass. It polls only when the arbiter asked for it.
    fn tick(&mut self, small: &Small) -> Vec<bool> {
        self.units += 1;
        self.running.iter_mut().for_each(|(_, age)| *age += 1);
        let now_ns = self.units * small.unit_ns();
        if self.arbiter.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns) {
            return self.take_grants(now_ns);
        }
        assert_eq!(self.arbiter.clone().poll_grant(now_ns), None, "asked to be polled too late");
        vec![false; self.waiting.len()]
    }

    fn take_grants(&mut self, now_ns: u64) -> Vec<bool> {
        let mut granted = vec![false; self.waiting.len()];
        while let Some(grant) = self.arbiter.poll_grant(now_ns) {
            let tenant = grant.tenant;
            assert!(self.present[tenant], "a grant for an absent tenant");
            assert!(self.waiting[tenant] > 0, "a grant without a request");
            assert!(self.running.iter().all(|(other, _)| other.id != grant.id), "granted twice");
            self.waiting[tenant] -= 1;
            granted[tenant] = true;
            self.running.push((grant, 0));
        }
        granted
    }

    /// Holds in every state.
    fn check(&self, small: &Small) {
        let mut owners = self.running.iter().map(|(grant, _)| grant.tenant);
        let owner = owners.next();
        assert!(owners.all(|tenant| Some(tenant) == owner), "two tenants share the device");
        assert!(self.running.len() <= small.in_flight_max);
        assert_eq!(self.arbiter.in_flight(), self.running.len());
        for (tenant, &waiting) in self.waiting.iter().enumerate() {
            assert_eq!(self.arbiter.waiting(tenant), waiting);
        }
        let waits = self.waiting.iter().any(|&waiting| waiting > 0);
        if waits && self.running.is_empty() {
            assert!(!small.policy.is_work_conserving(), "idles while a launch waits");
            let until_ns = self.arbiter.poll_timeout().expect("deadlock");
            assert!(until_ns > self.units * small.unit_ns(), "polling again changes nothing");
        }
    }

    /// All that later decisions depend on, relative to now.
    fn shape(&self, small: &Small) -> Vec<u64> {
        let now_ns = self.units * small.unit_ns();
        let mut arbiter = self.arbiter.clone();
        arbiter.advance(now_ns);
        let mut shape = vec![arbiter.turn as u64];
        shape.extend(arbiter.slice.map_or([9, 0], |slice| {
            let tenant = slice.tenant.map_or(8, |tenant| tenant as u64);
            [tenant, (slice.end_ns + 10 * MS).saturating_sub(now_ns)]
        }));
        for tenant in &arbiter.tenants {
            shape.extend([u64::from(tenant.present), tenant.waiting, tenant.debt_ns]);
        }
        let mut running: Vec<u64> =
            self.running.iter().map(|&(grant, age)| 10 * age + grant.tenant as u64).collect();
        running.sort_unstable();
        shape.extend(running);
        shape
    }
}

/// More states than any exploration has.
const STATES_MAX: usize = 400_000;

/// A step between two states.
struct Edge {
    to: usize,
    units: u64,
    granted: Vec<bool>,
}

/// All states that can be reached, each with its steps and who waits in it.
struct Graph {
    edges: Vec<Vec<Edge>>,
    waits: Vec<Vec<bool>>,
}

impl Graph {
    fn explore(small: &Small) -> Self {
        let start = Node::new(small);
        let mut places = BTreeMap::from([(start.shape(small), 0)]);
        let mut graph = Self { edges: Vec::new(), waits: vec![start.waits()] };
        let mut open = VecDeque::from([start]);
        while let Some(node) = open.pop_front() {
            let mut edges = Vec::new();
            for event in node.events(small) {
                let mut next = node.clone();
                let granted = next.handle(small, event);
                next.check(small);
                let found = places.len();
                let to = *places.entry(next.shape(small)).or_insert(found);
                let units = u64::from(matches!(event, Event::Tick));
                edges.push(Edge { to, units, granted });
                if to == found {
                    assert!(to < STATES_MAX, "states without end: {small:?}");
                    graph.waits.push(next.waits());
                    open.push_back(next);
                }
            }
            graph.edges.push(edges);
        }
        graph
    }

    /// The longest time in units that `tenant` can wait without a grant; `most` if it can be that
    /// or longer, as on a cycle.
    fn longest_wait(&self, tenant: usize, most: u64) -> u64 {
        let mut longest = vec![0; self.edges.len()];
        loop {
            let mut changed = false;
            for place in (0..self.edges.len()).rev() {
                let stays = |edge: &&Edge| self.waits[edge.to][tenant] && !edge.granted[tenant];
                let waits = self.edges[place].iter().filter(stays);
                let wait = waits.map(|edge| (edge.units + longest[edge.to]).min(most)).max();
                if let Some(wait) =
                    wait.filter(|&wait| self.waits[place][tenant] && wait > longest[place])
                {
                    (longest[place], changed) = (wait, true);
                }
            }
            if !changed {
                return longest.into_iter().max().unwrap_or(0);
            }
        }
    }
}

impl Node {
    fn waits(&self) -> Vec<bool> {
        self.waiting.iter().map(|&waiting| waiting > 0).collect()
    }
}

/// Explores and returns the longest wait of any tenant, in slices.
fn explore(small: &Small) -> u64 {
    let graph = Graph::explore(small);
    // Turns last from `shortest` to `longest` units.
    let units = small.units_per_slice;
    let turn =
        |need: u64| need * units * small.needs.len() as u64 / small.needs.iter().sum::<u64>();
    let shortest = small.needs.iter().copied().min().map_or(units, turn);
    let longest = small.needs.iter().copied().max().map_or(units, turn);
    // The debt is three slices at most, paid in as many rounds. In each round every other slot
    // takes a turn and three slices of overrun. The own launches may take a turn and three slices.
    let rounds = small.age_max().div_ceil(shortest) + 1;
    let others = small.device_slots as u64 - 1;
    let bound = (rounds * others + 1) * (longest + small.age_max()) / units;
    let most = (bound + 1) * small.units_per_slice;
    let waits = (0..small.slots.len()).map(|tenant| graph.longest_wait(tenant, most));
    let longest = waits.max().unwrap_or(0).div_ceil(small.units_per_slice);
    assert!(longest <= bound, "a tenant starves: {small:?}");
    println!("{small:?}: {} states, {longest} slices of {bound}", graph.edges.len());
    longest
}

fn pair(policy: Policy) -> Small {
    Small {
        policy,
        slots: &[1, 1],
        device_slots: 2,
        in_flight_max: 2,
        waiting_max: 2,
        restless: &[0, 1],
        units_per_slice: 2,
        needs: &[],
    }
}

fn triple(policy: Policy) -> Small {
    Small {
        slots: &[1, 1, 1],
        device_slots: 3,
        waiting_max: 1,
        restless: &[2],
        units_per_slice: 1,
        ..pair(policy)
    }
}

#[test]
fn two_tenants_never_starve() {
    for policy in Policy::ALL {
        explore(&pair(policy));
        explore(&Small { slots: &[2, 1], device_slots: 4, waiting_max: 1, ..pair(policy) });
    }
}

#[test]
fn a_tenant_with_short_turns_never_starves() {
    // None leaves: with all present, turns are whole units.
    let stays = Small { restless: &[], ..pair(Policy::RateProportional) };
    explore(&Small { needs: &[1, 3], ..stays });
    let stays = Small { restless: &[], ..triple(Policy::RateProportional) };
    explore(&Small { needs: &[1, 1, 4], units_per_slice: 2, ..stays });
}

#[test]
fn three_tenants_never_starve() {
    for policy in Policy::ALL {
        explore(&triple(policy));
        explore(&Small { in_flight_max: 1, waiting_max: 2, ..triple(policy) });
    }
}
