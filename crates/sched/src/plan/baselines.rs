//! The plans of older systems, of the same steps: what `adaptive` is compared with, and what a run can be told to do.

use warpline_packet::FieldSet;

use super::outlook::Outlook;
use super::problem::Problem;
use super::state::{Down, State, UPS, Up};
use super::{Plan, Step};

/// `G-NET`: every function for itself.
pub(super) fn per_nf(problem: &Problem) -> Plan {
    walk(problem, |at| at.take(Up::Direct, Down::Needed).or_else(|| at.take_whole()))
}

/// `Gaviss`: a run of functions on one device shares whole frames, which go there before the first and come back behind the
/// last, where any of them writes frames.
pub(super) fn share_all(problem: &Problem) -> Plan {
    walk(problem, |at| {
        let device = at.problem.functions[at.position].device;
        let on_device = |position: usize| {
            at.problem.functions.get(position).is_some_and(|function| function.device == device)
        };
        let is_first = at.position == 0 || !on_device(at.position - 1);
        let up = if is_first { Up::Frame } else { Up::Needed };
        let down = match (on_device(at.position + 1), at.writes_frames_so_far()) {
            (true, _) => Down::Needed,
            (false, true) => Down::LastFrame,
            (false, false) => Down::Last,
        };
        // A phase on the host wrote to what lies on the device: the frame can't come back whole.
        at.take(up, down).or_else(|| at.take(up, Down::Last)).or_else(|| at.take_whole())
    })
}

/// Each function what is cheapest for itself; a mirror that is in use stays so as long as its device has functions.
pub(super) fn local(problem: &Problem) -> Plan {
    walk(problem, |at| {
        let (problem, position) = (at.problem, at.position);
        let device = problem.functions[position].device;
        let is_last = problem.functions[position + 1..].iter().all(|next| next.device != device);
        let down = |up| match (up, is_last) {
            (Up::Direct, _) | (_, false) => Down::Needed,
            _ => Down::Last,
        };
        let link = &problem.links[device?];
        let cost = |step: &Step| {
            link.there_ns(&problem.widths, &step.to_device)
                + link.back_ns(&problem.widths, &step.first_to_host)
        };
        let all = UPS.into_iter().filter_map(|up| at.take(up, down(up)));
        let least = all.min_by(|(one, _), (other, _)| cost(one).total_cmp(&cost(other)));
        least.or_else(|| at.take_whole())
    })
}

/// Where a baseline stands.
struct At<'a> {
    problem: &'a Problem,
    outlook: &'a Outlook,
    state: &'a State,
    position: usize,
}

impl At<'_> {
    fn take(&self, up: Up, down: Down) -> Option<(Step, State)> {
        let mut state = self.state.clone();
        let step = state.step(self.problem, self.outlook, self.position, (up, down))?;
        Some((step, state))
    }

    /// Where fields that can't cross one by one stand in the way: what gives the mirror up, with a whole frame if it must.
    fn take_whole(&self) -> Option<(Step, State)> {
        let ups = [Up::Needed, Up::Stale, Up::Frame].into_iter();
        let mut all = ups.flat_map(|up| [(up, Down::Last), (up, Down::LastFrame)]);
        all.find_map(|(up, down)| self.take(up, down))
    }

    /// Whether this function or one in front of it, back to the last one elsewhere, writes frames.
    fn writes_frames_so_far(&self) -> bool {
        let functions = &self.problem.functions[..=self.position];
        let device = functions[self.position].device;
        let run = functions.iter().rev().take_while(|function| function.device == device);
        run.fold(FieldSet::EMPTY, |all, function| all | function.run.writes & FieldSet::FRAME)
            != FieldSet::EMPTY
    }
}

/// Goes over the chain and has `choose` take each step.
fn walk(problem: &Problem, choose: impl Fn(&At<'_>) -> Option<(Step, State)>) -> Plan {
    let outlook = Outlook::of(problem);
    let mut state = State::start(problem);
    let mut plan = Plan::default();
    for (position, function) in problem.functions.iter().enumerate() {
        if function.device.is_none() {
            let has_all = state.host_function(function);
            debug_assert!(has_all, "every step brings what the host needs");
            continue;
        }
        state.on_host(function.before);
        let at = At { problem, outlook: &outlook, state: &state, position };
        // To bring the whole frame and give the mirror up always goes, so long as the host has what is behind it.
        let Some((step, next)) = choose(&at) else { return plan };
        plan.cost_ns += problem.cost(&step);
        plan.steps.push(step);
        state = next;
    }
    plan
}
