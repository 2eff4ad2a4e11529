//! Every plan that the tables allow, one after the other: what the search has to agree with. Keeps for each field who has it, and
//! looks nothing up in the search's own states.

use std::collections::BTreeSet;

use warpline_packet::{Field, FieldSet};

use super::super::problem::{Problem, Touch};
use super::super::{Crossing, Step, Way};

/// Who has the last value of each field: the host is 0, device `d` is `d + 1`.
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
    cost: f64,
}

/// The least that any plan costs.
pub(super) fn least(problem: &Problem) -> f64 {
    let holders = Holders(vec![[0].into(); Field::ALL.len()]);
    let start = At { holders, mirrors: vec![false; problem.links.len()], cost: 0.0 };
    let mut best = f64::INFINITY;
    go(problem, 0, start, &mut best);
    best
}

fn host(at: &mut At, touch: Touch) -> bool {
    let is_current = at.holders.held(0).covers(touch.needs);
    at.holders.write(touch.writes, 0);
    is_current
}

fn go(problem: &Problem, position: usize, mut at: At, best: &mut f64) {
    let Some(function) = problem.functions.get(position) else {
        if at.holders.held(0).covers(problem.end_reads) {
            *best = best.min(at.cost);
        }
        return;
    };
    if !host(&mut at, function.before) {
        return;
    }
    let Some(device) = function.device else {
        let rest = [function.run, function.after, function.after_flagged];
        if rest.into_iter().all(|touch| host(&mut at, touch)) {
            go(problem, position + 1, at, best);
        }
        return;
    };
    for to_device in 0..4 {
        for to_host in 0..4 {
            let mut at = at.clone();
            let Some(step) = step(problem, position, device, &mut at, (to_device, to_host)) else {
                continue;
            };
            at.cost += problem.cost(&step);
            if host(&mut at, function.after) {
                go(problem, position + 1, at, best);
            }
        }
    }
}

fn step(
    problem: &Problem,
    position: usize,
    device: usize,
    at: &mut At,
    (to_device, to_host): (u8, u8),
) -> Option<Step> {
    let function = &problem.functions[position];
    let own = device + 1;
    let mirror_was = at.mirrors[device];
    let stale = function.run.needs & !at.holders.held(own);
    let frame_stale = FieldSet::FRAME & !at.holders.held(own);
    let mut first = FieldSet::EMPTY;
    let (way, fields) = match (to_device, mirror_was) {
        (0, true) => (Way::Fields, stale),
        (1, true) if !stale.covers(frame_stale) => (Way::Fields, stale | frame_stale),
        (2, _) if !frame_stale.is_empty() => {
            first = FieldSet::FRAME & !at.holders.held(0);
            (Way::Frame, stale | FieldSet::FRAME)
        }
        (3, false) => (Way::Direct, function.run.needs),
        _ => return None,
    };
    at.holders.copy(first, 0);
    let alone = |way, fields: FieldSet| {
        way == Way::Frame || (fields & FieldSet::FRAME & !problem.gathered).is_empty()
    };
    if !at.holders.held(0).covers(fields) || !alone(way, fields) || !alone(Way::Fields, first) {
        return None;
    }
    at.holders.copy(fields, own);
    let has_mirror = to_device != 3;
    at.holders.write(function.run.writes, own);
    let live = live(problem, position);
    let unseen = at.holders.held(own) & !at.holders.held(0) & live;
    let needed = if problem.is_recoverable { live } else { needed(problem, position, device) };
    let (way_back, back, mirror_after) = match (to_host, has_mirror) {
        (0, true) => (Way::Fields, unseen & needed, true),
        (1, true) => (Way::Fields, unseen, false),
        (2, true) => (Way::Frame, FieldSet::FRAME | unseen & needed, true),
        (3, true) => (Way::Frame, FieldSet::FRAME | unseen, false),
        (0, false) => (Way::Direct, unseen, false),
        _ => return None,
    };
    // What nobody will need counts as being there.
    let there = at.holders.held(own) | !live;
    if way_back == Way::Frame && !there.covers(FieldSet::FRAME) {
        return None;
    }
    if !alone(way_back, back) {
        return None;
    }
    at.holders.copy(back & at.holders.held(own), 0);
    let missing = live & !at.holders.held(0);
    let flagged = flagged(function.after_flagged, missing);
    if !mirror_after {
        at.holders.forget(own);
    }
    at.mirrors[device] = mirror_after;
    let widths = &problem.widths;
    Some(Step {
        function: position,
        device,
        first_to_host: widths.crossing(Way::Fields, first),
        to_device: widths.crossing(way, fields),
        missing: if to_device < 2 {
            left_behind(problem, position, device)
        } else {
            Crossing::default()
        },
        to_host: widths.crossing(way_back, back),
        flagged: Crossing { bytes: 0.0, ..widths.crossing(Way::Fields, flagged) },
        mirror_after,
    })
}

/// What of `missing` a flagged packet takes with it.
fn flagged(touch: Touch, missing: FieldSet) -> FieldSet {
    if touch.writes.is_empty() { missing & touch.needs } else { missing }
}

/// Frames that the device's function before this one had changed on the host.
fn left_behind(problem: &Problem, position: usize, device: usize) -> Crossing {
    let mut bytes = 0.0;
    for function in problem.functions[..position].iter().filter(|one| one.device == Some(device)) {
        let is_changed = |field: &Field| (FieldSet::FRAME | FieldSet::GEOMETRY).contains(*field);
        bytes = match function.after_flagged.writes.iter().any(|field| is_changed(&field)) {
            true => function.flagged_share * problem.widths.room,
            false => 0.0,
        };
    }
    match bytes {
        0.0 => Crossing::default(),
        _ => Crossing { way: Way::Frame, fields: FieldSet::FRAME, bytes },
    }
}

/// What anyone reads behind `run` of `position`.
fn live(problem: &Problem, position: usize) -> FieldSet {
    let here = &problem.functions[position];
    let later = problem.functions[position + 1..].iter();
    let of_later = later
        .flat_map(|one| [one.before, one.run, one.after, one.after_flagged])
        .fold(FieldSet::EMPTY, |all, touch| all | touch.needs);
    of_later | here.after.needs | here.after_flagged.needs | problem.end_reads
}

/// What somebody else reads before `device` has its next turn, and nobody wrote before that.
fn needed(problem: &Problem, position: usize, device: usize) -> FieldSet {
    let mut touches = vec![problem.functions[position].after];
    let mut is_end = true;
    for function in &problem.functions[position + 1..] {
        touches.push(function.before);
        if function.device == Some(device) {
            is_end = false;
            break;
        }
        touches.extend([function.run, function.after]);
        if function.device.is_none() {
            touches.push(function.after_flagged);
        }
    }
    let end = Touch { needs: problem.end_reads, writes: FieldSet::EMPTY };
    touches.extend(is_end.then_some(end));
    let is_read_first = |field: &Field| {
        let met = touches.iter().find(|touch| (touch.needs | touch.writes).contains(*field));
        met.is_some_and(|touch| touch.needs.contains(*field))
    };
    Field::ALL.iter().copied().filter(is_read_first).collect()
}
