//! Overlap policies: every position of two fragments, and random fragments against a model that
//! tracks the owner of every byte.

use proptest::prelude::*;

use super::super::{Overlap, Reassembly, Why};
use super::fragments::Fragment;
use super::{Ingress, Reported, take};

const ALL: [Overlap; 5] =
    [Overlap::First, Overlap::Last, Overlap::Bsd, Overlap::Windows, Overlap::Solaris];

/// Each letter stands for eight bytes of it.
fn wide(letters: &str) -> Vec<u8> {
    letters.bytes().flat_map(|letter| [letter; 8]).collect()
}

fn run(overlap: Overlap, fragments: &[Fragment]) -> Vec<Reported> {
    let mut reassembly = Reassembly::new(2, 2000).with_overlap(overlap);
    let mut ingress = Ingress::new();
    let reported = |fragment: &Fragment| {
        take(&mut reassembly, &ingress.packet(&fragment.frame(), fragment.link.kind(), 0, 0))
    };
    fragments.iter().map(reported).collect()
}

/// Two that overlap, after a first unit that comes late; the result of each policy, in the order of
/// `ALL`.
#[test]
fn two_fragments() {
    type Case = ([(usize, &'static str); 2], [&'static str; 5]);
    #[rustfmt::skip]
    let cases: [Case; 8] = [
        ([(3, "AAA"), (1, "BBB")], [".BBAAA", ".BBBAA", ".BBBAA", ".BBAAA", ".BBAAA"]),
        ([(2, "AA"), (1, "BBBB")], [".BAAB", ".BBBB", ".BBBB", ".BBBB", ".BBBB"]),
        ([(2, "AA"), (1, "BBB")], [".BAA", ".BBB", ".BBB", ".BAA", ".BBB"]),
        ([(1, "AAAA"), (1, "BB")], [".AAAA", ".BBAA", ".AAAA", ".AAAA", ".AAAA"]),
        ([(1, "AAA"), (1, "BBB")], [".AAA", ".BBB", ".AAA", ".AAA", ".AAA"]),
        ([(1, "AA"), (1, "BBBB")], [".AABB", ".BBBB", ".AABB", ".AABB", ".AABB"]),
        ([(1, "AAAAA"), (2, "BB")], [".AAAAA", ".ABBAA", ".AAAAA", ".AAAAA", ".AAAAA"]),
        ([(1, "AAA"), (2, "BBBB")], [".AAABB", ".ABBBB", ".AAABB", ".AAABB", ".AAABB"]),
    ];
    for version in [4, 6] {
        for (pieces, expected) in cases {
            for (overlap, expected) in ALL.into_iter().zip(expected) {
                let mut all: Vec<_> = pieces
                    .iter()
                    .map(|&(at, data)| Fragment::new(version, 8 * at, true, &wide(data)))
                    .collect();
                all.push(Fragment::new(version, 8 * expected.len(), false, b"end"));
                let first = Fragment::new(version, 0, true, &wide("."));
                all.push(first.clone());
                let data = [&wide(expected)[..], b"end"].concat();
                let last = run(overlap, &all).pop().unwrap();
                assert_eq!(last, Ok(Some(first.whole(&data, 0))), "{overlap:?} {pieces:?}");
            }
        }
    }
}

/// One that puts the end elsewhere is left out; the others make the whole.
#[test]
fn ends_that_disagree() {
    for overlap in ALL {
        let piece = |at, more, data: &str| Fragment::new(4, at, more, &wide(data));
        let all = [
            piece(8, false, "b"),
            piece(16, false, "c"),
            piece(8, true, "x"),
            piece(16, true, "c"),
            piece(0, true, "a"),
        ];
        let no = Err(Why::Overlap);
        let is_last = overlap == Overlap::Last;
        let data = wide(if is_last { "ax" } else { "ab" });
        let whole = Ok(Some(all[4].whole(&data, 0)));
        assert_eq!(run(overlap, &all), [Ok(None), no.clone(), Ok(None), no, whole], "{overlap:?}");
    }
    assert_eq!(Overlap::named("linux"), Some(Overlap::Linux));
    assert_eq!(Overlap::named("amiga"), None);
}

/// Whether a byte of `old` is the new fragment's, by the words of the policies.
fn is_new(overlap: Overlap, old: &Fragment, new: &Fragment) -> bool {
    match overlap {
        Overlap::Refuse | Overlap::Linux | Overlap::First => false,
        Overlap::Last => true,
        Overlap::Bsd => new.offset < old.offset,
        Overlap::Windows => new.offset < old.offset && units_end(new) > units_end(old),
        Overlap::Solaris => new.offset < old.offset && units_end(new) >= units_end(old),
    }
}

/// Bounds of fragments count in units of eight bytes.
fn units_end(fragment: &Fragment) -> usize {
    fragment.end().div_ceil(8)
}

/// The results with all fragments kept and every byte's owner tracked.
fn model(overlap: Overlap, fragments: &[Fragment]) -> Vec<Reported> {
    let (mut kept, mut reported) = (Vec::<Fragment>::new(), Vec::new());
    // Whose each byte is, and what it is.
    let mut bytes: Vec<Option<(usize, u8)>> = vec![None; 2000];
    for new in fragments {
        let end = kept.iter().find(|old| !old.more).map(Fragment::end);
        let farthest = kept.iter().map(Fragment::end).max().unwrap_or(0);
        let disagrees = match end {
            Some(end) => new.end() > end || (!new.more && new.end() < end),
            None => !new.more && new.end() < farthest,
        };
        if disagrees {
            reported.push(Err(Why::Overlap));
            continue;
        }
        for (at, &byte) in (new.offset..).zip(&new.data) {
            if bytes[at].is_none_or(|(owner, _)| is_new(overlap, &kept[owner], new)) {
                bytes[at] = Some((kept.len(), byte));
            }
        }
        kept.push(new.clone());
        let total = kept.iter().find(|old| !old.more).map(Fragment::end);
        let data: Option<Vec<u8>> =
            total.and_then(|total| bytes[..total].iter().map(|byte| Some((*byte)?.1)).collect());
        let is_whole = data.is_some();
        reported.push(Ok(data.map(|data| kept[0].whole(&data, 0))));
        if is_whole {
            kept.clear();
            bytes.fill(None);
        }
    }
    reported
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        which in 0..ALL.len(),
        version in prop::sample::select(vec![4, 6]),
        pieces in prop::collection::vec((0..12usize, 1..6usize, 0..30usize), 1..40),
    ) {
        let of = |(number, (start, units, rest)): (usize, (usize, usize, usize))| {
            // Most ends are where the others are.
            let start = if rest < 5 { 12 } else { start };
            let len = if rest < 5 { 3 } else { 8 * units };
            let data: Vec<u8> = (0..len).map(|at| (number * 40 + at) as u8).collect();
            Fragment { protocol: 200, ..Fragment::new(version, 8 * start, rest >= 5, &data) }
        };
        let fragments: Vec<Fragment> = pieces.into_iter().enumerate().map(of).collect();
        prop_assert_eq!(run(ALL[which], &fragments), model(ALL[which], &fragments));
    }
}
