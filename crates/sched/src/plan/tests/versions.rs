//! Checks whether a plan reads a stale field. It is written from the meaning of copies, not from
//! how plans are made. Every field has a version in each memory, which grows with a write and
//! crosses with a copy.
//!
//! It follows the packet of the plan and two that leave its way. A kernel leaves one to the host
//! and flags the other. At every moment any packet may have to be fetched from a mirror that has
//! something newer than the host.

use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlannedFunction, Problem, Touch};
use super::super::{Crossing, Leftover, Plan, PlanStep, Way};

const FIELDS: usize = Field::ALL.len();

type Versions = [u32; FIELDS];

pub(super) struct Memories {
    newest: Versions,
    host: Versions,
    /// The versions in a mirror, a launch's table or the buffers of a direct kernel, if any.
    devices: Vec<[Option<u32>; FIELDS]>,
    /// Which devices have a mirror in use.
    mirrors: Vec<bool>,
}

fn bit(field: Field) -> usize {
    field.bit() as usize
}

impl Memories {
    pub(super) fn new(devices: usize) -> Self {
        Self {
            newest: [1; FIELDS],
            host: [1; FIELDS],
            devices: vec![[None; FIELDS]; devices],
            mirrors: vec![false; devices],
        }
    }

    pub(super) fn touch(
        &mut self,
        device: Option<usize>,
        touch: Touch,
        who: &str,
    ) -> Result<(), String> {
        for field in touch.needs.iter() {
            let has = match device {
                None => Some(self.host[bit(field)]),
                Some(device) => self.devices[device][bit(field)],
            };
            if has != Some(self.newest[bit(field)]) {
                return Err(format!("{who} reads `{}`, which is stale there", field.name()));
            }
        }
        for at in touch.writes.iter().map(bit) {
            self.newest[at] += 1;
            match device {
                None => self.host[at] = self.newest[at],
                Some(device) => self.devices[device][at] = Some(self.newest[at]),
            }
        }
        Ok(())
    }

    /// The device's fields go to the host, whether they are newer or not. Fields outside `live` are
    /// not read any more and may be older than the host's.
    pub(super) fn bring_back(
        &mut self,
        device: usize,
        fields: FieldSet,
        live: FieldSet,
        who: &str,
    ) -> Result<(), String> {
        for field in fields.iter() {
            let Some(version) = self.devices[device][bit(field)] else {
                return Err(format!("{who} copies `{}`, which is not on the device", field.name()));
            };
            if version < self.host[bit(field)] && live.contains(field) {
                return Err(format!("{who} overwrites `{}` of the host", field.name()));
            }
            self.host[bit(field)] = version;
        }
        Ok(())
    }

    /// Fields cross to a device.
    pub(super) fn send(&mut self, device: usize, fields: FieldSet) {
        for at in fields.iter().map(bit) {
            self.devices[device][at] = Some(self.host[at]);
        }
    }

    pub(super) fn is_in_mirror(&self, device: usize) -> bool {
        self.mirrors[device]
    }

    /// A launch ends and leaves the frame in the mirror; its table is gone.
    pub(super) fn enter_mirror(&mut self, device: usize) {
        self.mirrors[device] = true;
        let gone = !FieldSet::FRAME;
        gone.iter().for_each(|field| self.devices[device][bit(field)] = None);
    }

    pub(super) fn leave_mirror(&mut self, device: usize) {
        self.mirrors[device] = false;
        self.devices[device] = [None; FIELDS];
    }

    /// Brings fields from whichever device has the newest.
    fn bring(&mut self, fields: FieldSet, who: &str) -> Result<(), String> {
        for field in fields.iter() {
            let newest = Some(self.newest[bit(field)]);
            let Some(device) = self.devices.iter().position(|own| own[bit(field)] == newest) else {
                return Err(format!("{who} brings `{}`, which no device has", field.name()));
            };
            self.bring_back(device, FieldSet::of(&[field]), FieldSet::ALL, who)?;
        }
        Ok(())
    }

    /// The fields of `live` that are newer than the host's.
    fn lacks(&self, live: FieldSet) -> FieldSet {
        let is_stale = |field: &Field| self.host[bit(*field)] != self.newest[bit(*field)];
        live.iter().filter(is_stale).collect()
    }

    /// The needed fields of the frame for which a mirror has newer values than the host.
    pub(super) fn alone(&self, device: usize, live: FieldSet) -> FieldSet {
        let own = &self.devices[device];
        let is_alone = |field: &Field| {
            let newest = self.newest[bit(*field)];
            self.mirrors[device]
                && own[bit(*field)] == Some(newest)
                && self.host[bit(*field)] != newest
        };
        (live & FieldSet::FRAME).iter().filter(is_alone).collect()
    }

    /// The needed fields of the frame for which the host has newer values than a mirror.
    fn newer_here(&self, device: usize, live: FieldSet) -> FieldSet {
        let own = &self.devices[device];
        let is_newer = |field: &Field| own[bit(*field)] != Some(self.newest[bit(*field)]);
        (live & FieldSet::FRAME).iter().filter(is_newer).collect()
    }

