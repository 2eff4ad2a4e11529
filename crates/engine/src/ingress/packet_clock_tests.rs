//! Compares the clock with a model written from its manual, and with a table of cases.

use proptest::prelude::*;
use warpline_packet::LinkType;

use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// A moment of the year 2025.
const START: u64 = 1_750_000_000 * SECOND;
const FAR: u64 = 4_000_000_000 * SECOND;

fn frames(times: &[u64]) -> Vec<Frame<'static>> {
    let of = |&nanos: &u64| Frame {
        bytes: &[],
        timestamp: Instant::from_nanos(nanos),
        wire_len: 0,
        link: LinkType::ETHERNET,
        interface: 0,
    };
    times.iter().map(of).collect()
}

/// The clock's time for each, in pieces of this length. Undecided ones are passed again.
fn reported(times: &[u64], piece: usize) -> (Vec<u64>, TimeCounts) {
    let (frames, mut clock) = (frames(times), PacketClock::default());
    let mut reported = Vec::new();
    let mut end = 0;
    while reported.len() < frames.len() {
        end = (end + piece).min(frames.len());
        let from = reported.len();
        let is_all = end == frames.len();
        let mut times = vec![Instant::MAX; end - from];
        let timed = clock.time(&frames[from..end], is_all, &mut times);
        assert!(!is_all || timed == end - from);
        reported.extend(times[..timed].iter().map(|time| time.as_nanos()));
    }
    (reported, clock.counts)
}

/// The same from the manual: packet by packet, with all of the input at hand, in numbers that can't
/// overflow.
fn model(times: &[u64]) -> (Vec<u64>, TimeCounts) {
    let times: Vec<i128> = times.iter().map(|&time| i128::from(time)).collect();
    let second = i128::from(SECOND);
    let mut counts = TimeCounts::default();
    let Some(&first) = times.first() else { return (Vec::new(), counts) };
    let (mut own, mut now, mut believed) = (first, first.min(1 << 62), 1);
    let mut left: Option<(i128, i128)> = None;
    let mut reported = vec![now as u64];
    for (at, &time) in times.iter().enumerate().skip(1) {
        let distance = (time - own).abs();
        if distance <= 10 * second {
            now += (time - own).max(0);
            own = own.max(time);
            believed += 1;
        } else {
            let asked = &times[at + 1..times.len().min(at + 16)];
            let yes = asked.iter().filter(|&&t| (t - time).abs() < (t - own).abs()).count();
            let no = asked.len() - yes;
            let follows = match asked.len() {
                _ if yes >= 8 => true,
                _ if no >= 8 => false,
                _ => (distance <= 86_400 * second && yes >= no) || yes + 1 > no + believed.min(8),
            };
            match follows {
                false => counts.strays += 1,
                true if time > own => {
                    let room = (i128::from(u64::MAX) - now) / 256;
                    let back = left.map(|(own, reported)| reported + time - own);
                    let gap = match back {
                        Some(there) if (there - now).abs() <= 10 * second => (there - now).max(0),
                        _ => time - own,
                    };
                    now += gap.min(room);
                    counts.gaps += 1;
                    (own, believed) = (time, 1);
                }
                true => {
                    counts.steps_back += 1;
                    left = Some((own, now));
                    (own, believed) = (time, 1);
                }
            }
        }
        reported.push(now as u64);
    }
    (reported, counts)
}

/// So many packets, one a millisecond, from here on.
fn run(from: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| from + at * SECOND / 1000)
}

struct Case {
    name: &'static str,
    times: Vec<u64>,
    /// How far the clock has moved from its start.
    passed: u64,
    /// Strays, gaps, steps back.
    counts: [u64; 3],
}

