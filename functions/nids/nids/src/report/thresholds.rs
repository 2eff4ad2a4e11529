//! Thresholds: which of a rule's matches are reported, and which are acted on, by their number.
//!
//! Decisions are made match by match, as in Suricata 7 and 8 (userguide, rules/thresholding and
//! configuration/global-thresholds; `detect-engine-threshold.c`). A window begins with the first
//! match and lasts `seconds`, its last moment included. The first match after it begins another.
//!
//! | filter           | nothing happens     | reported and acted on    | acted on, not reported      |
//! |------------------|---------------------|--------------------------|-----------------------------|
//! | limit            |                     | the first `count`        | the rest of the window      |
//! | threshold        | those between       | every `count`th          |                             |
//! | both             | before the `count`th| the `count`th            | the rest of the window      |
//! | backoff          | the first, unless `count` is 1 | the `count`th, then `multiplier` times that | all others |
//! | detection_filter | the first `count`   | the rest of the window   |                             |
//! | rate_filter      |                     | all, some with the new action |                        |
//! | suppress, noalert|                     |                          | all                         |
//!
//! With `unique_on` a detection filter counts the ports of its matches. A port counts once in a
//! window. If there is no more room for ports, it may count again.
//!
//! "Acted on" means the rule's other actions: drop, reject, pass. A match always changes flowbits
//! and similar state.

use core::net::IpAddr;

use warpline_packet::Instant;

use super::entries::Entries;
use super::{Filter, Policy};
use warpline_nids_rules::{Action, PortEnd, Rate, Threshold, ThresholdHow, Track};

/// How long a backoff, or a rate filter that did its action, is remembered without a match, in
/// seconds.
const IDLE_S: u64 = 3600;
const SECOND: u64 = 1_000_000_000;

/// The decision on a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Decision {
    /// It is reported and acted on.
    Reported = 1,
    /// It is acted on only.
    Silent = 2,
    /// It is neither reported nor acted on.
    Nothing = 3,
}

impl Decision {
    /// By its number.
    pub(super) fn of(number: u8) -> Option<Self> {
        [Self::Reported, Self::Silent, Self::Nothing].into_iter().find(|one| *one as u8 == number)
    }
}

/// A rule, the same in every rule set that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// `gid`.
    pub gid: u32,
    /// `sid`.
    pub sid: u32,
    /// `rev`.
    pub rev: u32,
}

/// The facts about a match that thresholds need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The rule.
    pub rule: RuleId,
    /// The packet's addresses; `None` where it is not IP, and never counted.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// The packet's ports; 0 where it has none.
    pub ports: (u16, u16),
    /// The packet's flow.
    pub flow: Option<u64>,
    /// The packet's time.
    pub now: Instant,
}

/// The counts so far. Decisions depend only on the matches and their order.
pub struct Thresholds {
    entries: Entries<Key, Count>,
    /// Ports that counted, each with the start of its window.
    ports: Entries<(Key, u16), Instant>,
}

/// Matches that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rule: RuleId,
    kind: u8,
    track: Track,
    ends: Option<(IpAddr, Option<IpAddr>)>,
    flow: u64,
}

struct Count {
    /// When the window began.
    start: Instant,
    /// Matches in it.
    count: u32,
    /// The number of the match that a backoff reports next.
    next: u32,
    /// The time since which a rate filter does its action.
    acting: Option<Instant>,
}

impl Thresholds {
    /// For `capacity` counts at most, of some 250 bytes each; where there are more, those that
    /// expire first are forgotten. Memory is taken as it is needed.
    pub fn new(capacity: usize) -> Self {
        Self { entries: Entries::new(capacity), ports: Entries::new(capacity) }
    }

