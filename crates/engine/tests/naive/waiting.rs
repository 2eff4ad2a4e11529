//! The order in which fragments reach functions: the first of a packet before all others, which
//! wait for it.

use std::collections::BTreeMap;

use crate::nat::FRAGMENTS_NANOS;
use crate::nat_packets::{Whole, fragment_key};
use crate::wire::{Frame, view};

/// The frames as functions get them.
pub(crate) fn in_order(frames: &[Frame]) -> Vec<Frame> {
    let mut known: BTreeMap<Whole, u64> = BTreeMap::new();
    let (mut waiting, mut out): (Vec<(Whole, u64, Frame)>, Vec<Frame>) = (Vec::new(), Vec::new());
    let mut last = 0;
    for frame in frames {
        let view = view(frame);
        last = last.max(frame.now);
        let now = frame.now;
        let (late, others) = waiting.into_iter().partition(|(_, until, _)| *until <= now);
        waiting = others;
        for (key, _, frame) in late {
            known.insert(key, now + FRAGMENTS_NANOS);
            out.push(Frame { now: now.max(frame.now), ..frame });
        }
        if !view.fragment || view.lie.is_some() {
            out.push(frame.clone());
            continue;
        }
        let key = fragment_key(frame, &view);
        if !view.later() {
            known.insert(key, now + FRAGMENTS_NANOS);
            out.push(frame.clone());
            let (own, others) = waiting.into_iter().partition(|(other, _, _)| *other == key);
            waiting = others;
            out.extend(own.into_iter().map(|(_, _, own)| Frame { now: now.max(own.now), ..own }));
        } else if known.get(&key).is_some_and(|until| *until > now) {
            out.push(frame.clone());
        } else {
            waiting.push((key, now + FRAGMENTS_NANOS, frame.clone()));
        }
    }
    out.extend(waiting.into_iter().map(|(_, _, own)| Frame { now: last.max(own.now), ..own }));
    out
}
