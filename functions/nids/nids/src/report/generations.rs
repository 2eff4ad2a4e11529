//! The rule sets of a run, and which of them a note is about, while they change and packets flow.
//!
//! Every function holds its own. One that replaces another ([`Generation::follow`]) adds its rule
//! set to those of the running report. The report keeps the rule sets in use; one that no function
//! holds any more is dropped here. A note of a rule set reaches the report before the function that
//! made it is freed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::{Policies, Policy};
use warpline_nids_rules::{About, Action, Names, Rule, ThresholdFile};

/// The properties of a rule that the report needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Its identity.
    pub about: About,
    /// Its action.
    pub action: Action,
    /// Its reporting policy.
    pub policy: Policy,
}

impl Reported {
    /// Of `rules`, in their order, with `file` laid over them.
    pub fn of(rules: &[Rule], file: &ThresholdFile) -> Arc<[Self]> {
        let policies = Policies::new(file);
        let one = |rule: &Rule| Self {
            about: rule.about.clone(),
            action: rule.action,
            policy: policies.of(rule),
        };
        rules.iter().map(one).collect()
    }
}

/// A function's rule set and its place among those of the run.
pub struct Generation {
    rules: Arc<[Reported]>,
    names: Arc<Names>,
    /// All of them, and the number of this one; the first is 0.
    place: OnceLock<(Arc<Generations>, u32)>,
}

impl Generation {
    /// The first of a run, unless it follows another.
    pub fn new(rules: Arc<[Reported]>, names: Names) -> Self {
        Self { rules, names: Arc::new(names), place: OnceLock::new() }
    }

    /// It takes the place of `old` in a run. Called before anything else is asked of it.
    pub fn follow(&self, old: &Self) {
        let all = old.all();
        self.place.get_or_init(|| (Arc::clone(all), all.add(&self.rules, &self.names)));
    }

    /// Its number, for notes.
    pub fn number(&self) -> u32 {
        self.place().1
    }

    /// Its rules.
    pub fn rules(&self) -> &Arc<[Reported]> {
        &self.rules
    }

    /// All rule sets of the run.
    pub(super) fn all(&self) -> &Arc<Generations> {
        &self.place().0
    }

    fn place(&self) -> &(Arc<Generations>, u32) {
        self.place.get_or_init(|| {
            let all = Arc::new(Generations::default());
            let number = all.add(&self.rules, &self.names);
            (all, number)
        })
    }
}

/// A rule set, and the texts of its flowbits and flowints.
struct RuleSet {
    number: u32,
    rules: Weak<[Reported]>,
    names: Weak<Names>,
}

/// The rule sets of a run that functions hold.
#[derive(Default)]
pub(super) struct Generations(Mutex<Held>);

#[derive(Default)]
struct Held {
    next: u32,
    rule_sets: Vec<RuleSet>,
}

impl Generations {
    /// Rule set `number`.
    pub(super) fn get(&self, number: u32) -> Option<(Arc<[Reported]>, Arc<Names>)> {
        let held = self.held();
        let RuleSet { rules, names, .. } =
            held.rule_sets.iter().find(|own| own.number == number)?;
        rules.upgrade().zip(names.upgrade())
    }

    fn add(&self, rules: &Arc<[Reported]>, names: &Arc<Names>) -> u32 {
        let mut held = self.held();
        held.rule_sets.retain(|set| set.rules.strong_count() > 0);
        let number = held.next;
        held.next = number.wrapping_add(1);
        let (rules, names) = (Arc::downgrade(rules), Arc::downgrade(names));
        held.rule_sets.push(RuleSet { number, rules, names });
        number
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
