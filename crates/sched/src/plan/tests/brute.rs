//! Enumerates every plan that the tables allow; the search must agree. It records for each field
//! which memories have it, and shares no state with the search.

use std::collections::BTreeSet;

use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlannedFunction, Problem, Touch, WholeBytes};
use super::super::{Crossing, PlanStep, Way};

/// The memories with the last value of each field: the host is 0, device `d` is `d + 1`.
#[derive(Clone)]
struct Holders(Vec<BTreeSet<usize>>);

impl Holders {
    fn has(&self, who: usize, field: Field) -> bool {
        self.0[field.bit() as usize].contains(&who)
    }

    fn held(&self, who: usize) -> FieldSet {
        Field::ALL.iter().copied().filter(|&field| self.has(who, field)).collect()
    }

    fn copy(&mut self, fields: FieldSet, to: usize) {
        for field in fields.iter() {
            self.0[field.bit() as usize].insert(to);
        }
    }

    fn write(&mut self, fields: FieldSet, who: usize) {
        fields.iter().for_each(|field| self.0[field.bit() as usize] = [who].into());
    }

    /// Fields that are not needed any more count as current on the host and on all of `mirrors`.
    fn settle(&mut self, live: FieldSet, mirrors: &[bool]) {
        for field in Field::ALL.iter().filter(|field| !live.contains(**field)) {
            let holders = &mut self.0[field.bit() as usize];
            let in_use = (0..mirrors.len()).filter(|&device| mirrors[device]);
            holders.extend(in_use.map(|device| device + 1).chain([0]));
        }
    }

    fn forget(&mut self, who: usize) {
        for holders in &mut self.0 {
            holders.remove(&who);
        }
    }
}

#[derive(Clone)]
struct At {
    holders: Holders,
    /// Which mirrors are in use.
    mirrors: Vec<bool>,
}

impl At {
    /// Whether packets can be fetched, where `live` are the fields read later. One mirror must have
    /// all fields that the host lacks, and every field that can't leave its frame.
    fn can_fetch(&self, problem: &Problem, live: FieldSet) -> bool {
        let live: Vec<Field> = (live & FieldSet::FRAME).iter().collect();
        let is_away = |field: &&Field| !self.holders.has(0, **field);
        let away: Vec<&Field> = live.iter().filter(is_away).collect();
        let serves = |device: usize| {
            let has = |field: &Field| self.holders.has(device + 1, *field);
            let keeps = |field: &Field| has(field) || problem.gathered.contains(*field);
            self.mirrors[device] && away.iter().all(|field| has(field)) && live.iter().all(keeps)
        };
        away.is_empty() || (0..self.mirrors.len()).any(serves)
    }
}

/// By function, all packets that come to it so far, one state for each place they come from.
#[derive(Clone)]
struct Crowds {
    waiting: Vec<Vec<At>>,
    cost: f64,
}

impl Crowds {
    /// Packets in state `at` go from a place (`None` is ingress) to all that may come next. Returns
    /// whether the host has all that the sink reads of those that end there.
    fn part(&mut self, problem: &Problem, from: Option<usize>, at: &At) -> bool {
        let places = next(problem, from);
        let mut is_sound = true;
        for &place in &places {
            let mut at = at.clone();
            if places.len() > 1 {
                at.holders.settle(live(problem, place, 0), &at.mirrors);
            }
            is_sound &=
                place < problem.functions.len() || at.holders.held(0).covers(problem.end_reads);
            self.waiting[place].push(at);
        }
        is_sound
    }
}

/// The places after one, each once.
fn next(problem: &Problem, from: Option<usize>) -> BTreeSet<usize> {
    let first = from.map_or(0, |from| from + 1);
    let Some(hops) = &problem.hops else { return [first].into() };
    let own = from.map_or(&hops.ingress, |from| &hops.functions[from]);
    own.iter().copied().filter(|place| (first..=problem.functions.len()).contains(place)).collect()
}

