//! The plans of older systems, made of the same steps, for comparison with `adaptive` and for runs.
//! They give the mirror up if their step would leave fields on a device so that no later step is
//! possible.

use warpline_packet::FieldSet;

use super::frontier::Frontier;
use super::outlook::Outlook;
use super::problem::Problem;
use super::state::{CurrentFields, Down, UPS, Up};
use super::{Plan, PlanStep, Way};

/// `G-NET`: every function for itself.
pub(super) fn per_nf(problem: &Problem) -> Plan {
    walk(problem, |at| at.take(Up::Direct, Down::Needed).or_else(|| at.take_whole()))
}

/// `Gaviss`: the whole packet goes to a device before its first function and stays there for its
/// others. Fields that the host changed since cross alone. The frame comes back after the last
/// function, if any of them writes frames.
pub(super) fn share_all(problem: &Problem) -> Plan {
    walk(problem, |at| {
        let device = at.problem.functions[at.position].device?;
        let rest = &at.problem.functions[at.position + 1..];
        let is_last = rest.iter().all(|next| next.device != Some(device));
        let up = if at.state.mirrors[device].is_none() { Up::Frame } else { Up::Needed };
        let ways: &[(Up, Down)] = match (is_last, at.writes_frames_so_far()) {
            // Some fields that the host needs meanwhile cross only with the whole frame.
            (false, _) => &[(up, Down::Needed), (up, Down::Frame), (Up::Frame, Down::Needed)],
            // Fields that the host changed cross to the device first, so that the frame comes back
            // whole.
            (true, true) => {
                &[(up, Down::LastFrame), (Up::Stale, Down::LastFrame), (up, Down::Last)]
            }
            (true, false) => &[(up, Down::Last)],
        };
        let brings_none = |(step, _): &(PlanStep, Frontier)| step.to_host.way == Way::Nothing;
        let last = if is_last { at.take(up, Down::Last).filter(brings_none) } else { None };
        last.or_else(|| ways.iter().find_map(|&(up, down)| at.take(up, down)))
            .or_else(|| at.take_whole())
    })
}

/// Each function takes its own cheapest way. A mirror stays in use as long as its device has
/// functions.
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
        let cost = |step: &PlanStep| {
            let there = link.there(&problem.widths, &step.to_device);
            (there + link.back(&problem.widths, &step.first_to_host)).total()
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
    state: &'a CurrentFields,
    /// The states of packets that don't come here next.
    others: &'a Frontier,
    position: usize,
}

impl At<'_> {
    fn take(&self, up: Up, down: Down) -> Option<(PlanStep, Frontier)> {
        let (problem, outlook, position) = (self.problem, self.outlook, self.position);
        let (mut states, mut state) = (self.others.clone(), self.state.clone());
        let step = state.step(problem, outlook, position, (up, down))?;
        let continues = states.leave(problem, outlook, Some(position), state)
            && can_continue(problem, outlook, position + 1, states.clone());
        continues.then_some((step, states))
    }

    /// The ways that give the mirror up, with a whole frame if necessary. They are needed if fields
    /// that can't cross alone prevent others, or are in a mirror from which the host must fetch
    /// them.
    fn take_whole(&self) -> Option<(PlanStep, Frontier)> {
        WHOLE.into_iter().find_map(|(up, down)| self.take(up, down))
    }

    /// Whether this function or one before it on its device writes frames.
    fn writes_frames_so_far(&self) -> bool {
        let functions = &self.problem.functions[..=self.position];
        let device = functions[self.position].device;
        let mut own = functions.iter().filter(|function| function.device == device);
        own.any(|function| !(function.run.writes & FieldSet::FRAME).is_empty())
    }
}

/// Ways that leave nothing in the mirror, if possible. The last applies when another mirror has
/// fields that the host lacks.
const WHOLE: [(Up, Down); 7] = [
    (Up::Needed, Down::Last),
    (Up::Needed, Down::LastFrame),
    (Up::Stale, Down::Last),
    (Up::Stale, Down::LastFrame),
    (Up::Frame, Down::Last),
    (Up::Frame, Down::LastFrame),
    (Up::Direct, Down::Needed),
];

/// Whether steps that give their mirrors up lead from `states`, before function `position`, to the
/// end or to a state where the host has everything. From that state they always do.
fn can_continue(
    problem: &Problem,
    outlook: &Outlook,
    position: usize,
    mut states: Frontier,
) -> bool {
    for position in position..problem.functions.len() {
        if states.is_settled(outlook) {
            return true;
        }
        let Some(mut state) = states.take(position) else { continue };
        if !state.host_first(problem, outlook, position) {
            return false;
        }
        if problem.functions[position].device.is_some() {
            let next = WHOLE.into_iter().find_map(|ways| {
                let mut next = state.clone();
                next.step(problem, outlook, position, ways).map(|_| next)
            });
            let Some(next) = next else { return false };
            state = next;
        }
        if !states.leave(problem, outlook, Some(position), state) {
            return false;
        }
    }
    true
}

/// Goes over the chain and has `choose` take each step.
fn walk(problem: &Problem, choose: impl Fn(&At<'_>) -> Option<(PlanStep, Frontier)>) -> Plan {
    let outlook = Outlook::of(problem);
    let mut plan = Plan::default();
    let Some(mut states) = Frontier::start(problem, &outlook) else { return plan };
    for (position, function) in problem.functions.iter().enumerate() {
        let Some(mut state) = states.take(position) else { continue };
        let is_sound = state.host_first(problem, &outlook, position);
        debug_assert!(is_sound, "every step is followed up to the next");
        if function.device.is_none() {
            states.leave(problem, &outlook, Some(position), state);
            continue;
        }
        let at = At { problem, outlook: &outlook, state: &state, others: &states, position };
        // Bringing the whole frame and giving the mirror up is always possible while the host has
        // the fields needed later.
        let Some((step, next)) = choose(&at) else { return plan };
        plan.cost_ns += problem.cost(&step);
        plan.steps.push(step);
        states = next;
    }
    plan
}
