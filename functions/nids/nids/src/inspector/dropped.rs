//! A packet that a rule dropped: its receiver never gets the payload, so the stream doesn't have it
//! either.

use super::super::asked::Asked;
use super::{At, Fate, Inspector};
use warpline_streams::flows::TakenBack;

impl Inspector {
    /// Takes the packet's payload out of its stream; where that can't be, the flow is dropped with
    /// it. Rules that had waited before wait again, and what they had matched in before is that
    /// again.
    pub(super) fn take_back(&mut self, at: &At<'_>, asked: &Asked) {
        let Self { flows, waiting: pool, counts, .. } = self;
        let tracked = at.tracked.as_ref();
        let Some((place, direction)) = tracked.and_then(|t| Some((t.place?, t.direction))) else {
            return;
        };
        if flows.vars(place).fate != Fate::Open {
            return;
        }
        match flows.take_back(place, direction) {
            TakenBack::Nothing => {}
            TakenBack::Mixed => flows.vars(place).fate = Fate::Dropped,
            TakenBack::To(next) => {
                let waiting = &mut flows.vars(place).waiting[direction as usize];
                waiting.take_back(next, pool, |rule| asked.waited(rule));
                for (rule, end) in asked.matched_before() {
                    let kept = waiting.kept(rule, next, pool);
                    counts.waiting_full += u64::from(waiting.matched(rule, kept, end, pool));
                }
                for rule in asked.waited_and_matched() {
                    let kept = waiting.kept(rule, next, pool);
                    counts.waiting_full += u64::from(waiting.wait(rule, kept, next, pool));
                }
            }
        }
    }
}