    /// Fetches a packet: the whole room from the one mirror with the fields that the host lacks,
    /// then the host's newer fields put back over it. Returns the host's versions and the mirror,
    /// or nothing if the host lacks no field of `live`.
    pub(super) fn fetched(
        &self,
        problem: &Problem,
        live: FieldSet,
        who: &str,
    ) -> Result<(Versions, Option<usize>), String> {
        let lacks = self.lacks(live);
        let mut host = self.host;
        if lacks.is_empty() {
            return Ok((host, None));
        }
        let has_all = |device: &usize| {
            let own = &self.devices[*device];
            self.mirrors[*device]
                && lacks.iter().all(|field| own[bit(field)] == Some(self.newest[bit(field)]))
        };
        let Some(device) = (0..self.devices.len()).find(has_all) else {
            return Err(format!("{who}: no mirror has all of {lacks}, which the host lacks"));
        };
        for field in FieldSet::FRAME.iter() {
            let there = self.devices[device][bit(field)].unwrap_or(0);
            if there > host[bit(field)] {
                host[bit(field)] = there;
            } else if there < host[bit(field)]
                && live.contains(field)
                && !problem.gathered.contains(field)
            {
                return Err(format!("{who}: `{}` can't be put back over a frame", field.name()));
            }
        }
        Ok((host, Some(device)))
    }
}

/// The fields read from phase `first` of function `position` on. Phases are `before`, `run`,
/// `after`, and `after` of flagged packets.
fn needed(problem: &Problem, position: usize, first: usize) -> FieldSet {
    let mut all = problem.end_reads;
    for (at, function) in problem.functions.iter().enumerate().skip(position) {
        let fallback = function.device.map_or(FieldSet::EMPTY, |_| function.fallback);
        let phases = [
            function.before.needs,
            function.run.needs | fallback & FieldSet::FRAME,
            function.after.needs,
            function.after_flagged.needs,
        ];
        let own = phases.into_iter().skip(if at == position { first } else { 0 });
        all = own.fold(all, |all, needs| all | needs);
    }
    all
}

/// Follows a packet through the plan.
pub(super) fn follow(problem: &Problem, plan: &Plan) -> Result<(), String> {
    let mut at = Memories::new(problem.links.len());
    let mut leftovers = plan.leftovers(problem).into_iter();
    for (position, function) in problem.functions.iter().enumerate() {
        let name = &function.name;
        at.touch(None, function.before, &format!("before of {name}"))?;
        at.fetched(problem, needed(problem, position, 1), &format!("before of {name}"))?;
        let Some(device) = function.device else {
            let rest = [function.run, function.after, function.after_flagged];
            for (phase, touch) in rest.into_iter().enumerate() {
                at.touch(None, touch, &format!("phase {} of {name}", phase + 1))?;
                at.fetched(problem, needed(problem, position, phase + 2), name)?;
            }
            continue;
        };
        let step = plan.step(position).ok_or_else(|| format!("no step for {name}"))?;
        weigh(problem, function, step)?;
        let reported = leftovers.next().ok_or_else(|| format!("no leftover for {name}"))?;
        let before = at.alone(device, needed(problem, position, 1));
        let was_mirrored = at.mirrors[device];
        let own = launch(problem, &mut at, (position, device), step)?;
        if reported != (Leftover { before, was_mirrored, ..own }) {
            return Err(format!(
                "{name} gets {reported:?}; {before:?} and {own:?} stay on the device"
            ));
        }
        if problem.is_recoverable {
            let lost = at.lacks(needed(problem, position + 1, 0));
            if !lost.is_empty() {
                return Err(format!("{lost} would be lost behind {name}"));
            }
        }
    }
    at.touch(None, Touch { needs: problem.end_reads, writes: FieldSet::EMPTY }, "the sink")
}

fn launch(
    problem: &Problem,
    at: &mut Memories,
    (position, device): (usize, usize),
    step: &PlanStep,
) -> Result<Leftover, String> {
    let function = &problem.functions[position];
    let name = &function.name;
    if !problem.fetches_first && step.first_to_host != Crossing::default() {
        return Err(format!("{name} fetches first"));
    }
    at.bring(step.first_to_host.fields, name)?;
    match (step.to_device.way, at.mirrors[device]) {
        (Way::Nothing | Way::Fields, false) => return Err(format!("{name} has no frame")),
        (Way::Direct, true) => return Err(format!("{name} lets a mirror lie")),
        (Way::Frame, _) => at.mirrors[device] = true,
        _ => {}
    }
    let is_alone = step.to_device.way == Way::Direct;
    for at_bit in step.to_device.fields.iter().map(bit) {
        at.devices[device][at_bit] = Some(at.host[at_bit]);
    }
    left(problem, at, (position, device), is_alone)?;
    at.touch(Some(device), function.run, &format!("run of {name}"))?;
    at.bring_back(device, step.to_host.fields, needed(problem, position, 2), name)?;
    if is_alone && step.mirror_after {
        return Err(format!("{name} works without a mirror, and has one afterwards"));
    }
    // The table was the launch's.
    let stays = if step.mirror_after { FieldSet::FRAME } else { FieldSet::EMPTY };
    let gone = !stays;
    gone.iter().for_each(|field| at.devices[device][bit(field)] = None);
    at.mirrors[device] = step.mirror_after;
    let live = needed(problem, position, 2);
    at.fetched(problem, live, name)?;
    let behind = at.alone(device, live);
    let newer_here = if behind.is_empty() { FieldSet::EMPTY } else { at.newer_here(device, live) };
    flagged(problem, at, position, step)?;
    at.touch(None, function.after, &format!("after of {name}"))?;
    at.fetched(problem, needed(problem, position + 1, 0), &format!("after of {name}"))?;
    Ok(Leftover { behind, newer_here, ..Leftover::default() })
}

