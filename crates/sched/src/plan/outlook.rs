//! The future at each position of a chain: which fields will be needed, and which are needed
//! elsewhere first.

use warpline_packet::FieldSet;

use super::problem::{PlanHops, PlannedFunction, Problem, Touch};

/// See the module.
pub(super) struct Outlook {
    /// By function: fields needed on any device from its `before` on; at the end, by the sink.
    entry: Vec<FieldSet>,
    /// By function: fields needed on any device from its `run` on.
    ahead: Vec<FieldSet>,
    /// By function: fields needed on any device after its `run`.
    live: Vec<FieldSet>,
    /// By function: fields needed after it.
    behind: Vec<FieldSet>,
    /// By function: fields needed after its `run`, elsewhere than on its device, before that
    /// device's next function.
    elsewhere: Vec<FieldSet>,
    ways: PlanHops,
}

impl Outlook {
    pub(super) fn of(problem: &Problem) -> Self {
        let (ways, count) = (problem.ways(), problem.functions.len());
        let nothing = vec![FieldSet::EMPTY; count];
        let [mut ahead, mut live, mut behind] = [nothing.clone(), nothing.clone(), nothing];
        let mut entry = vec![problem.end_reads; count + 1];
        for (position, function) in problem.functions.iter().enumerate().rev() {
            let mut later = union(&entry, &ways.functions[position]);
            behind[position] = later;
            later = later | function.after.needs | function.after_flagged.needs;
            live[position] = later;
            later = later | function.run_needs();
            ahead[position] = later;
            entry[position] = later | function.before.needs;
        }
        let elsewhere = elsewhere(problem, &ways);
        Self { entry, ahead, live, behind, elsewhere, ways }
    }

    /// Also of the end.
    pub(super) fn entry(&self, position: usize) -> FieldSet {
        self.entry[position]
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

    /// The places after a function, or after ingress.
    pub(super) fn next(&self, place: Option<usize>) -> &[usize] {
        place.map_or(&self.ways.ingress, |position| &self.ways.functions[position])
    }
}

fn union(of: &[FieldSet], places: &[usize]) -> FieldSet {
    places.iter().fold(FieldSet::EMPTY, |all, &place| all | of[place])
}

/// By function, the fields needed between its `run` and the next function on its device, or the
/// end, on all ways there.
fn elsewhere(problem: &Problem, ways: &PlanHops) -> Vec<FieldSet> {
    let mut all = vec![FieldSet::EMPTY; problem.functions.len()];
    for device in 0..problem.links.len() {
        let mut needed = vec![problem.end_reads; problem.functions.len() + 1];
        for (position, function) in problem.functions.iter().enumerate().rev() {
            let next = union(&needed, &ways.functions[position]);
            let is_own = function.device == Some(device);
            if is_own {
                all[position] = before(function.after, next);
            }
            needed[position] = passed(function, next, is_own);
        }
    }
    all
}

/// The fields needed from a function on, where `next` are those needed after it. Nothing after
/// `before` counts if the function is on the device in question.
fn passed(function: &PlannedFunction, next: FieldSet, is_own: bool) -> FieldSet {
    if is_own {
        return function.before.needs;
    }
    let flagged = match function.device {
        Some(_) => FieldSet::EMPTY,
        None => function.after_flagged.needs,
    };
    let run = Touch { needs: function.run_needs(), ..function.run };
    [function.after, run, function.before]
        .into_iter()
        .fold(next | flagged, |later, touch| before(touch, later))
}

/// The fields needed from a phase on. A field that it writes without needing it is current there
/// from then on.
fn before(touch: Touch, later: FieldSet) -> FieldSet {
    touch.needs | later & !touch.writes
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
