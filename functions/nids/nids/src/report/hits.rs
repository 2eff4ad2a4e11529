//! How often each rule matched, by its `gid` and `sid`, over all rule sets of a run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use serde_json::{Value, json};

use warpline_nf::{Cell, Table};
use warpline_nids_rules::About;

/// The rules that matched.
#[derive(Default)]
pub(super) struct Hits {
    list: Vec<Hit>,
    by_id: HashMap<(u32, u32), usize>,
}

/// A rule that matched.
pub(super) struct Hit {
    gid: u32,
    sid: u32,
    rev: u32,
    msg: Arc<str>,
    pub(super) matches: u64,
    pub(super) alerts: u64,
}

impl Hits {
    /// Takes memory for `rules` more rules.
    pub(super) fn reserve(&mut self, rules: usize) {
        self.list.reserve(rules);
        self.by_id.reserve(rules);
    }

    /// The place of a rule, which is called what the last rule set calls it.
    pub(super) fn place(&mut self, about: &About) -> usize {
        let About { gid, sid, rev, .. } = *about;
        let msg = Arc::clone(&about.msg);
        match self.by_id.entry((gid, sid)) {
            Entry::Occupied(entry) => {
                let hit = &mut self.list[*entry.get()];
                (hit.rev, hit.msg) = (rev, msg);
                *entry.get()
            }
            Entry::Vacant(entry) => {
                self.list.push(Hit { gid, sid, rev, msg, matches: 0, alerts: 0 });
                *entry.insert(self.list.len() - 1)
            }
        }
    }

    /// The counts at a place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Hit> {
        self.list.get_mut(place)
    }

    /// Matches and alerts of all rules.
    pub(super) fn totals(&self) -> (u64, u64) {
        self.list
            .iter()
            .fold((0, 0), |(matches, alerts), hit| (matches + hit.matches, alerts + hit.alerts))
    }

    /// Those that matched most first.
    fn sorted(&self) -> Vec<&Hit> {
        let mut all: Vec<&Hit> = self.list.iter().collect();
        all.sort_by_key(|hit| (u64::MAX - hit.matches, hit.gid, hit.sid));
        all
    }

    /// All of it: `{"rules": [...], "totals": {...}}`, the rules that matched most first.
    pub(super) fn json(&self) -> Value {
        let rule = |hit: &&Hit| {
            json!({
                "gid": hit.gid, "sid": hit.sid, "rev": hit.rev, "msg": &*hit.msg,
                "matches": hit.matches, "alerts": hit.alerts,
                "suppressed": hit.matches - hit.alerts,
            })
        };
        let rules: Vec<Value> = self.sorted().iter().map(rule).collect();
        let (matches, alerts) = self.totals();
        let suppressed = matches - alerts;
        json!({
            "rules": rules,
            "totals": {
                "rules": self.list.len(),
                "matches": matches, "alerts": alerts, "suppressed": suppressed,
            },
        })
    }

    /// The `count` rules that matched most.
    pub(super) fn table(&self, count: usize) -> Table {
        let row = |hit: &&Hit| {
            vec![
                Cell::Text(format!("{}:{}:{}", hit.gid, hit.sid, hit.rev)),
                Cell::Number(hit.matches),
                Cell::Number(hit.alerts),
                Cell::Text(hit.msg.to_string()),
            ]
        };
        let rows = self.sorted().iter().take(count).map(row).collect();
        Table { name: "top_rules", columns: vec!["rule", "matches", "alerts", "message"], rows }
    }
}
