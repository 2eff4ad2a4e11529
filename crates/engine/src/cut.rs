//! Divides a chain into stages.

use std::ops::Range;

use warpline_nf::Function;
use warpline_packet::{Field, FieldSet};

use crate::{Chain, OnDevice, Place, Site};

/// Instances between two queues: by default as many as follow each other on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// The first instance, by its position in the chain.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Batches that go through together, on the CPU.
    pub launch_batches: usize,
}

impl StagePlan {
    /// The positions of its instances in the chain.
    pub fn positions(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Cuts a chain into stages by the sites of its functions. With `apart`, each function on a device
/// gets a stage of its own.
pub(crate) fn cut(chain: &Chain, sites: &[Site], apart: bool) -> Vec<StagePlan> {
    let mut stages: Vec<StagePlan> = Vec::new();
    for (position, site) in sites.iter().enumerate() {
        match stages.last_mut() {
            Some(stage) if can_join(chain, sites, stage, apart) => stage.count += 1,
            _ => stages.push(StagePlan {
                first: position,
                count: 1,
                launch_batches: site.launch_batches.max(1),
            }),
        }
    }
    // A chain without functions still has one stage, which passes packets on.
    if stages.is_empty() {
        stages.push(StagePlan { first: 0, count: 0, launch_batches: 1 });
    }
    stages
}

/// Whether the instance after those of `stage` can join them.
fn can_join(chain: &Chain, sites: &[Site], stage: &StagePlan, apart: bool) -> bool {
    let next = stage.positions().end;
    let (function, site) = (&*chain.instances[next].function, &sites[next]);
    let takes_answers = |position: usize| chain.instances[position].place == Place::Second;
    let options = |on: &OnDevice| (on.launches, on.is_required);
    let is_straight = chain.is_straight(next - 1);
    let runs_on = |one: &Site| (one.device_id().to_owned(), one.on_device.as_ref().map(options));
    let can_follow = |position: usize| {
        let (own, own_site) = (&*chain.instances[position].function, &sites[position]);
        runs_on(own_site) == runs_on(site)
            && (own_site.on_device.is_none()
                || is_straight && !apart && may_follow(own, function))
            // Packets that pass one of them pass all.
            && (own_site.on_device.is_none() || takes_answers(position) == takes_answers(next))
    };
    !site.own_stage
        && stage.positions().all(|position| !sites[position].own_stage && can_follow(position))
}

/// Whether `second` may run after `first` on a device before the CPU has done `after` of `first`.
/// It must have no `before`, and neither may see the effects of the other's phases. Packets that
/// `first` flags leave the segment (`flag` in `kernels/packet.h`). So effects on them alone don't
/// matter, unless they are many.
fn may_follow(first: &dyn Function, second: &dyn Function) -> bool {
    let (one, two) = (first.access(), second.access());
    let own = two.run.reads | two.run.writes;
    // Verdicts and flags name their function. Changes to a packet that `first` finally drops are
    // not taken.
    let marks = FieldSet::of(&[Field::Verdict, Field::Flagged]);
    two.before.is_none()
        && first.emits().per_packet == 0
        && one.flagged_share <= FLAGGED_SHARE_MAX
        && (one.after.writes & own & !marks).is_empty()
        && (one.after.reads & two.run.writes & !marks).is_empty()
        // Findings are one function's at a time.
        && second.emits().findings_per_packet == 0
        && first.emits().findings_per_packet == 0
}

/// If most packets are flagged, the CPU does most of the work anyway.
const FLAGGED_SHARE_MAX: f32 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_packet::{Access, Batch, ReadWrite};

    struct Declares(Access);

    impl Function for Declares {
        fn access(&self) -> &Access {
            &self.0
        }

        fn run(&self, _: &mut Batch) {}
    }

    #[test]
    fn kernels_for_all_packets_separate_stages_and_kernels_for_few_do_not() {
        let ttl = FieldSet::of(&[Field::Ttl]);
        let (reads, writes) =
            (ReadWrite::new(ttl, FieldSet::EMPTY), ReadWrite::new(FieldSet::EMPTY, ttl));
        let second = Declares(Access::run_only(ReadWrite::new(ttl, ttl)));
        let of = |after, after_flagged, flagged_share| {
            let run = Access::run_only(ReadWrite::new(ttl, ttl));
            Declares(Access { after, after_flagged, flagged_share, ..run })
        };
        let verdict = FieldSet::of(&[Field::Verdict, Field::Flagged]);
        let settles = ReadWrite::new(verdict, verdict);
        for (first, follows) in [
            (of(ReadWrite::NONE, ReadWrite::NONE, 0.0), true),
            (of(settles, writes, 0.01), true),
            (of(settles, reads, FLAGGED_SHARE_MAX), true),
            (of(settles, writes, 0.9), false),
            (of(writes, ReadWrite::NONE, 0.0), false),
            (of(reads, ReadWrite::NONE, 0.0), false),
        ] {
            assert_eq!(may_follow(&first, &second), follows, "{:?}", first.0);
        }
        let asks = Declares(Access { before: reads, ..*second.access() });
        assert!(!may_follow(&of(ReadWrite::NONE, ReadWrite::NONE, 0.0), &asks));
    }
}