/// A packet that the kernel leaves to the host, before it changed anything.
fn left(
    problem: &Problem,
    at: &Memories,
    (position, device): (usize, usize),
    is_alone: bool,
) -> Result<(), String> {
    let function = &problem.functions[position];
    let fallback = function.fallback & FieldSet::FRAME;
    if at.lacks(fallback).is_empty() {
        return Ok(());
    }
    let who = format!("{}, on the host", function.name);
    if is_alone {
        return Err(format!("{who}, lacks {} and has no mirror", at.lacks(fallback)));
    }
    let (host, from) = at.fetched(problem, needed(problem, position, 1), &who)?;
    let stale = fallback.iter().find(|&field| host[bit(field)] != at.newest[bit(field)]);
    match stale {
        Some(field) => Err(format!("{who}, reads `{}`, which is stale", field.name())),
        None if from != Some(device) => Err(format!("{who}, fetches from another mirror")),
        None => Ok(()),
    }
}

/// A flagged packet is fetched if the plan requires it, and `after` then runs on it, apart from all
/// others.
fn flagged(
    problem: &Problem,
    at: &mut Memories,
    position: usize,
    step: &PlanStep,
) -> Result<(), String> {
    let function = &problem.functions[position];
    let who = format!("after of {}, flagged", function.name);
    let others = (at.host, at.newest);
    let live = needed(problem, position, 2);
    if step.flagged.way == Way::Frame {
        if step.flagged.fields != at.lacks(live) {
            return Err(format!("{who}: {} are lacking", at.lacks(live)));
        }
        let (host, from) = at.fetched(problem, live, &who)?;
        if from != Some(step.device) {
            return Err(format!("{who}: fetched from another mirror"));
        }
        at.host = host;
    } else if step.flagged != Crossing::default() {
        return Err(format!("{who}: they come whole or not at all"));
    }
    at.touch(None, function.after_flagged, &who)?;
    // From then on it is the host's.
    let changes = function.after_flagged.writes & (FieldSet::FRAME | FieldSet::GEOMETRY);
    let lost = at.lacks(needed(problem, position + 1, 0));
    if !changes.is_empty() && !lost.is_empty() {
        return Err(format!("{who}: the host changes frames that lack {lost}"));
    }
    (at.host, at.newest) = others;
    Ok(())
}

/// Whether bytes are those of the fields and the row, and fields cross by themselves that can.
fn weigh(problem: &Problem, function: &PlannedFunction, step: &PlanStep) -> Result<(), String> {
    let (share, none) = (function.flagged_share, 0.0);
    let room = problem.widths.room;
    let [there, back] = match &function.whole {
        Some(whole) => [whole.there, whole.back],
        None => [room; 2],
    };
    let all = [
        ("first", step.first_to_host, none, 1.0, 0.0),
        ("there", step.to_device, function.row.there, 1.0, there),
        ("back", step.to_host, function.row.back, 1.0, back),
        ("flagged", step.flagged, none, share, room),
    ];
    for (what, crossing, row, share, whole) in all {
        let frame = crossing.fields & FieldSet::FRAME;
        let of_frame: f64 = match crossing.way {
            Way::Frame => whole,
            _ => frame.iter().map(|field| problem.widths.of(field)).sum(),
        };
        if (crossing.bytes - share * (of_frame + row)).abs() > 1e-9 || crossing.row_bytes != row {
            return Err(format!("{what} of {}: {crossing:?} has other bytes", function.name));
        }
        let has_packed = crossing.way != Way::Frame && !problem.gathered.covers(frame);
        if has_packed || crossing.way == Way::Nothing && !frame.is_empty() {
            return Err(format!("{what} of {}: {crossing:?} can't cross", function.name));
        }
    }
    let both = [(step.to_device, function.run.needs), (step.to_host, function.run.writes)];
    for (crossing, declared) in both {
        if crossing.fields & !FieldSet::FRAME != declared & !FieldSet::FRAME {
            return Err(format!("the table of {} has other columns", function.name));
        }
    }
    Ok(())
}
