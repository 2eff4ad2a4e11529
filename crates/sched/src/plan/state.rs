//! What is current where between two functions, and what one step makes of it.

use warpline_packet::FieldSet;

use super::outlook::Outlook;
use super::problem::{PlannedFunction, Problem, Touch};
use super::{Crossing, Step, Way};

/// Which fields are current on the host and in each mirror that is in use. Fields that nobody will need count as current
/// everywhere, so that states that differ in them alone are one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) host: FieldSet,
    pub(super) mirrors: Vec<Option<FieldSet>>,
}

/// How a step brings fields to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Up {
    Needed,
    Stale,
    Frame,
    Direct,
}

/// How a step brings fields to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// With the mirror in use, or with what a direct kernel wrote.
    Needed,
    /// All, and the mirror is given up.
    Last,
    Frame,
    /// The frame, and the mirror is given up.
    LastFrame,
}

/// Every way to the device and back.
pub(super) const UPS: [Up; 4] = [Up::Needed, Up::Stale, Up::Frame, Up::Direct];
pub(super) const DOWNS: [Down; 4] = [Down::Needed, Down::Last, Down::Frame, Down::LastFrame];

impl State {
    /// In front of the chain.
    pub(super) fn start(problem: &Problem) -> Self {
        Self { host: FieldSet::ALL, mirrors: vec![None; problem.links.len()] }
    }

    /// What a phase on the host does; whether it found what it needs.
    pub(super) fn on_host(&mut self, touch: Touch) -> bool {
        let has_all = self.host.covers(touch.needs);
        self.host = self.host | touch.writes;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror & !touch.writes;
        }
        has_all
    }

    /// What a function that is on no device of its own does; whether it found what it needs.
    pub(super) fn host_function(&mut self, function: &PlannedFunction) -> bool {
        function.host_first().into_iter().all(|(_, touch)| self.on_host(touch))
    }

    /// One step: `function`, at `position`, with its `before` done. `None` where the ways don't go together or something
    /// would be stale.
    pub(super) fn step(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        position: usize,
        (up, down): (Up, Down),
    ) -> Option<Step> {
        let function = &problem.functions[position];
        let device = function.device?;
        let mut first_to_host = Crossing::default();
        if up == Up::Frame {
            first_to_host = self.bring_frame(problem)?;
        }
        let to_device = self.up(problem, function, device, up)?;
        let missing = match up {
            Up::Needed | Up::Stale => problem.missing(position, device),
            Up::Frame | Up::Direct => Crossing::default(),
        };
        let is_mirrored = up != Up::Direct;
        self.run(device, function.run, is_mirrored);
        let live = outlook.live(position);
        self.forget(live);
        let is_direct = !is_mirrored;
        let (to_host, flagged) = self.down(problem, outlook, position, (down, is_direct))?;
        let has_all = self.on_host(function.after);
        let mirror_after = self.mirrors[device].is_some();
        has_all.then_some(Step {
            function: position,
            device,
            first_to_host,
            to_device,
            missing,
            to_host,
            flagged,
            mirror_after,
        })
    }

    /// Brings what the host lacks of the frame from the mirrors that have it.
    fn bring_frame(&mut self, problem: &Problem) -> Option<Crossing> {
        let missing = FieldSet::FRAME & !self.host;
        self.host = self.host | missing;
        let can = problem.can_cross(Way::Fields, missing);
        can.then(|| problem.widths.crossing(Way::Fields, missing))
    }

    fn up(
        &mut self,
        problem: &Problem,
        function: &PlannedFunction,
        device: usize,
        up: Up,
    ) -> Option<Crossing> {
        let (needs, has) = (function.run.needs, self.mirrors[device]);
        let stale = needs & !has.unwrap_or(FieldSet::EMPTY);
        let (way, fields) = match (up, has) {
            (Up::Needed, Some(_)) => (Way::Fields, stale),
            (Up::Stale, Some(has)) => {
                let all = stale | FieldSet::FRAME & !has;
                (all != stale).then_some((Way::Fields, all))?
            }
            (Up::Frame, has) if !has.is_some_and(|has| has.covers(FieldSet::FRAME)) => {
                (Way::Frame, stale | FieldSet::FRAME)
            }
            (Up::Direct, None) => (Way::Direct, stale),
            _ => return None,
        };
        if !self.host.covers(fields) || !problem.can_cross(way, fields) {
            return None;
        }
        if up != Up::Direct {
            self.mirrors[device] = Some(has.unwrap_or(FieldSet::EMPTY) | fields);
        }
        Some(problem.widths.crossing(way, fields))
    }

    /// The kernel.
    fn run(&mut self, device: usize, touch: Touch, is_mirrored: bool) {
        self.host = self.host & !touch.writes;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror & !touch.writes;
        }
        if let Some(mirror) = &mut self.mirrors[device]
            && is_mirrored
        {
            *mirror = *mirror | touch.writes;
        }
    }

    fn forget(&mut self, live: FieldSet) {
        self.host = self.host | !live;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror | !live;
        }
    }

    fn down(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        position: usize,
        (down, is_direct): (Down, bool),
    ) -> Option<(Crossing, Crossing)> {
        let function = &problem.functions[position];
        let device = function.device?;
        let live = outlook.live(position);
        let elsewhere = if problem.is_recoverable { live } else { outlook.elsewhere(position) };
        let has = if is_direct { function.run.writes } else { self.mirrors[device]? };
        let dirty = has & !self.host;
        let (way, fields) = match (down, is_direct) {
            (Down::Needed, true) => (Way::Direct, dirty),
            (Down::Needed, false) => (Way::Fields, dirty & elsewhere),
            (Down::Last, false) => (Way::Fields, dirty),
            (Down::Frame, false) if has.covers(FieldSet::FRAME) => {
                (Way::Frame, FieldSet::FRAME | dirty & elsewhere)
            }
            (Down::LastFrame, false) if has.covers(FieldSet::FRAME) => {
                (Way::Frame, FieldSet::FRAME | dirty)
            }
            _ => return None,
        };
        if !problem.can_cross(way, fields) {
            return None;
        }
        self.host = self.host | fields;
        let flagged = function.of_flagged(live & !self.host);
        let mut of_flagged = problem.widths.crossing(Way::Fields, flagged);
        of_flagged.bytes *= function.flagged_share;
        if matches!(down, Down::Last | Down::LastFrame) {
            self.mirrors[device] = None;
        }
        Some((problem.widths.crossing(way, fields), of_flagged))
    }
}

