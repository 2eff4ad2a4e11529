//! Random batches, completion orders and times. The oracle records every batch and launch, and
//! judges each decision by the whole history.

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// The next event.
#[derive(Clone, Debug)]
enum Event {
    Batch {
        packets: usize,
        bytes: usize,
        age_ns: u64,
    },
    Flush,
    Done(Index),
    Wait {
        ns: u64,
    },
    /// Until the batcher's timeout.
    Sleep,
    Target {
        bytes: usize,
        delay_ns: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let batch = (0..40_usize, 0..120_usize, 0..60_u64);
    prop_oneof![
        8 => batch.prop_map(|(packets, bytes, age_ns)| Event::Batch { packets, bytes, age_ns }),
        1 => Just(Event::Flush),
        4 => any::<Index>().prop_map(Event::Done),
        2 => (0..80_u64).prop_map(|ns| Event::Wait { ns }),
        2 => Just(Event::Sleep),
        1 => (0..400_usize, 0..100_u64)
            .prop_map(|(bytes, delay_ns)| Event::Target { bytes, delay_ns }),
    ]
}

fn limits() -> impl Strategy<Value = LaunchLimits> {
    let sizes = (1..300_usize, 1..100_usize, 1..8_usize, 1..500_usize, 1..12_usize);
    let times = (prop_oneof![Just(NEVER), 0..100_u64], prop_oneof![Just(NEVER), 0..300_u64]);
    let all = (sizes, times, 1..5_usize, any::<bool>());
    all.prop_map(|(sizes, (delay_max_ns, timeout_ns), launches_max, foresees)| {
        let (bytes_max, packets_max, batches_max, waiting_bytes_max, waiting_batches_max) = sizes;
        LaunchLimits {
            bytes_max,
            packets_max,
            batches_max,
            delay_max_ns,
            foresees,
            launches_max,
            measures: false,
            waiting_bytes_max,
            waiting_batches_max,
            timeout_ns,
        }
    })
}

/// A launch that was given out.
struct Given {
    launch: Launch,
    at_ns: u64,
    done: bool,
    named: bool,
}

/// The batcher and all that ever happened.
struct World {
    batcher: Batcher,
    limits: LaunchLimits,
    /// The size that is in force, by the number of batches that came before it.
    targets: Vec<(usize, usize)>,
    now_ns: u64,
    loads: Vec<Load>,
    /// Batches that came before a flush: no launch crosses one.
    flushes: Vec<usize>,
    given: Vec<Given>,
    launched: usize,
    released: usize,
}

impl World {
    fn new(limits: LaunchLimits) -> Self {
        Self {
            batcher: Batcher::new(&limits),
            limits,
            targets: Vec::new(),
            now_ns: 1_000,
            loads: Vec::new(),
            flushes: Vec::new(),
            given: Vec::new(),
            launched: 0,
            released: 0,
        }
    }

    fn handle(&mut self, event: &Event) {
        match event {
            Event::Batch { packets, bytes, age_ns } if self.batcher.has_room() => {
                let load = load(*packets, *bytes, self.now_ns - age_ns);
                self.loads.push(load);
                self.batcher.handle_batch(&load);
            }
            Event::Batch { .. } => {}
            Event::Flush => {
                self.flushes.push(self.loads.len());
                self.batcher.handle_flush();
            }
            Event::Done(which) => {
                let open: Vec<usize> =
                    (0..self.given.len()).filter(|&one| !self.given[one].done).collect();
                if !open.is_empty() {
                    self.complete(open[which.index(open.len())]);
                }
            }
            Event::Target { bytes, delay_ns } => {
                self.batcher.handle_target(*bytes, *delay_ns);
                self.limits.delay_max_ns = *delay_ns;
                self.targets.push((self.loads.len(), *bytes));
            }
            Event::Wait { ns } => self.now_ns += ns,
            Event::Sleep => {
                self.now_ns = self.batcher.poll_timeout().unwrap_or(0).max(self.now_ns);
            }
        }
        self.drain();
        self.check();
    }

