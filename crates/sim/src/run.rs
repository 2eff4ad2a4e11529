//! The simulation: events, and what each of them leads to.

mod device_work;
mod looks;
mod measure;
mod on_cores;
mod reader;

use crate::chain::{Chain, Stage, Working};
use crate::cores::Cores;
use crate::device::{Device, Kernel, Server, Ticket};
use crate::events::Events;
use crate::model::{Scenario, ScenarioError, StageSite};
use crate::outcome::{Ended, Outcome, Spans};
use crate::random::Random;
use crate::traffic::Batch;
use measure::Sums;
use on_cores::Work;

/// Something that happens.
enum Event {
    /// The source of a chain hands a batch over.
    Arrives { chain: usize, batch: Batch },
    /// A lane finished `before`, or the work of a stage on the CPU.
    Worked { chain: usize, stage: usize },
    /// The input of a launch is on the device.
    Copied(Ticket),
    /// A kernel is done, its latency included.
    Ran(Ticket),
    /// The output of a launch is on the host.
    Returned(Ticket),
    /// `after` of a launch is done.
    Finished(Ticket),
    /// A device needs a look, unless it changed since.
    Device { device: usize, generation: u64 },
    /// Threads that share cores are done with something, unless that changed since.
    Cores { generation: u64 },
    /// A reader wakes.
    Reads { chain: usize },
    /// A reader that was paused continues.
    Resumes { chain: usize },
    /// A lane wakes, unless it did since.
    LaneWakes { chain: usize, generation: u64 },
    /// A batcher's deadline.
    Wakes { chain: usize },
    /// A pause or its end arrives.
    Signal { chain: usize, signal: (usize, u64, bool) },
    /// The measured time begins, or ends.
    Measure { begins: bool },
}

struct Run<'a> {
    scenario: &'a Scenario,
    events: Events<Event>,
    chains: Vec<Chain<'a>>,
    devices: Vec<Device>,
    lanes: Vec<Server>,
    /// If they are shared.
    cores: Option<Cores<Work>>,
    /// Parts of kernels on the cores that are not done.
    parts: Vec<(Ticket, usize)>,
    random: Random,
    timers: Random,
    spans: Spans,
    before: Option<Sums>,
    measured: Option<Sums>,
    done: Vec<Kernel>,
}

