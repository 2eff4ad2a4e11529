//! The flow monitor, from its manual: flows in a map, and the records that end them as lines of the
//! CSV file.

mod compare;
pub(crate) mod draw;
mod flow;
mod record;

use std::collections::BTreeMap;

use crate::function::{Counters, Fate, Function};
use crate::wire::{Frame, View, view};
pub(crate) use compare::differ;
use flow::{Flow, Key, Seen};
pub(crate) use record::{End, Exported, read};

/// How long a connection stays after its last packet when it ended, in microseconds.
const LINGER: u64 = 1_000_000;
/// The interval between ticks. The latest one may not have come yet.
const TICK: u64 = 1_000_000;

/// Which flows may have records in several shards, or may be evicted: only their totals are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    None,
    /// ICMP except echoes: an error is processed in the shard of the packet that it quotes.
    Messages,
    /// All without ports: they were other packets when they came.
    Portless,
    All,
}

/// Configuration of the function; times are microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) active: u64,
    pub(crate) idle: u64,
    pub(crate) room: u64,
    pub(crate) apart: Apart,
}

/// The function.
pub(crate) struct Monitor {
    config: Config,
    flows: BTreeMap<Key, Flow>,
    exported: Vec<Exported>,
    metered: u64,
    apart: u64,
    not_ip: u64,
    malformed: u64,
    peak: u64,
}

impl Monitor {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            flows: BTreeMap::new(),
            exported: Vec::new(),
            metered: 0,
            apart: 0,
            not_ip: 0,
            malformed: 0,
            peak: 0,
        }
    }

    fn meter(&mut self, frame: &Frame, view: &View) {
        let seen = Seen::of(frame, view);
        let apart = self.is_apart(&seen.key);
        self.metered += 1;
        self.apart += u64::from(apart);
        let key = seen.key.clone();
        let Some(mut flow) = self.flows.remove(&key) else {
            return self.begin(key, &seen);
        };
        let Some(end) = self.end_before(&flow, &seen) else {
            flow.count(&seen);
            self.flows.insert(key, flow);
            return;
        };
        // Otherwise a tick may have reported it already.
        let is_here = self.over(&flow, seen.now - flow.last_now).is_none();
        self.exported.push(Exported { apart, is_here, ..Exported::of(&key, &flow, end) });
        if end == End::Active {
            let mut next = Flow::new(flow.ends);
            next.count(&seen);
            self.flows.insert(key, next);
        } else {
            self.begin(key, &seen);
        }
    }

    fn begin(&mut self, key: Key, seen: &Seen) {
        self.flows.insert(key, Flow::begun(seen));
        let lasts = |(key, flow): &(&Key, &Flow)| {
            !self.is_apart(key) && self.over(flow, seen.now - flow.last_now).is_none()
        };
        self.peak = self.peak.max(self.flows.iter().filter(lasts).count() as u64);
    }

    fn is_apart(&self, key: &Key) -> bool {
        match self.config.apart {
            Apart::None => false,
            Apart::Messages => key.is_icmp() && !key.is_echo,
            Apart::Portless => !key.has_ports,
            Apart::All => true,
        }
    }

    /// Why a flow is over when no packet came for so long, if it is.
    fn over(&self, flow: &Flow, quiet: u64) -> Option<End> {
        let closed = flow.is_closed();
        let (limit, end) =
            if closed { (LINGER, End::Closed) } else { (self.config.idle, End::Idle) };
        (quiet > limit).then_some(end)
    }

    /// Why a record ends before a packet is counted, if it does.
    fn end_before(&self, flow: &Flow, seen: &Seen) -> Option<End> {
        let (first, last) = (flow.first(), flow.last());
        let off = seen.own.saturating_sub(last).max(first.saturating_sub(seen.own));
        let quiet = seen.now - flow.last_now;
        let again = (flow.is_closed() && seen.opens()).then_some(End::Closed);
        let lasted = last.max(seen.own) - first.min(seen.own);
        let old = (lasted > self.config.active).then_some(End::Active);
        self.over(flow, quiet.max(off)).or(again).or(old)
    }

    /// A flow that no packet came for when the last tick may have been too early to see it.
    fn at_end(&self, flow: &Flow, now: u64) -> (End, Option<End>) {
        if flow.is_closed() {
            return (End::Closed, None);
        }
        let quiet = now - flow.last_now;
        match (self.over(flow, quiet), self.over(flow, quiet.saturating_sub(TICK))) {
            (None, _) => (End::Forced, None),
            (Some(end), Some(_)) => (end, None),
            (Some(end), None) => (end, Some(End::Forced)),
        }
    }

    /// Between how many of `all` meet `what`: what is apart has a record for each packet at most.
    fn between(&self, all: &[Exported], what: impl Fn(End) -> bool) -> (u64, u64) {
        let own = || all.iter().filter(|exported| !exported.apart);
        let may = own()
            .filter(|exported| what(exported.end) || exported.or.is_some_and(&what))
            .count() as u64;
        let does = own()
            .filter(|exported| what(exported.end) && exported.or.is_none_or(&what))
            .count() as u64;
        (does, may + self.apart)
    }
}

impl Function for Monitor {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        match (view.lie, view.version) {
            (Some(_), _) => self.malformed += 1,
            (None, 0) => self.not_ip += 1,
            _ => self.meter(frame, &view),
        }
        Fate::Forward
    }

    fn counters(&self, now: u64) -> Counters {
        let all = self.records(now);
        let exact = |count| (count, count);
        let flows = self.between(&all, |end| end != End::Active);
        let keys = self.flows.keys().filter(|key| !self.is_apart(key)).count() as u64;
        let most = (keys + self.apart).min(self.config.room);
        let ended = |end| self.between(&all, |own| own == end);
        let full = (0, if self.config.apart == Apart::All { self.apart } else { 0 });
        [
            ("flows", flows),
            ("flows-peak", (self.peak, most)),
            ("metered", exact(self.metered)),
            ("not-ip", exact(self.not_ip)),
            ("malformed", exact(self.malformed)),
            ("ended-idle", ended(End::Idle)),
            ("ended-active", ended(End::Active)),
            ("ended-detected", ended(End::Closed)),
            ("ended-forced", ended(End::Forced)),
            ("ended-full", full),
            ("unreported", exact(0)),
            ("records", self.between(&all, |_| true)),
        ]
        .into()
    }

    fn records(&self, now: u64) -> Vec<Exported> {
        let last = self.flows.iter().map(|(key, flow)| {
            let (end, or) = self.at_end(flow, now / 1000);
            Exported { apart: self.is_apart(key), or, ..Exported::of(key, flow, end) }
        });
        self.exported.iter().cloned().chain(last).collect()
    }
}
