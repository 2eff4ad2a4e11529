//! The states of packets on their ways between functions: those that wait for each later function.

use super::outlook::Outlook;
use super::problem::Problem;
use super::state::CurrentFields;

/// By later function, in ascending order, the joined state of all packets that come to it from the
/// functions so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frontier {
    waiting: Vec<(usize, CurrentFields)>,
}

impl Frontier {
    /// At ingress. `None` if the sink needs more than there is.
    pub(super) fn start(problem: &Problem, outlook: &Outlook) -> Option<Self> {
        let mut own = Self { waiting: Vec::new() };
        own.leave(problem, outlook, None, CurrentFields::start(problem)).then_some(own)
    }

    /// The state before function `position`, whose turn it is; `None` if no packet comes there.
    pub(super) fn take(&mut self, position: usize) -> Option<CurrentFields> {
        let at = self.waiting.iter().position(|(place, _)| *place == position)?;
        Some(self.waiting.remove(at).1)
    }

    /// Packets go on from a place in `state`. Returns whether the host has all that the sink reads
    /// of those that go there.
    pub(super) fn leave(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        place: Option<usize>,
        state: CurrentFields,
    ) -> bool {
        let next = outlook.next(place);
        if let [to] = next {
            return self.arrive(problem, *to, state);
        }
        next.iter().all(|&to| {
            let mut state = state.clone();
            // Other ways may need more.
            state.forget(outlook.entry(to));
            self.arrive(problem, to, state)
        })
    }

    fn arrive(&mut self, problem: &Problem, to: usize, state: CurrentFields) -> bool {
        if to == problem.functions.len() {
            return state.host.covers(problem.end_reads);
        }
        match self.waiting.binary_search_by_key(&to, |(place, _)| *place) {
            Ok(at) => self.waiting[at].1.join(&state),
            Err(at) => self.waiting.insert(at, (to, state)),
        }
        true
    }

    /// Whether the host has all fields that any packet needs later. From such a state there is
    /// always a way to the end.
    pub(super) fn is_settled(&self, outlook: &Outlook) -> bool {
        let mut all = self.waiting.iter();
        all.all(|(place, state)| state.lacks(outlook.entry(*place)).is_empty())
    }
}