    /// Takes all memory that these policies may need now: it is never taken later.
    pub fn reserved<'a>(mut self, policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        self.reserve(policies);
        self
    }

    /// See [`Thresholds::reserved`].
    pub(super) fn reserve<'a>(&mut self, policies: impl IntoIterator<Item = &'a Policy>) {
        let (mut counts, mut counts_ports) = (false, false);
        for filter in policies.into_iter().filter_map(|policy| policy.filter) {
            (counts, counts_ports) = (true, counts_ports || filter.unique_on().is_some());
        }
        if counts {
            self.entries.reserve();
        }
        if counts_ports {
            self.ports.reserve();
        }
    }

    /// Counts and ports that were forgotten before their time.
    pub fn evicted(&self) -> u64 {
        self.entries.evicted() + self.ports.evicted()
    }

    /// Counts that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Decides on a match of a rule with `action`, and returns the action to take. Matches come in
    /// the order of their time.
    pub fn decide(&mut self, policy: &Policy, action: Action, what: &Match) -> (Decision, Action) {
        let (decision, action) = match (what.ends, &policy.filter) {
            (Some(ends), _) if policy.suppresses(ends) => (Decision::Silent, action),
            (Some(ends), Some(filter)) => self.count(filter, action, what, ends),
            _ => (Decision::Reported, action),
        };
        let is_silent = policy.is_silent || action == Action::Pass;
        match decision {
            Decision::Reported if is_silent => (Decision::Silent, action),
            decision => (decision, action),
        }
    }

    fn count(
        &mut self,
        filter: &Filter,
        action: Action,
        what: &Match,
        ends: (IpAddr, IpAddr),
    ) -> (Decision, Action) {
        let Some(key) = Key::of(filter, what, ends) else { return (Decision::Nothing, action) };
        let (now, seconds) = (what.now, u64::from(filter.rate().seconds));
        let port = filter.unique_on().map(|end| what.port(end));
        let window_end = |start: Instant| start.as_nanos().saturating_add(seconds * SECOND);
        let Some(slot) = self.entries.get(&key, now) else {
            let (count, decision) = Count::begin(filter, now);
            let expiry = if is_backoff(filter) { idle_end(now) } else { window_end(now) };
            self.entries.set(key, count, Instant::from_nanos(expiry), now);
            if let Some(port) = port {
                self.ports.set((key, port), now, Instant::from_nanos(expiry), now);
            }
            return (decision, action);
        };
        let is_within = now.as_nanos() <= window_end(slot.value.start);
        if let Some(port) = port {
            let start = if is_within { slot.value.start } else { now };
            let counted = self.ports.get(&(key, port), now);
            if is_within && counted.is_some_and(|counted| counted.value == start) {
                return (slot.value.beyond(filter), action);
            }
            let end = Instant::from_nanos(window_end(start));
            self.ports.set((key, port), start, end, now);
        }
        let decided = slot.value.go_on(filter, action, now, is_within);
        let expiry = match filter {
            Filter::Rate { timeout_s, .. } => slot.value.acting.map_or(0, |since| {
                since.as_nanos().saturating_add((u64::from(*timeout_s) + IDLE_S) * SECOND)
            }),
            _ if is_backoff(filter) => idle_end(now),
            _ => 0,
        };
        let expiry = expiry.max(window_end(slot.value.start));
        slot.expiry = slot.expiry.max(Instant::from_nanos(expiry));
        decided
    }
}

fn is_backoff(filter: &Filter) -> bool {
    matches!(filter, Filter::Threshold(Threshold { how: ThresholdHow::Backoff { .. }, .. }))
}

fn idle_end(now: Instant) -> u64 {
    now.as_nanos().saturating_add(IDLE_S * SECOND)
}

impl Key {
    /// The key that a match is counted by; `None` if it is counted by flow and has none.
    fn of(filter: &Filter, what: &Match, (src, dst): (IpAddr, IpAddr)) -> Option<Self> {
        let Rate { track, .. } = filter.rate();
        let (mut ends, mut flow) = (None, 0);
        match track {
            Track::Source => ends = Some((src, None)),
            Track::Destination => ends = Some((dst, None)),
            // Either way round they are the same pair.
            Track::Both => ends = Some((src.min(dst), Some(src.max(dst)))),
            Track::Rule => {}
            Track::Flow => flow = what.flow?,
        }
        let kind = match filter {
            Filter::Threshold(threshold) => match threshold.how {
                ThresholdHow::Limit => 0,
                ThresholdHow::Threshold => 1,
                ThresholdHow::Both => 2,
                ThresholdHow::Backoff { .. } => 3,
            },
            Filter::Detection(_) => 4,
            Filter::Rate { .. } => 5,
        };
        Some(Self { rule: what.rule, kind, track, ends, flow })
    }
}

