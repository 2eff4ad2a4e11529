//! Which fields are current where between two functions, and how a step changes that.

use warpline_packet::FieldSet;

use super::outlook::Outlook;
use super::problem::{PlannedFunction, Problem, Touch};
use super::{CopyTimes, Crossing, PlanStep, Way};

/// The fields that are current on the host and, of the frame, in each mirror in use. The host has
/// all metadata. Fields that are not needed any more count as current everywhere, so states that
/// differ in them alone are equal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CurrentFields {
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
    /// Needed fields: with the mirror in use, or those that a direct kernel wrote.
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

impl CurrentFields {
    /// In front of the chain.
    pub(super) fn start(problem: &Problem) -> Self {
        Self { host: FieldSet::ALL, mirrors: vec![None; problem.links.len()] }
    }

    /// The state of packets that come here in one of two states. A field is current where it is so
    /// in both. Packets that are not in a mirror get there from the host, so it will have the
    /// host's fields of those.
    pub(super) fn join(&mut self, other: &Self) {
        for (own, others) in self.mirrors.iter_mut().zip(&other.mirrors) {
            *own = match (*own, *others) {
                (Some(one), Some(another)) => Some(one & another),
                (Some(one), None) => Some(one & other.host),
                (None, Some(another)) => Some(another & self.host),
                (None, None) => None,
            };
        }
        self.host = self.host & other.host;
    }

    /// The host's work for function `position` before its step, or all of its work if it has none.
    /// Returns whether each phase found the fields it needs and left every packet so that it can be
    /// fetched.
    pub(super) fn host_first(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        position: usize,
    ) -> bool {
        let function = &problem.functions[position];
        if function.device.is_some() {
            return self.on_host(function.before)
                && self.can_fetch(problem, outlook.ahead(position));
        }
        let phases = function.host_first();
        (0..phases.len()).all(|at| {
            let rest = phases[at + 1..].iter();
            let live = rest.fold(outlook.behind(position), |all, (_, next)| all | next.needs);
            self.on_host(phases[at].1) && self.can_fetch(problem, live)
        })
    }

