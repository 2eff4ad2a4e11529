//! A plan as a list of events: where each field is current and since when. `plan --explain` prints
//! them.

use warpline_packet::{Field, FieldSet};

use super::problem::{Problem, Touch};
use super::{Crossing, Plan, Way};

/// Something that happens to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A phase of function `function` needs it, on a device or on the host.
    Needed {
        /// Position in the chain.
        function: usize,
        /// `before`, `run` or `after`.
        phase: &'static str,
        /// The device; `None` is the host.
        device: Option<usize>,
    },
    /// A phase writes it: it is current there alone.
    Written {
        /// Position in the chain.
        function: usize,
        /// `before`, `run` or `after`.
        phase: &'static str,
        /// The device; `None` is the host.
        device: Option<usize>,
    },
    /// It crosses to a device.
    ToDevice {
        /// Position in the chain.
        function: usize,
        /// How.
        way: Way,
        /// The device.
        device: usize,
    },
    /// It crosses to the host.
    ToHost {
        /// Position in the chain.
        function: usize,
        /// How.
        way: Way,
        /// The device of the step.
        device: usize,
        /// Only of flagged packets.
        is_flagged: bool,
    },
}

/// A field that a kernel needs and that did not have to cross, as the mirror has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncrossedField {
    /// The function that needs it.
    pub function: usize,
    /// The field.
    pub field: Field,
    /// The function at which it came there, by a copy or by being written.
    pub since: usize,
}

impl Plan {
    /// Where `field` is copied, read and written, in order.
    pub fn history(&self, problem: &Problem, field: Field) -> Vec<Event> {
        let mut events = Vec::new();
        self.replay(problem, |fields, event| {
            if fields.contains(field) {
                events.push(event);
            }
        });
        events
    }

    /// Copies that were avoided: what kernels needed of frames and found in their mirrors.
    pub fn kept(&self, problem: &Problem) -> Vec<UncrossedField> {
        // By device and field: the function since which the mirror has it.
        let mut since = vec![vec![None; Field::ALL.len()]; problem.links.len()];
        let mut crossed = FieldSet::EMPTY;
        let mut kept = Vec::new();
        self.replay(problem, |fields, event| match event {
            Event::ToDevice { function, device, .. } => {
                crossed = fields;
                set(&mut since[device], fields, Some(function));
            }
            Event::Needed { function, phase: "run", device: Some(device) } => {
                let stayed = fields & FieldSet::FRAME & !crossed;
                let of = |field: Field| {
                    let since = since[device][field.bit() as usize].filter(|&at| at < function)?;
                    Some(UncrossedField { function, field, since })
                };
                kept.extend(stayed.iter().filter_map(of));
                crossed = FieldSet::EMPTY;
            }
            Event::Written { function, device, .. } => {
                for (other, fields_since) in since.iter_mut().enumerate() {
                    let is_here = device == Some(other);
                    set(fields_since, fields, is_here.then_some(function));
                }
            }
            _ => {}
        });
        kept
    }

    fn replay(&self, problem: &Problem, mut report: impl FnMut(FieldSet, Event)) {
        for (position, function) in problem.functions.iter().enumerate() {
            let Some(step) = self.step(position) else {
                for (name, touch) in function.host_first() {
                    phase(&mut report, (position, name, None), touch);
                }
                continue;
            };
            let device = step.device;
            let to_host =
                |report: &mut dyn FnMut(FieldSet, Event), crossing: &Crossing, is_flagged| {
                    let way = crossing.way;
                    report(
                        crossing.fields,
                        Event::ToHost { function: position, way, device, is_flagged },
                    );
                };
            phase(&mut report, (position, "before", None), function.before);
            to_host(&mut report, &step.first_to_host, false);
            let way = step.to_device.way;
            report(step.to_device.fields, Event::ToDevice { function: position, way, device });
            phase(&mut report, (position, "run", Some(device)), function.run);
            to_host(&mut report, &step.to_host, false);
            to_host(&mut report, &step.flagged, true);
            phase(&mut report, (position, "after", None), function.after);
        }
    }
}

/// The effect of a phase on fields, where it runs.
fn phase(
    report: &mut dyn FnMut(FieldSet, Event),
    (function, phase, device): (usize, &'static str, Option<usize>),
    touch: Touch,
) {
    report(touch.needs, Event::Needed { function, phase, device });
    report(touch.writes, Event::Written { function, phase, device });
}

fn set(since: &mut [Option<usize>], fields: FieldSet, at: Option<usize>) {
    for field in fields.iter() {
        since[field.bit() as usize] = at;
    }
}