/// All that come to one place. A memory has a field if it has it of each of them. A mirror gets
/// packets that it lacks from the host.
fn met(crowds: &[At]) -> Option<At> {
    let mut all = crowds.first()?.clone();
    for device in 0..all.mirrors.len() {
        all.mirrors[device] = crowds.iter().any(|one| one.mirrors[device]);
    }
    for &field in Field::ALL {
        let has = |who: usize, one: &At| match who {
            0 => one.holders.has(0, field),
            _ if one.mirrors[who - 1] => one.holders.has(who, field),
            _ => all.mirrors[who - 1] && one.holders.has(0, field),
        };
        let who = (0..=all.mirrors.len()).filter(|&who| crowds.iter().all(|one| has(who, one)));
        all.holders.0[field.bit() as usize] = who.collect();
    }
    Some(all)
}

/// The least that any plan costs.
pub(super) fn least(problem: &Problem) -> f64 {
    let holders = Holders(vec![[0].into(); Field::ALL.len()]);
    let start = At { holders, mirrors: vec![false; problem.links.len()] };
    let waiting = vec![Vec::new(); problem.functions.len() + 1];
    let mut crowds = Crowds { waiting, cost: 0.0 };
    let mut best = f64::INFINITY;
    if crowds.part(problem, None, &start) {
        go(problem, 0, crowds, &mut best);
    }
    best
}

fn host(problem: &Problem, at: &mut At, touch: Touch, live: FieldSet) -> bool {
    let is_current = at.holders.held(0).covers(touch.needs);
    at.holders.write(touch.writes, 0);
    is_current && at.can_fetch(problem, live)
}

fn go(problem: &Problem, position: usize, crowds: Crowds, best: &mut f64) {
    let Some(function) = problem.functions.get(position) else {
        *best = best.min(crowds.cost);
        return;
    };
    let Some(mut at) = met(&crowds.waiting[position]) else {
        return go(problem, position + 1, crowds, best);
    };
    let on = |at: &At, cost: f64, best: &mut f64| {
        let mut crowds = Crowds { cost: crowds.cost + cost, ..crowds.clone() };
        // No step costs less than nothing.
        if crowds.cost < *best && crowds.part(problem, Some(position), at) {
            go(problem, position + 1, crowds, best);
        }
    };
    if !host(problem, &mut at, function.before, live(problem, position, 1)) {
        return;
    }
    let Some(device) = function.device else {
        let rest = [function.run, function.after, function.after_flagged];
        let all = rest.into_iter().enumerate();
        let mut is_sound = true;
        for (phase, touch) in all {
            is_sound &= host(problem, &mut at, touch, live(problem, position, phase + 2));
        }
        if is_sound {
            on(&at, 0.0, best);
        }
        return;
    };
    for to_device in 0..4 {
        for to_host in 0..4 {
            let mut at = at.clone();
            let Some(step) = step(problem, position, device, &mut at, (to_device, to_host)) else {
                continue;
            };
            if host(problem, &mut at, function.after, after(problem, position)) {
                on(&at, problem.cost(&step), best);
            }
        }
    }
}

/// Fields on their way to a kernel.
struct There {
    first: FieldSet,
    way: Way,
    fields: FieldSet,
    has_mirror: bool,
}

/// Fields on their way back from it.
struct Home {
    way: Way,
    fields: FieldSet,
    flagged: Option<FieldSet>,
    mirror_after: bool,
}

fn step(
    problem: &Problem,
    position: usize,
    device: usize,
    at: &mut At,
    (to_device, to_host): (u8, u8),
) -> Option<PlanStep> {
    let function = &problem.functions[position];
    let there = go_there(problem, position, device, at, to_device)?;
    let home = come_home(problem, position, device, at, (to_host, there.has_mirror))?;
    let of = |way, fields: FieldSet, row: f64, frame: f64| {
        let way = if fields.is_empty() && there.has_mirror { Way::Nothing } else { way };
        let bytes = row + if way == Way::Frame { frame } else { problem.widths.of_set(fields) };
        Crossing { way, fields, bytes, row_bytes: row }
    };
    let [frame_there, frame_home] = whole(problem, position);
    let flagged = home.flagged.map(|lacks| of(Way::Frame, lacks, 0.0, 0.0));
    Some(PlanStep {
        function: position,
        device,
        first_to_host: of(Way::Fields, there.first, 0.0, 0.0),
        to_device: of(there.way, there.fields, function.row.there, frame_there),
        missing: if to_device < 2 {
            left_behind(problem, position, device)
        } else {
            Crossing::default()
        },
        to_host: of(home.way, home.fields, function.row.back, frame_home),
        flagged: flagged.map(|all| Crossing { bytes: 0.0, ..all }).unwrap_or_default(),
        mirror_after: home.mirror_after,
    })
}

