//! The counters of a shard, by name.

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) inspected: u64,
    pub(super) not_ip: u64,
    pub(super) malformed: u64,
    pub(super) passed_by_rule: u64,
    /// Rules whose headers were compared, and those whose payload tests were run.
    pub(super) rules_asked: u64,
    pub(super) candidates: u64,
    pub(super) rescans: u64,
    pub(super) waiting_full: u64,
    /// Matches that were not noted: those that might have raised an alert, and those that could
    /// not.
    pub(super) alerts_over: u64,
    pub(super) matches_over: u64,
}

impl Counts {
    /// Names and numbers.
    pub(super) fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("inspected", self.inspected);
        visit("not-ip", self.not_ip);
        visit("malformed", self.malformed);
        visit("passed-by-rule", self.passed_by_rule);
        visit("rules-asked", self.rules_asked);
        visit("candidates", self.candidates);
        visit("rescans", self.rescans);
        visit("waiting-full", self.waiting_full);
        visit("alerts-over", self.alerts_over);
        visit("matches-over", self.matches_over);
    }
}
