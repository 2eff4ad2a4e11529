//! Breadth-first search over all states that a model can reach.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

/// A model with finitely many states.
pub(super) trait Model: Clone {
    /// Two states with the same key behave alike from then on.
    type Key: Ord + Clone;
    type Event: Copy + Debug;

    fn key(&self) -> Self::Key;
    fn steps(&self) -> Vec<Self::Event>;
    fn apply(&mut self, step: Self::Event);
    /// Whether all work is done.
    fn is_end(&self) -> bool;
    /// The property that this state violates.
    fn violation(&self) -> Option<String>;
}

/// More would take too long.
const STATES_MAX: usize = 150_000;

/// All states, in the order of their distance from the first.
struct Reachable<M: Model> {
    ids: BTreeMap<M::Key, usize>,
    /// By state: how it was reached first.
    reached_by: Vec<Option<(usize, M::Event)>>,
    /// By state: the states one step before it.
    before: Vec<Vec<usize>>,
    ends: Vec<usize>,
    open: VecDeque<(usize, M)>,
}

/// Visits all states from `first` on. Returns how many there are.
///
/// # Errors
/// The steps to the first state that violates a property, or from which no end can be reached.
pub(super) fn explore<M: Model>(first: M) -> Result<usize, String> {
    let mut found: Reachable<M> = Reachable {
        ids: BTreeMap::new(),
        reached_by: Vec::new(),
        before: Vec::new(),
        ends: Vec::new(),
        open: VecDeque::new(),
    };
    found.visit(first, None)?;
    while let Some((id, model)) = found.open.pop_front() {
        for step in model.steps() {
            let mut next = model.clone();
            next.apply(step);
            found.visit(next, Some((id, step)))?;
        }
    }
    match found.first_stuck() {
        Some(stuck) => Err(format!("no end after {}", found.way(stuck))),
        None => Ok(found.before.len()),
    }
}

impl<M: Model> Reachable<M> {
    fn visit(&mut self, model: M, by: Option<(usize, M::Event)>) -> Result<(), String> {
        let key = model.key();
        let id = match self.ids.get(&key) {
            Some(&id) => id,
            None => self.add(key, model, by)?,
        };
        self.before[id].extend(by.map(|(before, _)| before));
        Ok(())
    }

    fn add(
        &mut self,
        key: M::Key,
        model: M,
        by: Option<(usize, M::Event)>,
    ) -> Result<usize, String> {
        let id = self.before.len();
        assert!(id < STATES_MAX, "too many states");
        self.ids.insert(key, id);
        self.reached_by.push(by);
        self.before.push(Vec::new());
        if let Some(text) = model.violation() {
            return Err(format!("{text} after {}", self.way(id)));
        }
        if model.is_end() {
            self.ends.push(id);
        }
        self.open.push_back((id, model));
        Ok(id)
    }

    /// The nearest state from which no end can be reached.
    fn first_stuck(&self) -> Option<usize> {
        let mut reaches = vec![false; self.before.len()];
        let mut open = self.ends.clone();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut reaches[id], true) {
                open.extend(&self.before[id]);
            }
        }
        reaches.iter().position(|&reaches| !reaches)
    }

    /// The steps to a state.
    fn way(&self, mut id: usize) -> String {
        let mut steps = Vec::new();
        while let Some((before, step)) = &self.reached_by[id] {
            steps.push(format!("{step:?}"));
            id = *before;
        }
        steps.reverse();
        steps.join(", ")
    }
}
