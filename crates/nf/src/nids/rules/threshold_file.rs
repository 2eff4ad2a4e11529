//! What `threshold.config` says: thresholds, rate filters and suppressions laid over the rules of a set.

use std::sync::Arc;

use super::{Action, Addresses, Rate, Threshold};

/// A `threshold.config`, in the order of the file within each list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThresholdFile {
    /// `threshold` and `event_filter`: each takes the place of the rule's own.
    pub thresholds: Vec<GlobalThreshold>,
    /// `suppress`.
    pub suppressions: Vec<Suppression>,
    /// `rate_filter`.
    pub rate_filters: Vec<RateFilter>,
}

/// Which rules a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// `gen_id`; 0 for all.
    pub gid: u32,
    /// `sig_id`; 0 for all.
    pub sid: u32,
}

impl Ids {
    /// Whether the rule `gid:sid` is among them.
    pub fn contain(self, gid: u32, sid: u32) -> bool {
        (self.gid == 0 || self.gid == gid) && (self.sid == 0 || self.sid == sid)
    }
}

/// `threshold`, `event_filter`.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalThreshold {
    /// Of which rules.
    pub ids: Ids,
    /// What they get instead of their own.
    pub threshold: Threshold,
}

/// `suppress`: these alerts are not told; what else the rules do is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppression {
    /// Of which rules.
    pub ids: Ids,
    /// Of which packets; `None` for all.
    pub only: Option<(SuppressEnd, Arc<Addresses>)>,
}

/// Which address of a packet a suppression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuppressEnd {
    /// `by_src`.
    Source,
    /// `by_dst`.
    Destination,
    /// `by_either`.
    Either,
}

/// `rate_filter`: after `rate.count` matches in `rate.seconds` the rules do something else for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct RateFilter {
    /// Of which rules.
    pub ids: Ids,
    /// When it begins.
    pub rate: Rate,
    /// What they do then.
    pub new_action: Action,
    /// For how long, in seconds.
    pub timeout_s: u32,
}
