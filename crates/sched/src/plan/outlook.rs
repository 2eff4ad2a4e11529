//! The future at each position of a chain: which fields will be needed, and which are needed
//! elsewhere first.

use warpline_packet::FieldSet;

use super::problem::{PlannedFunction, Problem, Touch};

/// See the module.
pub(super) struct Outlook {
    /// By function: fields needed on any device from its `run` on.
    ahead: Vec<FieldSet>,
    /// By function: fields needed on any device after its `run`.
    live: Vec<FieldSet>,
    /// By function: fields needed after it.
    behind: Vec<FieldSet>,
    /// By function: fields needed after its `run`, elsewhere than on its device, before that
    /// device's next function.
    elsewhere: Vec<FieldSet>,
}

impl Outlook {
    pub(super) fn of(problem: &Problem) -> Self {
        let nothing = vec![FieldSet::EMPTY; problem.functions.len()];
        let [mut ahead, mut live, mut behind] = [nothing.clone(), nothing.clone(), nothing];
        let mut later = problem.end_reads;
        for (position, function) in problem.functions.iter().enumerate().rev() {
            behind[position] = later;
            later = later | function.after.needs | function.after_flagged.needs;
            live[position] = later;
            later = later | function.run_needs();
            ahead[position] = later;
            later = later | function.before.needs;
        }
        let elsewhere = (0..live.len()).map(|position| elsewhere(problem, position)).collect();
        Self { ahead, live, behind, elsewhere }
    }

    pub(super) fn ahead(&self, position: usize) -> FieldSet {
        self.ahead[position]
    }

    pub(super) fn behind(&self, position: usize) -> FieldSet {
        self.behind[position]
    }

    pub(super) fn live(&self, position: usize) -> FieldSet {
        self.live[position]
    }

    pub(super) fn elsewhere(&self, position: usize) -> FieldSet {
        self.elsewhere[position]
    }
}

/// Walks from after `run` of function `position` to the next function on its device, or to the end.
/// A field that is written on the way without being needed is current there from then on.
fn elsewhere(problem: &Problem, position: usize) -> FieldSet {
    let mut walk = Walk::default();
    let here = &problem.functions[position];
    walk.pass(here.after);
    for function in &problem.functions[position + 1..] {
        walk.pass(function.before);
        if function.device == here.device {
            return walk.needed;
        }
        walk.pass(Touch { needs: function.run_needs(), ..function.run });
        walk.pass(function.after);
        if function.device.is_none() {
            walk.needed = walk.needed | function.after_flagged.needs & !walk.written;
        }
    }
    walk.needed | problem.end_reads & !walk.written
}

#[derive(Default)]
struct Walk {
    needed: FieldSet,
    written: FieldSet,
}

impl Walk {
    fn pass(&mut self, touch: Touch) {
        self.needed = self.needed | touch.needs & !self.written;
        self.written = self.written | touch.writes;
    }
}

impl PlannedFunction {
    /// Whether a flagged packet must come whole if the host lacks the needed fields `missing`. That
    /// holds if `after` reads some of them, or changes the frame, which is then current on the
    /// host.
    pub(super) fn fetches_flagged(&self, missing: FieldSet) -> bool {
        let changes = self.after_flagged.writes & (FieldSet::FRAME | FieldSet::GEOMETRY);
        !missing.is_empty()
            && (!changes.is_empty() || !(missing & self.after_flagged.needs).is_empty())
    }
}