    fn complete(&mut self, which: usize) {
        self.given[which].done = true;
        let id = self.given[which].launch.id;
        assert!(self.batcher.handle_done(id, 0));
        assert!(!self.batcher.handle_done(id, 0));
    }

    fn drain(&mut self) {
        while let Some(launch) = self.batcher.poll_release() {
            assert_eq!(launch, self.given[self.released].launch, "in the order of closing");
            assert!(self.given[self.released].done);
            self.released += 1;
        }
        while self.stream_is_free() {
            let Some(launch) = self.batcher.poll_launch(self.now_ns) else { break };
            self.judge(&launch);
            self.launched += launch.batches;
            let at_ns = self.now_ns;
            self.given.push(Given { launch, at_ns, done: false, named: false });
        }
        assert_eq!(self.batcher.poll_launch(self.now_ns), None);
        while let Some(launch) = self.batcher.poll_expired(self.now_ns) {
            let one = self.given.iter_mut().find(|one| one.launch == launch).unwrap();
            assert!(!one.done && !one.named, "named once, and only if it is not done");
            assert!(one.at_ns.saturating_add(self.limits.timeout_ns) <= self.now_ns);
            one.named = true;
        }
    }

    /// Checks a launch before it counts as given.
    fn judge(&self, launch: &Launch) {
        let range = self.launched..self.launched + launch.batches;
        let own = &self.loads[range.clone()];
        assert_eq!(launch.id.0, self.given.len() as u64);
        let taken = self.given[self.released..].iter().map(|one| one.launch.slot);
        assert!(
            launch.slot < self.batcher.slots() && !taken.collect::<Vec<_>>().contains(&launch.slot)
        );
        assert_eq!(
            (launch.packets, launch.bytes, Some(launch.oldest_ns)),
            (packets(own), bytes(own), own.iter().map(|load| load.oldest_ns).min())
        );
        let fits = (range.start + 1..range.end).all(|at| self.fits(range.start, at));
        assert!(fits, "over its limits: {launch:?}");
        let crossed = |&at: &usize| range.start < at && at < range.end;
        assert!(!self.flushes.iter().any(crossed), "a flush was overtaken");
        assert!(self.may_close(launch.closed, range), "closed without need: {launch:?}");
    }

    fn may_close(&self, why: Closed, range: Range<usize>) -> bool {
        let own = &self.loads[range.clone()];
        match why {
            Closed::Full => {
                let has_next = range.end < self.loads.len();
                self.is_full(range.clone()) || has_next && !self.fits(range.start, range.end)
            }
            Closed::Flushed => self.flushes.contains(&range.end),
            Closed::Foreseen => {
                range.end == self.loads.len()
                    && self.is_in_vain(own)
                    && self.due_ns(own) > self.now_ns
            }
            Closed::Due => range.end == self.loads.len() && self.due_ns(own) <= self.now_ns,
            Closed::NoRoom => range.end == self.loads.len() && !self.batcher.has_room(),
        }
    }

    /// Checks the invariants once nothing is left to poll.
    fn check(&self) {
        let held =
            &self.loads[self.given[..self.released].iter().map(|g| g.launch.batches).sum()..];
        assert_eq!(self.batcher.held_batches(), held.len());
        assert_eq!(self.batcher.held_bytes(), bytes(held));
        assert!(held.len() <= self.limits.waiting_batches_max);
        let before_last = held.split_last().map_or(0, |(_, before)| bytes(before) + 1);
        assert!(before_last <= self.limits.waiting_bytes_max);
        assert_eq!(self.batcher.is_empty(), held.is_empty());
        assert!(self.in_flight() <= self.limits.launches_max);
        assert_eq!(self.batcher.in_flight(), self.in_flight());
        assert!(self.given.get(self.released).is_none_or(|first| !first.done), "not released");

        let waiting = &self.loads[self.launched..];
        if self.stream_is_free() {
            assert!(waiting.is_empty() || self.batcher.has_room(), "stuck");
            assert!(self.due_ns(waiting) > self.now_ns, "waits past its deadline");
            assert!(waiting.is_empty() || !self.is_in_vain(waiting), "waits for nothing");
            let range = self.launched..self.loads.len();
            assert!(waiting.is_empty() || !self.is_full(range), "full and not given");
        }
        let until = self.batcher.poll_timeout();
        assert_eq!(until, self.next_ns());
        assert!(until.is_none_or(|until| until > self.now_ns), "wants what it has got");
    }