    /// A phase on the host; returns whether it found the fields it needs.
    pub(super) fn on_host(&mut self, touch: Touch) -> bool {
        let has_all = self.host.covers(touch.needs);
        self.host = self.host | touch.writes;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror & !touch.writes;
        }
        has_all
    }

    /// The fields that a device's mirror has; none if it is not in use.
    pub(super) fn mirror(&self, device: usize) -> FieldSet {
        self.mirrors[device].unwrap_or(FieldSet::EMPTY)
    }

    /// The needed fields of the frame that the host lacks.
    pub(super) fn lacks(&self, live: FieldSet) -> FieldSet {
        FieldSet::FRAME & live & !self.host
    }

    /// Whether any packet can be fetched. If the host lacks fields, one mirror must have all of
    /// these and all that can't be gathered.
    pub(super) fn can_fetch(&self, problem: &Problem, live: FieldSet) -> bool {
        let lacks = self.lacks(live);
        let asked = lacks | FieldSet::FRAME & live & !problem.gathered;
        lacks.is_empty() || self.mirrors.iter().flatten().any(|mirror| mirror.covers(asked))
    }

    /// One step: the function at `position`, after its `before`. `None` if the ways don't combine,
    /// a field would be stale, or a packet couldn't be fetched.
    pub(super) fn step(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        position: usize,
        (up, down): (Up, Down),
    ) -> Option<PlanStep> {
        let function = &problem.functions[position];
        let device = function.device?;
        let mut first_to_host = Crossing::default();
        if up == Up::Frame {
            first_to_host = self.bring_frame(problem)?;
        }
        let to_device = self.up(problem, position, device, up)?;
        let missing = match up {
            Up::Needed | Up::Stale => problem.missing(position, device),
            Up::Frame | Up::Direct => Crossing::default(),
        };
        let is_direct = up == Up::Direct;
        if !self.can_fall_back(function, device, is_direct) {
            return None;
        }
        self.run(device, function.run, is_direct);
        let live = outlook.live(position);
        self.forget(live);
        let to_host = self.down(problem, outlook, position, (down, is_direct))?;
        let flagged = self.flagged(problem, function, live);
        // Flagged packets are fetched from the device that flagged them.
        if flagged.way == Way::Frame && !self.mirror(device).covers(self.lacks(live)) {
            return None;
        }
        let mirror_after = self.mirrors[device].is_some();
        let is_sound = self.can_fetch(problem, live)
            && self.on_host(function.after)
            && self.can_fetch(problem, outlook.behind(position));
        is_sound.then_some(PlanStep {
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
        let can = problem.fetches_first && problem.can_cross(Way::Fields, missing);
        (can || missing.is_empty()).then(|| problem.widths.crossing(Way::Fields, missing, 0.0))
    }

    fn up(
        &mut self,
        problem: &Problem,
        position: usize,
        device: usize,
        up: Up,
    ) -> Option<Crossing> {
        let function = &problem.functions[position];
        let (needs, has) = (function.run.needs & FieldSet::FRAME, self.mirrors[device]);
        let stale = needs & !has.unwrap_or(FieldSet::EMPTY);
        let (way, fields) = match (up, has) {
            (Up::Needed, Some(_)) => (Way::Fields, stale),
            (Up::Stale, Some(has)) => {
                let all = stale | FieldSet::FRAME & !has;
                (all != stale).then_some((Way::Fields, all))?
            }
            (Up::Frame, has) if !has.is_some_and(|has| has.covers(FieldSet::FRAME)) => {
                (Way::Frame, FieldSet::FRAME)
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
        let frame = problem.whole(position).there;
        let mut crossing = problem.widths.crossing(way, fields, frame);
        if up == Up::Direct {
            crossing.way = Way::Direct;
        }
        Some(crossing.with_row(function.run.needs & !FieldSet::FRAME, function.row.there))
    }

    /// Whether the host can do the kernel's work for packets that this leaves to it. It has the
    /// fields, or fetches them from the mirror that the kernel uses. Earlier steps bring them like
    /// all fields needed elsewhere.
    fn can_fall_back(&self, function: &PlannedFunction, device: usize, is_direct: bool) -> bool {
        let mirror = if is_direct { None } else { self.mirrors[device] };
        let has = self.host | mirror.unwrap_or(FieldSet::EMPTY);
        has.covers(function.fallback & FieldSet::FRAME)
    }

    /// The kernel.
    pub(super) fn run(&mut self, device: usize, touch: Touch, is_direct: bool) {
        let writes = touch.writes & FieldSet::FRAME;
        self.host = self.host & !writes;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror & !writes;
        }
        if let Some(mirror) = &mut self.mirrors[device]
            && !is_direct
        {
            *mirror = *mirror | writes;
        }
    }

    pub(super) fn forget(&mut self, live: FieldSet) {
        self.host = self.host | !live;
        for mirror in self.mirrors.iter_mut().flatten() {
            *mirror = *mirror | FieldSet::FRAME & !live;
        }
    }

    fn down(
        &mut self,
        problem: &Problem,
        outlook: &Outlook,
        position: usize,
        (down, is_direct): (Down, bool),
    ) -> Option<Crossing> {
        let function = &problem.functions[position];
        let device = function.device?;
        let live = outlook.live(position);
        let elsewhere = match problem.is_recoverable {
            true => live,
            false => outlook.elsewhere(position),
        };
        let writes = function.run.writes;
        let has = if is_direct { writes & FieldSet::FRAME } else { self.mirrors[device]? };
        let dirty = has & !self.host;
        let (way, fields) = match (down, is_direct) {
            (Down::Needed, true) => (Way::Direct, dirty),
            (Down::Needed, false) => (Way::Fields, dirty & elsewhere),
            (Down::Last, false) => (Way::Fields, dirty),
            (Down::Frame | Down::LastFrame, false) if has.covers(FieldSet::FRAME) => {
                (Way::Frame, FieldSet::FRAME)
            }
            _ => return None,
        };
        if !problem.can_cross(way, fields) {
            return None;
        }
        self.host = self.host | fields;
        if matches!(down, Down::Last | Down::LastFrame) {
            self.mirrors[device] = None;
        }
        let crossing = problem.widths.crossing(way, fields, problem.whole(position).back);
        Some(crossing.with_row(writes & !FieldSet::FRAME, function.row.back))
    }

    /// The additional copy of flagged packets.
    fn flagged(&self, problem: &Problem, function: &PlannedFunction, live: FieldSet) -> Crossing {
        let lacks = self.lacks(live);
        if !function.fetches_flagged(lacks) {
            return Crossing::default();
        }
        let widths = &problem.widths;
        let mut crossing = widths.crossing(Way::Frame, lacks, widths.room);
        crossing.bytes *= function.flagged_share;
        crossing
    }
}

impl Problem {
    /// Whether the frame's part of `fields` can cross in this way.
    fn can_cross(&self, way: Way, fields: FieldSet) -> bool {
        way == Way::Frame || self.gathered.covers(fields & FieldSet::FRAME)
    }

    /// The packets that a mirror in use lacks before function `position`: those that functions on
    /// devices changed on the host since the device's last function.
    fn missing(&self, position: usize, device: usize) -> Crossing {
        let before = &self.functions[..position];
        let last = before.iter().rposition(|function| function.device == Some(device));
        let since = before[last.unwrap_or(position)..].iter().filter(|one| one.device.is_some());
        match 1.0 - since.map(|function| 1.0 - function.changed_share()).product::<f64>() {
            0.0 => Crossing::default(),
            share => {
                let bytes = share * self.whole(position).there;
                self.widths.crossing(Way::Frame, FieldSet::FRAME, bytes)
            }
        }
    }

    /// The cost of a step, in ns per packet.
    pub(super) fn cost(&self, step: &PlanStep) -> f64 {
        self.times(step).total()
    }

    /// The time of a step's copies for a packet.
    pub(super) fn times(&self, step: &PlanStep) -> CopyTimes {
        let (link, widths) = (&self.links[step.device], &self.widths);
        let share = self.functions[step.function].flagged_share;
        // Each flagged packet costs what a whole one does.
        let sparse = match step.flagged.way {
            Way::Nothing => step.flagged,
            _ => Crossing { bytes: widths.room, ..step.flagged },
        };
        link.back(widths, &step.first_to_host)
            + link.there(widths, &step.to_device)
            + link.there(widths, &step.missing)
            + link.back(widths, &step.to_host)
            + share * link.back(widths, &sparse)
    }
}
