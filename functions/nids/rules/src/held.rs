//! Unsupported rules, skipped and counted by the missing feature.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{Need, SourceLine};

/// An unsupported rule, which is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRule {
    /// Where it stands.
    pub place: SourceLine,
    /// `gid`.
    pub gid: u32,
    /// `sid`.
    pub sid: u32,
    /// Its needs, as places in [`Held::needs`].
    needs: Box<[u32]>,
}

/// The unsupported rules.
#[derive(Clone, Debug, Default)]
pub struct Held {
    rules: Vec<HeldRule>,
    needs: Vec<Need>,
    known: HashMap<Need, u32>,
}

impl Held {
    /// The number of unsupported rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[HeldRule] {
        &self.rules
    }

    /// The needs of `rule`.
    pub fn needs_of<'h>(&'h self, rule: &'h HeldRule) -> impl Iterator<Item = &'h Need> {
        rule.needs.iter().filter_map(|need| self.needs.get(*need as usize))
    }

    /// The needs, each with the `sid`s of its rules, most rules first.
    pub fn by_need(&self) -> Vec<(&Need, Vec<u32>)> {
        let mut sids = vec![Vec::new(); self.needs.len()];
        for rule in &self.rules {
            for need in &rule.needs {
                if let Some(sids) = sids.get_mut(*need as usize) {
                    sids.push(rule.sid);
                }
            }
        }
        let needs = self.needs.iter().zip(sids);
        let mut needs: Vec<_> = needs.filter(|(_, sids)| !sids.is_empty()).collect();
        needs.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(b.0)));
        needs
    }

    /// Families of needs (`http.*`), each with how many rules need something of it, most first. A
    /// rule that needs several counts for each.
    pub fn by_family(&self) -> Vec<(String, usize)> {
        let families: Vec<_> = self.needs.iter().map(Need::family).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for rule in &self.rules {
            let mut of_rule: Vec<_> =
                rule.needs.iter().filter_map(|n| families.get(*n as usize)).collect();
            of_rule.sort_unstable();
            of_rule.dedup();
            of_rule.iter().for_each(|family| *counts.entry(family).or_default() += 1);
        }
        let mut counts: Vec<_> = counts.into_iter().map(|(f, n)| (f.to_owned(), n)).collect();
        counts.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
        counts
    }

    /// `[{"need": "http.uri", "kind": "buffer", "rules": 2, "sids": [1, 2]}, ...]`, most rules
    /// first.
    pub fn to_json(&self) -> Value {
        let need = |(need, sids): (&Need, Vec<u32>)| -> Value {
            json!({"need": need.name(), "kind": need.kind(), "rules": sids.len(), "sids": sids})
        };
        self.by_need().into_iter().map(need).collect()
    }

    /// Holds a rule apart.
    pub(super) fn push(&mut self, place: SourceLine, gid: u32, sid: u32, needs: &[Need]) {
        let needs = needs.iter().map(|need| match self.known.get(need) {
            Some(known) => *known,
            None => {
                let id = self.needs.len() as u32;
                self.needs.push(need.clone());
                self.known.insert(need.clone(), id);
                id
            }
        });
        let needs = needs.collect();
        self.rules.push(HeldRule { place, gid, sid, needs });
    }

    /// Keeps the rules whose place in the list satisfies `is_kept`.
    pub(super) fn keep(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut place = 0..;
        self.rules.retain(|_| place.next().is_some_and(&is_kept));
    }
}
