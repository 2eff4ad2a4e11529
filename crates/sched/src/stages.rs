//! The division of a chain into stages.
//!
//! Functions that follow each other share a stage if they run in the same place. On a device they
//! share launches, so the CPU may have nothing to do between them.

use std::ops::Range;

use warpline_packet::{Access, Field, FieldSet};

/// A function of a chain, as its division sees it. `L` are its launches with their device.
#[derive(Clone, Copy, Debug)]
pub struct StageMember<'a, L> {
    /// `None` on the CPU.
    pub launches: Option<L>,
    /// Whether it has a stage of its own.
    pub own_stage: bool,
    /// Whether all packets that pass it go on to the next function.
    pub is_straight: bool,
    /// Whether it is the second place of an instance, which takes the answers.
    pub is_second_place: bool,
    /// Its fields.
    pub access: &'a Access,
    /// Whether it makes packets beside those that it gets.
    pub makes_packets: bool,
    /// Whether its kernels have findings.
    pub has_findings: bool,
}

/// The stages of a chain, by positions. With `apart`, each function on a device has its own.
pub fn stages<L: PartialEq>(chain: &[StageMember<'_, L>], apart: bool) -> Vec<Range<usize>> {
    let mut stages: Vec<Range<usize>> = Vec::new();
    for position in 0..chain.len() {
        match stages.last_mut() {
            Some(stage) if can_join(chain, stage, apart) => stage.end += 1,
            _ => stages.push(position..position + 1),
        }
    }
    stages
}

/// Whether the function after those of `stage` can join them.
fn can_join<L: PartialEq>(chain: &[StageMember<'_, L>], stage: &Range<usize>, apart: bool) -> bool {
    let next = &chain[stage.end];
    let is_straight = chain[stage.end - 1].is_straight;
    let can_follow = |own: &StageMember<'_, L>| {
        own.launches == next.launches
            && (own.launches.is_none()
                // Packets that pass one of them pass all.
                || is_straight && !apart && may_follow(own, next)
                    && own.is_second_place == next.is_second_place)
    };
    !next.own_stage && chain[stage.clone()].iter().all(|own| !own.own_stage && can_follow(own))
}

/// Whether `second` may run after `first` on a device before the CPU has done `after` of `first`.
/// It must have no `before`, and neither may see the effects of the other's phases. Packets that
/// `first` flags leave the segment (`flag` in `kernels/packet.h`). So effects on them alone don't
/// matter, unless they are many.
fn may_follow<L>(first: &StageMember<'_, L>, second: &StageMember<'_, L>) -> bool {
    let (one, two) = (first.access, second.access);
    let own = two.run.reads | two.run.writes;
    // Verdicts and flags name their function. Changes to a packet that `first` finally drops are
    // not taken.
    let marks = FieldSet::of(&[Field::Verdict, Field::Flagged]);
    two.before.is_none()
        && !first.makes_packets
        && one.flagged_share <= FLAGGED_SHARE_MAX
        && (one.after.writes & own & !marks).is_empty()
        && (one.after.reads & two.run.writes & !marks).is_empty()
        // Findings are one function's at a time.
        && !second.has_findings
        && !first.has_findings
}

/// If most packets are flagged, the CPU does most of the work anyway.
const FLAGGED_SHARE_MAX: f32 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_packet::ReadWrite;

    fn member(access: &Access) -> StageMember<'_, u8> {
        StageMember {
            launches: Some(1),
            own_stage: false,
            is_straight: true,
            is_second_place: false,
            access,
            makes_packets: false,
            has_findings: false,
        }
    }

    #[test]
    fn kernels_for_all_packets_separate_stages_and_kernels_for_few_do_not() {
        let ttl = FieldSet::of(&[Field::Ttl]);
        let (reads, writes) =
            (ReadWrite::new(ttl, FieldSet::EMPTY), ReadWrite::new(FieldSet::EMPTY, ttl));
        let second = Access::run_only(ReadWrite::new(ttl, ttl));
        let of = |after, after_flagged, flagged_share| {
            let run = Access::run_only(ReadWrite::new(ttl, ttl));
            Access { after, after_flagged, flagged_share, ..run }
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
            assert_eq!(may_follow(&member(&first), &member(&second)), follows, "{first:?}");
        }
        let asks = Access { before: reads, ..second };
        let first = of(ReadWrite::NONE, ReadWrite::NONE, 0.0);
        assert!(!may_follow(&member(&first), &member(&asks)));
    }

    #[test]
    fn functions_in_one_place_share_a_stage() {
        let access = Access::run_only(ReadWrite::NONE);
        let own = member(&access);
        let cpu = StageMember { launches: None, ..own };
        let other = StageMember { launches: Some(2), ..own };
        let second = StageMember { is_second_place: true, ..own };
        let ways = StageMember { is_straight: false, ..own };
        let makes = StageMember { makes_packets: true, ..own };
        let finds = StageMember { has_findings: true, ..own };
        let apart = StageMember { own_stage: true, ..own };
        for (chain, lens) in [
            (&[own, own, own][..], &[3][..]),
            (&[own, other, other, cpu, cpu], &[1, 2, 2]),
            (&[own, second, second], &[1, 2]),
            (&[own, ways, own], &[2, 1]),
            (&[makes, own, own], &[1, 2]),
            (&[own, makes, own], &[2, 1]),
            (&[own, finds, own], &[1, 1, 1]),
            (&[own, apart, own], &[1, 1, 1]),
            (
                &[
                    StageMember { is_straight: false, ..cpu },
                    StageMember { makes_packets: true, ..cpu },
                    cpu,
                ],
                &[3],
            ),
        ] {
            let found: Vec<usize> = stages(chain, false).into_iter().map(|one| one.len()).collect();
            assert_eq!(found, lens);
        }
        let alone: Vec<Range<usize>> = stages(&[own, own, cpu, cpu], true);
        assert_eq!(alone, [0..1, 1..2, 2..4]);
        assert!(stages::<u8>(&[], false).is_empty());
    }
}
