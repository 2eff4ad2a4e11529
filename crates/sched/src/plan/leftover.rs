//! The fields that stay in a mirror alone. Launches need them to fetch packets that leave the
//! plan's way, and to find the packets that are lost with a device.

use warpline_packet::FieldSet;

use super::frontier::Frontier;
use super::outlook::Outlook;
use super::problem::Problem;
use super::state::CurrentFields;
use super::{Plan, PlanStep, Way};

/// The fields of the frame that only the mirror of a step's device has and that are needed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Before the kernel.
    pub before: FieldSet,
    /// After the step.
    pub behind: FieldSet,
    /// If `behind` is not empty: the fields for which the host has newer values than that mirror.
    /// All of them can be gathered.
    pub newer_here: FieldSet,
    /// Whether the mirror is in use before the step, for packets on any way.
    pub was_mirrored: bool,
}

impl Plan {
    /// For each step.
    pub fn leftovers(&self, problem: &Problem) -> Vec<Leftover> {
        let outlook = Outlook::of(problem);
        let mut all = Vec::with_capacity(self.steps.len());
        let Some(mut states) = Frontier::start(problem, &outlook) else { return all };
        for position in 0..problem.functions.len() {
            let Some(mut state) = states.take(position) else { continue };
            state.host_first(problem, &outlook, position);
            if let Some(step) = self.step(position) {
                all.push(state.follow(problem, &outlook, step));
            }
            states.leave(problem, &outlook, Some(position), state);
        }
        all
    }
}

impl CurrentFields {
    /// Takes a step of a plan.
    fn follow(&mut self, problem: &Problem, outlook: &Outlook, step: &PlanStep) -> Leftover {
        let (position, device) = (step.function, step.device);
        let (function, live) = (&problem.functions[position], outlook.live(position));
        let was_mirrored = self.mirrors[device].is_some();
        let before = self.lacks(outlook.ahead(position)) & self.mirror(device);
        self.host = self.host | step.first_to_host.fields;
        let is_direct = step.to_device.way == Way::Direct;
        if !is_direct {
            let there = step.to_device.fields & FieldSet::FRAME;
            self.mirrors[device] = Some(self.mirror(device) | there);
        }
        self.run(device, function.run, is_direct);
        self.forget(live);
        self.host = self.host | step.to_host.fields;
        if !step.mirror_after {
            self.mirrors[device] = None;
        }
        let behind = self.lacks(live) & self.mirror(device);
        let newer_here = match behind.is_empty() {
            true => FieldSet::EMPTY,
            false => FieldSet::FRAME & live & !self.mirror(device),
        };
        self.on_host(function.after);
        Leftover { before, behind, newer_here, was_mirrored }
    }
}