impl Problem {
    /// Whether the frame's part of `fields` can cross in this way.
    fn can_cross(&self, way: Way, fields: FieldSet) -> bool {
        way == Way::Frame || self.gathered.covers(fields & FieldSet::FRAME)
    }

    /// What a mirror in use lacks of packets in front of function `position`.
    fn missing(&self, position: usize, device: usize) -> Crossing {
        let before = &self.functions[..position];
        let last = before.iter().rev().find(|function| function.device == Some(device));
        match last.map_or(0.0, PlannedFunction::changed_share) {
            0.0 => Crossing::default(),
            share => {
                let bytes = share * self.widths.room;
                Crossing { way: Way::Frame, fields: FieldSet::FRAME, bytes }
            }
        }
    }

    /// What a step costs, in ns a packet.
    pub(super) fn cost(&self, step: &Step) -> f64 {
        let (link, widths) = (&self.links[step.device], &self.widths);
        let share = self.functions[step.function].flagged_share;
        // Those of a few packets: the transfer is as long as it must be, the rest is by packet.
        let sparse = Crossing { bytes: widths.of_set(step.flagged.fields), ..step.flagged };
        link.back_ns(widths, &step.first_to_host)
            + link.there_ns(widths, &step.to_device)
            + link.there_ns(widths, &step.missing)
            + link.back_ns(widths, &step.to_host)
            + share * link.back_ns(widths, &sparse)
    }
}