impl Scenario {
    /// Runs it until all packets left, or its events are used up.
    ///
    /// # Errors
    /// The first mistake of the scenario.
    pub fn simulate(&self) -> Result<Outcome, ScenarioError> {
        #[cfg(test)]
        let mutated = crate::papers::mutated::of(self);
        #[cfg(test)]
        let this = mutated.as_ref().unwrap_or(self);
        #[cfg(not(test))]
        let this = self;
        this.check()?;
        let mut run = Run::new(this);
        let (mut handled, mut now_ns) = (0, 0);
        let ended = loop {
            let drawn = run.chains.iter().map(|chain| chain.source.events());
            if drawn.fold(handled, u64::saturating_add) >= this.events_max {
                break Ended::Events;
            }
            let Some((at_ns, event)) = run.events.next() else { break Ended::Drained };
            handled += 1;
            now_ns = at_ns;
            run.handle(event, now_ns);
        };
        Ok(run.outcome(ended, handled, now_ns))
    }
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let chains = scenario.chains.iter().enumerate().map(|(stream, model)| {
            let random = Random::new(scenario.seed, stream as u64);
            Chain::new(model, (scenario.lasts_ns, scenario.events_max), random)
        });
        let devices = scenario.devices.iter().enumerate();
        let mut run = Self {
            scenario,
            events: Events::new(),
            chains: chains.collect(),
            devices: devices.map(|(index, model)| Device::new(index, model)).collect(),
            lanes: vec![Server::default(); scenario.lanes],
            cores: on_cores::cores(scenario),
            parts: Vec::new(),
            random: Random::new(scenario.seed, u64::MAX - 1),
            timers: Random::new(scenario.seed, u64::MAX - 2),
            spans: Spans::new(scenario.spans_max),
            before: None,
            measured: None,
            done: Vec::new(),
        };
        run.events.add(scenario.warm_up_ns, Event::Measure { begins: true });
        if !scenario.measures_drain {
            run.events.add(scenario.lasts_ns, Event::Measure { begins: false });
        }
        for chain in 0..run.chains.len() {
            match run.reader_rests(chain) {
                true => run.reads(chain, 0),
                false => run.next_batch(chain, 0),
            }
        }
        run
    }

    fn handle(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Arrives { chain, batch } => self.read(chain, batch, now_ns),
            Event::Cores { generation } => self.poll_cores(generation, now_ns),
            Event::Worked { chain, stage } => self.worked(chain, stage, now_ns),
            Event::Copied(ticket) => self.submit(ticket, now_ns),
            Event::Ran(ticket) => self.copy_out(ticket, now_ns),
            Event::Resumes { chain } => self.reads(chain, now_ns),
            Event::Reads { chain } => self.reader_wakes(chain, now_ns),
            Event::LaneWakes { chain, generation } => self.lane_wakes(chain, generation, now_ns),
            Event::Returned(ticket) => self.returned(ticket, now_ns),
            Event::Finished(ticket) => {
                self.chains[ticket.chain].lane.works -= 1;
                self.finish(ticket, now_ns);
                self.serve(ticket.chain, now_ns);
            }
            Event::Device { device, generation } => {
                if self.devices[device].generation == generation {
                    self.poll_device(device, now_ns);
                }
            }
            Event::Wakes { chain } => {
                self.chains[chain].wakes_ns = u64::MAX;
                self.serve(chain, now_ns);
            }
            Event::Signal { chain, signal } => {
                self.chains[chain].receive(signal);
                self.ring(chain, now_ns);
            }
            Event::Measure { begins } => self.measure(begins, now_ns),
        }
    }

    /// The next batch of a source. Batches that a source kept for too long follow at once. Readers
    /// that rest look for them on their own.
    fn next_batch(&mut self, chain: usize, now_ns: u64) {
        if self.reader_rests(chain) {
            return;
        }
        self.chains[chain].lose_beyond_ring(now_ns);
        let own = &mut self.chains[chain];
        match own.source.next(now_ns) {
            Some((at_ns, mut batch)) => {
                if own.model.source_waits {
                    // It reads packets that are overdue now.
                    batch.oldest_ns = batch.oldest_ns.max(now_ns);
                    batch.newest_ns = batch.newest_ns.max(now_ns);
                }
                self.events.add(at_ns.max(now_ns), Event::Arrives { chain, batch });
            }
            None => self.chains[chain].source_ended = true,
        }
    }

    fn arrive(&mut self, chain: usize, batch: Batch, now_ns: u64) {
        let own = &mut self.chains[chain];
        own.offer(&batch, now_ns);
        for (stage, model) in own.model.stages.iter().enumerate() {
            if let StageSite::Device(work) = &model.place {
                let packets = own.arrivals(stage);
                self.devices[work.device].arrive(work.tenant, packets, now_ns);
            }
        }
        let is_paused = own.is_paused(0);
        if is_paused && !own.source_waits() {
            own.hold_back(&batch, now_ns);
        } else if is_paused || !own.push(0, batch, now_ns) {
            own.kept = Some(batch);
            self.ring(chain, now_ns);
            return;
        }
        self.report(chain, 0, now_ns);
        self.next_batch(chain, now_ns);
        self.ring(chain, now_ns);
    }

    /// Does everything that a chain can do now, from its last stage to its first.
    fn serve(&mut self, chain: usize, now_ns: u64) {
        let mut has_worked = self.look(chain, now_ns);
        loop {
            let mut has_moved = false;
            for stage in (0..self.chains[chain].stages.len()).rev() {
                has_moved |= self.pass_on(chain, stage, now_ns);
                has_moved |= self.take(chain, stage, now_ns);
                has_moved |= self.launch(chain, stage, now_ns);
            }
            has_moved |= self.retry_source(chain, now_ns);
            if !has_moved && !self.flush(chain) {
                break;
            }
            has_worked = true;
        }
        match self.lane_rests() {
            true => self.rest_lane(chain, has_worked, now_ns),
            false => self.wake(chain, now_ns),
        }
    }

    fn retry_source(&mut self, chain: usize, now_ns: u64) -> bool {
        let is_read_late = self.chains[chain].model.source_waits || self.reader_rests(chain);
        let own = &mut self.chains[chain];
        let Some(mut batch) = own.kept.filter(|_| !own.is_paused(0)) else { return false };
        // A source that waits reads the packets when there is room.
        if is_read_late {
            (batch.oldest_ns, batch.newest_ns) = (now_ns, now_ns);
        }
        if !own.push(0, batch, now_ns) {
            return false;
        }
        own.kept = None;
        self.report(chain, 0, now_ns);
        self.next_batch(chain, now_ns);
        self.resume_reader(chain, now_ns);
        true
    }

    /// At the end of the input open launches start as they are: that of the first stage that has
    /// nothing under way.
    fn flush(&mut self, chain: usize) -> bool {
        let own = &mut self.chains[chain];
        if !own.source_ended || own.kept.is_some() {
            return false;
        }
        for stage in &mut own.stages {
            if stage.working.is_some() || !stage.done.is_empty() {
                return false;
            }
            let Some(device) = &mut stage.device else { continue };
            if device.batcher.in_flight() > 0 {
                return false;
            }
            if !device.batcher.is_empty() {
                device.batcher.handle_flush();
                return true;
            }
        }
        false
    }

    fn pass_on(&mut self, chain: usize, stage: usize, now_ns: u64) -> bool {
        let mut has_moved = false;
        loop {
            let own = &mut self.chains[chain];
            let Some(&batch) = own.stages[stage].done.front() else {
                let Stage { device, done, .. } = &mut own.stages[stage];
                match device.as_mut().is_some_and(|device| device.release(done)) {
                    true => continue,
                    false => return has_moved,
                }
            };
            let is_sent = stage + 1 == own.stages.len() && own.model.sender.is_some();
            if !is_sent && !own.push(stage + 1, batch, now_ns) {
                return has_moved;
            }
            own.stages[stage].done.pop_front();
            has_moved = true;
            if is_sent {
                self.send(chain, batch, now_ns);
                continue;
            }
            if stage + 1 < self.chains[chain].stages.len() {
                self.report(chain, stage + 1, now_ns);
            }
        }
    }

    fn take(&mut self, chain: usize, stage: usize, now_ns: u64) -> bool {
        let own = &mut self.chains[chain];
        if own.is_paused(stage + 1) || !own.stages[stage].can_take() {
            return false;
        }
        let factor = own.lane_factor(stage, now_ns);
        let Some(taken) = own.stages[stage].take() else { return false };
        own.counts.stages[stage].processed += taken.packets;
        let (lane, lasts_ns) = match &own.model.stages[stage].place {
            StageSite::Cpu { lane, cost, is_exponential } => {
                let mean_ns = cost.ns(taken.packets, taken.bytes);
                let mean_ns = (mean_ns as f64 * factor).round() as u64;
                let lasts_ns = match is_exponential {
                    true => self.random.exponential(mean_ns as f64).round() as u64,
                    false => mean_ns,
                };
                own.counts.stages[stage].work_ns += lasts_ns;
                own.counts.stages[stage].launches += 1;
                (*lane, lasts_ns)
            }
            StageSite::Device(work) => (work.lane, work.before.ns(taken.packets, taken.bytes)),
        };
        own.stages[stage].working = Some(taken);
        self.report(chain, stage, now_ns);
        if lasts_ns == 0 {
            self.collect(chain, stage, now_ns);
        } else {
            self.occupy_lane((lane, chain), lasts_ns, Work::Stage { chain, stage }, now_ns);
        }
        true
    }

    fn worked(&mut self, chain: usize, stage: usize, now_ns: u64) {
        self.chains[chain].lane.works -= 1;
        self.collect(chain, stage, now_ns);
        self.serve(chain, now_ns);
    }

    fn collect(&mut self, chain: usize, stage: usize, now_ns: u64) {
        let own = &mut self.chains[chain].stages[stage];
        let Some(taken): Option<Working> = own.working.take() else { return };
        match &mut own.device {
            Some(device) => {
                device.collect(&taken, now_ns);
                self.report(chain, stage, now_ns);
            }
            None => own.done.push_back(taken.batch),
        }
    }

    /// Reports the queue of a stage, and sends the signals that this leads to.
    fn report(&mut self, chain: usize, stage: usize, now_ns: u64) {
        let mut signals = Vec::new();
        let own = &mut self.chains[chain];
        own.report(stage, now_ns, &mut signals);
        for signal in signals {
            let at_ns = now_ns + own.model.signal_ns;
            self.events.add(at_ns, Event::Signal { chain, signal });
        }
    }

    /// Adds an event for the next deadline of a batcher.
    fn wake(&mut self, chain: usize, now_ns: u64) {
        let own = &mut self.chains[chain];
        let timeouts = own.stages.iter().filter_map(|stage| stage.device.as_ref());
        let next = timeouts.filter_map(|device| device.batcher.poll_timeout()).min();
        if let Some(next_ns) = next.filter(|&next_ns| next_ns > now_ns && next_ns < own.wakes_ns) {
            own.wakes_ns = next_ns;
            self.events.add(next_ns, Event::Wakes { chain });
        }
    }
}