impl Match {
    fn port(&self, end: PortEnd) -> u16 {
        match end {
            PortEnd::Source => self.ports.0,
            PortEnd::Destination => self.ports.1,
        }
    }
}

impl Count {
    /// The decision of a detection filter by the count so far.
    fn beyond(&self, filter: &Filter) -> Decision {
        match self.count > filter.rate().count {
            true => Decision::Reported,
            false => Decision::Nothing,
        }
    }

    /// The first match.
    fn begin(filter: &Filter, now: Instant) -> (Self, Decision) {
        let at_once = filter.rate().count <= 1;
        let mut count = Self { start: now, count: 1, next: filter.rate().count, acting: None };
        let reported = match filter {
            Filter::Detection(_) => false,
            Filter::Rate { .. } => true,
            Filter::Threshold(threshold) => match threshold.how {
                ThresholdHow::Limit => true,
                ThresholdHow::Threshold | ThresholdHow::Both => at_once,
                ThresholdHow::Backoff { multiplier } => {
                    if at_once {
                        count.next = multiplier;
                    }
                    at_once
                }
            },
        };
        (count, if reported { Decision::Reported } else { Decision::Nothing })
    }

    /// Another match, within the window or after it.
    fn go_on(
        &mut self,
        filter: &Filter,
        action: Action,
        now: Instant,
        is_within: bool,
    ) -> (Decision, Action) {
        if let Filter::Rate { rate, action: new, timeout_s } = filter {
            let is_new = self.is_acting(rate.count, u64::from(*timeout_s), now, is_within);
            return (Decision::Reported, if is_new { *new } else { action });
        }
        if let Filter::Threshold(Threshold { how: ThresholdHow::Backoff { multiplier }, .. }) =
            filter
        {
            return (self.back_off(*multiplier), action);
        }
        if !is_within {
            let (count, decision) = Self::begin(filter, now);
            *self = count;
            return (decision, action);
        }
        self.count = self.count.saturating_add(1);
        let limit = filter.rate().count;
        let decision = match filter {
            Filter::Detection(_) => self.beyond(filter),
            Filter::Threshold(threshold) => self.in_window(threshold.how, limit),
            _ => Decision::Nothing,
        };
        (decision, action)
    }

    fn in_window(&mut self, how: ThresholdHow, limit: u32) -> Decision {
        match how {
            ThresholdHow::Limit if self.count <= limit => Decision::Reported,
            ThresholdHow::Limit => Decision::Silent,
            ThresholdHow::Threshold if self.count >= limit => {
                self.count = 0;
                Decision::Reported
            }
            ThresholdHow::Both if self.count == limit.max(1) => Decision::Reported,
            ThresholdHow::Both if self.count > limit => Decision::Silent,
            _ => Decision::Nothing,
        }
    }

    fn back_off(&mut self, multiplier: u32) -> Decision {
        if self.count == u32::MAX {
            return Decision::Silent;
        }
        self.count += 1;
        if self.count != self.next {
            return Decision::Silent;
        }
        self.next = self.next.saturating_mul(multiplier);
        Decision::Reported
    }

    /// Whether a rate filter does its action. The match that ends it counts for nothing; whole
    /// seconds are compared.
    fn is_acting(&mut self, limit: u32, timeout_s: u64, now: Instant, is_within: bool) -> bool {
        let seconds = |time: Instant| time.as_nanos() / SECOND;
        if let Some(since) = self.acting {
            let goes_on = seconds(now).saturating_sub(seconds(since)) <= timeout_s;
            self.acting = self.acting.filter(|_| goes_on);
            return goes_on;
        }
        if !is_within {
            (self.start, self.count) = (now, 1);
            return false;
        }
        self.count = self.count.saturating_add(1);
        let begins = self.count > limit;
        if begins {
            self.acting = Some(now);
        }
        begins
    }
}