fn cases() -> Vec<Case> {
    let case = |name, times: Vec<u64>, passed, counts| Case { name, times, passed, counts };
    let ms = SECOND / 1000;
    let with = |strays: &[u64], at: usize| {
        let mut times: Vec<u64> = run(START, 40).collect();
        times.splice(at..at, strays.iter().copied());
        times
    };
    let then =
        |parts: &[(u64, u64)]| parts.iter().flat_map(|&(at, count)| run(at, count)).collect();
    let turns = (0..40).flat_map(|n| run(START + (n % 2) * 3600 * SECOND + n * 20 * ms, 20));
    vec![
        case("one ahead", with(&[FAR], 20), 39 * ms, [1, 0, 0]),
        case("one of the last second", with(&[u64::MAX], 20), 39 * ms, [1, 0, 0]),
        case("one at zero", with(&[0], 20), 39 * ms, [1, 0, 0]),
        case("one an hour ahead", with(&[START + 3600 * SECOND], 20), 39 * ms, [1, 0, 0]),
        case("seven ahead", with(&[FAR; 7], 20), 39 * ms, [7, 0, 0]),
        case("the last ahead", with(&[FAR], 40), 39 * ms, [1, 0, 0]),
        case("the first ahead", with(&[FAR], 0), 39 * ms, [0, 0, 1]),
        case("the first at zero", with(&[0], 0), (u64::MAX / 256) + 39 * ms, [0, 1, 0]),
        case(
            "a gap of an hour",
            then(&[(START, 20), (START + 3600 * SECOND, 20)]),
            3600 * SECOND + 19 * ms,
            [0, 1, 0],
        ),
        case(
            "each an hour after the other",
            (0..20).map(|n| START + n * 3600 * SECOND).collect(),
            19 * 3600 * SECOND,
            [0, 19, 0],
        ),
        case(
            "a stray among these",
            (0..40).map(|n| if n == 20 { FAR } else { START + n * 30 * SECOND }).collect(),
            39 * 30 * SECOND,
            [1, 38, 0],
        ),
        case(
            "the last an hour after",
            then(&[(START, 20), (START + 3600 * SECOND, 1)]),
            3600 * SECOND,
            [0, 1, 0],
        ),
        case("two", vec![START, START + 400 * SECOND], 400 * SECOND, [0, 1, 0]),
        case(
            "two captures, the second earlier",
            then(&[(START, 40), (START - 30 * DAY, 40)]),
            (39 + 39) * ms,
            [0, 0, 1],
        ),
        case(
            "two captures of the same times",
            then(&[(START, 40_000), (START, 40_000)]),
            (39_999 + 39_999) * ms,
            [0, 0, 1],
        ),
        case("two clocks in turns", turns.collect(), 3600 * SECOND + 799 * ms, [0, 20, 19]),
        case(
            "reordered",
            vec![START, START + 5 * SECOND, START + SECOND, START + 6 * SECOND],
            6 * SECOND,
            [0, 0, 0],
        ),
        case("none", Vec::new(), 0, [0, 0, 0]),
    ]
}

#[test]
fn clocks() {
    for Case { name, times, passed, counts: [strays, gaps, steps_back] } in cases() {
        let expected = model(&times);
        for piece in [1, 7, 16, 32, usize::MAX / 2] {
            assert_eq!(reported(&times, piece), expected, "{name}, {piece} at a time");
        }
        let (reported, counts) = expected;
        assert_eq!(counts, TimeCounts { strays, gaps, steps_back }, "{name}");
        let first = reported.first().map_or(0, |first| *first);
        let most = (u64::MAX - first) / 256 + 39 * SECOND / 1000;
        assert_eq!(reported.last().map_or(0, |last| last - first), passed.min(most), "{name}");
    }
}

#[test]
fn no_number_of_gaps_comes_to_the_end() {
    let times: Vec<u64> =
        (0..4000).flat_map(|n| run(if n % 2 == 0 { 0 } else { FAR }, 20)).collect();
    let (reported, counts) = reported(&times, 32);
    assert_eq!((counts.gaps, counts.strays), (2000, 0));
    assert!(reported.windows(2).all(|pair| pair[0] <= pair[1]));
    let last = reported[reported.len() - 20..].iter();
    assert_eq!(last.clone().max().unwrap() - last.min().unwrap(), 19 * SECOND / 1000);
}

fn anything() -> impl Strategy<Value = Vec<u64>> {
    let near = (0..40 * SECOND).prop_map(|by| START + by);
    let time = prop_oneof![
        8 => near,
        2 => (0..20u64).prop_map(|hours| START + hours * 3600 * SECOND),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(FAR), any::<u64>()],
    ];
    let stretch = (time, 1..30usize, 0..30 * SECOND).prop_map(|(at, count, by)| {
        (0..count as u64).map(move |n| at.saturating_add(n * by)).collect::<Vec<_>>()
    });
    prop::collection::vec(stretch, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn as_the_model(times in anything(), piece in 1..40usize) {
        let (now, counts) = reported(&times, piece);
        prop_assert!(now.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert_eq!((now, counts), model(&times));
    }
}