/// Whether these cross so: payloads and options do with whole frames alone.
fn alone(problem: &Problem, way: Way, fields: FieldSet) -> bool {
    way == Way::Frame || (fields & FieldSet::FRAME & !problem.gathered).is_empty()
}

fn go_there(
    problem: &Problem,
    position: usize,
    device: usize,
    at: &mut At,
    number: u8,
) -> Option<There> {
    let function = &problem.functions[position];
    let own = device + 1;
    let frame_needs = function.run.needs & FieldSet::FRAME;
    let stale = frame_needs & !at.holders.held(own);
    let frame_stale = FieldSet::FRAME & !at.holders.held(own);
    let mut first = FieldSet::EMPTY;
    let (way, fields) = match (number, at.mirrors[device]) {
        (0, true) => (Way::Fields, stale),
        (1, true) if !stale.covers(frame_stale) => (Way::Fields, frame_stale),
        (2, _) if !frame_stale.is_empty() => {
            first = FieldSet::FRAME & !at.holders.held(0);
            (Way::Frame, FieldSet::FRAME)
        }
        (3, false) => (Way::Direct, frame_needs),
        _ => return None,
    };
    if !first.is_empty() && !problem.fetches_first {
        return None;
    }
    at.holders.copy(first, 0);
    let can_cross = alone(problem, way, fields) && alone(problem, Way::Fields, first);
    if !at.holders.held(0).covers(fields) || !can_cross {
        return None;
    }
    let has_mirror = number != 3;
    let falls_back = (function.fallback & FieldSet::FRAME)
        .iter()
        .all(|field| at.holders.has(0, field) || has_mirror && at.holders.has(own, field));
    at.holders.copy(fields, own);
    falls_back.then_some(There { first, way, fields, has_mirror })
}

fn come_home(
    problem: &Problem,
    position: usize,
    device: usize,
    at: &mut At,
    (number, has_mirror): (u8, bool),
) -> Option<Home> {
    let (function, own) = (&problem.functions[position], device + 1);
    at.holders.write(function.run.writes & FieldSet::FRAME, own);
    at.mirrors[device] = has_mirror;
    let live = live(problem, position, 2);
    at.holders.settle(live, &at.mirrors);
    let unseen = at.holders.held(own) & !at.holders.held(0);
    let needed = if problem.is_recoverable { live } else { needed(problem, position, device) };
    let (way, fields, mirror_after) = match (number, has_mirror) {
        (0, true) => (Way::Fields, unseen & needed, true),
        (1, true) => (Way::Fields, unseen, false),
        (2, true) => (Way::Frame, FieldSet::FRAME, true),
        (3, true) => (Way::Frame, FieldSet::FRAME, false),
        (0, false) => (Way::Direct, unseen, false),
        _ => return None,
    };
    let has_frame = way != Way::Frame || at.holders.held(own).covers(FieldSet::FRAME);
    if !has_frame || !alone(problem, way, fields) {
        return None;
    }
    at.holders.copy(fields, 0);
    if !mirror_after {
        at.holders.forget(own);
    }
    at.mirrors[device] = mirror_after;
    if !at.can_fetch(problem, live) {
        return None;
    }
    let lacks = FieldSet::FRAME & live & !at.holders.held(0);
    let flagged = flagged(function.after_flagged, lacks).then_some(lacks);
    // They come from this device alone.
    let comes = |lacks: FieldSet| lacks.iter().all(|field| at.holders.has(own, field));
    flagged.is_none_or(comes).then_some(Home { way, fields, flagged, mirror_after })
}

