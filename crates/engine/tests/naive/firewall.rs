//! The firewall, from its manual.

use std::collections::BTreeMap;

use crate::connections::{Config as Tracking, Connections, Standing};
use crate::function::{Counters, Fate, Function};
use crate::nat::FRAGMENTS_NANOS;
use crate::nat_packets::{Whole, fragment_key};
use crate::rules::Rule;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16, view};

/// Configuration of a firewall.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) rules: Vec<Rule>,
    pub(crate) default_accepts: bool,
    pub(crate) non_ip_accepts: bool,
    pub(crate) drops_fragments: bool,
    pub(crate) tracking: Option<Tracking>,
}

/// The function.
pub(crate) struct Firewall {
    policy: Policy,
    connections: Option<Connections>,
    /// How first fragments left, and until when that is remembered.
    firsts: BTreeMap<Whole, (Fate, u64)>,
}

/// The decision of the rules.
pub(crate) struct Policy(Config);

impl Firewall {
    pub(crate) fn new(config: Config) -> Self {
        let connections = config.tracking.clone().map(Connections::new);
        Self { policy: Policy(config), connections, firsts: BTreeMap::new() }
    }

    /// With connections, the fragments of a packet share the fate of the first one.
    fn judge_any(&mut self, frame: &Frame, view: &View) -> Fate {
        if self.connections.is_none() || !view.fragment || view.version == 0 {
            return self.judge(frame, view);
        }
        let key = fragment_key(frame, view);
        if !view.later() {
            let fate = self.judge(frame, view);
            self.firsts.insert(key, (fate, frame.now + FRAGMENTS_NANOS));
            return fate;
        }
        let known = self.firsts.get(&key).filter(|(_, until)| frame.now < *until);
        match (self.policy.hidden(frame, view), known) {
            (Some(why), _) => Fate::Drop(why),
            (None, Some((Fate::Forward, _))) => Fate::Forward,
            (None, Some(_)) => Fate::Drop("fragment"),
            (None, None) => self.judge(frame, view),
        }
    }

    fn judge(&mut self, frame: &Frame, view: &View) -> Fate {
        if view.version == 0 {
            return match view.cut {
                true => Fate::Drop("snapped"),
                false if self.policy.0.non_ip_accepts => Fate::Forward,
                false => Fate::Drop("non-ip"),
            };
        }
        if let Some(why) = self.policy.hidden(frame, view) {
            return Fate::Drop(why);
        }
        let Some(connections) = self.connections.as_mut().filter(|_| !view.later()) else {
            return self.policy.decide(frame, view, false);
        };
        match connections.standing(frame, view, &self.policy) {
            Standing::New => self.policy.decide(frame, view, false),
            Standing::Established => self.policy.decide(frame, view, true),
            Standing::Refused(why) => Fate::Drop(why),
        }
    }
}

impl Policy {
    /// Why a packet is dropped whose ports, type or carried protocol can't be seen.
    fn hidden(&self, frame: &Frame, view: &View) -> Option<&'static str> {
        let is_extension = view.version == 6 && [0, 43, 44, 51, 60].contains(&view.protocol);
        if view.later() {
            let overwrites = view.protocol == TCP && fragment_offset(frame, view) < 20;
            let dropped = self.0.drops_fragments || is_extension || overwrites;
            return dropped.then_some("fragment");
        }
        let due = match view.protocol {
            TCP | UDP => true,
            ICMP => view.version == 4,
            ICMPV6 => view.version == 6,
            _ => is_extension,
        };
        (due && !view.transport).then_some("snapped")
    }

    pub(crate) fn decide(&self, frame: &Frame, view: &View, established: bool) -> Fate {
        // Where no rule speaks of connections, their packets are accepted ahead of the rules.
        if established && !self.0.rules.iter().any(|rule| rule.established) {
            return Fate::Forward;
        }
        match self.0.rules.iter().find(|rule| rule.matches(frame, view, established)) {
            Some(rule) if rule.accepts => Fate::Forward,
            Some(_) => Fate::Drop("rule"),
            None if self.0.default_accepts => Fate::Forward,
            None => Fate::Drop("default"),
        }
    }
}

/// Where a later fragment's bytes belong.
fn fragment_offset(frame: &Frame, view: &View) -> usize {
    match view.version {
        4 => (be16(&frame.bytes, view.l3 + 6).unwrap_or(0) & 0x1fff) * 8,
        _ => view.offset,
    }
}

impl Function for Firewall {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        match view.lie {
            Some(what) => Fate::Malformed(what),
            None => self.judge_any(frame, &view),
        }
    }

    fn follows_first_fragment(&self) -> bool {
        self.connections.is_some()
    }

    fn counters(&self, now: u64) -> Counters {
        self.connections.as_ref().map(|connections| connections.counters(now)).unwrap_or_default()
    }
}