    /// The earliest of all deadlines.
    fn next_ns(&self) -> Option<u64> {
        let watched = self.given.iter().filter(|one| !one.done && !one.named);
        let expires = watched.map(|one| one.at_ns.saturating_add(self.limits.timeout_ns));
        let due = self.stream_is_free().then(|| self.due_ns(&self.loads[self.launched..]));
        expires.chain(due).filter(|&moment| moment < NEVER).min()
    }

    fn in_flight(&self) -> usize {
        self.given.iter().filter(|one| !one.done).count()
    }

    fn stream_is_free(&self) -> bool {
        let kept = self.given.len() - self.released;
        self.in_flight() < self.limits.launches_max && kept < 2 * self.limits.launches_max
    }

    fn due_ns(&self, loads: &[Load]) -> u64 {
        let oldest_ns = loads.iter().map(|load| load.oldest_ns).min();
        oldest_ns.map_or(NEVER, |oldest| oldest.saturating_add(self.limits.delay_max_ns))
    }

    /// Whether no batch is expected before these are due. The last two distances are those to the
    /// latest batch before.
    fn is_in_vain(&self, loads: &[Load]) -> bool {
        let latest = |count: usize| self.loads[..count].iter().map(|load| load.oldest_ns).max();
        let Some(before) = self.loads.len().checked_sub(2).filter(|before| *before > 0) else {
            return false;
        };
        let gap = |at: usize| self.loads[at].oldest_ns.saturating_sub(latest(at).unwrap_or(0));
        let next_ns = latest(before + 2).unwrap_or(0) + gap(before).min(gap(before + 1));
        self.limits.foresees && next_ns > self.due_ns(loads)
    }

    /// The most bytes of a launch when the batch `at` came.
    fn bytes_max(&self, at: usize) -> usize {
        let set = self.targets.iter().rfind(|(before, _)| *before <= at);
        set.map_or(self.limits.bytes_max, |&(_, bytes)| bytes.clamp(1, self.limits.bytes_max))
    }

    /// Whether the batch `last` fitted the launch that began with `first`.
    fn fits(&self, first: usize, last: usize) -> bool {
        let own = &self.loads[first..=last];
        bytes(own) <= self.bytes_max(last)
            && packets(own) <= self.limits.packets_max
            && own.len() <= self.limits.batches_max
    }

    /// Whether the last of these batches filled a launch.
    fn is_full(&self, range: Range<usize>) -> bool {
        let own = &self.loads[range.clone()];
        bytes(own) >= self.bytes_max(range.end - 1)
            || packets(own) >= self.limits.packets_max
            || own.len() >= self.limits.batches_max
    }

    /// Flushes and completes what is left.
    fn end(&mut self) {
        self.handle(&Event::Flush);
        while let Some(open) = self.given.iter().position(|one| !one.done) {
            self.complete(open);
            self.drain();
            self.check();
        }
        assert!(self.batcher.is_empty() && self.batcher.poll_timeout().is_none());
        assert_eq!((self.launched, self.released), (self.loads.len(), self.given.len()));
    }
}

fn bytes(loads: &[Load]) -> usize {
    loads.iter().map(|load| load.bytes).sum()
}

fn packets(loads: &[Load]) -> usize {
    loads.iter().map(|load| load.packets).sum()
}

proptest! {
    #[test]
    fn every_batch_goes_once_in_order_within_limits_and_in_time(
        limits in limits(),
        events in prop::collection::vec(event(), 0..300),
    ) {
        let mut world = World::new(limits);
        events.iter().for_each(|event| world.handle(event));
        world.end();
    }
}