/// Bytes of a whole frame on its way to a function and back.
fn whole(problem: &Problem, position: usize) -> [f64; 2] {
    match problem.functions[position].whole {
        Some(WholeBytes { there, back }) => [there, back],
        None => [problem.widths.room; 2],
    }
}

/// Whether a flagged packet comes whole when the host lacks `missing`: it needs some of it, or the
/// frame is changed on the host.
fn flagged(touch: Touch, missing: FieldSet) -> bool {
    let frames = FieldSet::FRAME | FieldSet::GEOMETRY;
    let changes = touch.writes.iter().any(|field| frames.contains(field));
    missing.iter().any(|field| changes || touch.needs.contains(field))
}

/// Frames that were changed on the host since the device had them, by functions on any device.
fn left_behind(problem: &Problem, position: usize, device: usize) -> Crossing {
    let is_of_frames = |field: Field| (FieldSet::FRAME | FieldSet::GEOMETRY).contains(field);
    let mut kept = 1.0;
    for function in &problem.functions[..position] {
        if function.device == Some(device) {
            kept = 1.0;
        }
        if function.device.is_some() && function.after_flagged.writes.iter().any(is_of_frames) {
            kept *= 1.0 - function.flagged_share;
        }
    }
    let [there, _] = whole(problem, position);
    match (1.0 - kept) * there {
        0.0 => Crossing::default(),
        bytes => Crossing { way: Way::Frame, fields: FieldSet::FRAME, bytes, row_bytes: 0.0 },
    }
}

/// The fields read from a phase of function `position` on: 0 is `before`, 1 is `run`, 2 is `after`
/// of all packets, 3 that of flagged ones.
fn live(problem: &Problem, position: usize, phase: usize) -> FieldSet {
    let Some(function) = problem.functions.get(position) else { return problem.end_reads };
    let rest = phases(function).into_iter().skip(phase);
    rest.fold(after(problem, position), |all, touch| all | touch.needs)
}

/// The fields read after function `position`.
fn after(problem: &Problem, position: usize) -> FieldSet {
    let places = next(problem, Some(position)).into_iter();
    places.fold(FieldSet::EMPTY, |all, place| all | live(problem, place, 0))
}

/// The fields that a function needs at most, and those it writes, phase by phase.
fn phases(function: &PlannedFunction) -> [Touch; 4] {
    let mut run = function.run;
    if function.device.is_some() {
        run.needs = run.needs | function.fallback & FieldSet::FRAME;
    }
    [function.before, run, function.after, function.after_flagged]
}

/// The fields read elsewhere before `device` has its next turn and not written before that, on any
/// way.
fn needed(problem: &Problem, position: usize, device: usize) -> FieldSet {
    let mut all = FieldSet::EMPTY;
    let mut open = vec![(position, vec![problem.functions[position].after])];
    while let Some((last, touches)) = open.pop() {
        for place in next(problem, Some(last)) {
            let mut touches = touches.clone();
            let Some(function) = problem.functions.get(place) else {
                touches.push(Touch { needs: problem.end_reads, writes: FieldSet::EMPTY });
                all = all | read_first(&touches);
                continue;
            };
            touches.push(function.before);
            if function.device == Some(device) {
                all = all | read_first(&touches);
                continue;
            }
            let [_, run, after, flagged] = phases(function);
            touches.extend([run, after]);
            if function.device.is_none() {
                // Of flagged packets alone, so it is written for no other.
                touches.push(Touch { writes: FieldSet::EMPTY, ..flagged });
            }
            open.push((place, touches));
        }
    }
    all
}

/// The fields that are read before they are written.
fn read_first(touches: &[Touch]) -> FieldSet {
    let is_read_first = |field: &Field| {
        let met = touches.iter().find(|touch| (touch.needs | touch.writes).contains(*field));
        met.is_some_and(|touch| touch.needs.contains(*field))
    };
    Field::ALL.iter().copied().filter(is_read_first).collect()
}
