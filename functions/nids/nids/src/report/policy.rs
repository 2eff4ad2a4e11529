//! The reporting policy of a rule: its own threshold and the entries of `threshold.config`.
//!
//! A rule has at most one filter that counts. If several could apply, one is chosen as in Suricata
//! (userguide, "Global thresholds vs rule thresholds"; `SetupThresholdRule`). Lines apply in their
//! order:
//! - a `threshold` or `event_filter` of just this rule replaces what the rule has by then;
//! - any other line applies to a rule that has no `threshold` or `detection_filter` of its own and
//!   none by an earlier line.
//!
//! Suppressions add up.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use warpline_nids_rules::{
    Action, Addresses, DetectionFilter, GlobalFilter, Ids, PortEnd, Rate, RateFilter, Rule,
    SuppressEnd, Threshold, ThresholdFile,
};

/// The reporting policy for a rule's matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Nothing is reported: `noalert`, or a suppression of all packets.
    pub is_silent: bool,
    /// Addresses whose packets are not reported.
    pub suppressed: Arc<[(SuppressEnd, Arc<Addresses>)]>,
    /// Counts matches.
    pub filter: Option<Filter>,
}

/// A filter that counts a rule's matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// `threshold`.
    Threshold(Threshold),
    /// `detection_filter`: it matches after the `count`th match.
    Detection(DetectionFilter),
    /// `rate_filter`: after the `count`th match it does `action` for `timeout_s` seconds.
    Rate {
        /// When it begins.
        rate: Rate,
        /// The new action.
        action: Action,
        /// For how long, in seconds.
        timeout_s: u32,
    },
}

impl Filter {
    /// The number of matches and their time.
    pub fn rate(&self) -> Rate {
        match self {
            Self::Threshold(threshold) => threshold.rate,
            Self::Detection(DetectionFilter { rate, .. }) | Self::Rate { rate, .. } => *rate,
        }
    }

    /// The port by which it counts.
    pub(super) fn unique_on(&self) -> Option<PortEnd> {
        match self {
            Self::Detection(filter) => filter.unique_on,
            Self::Threshold(_) | Self::Rate { .. } => None,
        }
    }

    fn of(filter: &RateFilter) -> Self {
        Self::Rate { rate: filter.rate, action: filter.new_action, timeout_s: filter.timeout_s }
    }
}

impl Policy {
    /// Whether what becomes of a packet hangs on what was counted, for a rule that does `action`:
    /// the shard has to decide, because the report comes too late.
    pub fn decides_verdict(&self, action: Action) -> bool {
        match self.filter {
            None => false,
            Some(Filter::Rate { action: new, .. }) => action != new || action != Action::Alert,
            Some(Filter::Threshold(_) | Filter::Detection(_)) => action != Action::Alert,
        }
    }

    /// Whether packets with these addresses are suppressed.
    pub fn suppresses(&self, (src, dst): (IpAddr, IpAddr)) -> bool {
        self.suppressed.iter().any(|(end, addresses)| match end {
            SuppressEnd::Source => contains(addresses, src),
            SuppressEnd::Destination => contains(addresses, dst),
            SuppressEnd::Either => contains(addresses, src) || contains(addresses, dst),
        })
    }
}

fn contains(addresses: &Addresses, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_in(&addresses.v4, address),
        IpAddr::V6(address) => is_in(&addresses.v6, address),
    }
}

/// Whether `one` is in a range; they are sorted and apart.
fn is_in<T: Ord + Copy>(ranges: &[(T, T)], one: T) -> bool {
    let place = ranges.partition_point(|(_, last)| *last < one);
    ranges.get(place).is_some_and(|(first, _)| *first <= one)
}

/// A `threshold.config`, ready to be laid over many rules.
pub struct Policies<'a> {
    file: &'a ThresholdFile,
    /// Places in the lists of entries that name one rule.
    own: HashMap<(u32, u32), Lines>,
    /// Places of entries that name several.
    many: Lines,
}

#[derive(Default)]
struct Lines {
    filters: Vec<usize>,
    suppressions: Vec<usize>,
}

impl<'a> Policies<'a> {
    /// Of `file`.
    pub fn new(file: &'a ThresholdFile) -> Self {
        let mut policies = Self { file, own: HashMap::new(), many: Lines::default() };
        for (at, line) in file.filters.iter().enumerate() {
            policies.lines(line.ids()).filters.push(at);
        }
        for (at, line) in file.suppressions.iter().enumerate() {
            policies.lines(line.ids).suppressions.push(at);
        }
        policies
    }

    fn lines(&mut self, ids: Ids) -> &mut Lines {
        if ids.is_one() { self.own.entry((ids.gid, ids.sid)).or_default() } else { &mut self.many }
    }

    /// The reporting policy of `rule`.
    pub fn of(&self, rule: &Rule) -> Policy {
        let (gid, sid) = (rule.about.gid, rule.about.sid);
        let none = Lines::default();
        let own = self.own.get(&(gid, sid)).unwrap_or(&none);
        let suppressions = own.suppressions.iter().chain(&self.many.suppressions);
        let suppressions: Vec<_> = suppressions
            .map(|at| &self.file.suppressions[*at])
            .filter(|line| line.ids.contain(gid, sid))
            .collect();
        Policy {
            is_silent: rule.about.is_silent || suppressions.iter().any(|line| line.only.is_none()),
            suppressed: suppressions.iter().filter_map(|line| line.only.clone()).collect(),
            filter: self.filter(rule, own),
        }
    }

    fn filter(&self, rule: &Rule, own: &Lines) -> Option<Filter> {
        let (gid, sid) = (rule.about.gid, rule.about.sid);
        let of_rule = rule.threshold.map(Filter::Threshold);
        let of_rule = of_rule.or(rule.detection_filter.map(Filter::Detection));
        // Of lines about several rules only the first can apply.
        let filters = &self.file.filters;
        let of_many = |at: &&usize| filters[**at].ids().contain(gid, sid);
        let many = self.many.filters.iter().find(of_many);
        let mut lines: Vec<&usize> = own.filters.iter().chain(many).collect();
        lines.sort_unstable();
        lines.into_iter().fold(of_rule, |found, &at| match &filters[at] {
            GlobalFilter::Threshold(line) if found.is_none() || line.ids.is_one() => {
                Some(Filter::Threshold(line.threshold))
            }
            GlobalFilter::Rate(line) if found.is_none() => Some(Filter::of(line)),
            _ => found,
        })
    }
}
