//! Thresholds over sequences of matches, against an oracle that evaluates all of them anew each
//! time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::*;
use crate::report::{Decision, Filter, Match, Policy, RuleId, Thresholds};
use warpline_nids_rules::{DetectionFilter, PortEnd, Rate, Threshold, ThresholdHow, Track};

use Decision::{Nothing, Reported, Silent};

/// The time and the ports of a match.
type Counted = (u64, (u16, u16));

/// Decides on the last match from the times and ports of all that are counted together.
fn oracle(filter: &Filter, all: &[Counted]) -> (Decision, bool) {
    let times: Vec<u64> = all.iter().map(|(time, _)| *time).collect();
    let Rate { count, seconds, .. } = filter.rate();
    let (count, span) = (u64::from(count), u64::from(seconds) * SECOND);
    if let Filter::Rate { timeout_s, .. } = filter {
        return (Reported, rate_oracle(count, span, u64::from(*timeout_s), &times));
    }
    let window = last_window(span, &times);
    let nth = window as u64;
    let ports = |of: fn(&(u16, u16)) -> u16| {
        let ports: HashSet<u16> = all[all.len() - window..].iter().map(|one| of(&one.1)).collect();
        ports.len() as u64
    };
    let decision = match filter {
        Filter::Detection(DetectionFilter { unique_on: Some(end), .. }) => {
            let distinct = match end {
                PortEnd::Source => ports(|both| both.0),
                PortEnd::Destination => ports(|both| both.1),
            };
            [Nothing, Reported][usize::from(distinct > count)]
        }
        Filter::Detection(_) => [Nothing, Reported][usize::from(nth > count)],
        Filter::Threshold(threshold) => match threshold.how {
            ThresholdHow::Limit => [Silent, Reported][usize::from(nth <= count)],
            ThresholdHow::Threshold => [Nothing, Reported][usize::from(nth.is_multiple_of(count))],
            ThresholdHow::Both if nth < count => Nothing,
            ThresholdHow::Both => [Silent, Reported][usize::from(nth == count)],
            ThresholdHow::Backoff { multiplier } => {
                let all = times.len() as u64;
                // No sequence here has 10^9 matches.
                let mut powers = (0..9).map(|power| count * u64::from(multiplier).pow(power));
                match powers.any(|due| due == all) {
                    true => Reported,
                    false if all == 1 => Nothing,
                    false => Silent,
                }
            }
        },
        Filter::Rate { .. } => unreachable!(),
    };
    (decision, false)
}

/// How many of the last matches are in one window.
fn last_window(span: u64, times: &[u64]) -> usize {
    let mut windows: Vec<Vec<u64>> = Vec::new();
    for &time in times {
        match windows.last_mut().filter(|window| time - window[0] <= span) {
            Some(window) => window.push(time),
            None => windows.push(vec![time]),
        }
    }
    windows.last().unwrap().len()
}

/// Whether the last match gets the new action.
fn rate_oracle(count: u64, span: u64, timeout_s: u64, times: &[u64]) -> bool {
    let mut window: Vec<u64> = Vec::new();
    let mut since = None;
    let mut acts = false;
    for &time in times {
        let is_open = window.first().is_some_and(|first| time - first <= span);
        acts = since.is_some_and(|since| time / SECOND - since / SECOND <= timeout_s);
        if acts {
            continue;
        }
        let ends = since.take().is_some();
        match is_open {
            _ if ends => continue,
            true => window.push(time),
            false => window = vec![time],
        }
        if window.len() as u64 > count && is_open {
            (since, acts) = (Some(time), true);
        }
    }
    acts
}

fn filters() -> Vec<Filter> {
    let mut filters = Vec::new();
    for track in [Track::Source, Track::Destination, Track::Rule, Track::Both, Track::Flow] {
        for (count, seconds) in [(1, 1), (1, 7), (2, 3), (3, 60), (10, 5)] {
            let rate = Rate { track, count, seconds };
            let hows = [
                ThresholdHow::Limit,
                ThresholdHow::Threshold,
                ThresholdHow::Both,
                ThresholdHow::Backoff { multiplier: 2 },
                ThresholdHow::Backoff { multiplier: 10 },
            ];
            filters.extend(hows.map(|how| Filter::Threshold(Threshold { how, rate })));
            let of = |unique_on| Filter::Detection(DetectionFilter { rate, unique_on });
            filters.extend([None, Some(PortEnd::Source), Some(PortEnd::Destination)].map(of));
            let of = |timeout_s| Filter::Rate { rate, action: Action::Drop, timeout_s };
            filters.extend([0, 2, 30].map(of));
        }
    }
    filters
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Matches in the order of their time, many at the very ends of windows.
fn matches(seed: u64, count: usize) -> Vec<Match> {
    let hosts = ["10.0.0.1", "10.0.0.2", "192.0.2.1", "2001:db8::1"].map(ip);
    let (mut state, mut now) = (seed, 1_700_000_000 * SECOND);
    let one = |_| {
        now += match random(&mut state, 6) {
            0 | 1 => 0,
            2 => random(&mut state, SECOND),
            3 => SECOND,
            4 => random(&mut state, 8) * SECOND,
            _ => random(&mut state, 4) * SECOND + 1,
        };
        let ends = [0, 1].map(|_| hosts[random(&mut state, 4) as usize]);
        Match {
            rule: RuleId { gid: 1, sid: random(&mut state, 2) as u32, rev: 1 },
            ends: (random(&mut state, 50) > 0).then_some((ends[0], ends[1])),
            ports: (random(&mut state, 3) as u16, random(&mut state, 9) as u16),
            flow: Some(random(&mut state, 3)).filter(|_| random(&mut state, 20) > 0),
            now: Instant::from_nanos(now),
        }
    };
    (0..count).map(one).collect()
}

/// A match of a packet that is not IP.
const NO_IP: Match = Match {
    rule: RuleId { gid: 0, sid: 0, rev: 0 },
    ends: None,
    ports: (0, 0),
    flow: None,
    now: Instant::ZERO,
};

/// The key by which a match is counted, as text; `None` if it is not counted.
fn group(track: Track, one: &Match) -> Option<String> {
    let (src, dst) = one.ends?;
    let mut pair = [src.to_string(), dst.to_string()];
    pair.sort();
    let who = match track {
        Track::Source => src.to_string(),
        Track::Destination => dst.to_string(),
        Track::Rule => String::new(),
        Track::Both => pair.join(" "),
        Track::Flow => one.flow?.to_string(),
    };
    Some(format!("{:?} {who}", one.rule))
}

#[test]
fn every_filter_decides_as_the_oracle_does() {
    for (seed, filter) in filters().into_iter().enumerate() {
        let policy = Policy { filter: Some(filter), ..Policy::default() };
        let mut thresholds = Thresholds::new(1000).reserved([&policy]);
        let mut seen: HashMap<String, Vec<Counted>> = HashMap::new();
        for (at, one) in matches(seed as u64, 600).iter().enumerate() {
            let expected = match group(filter.rate().track, one) {
                _ if one.ends.is_none() => (Reported, false),
                None => (Nothing, false),
                Some(group) => {
                    let times = seen.entry(group).or_default();
                    times.push((one.now.as_nanos(), one.ports));
                    oracle(&filter, times)
                }
            };
            let (decision, action) = thresholds.decide(&policy, Action::Alert, one);
            assert_eq!((decision, action == Action::Drop), expected, "{filter:?}: {at}: {one:?}");
        }
        assert_eq!(thresholds.evicted(), 0);
    }
}

#[test]
fn the_manuals_examples() {
    let at = |seconds: u64| Match {
        rule: RuleId { gid: 1, sid: 1, rev: 1 },
        ends: Some((ip("10.0.0.1"), ip("10.0.0.2"))),
        ports: (1, 2),
        flow: Some(1),
        now: Instant::from_secs(1_700_000_000 + seconds),
    };
    let rate = |count, seconds| Rate { track: Track::Source, count, seconds };
    let detection = |count, seconds| {
        Filter::Detection(DetectionFilter { rate: rate(count, seconds), unique_on: None })
    };
    let threshold =
        |how, count, seconds| Filter::Threshold(Threshold { how, rate: rate(count, seconds) });
    let backoff = threshold(ThresholdHow::Backoff { multiplier: 10 }, 1, 0);
    // The reported ones of matches that are a second apart.
    for (filter, reported) in [
        (threshold(ThresholdHow::Limit, 1, 180), vec![0, 181]),
        (threshold(ThresholdHow::Limit, 2, 100), vec![0, 1, 101, 102]),
        (threshold(ThresholdHow::Threshold, 10, 60), vec![9, 19, 29, 39, 49, 59, 70, 80, 90, 100]),
        (threshold(ThresholdHow::Both, 5, 360), vec![4]),
        (detection(15, 2), vec![]),
        (detection(2, 60), (2..=60).chain(63..=121).chain(124..=182).collect()),
        (backoff, vec![0, 9, 99]),
    ] {
        let policy = Policy { filter: Some(filter), ..Policy::default() };
        let mut thresholds = Thresholds::new(10);
        let is_reported = |second: &u64| {
            thresholds.decide(&policy, Action::Alert, &at(*second)).0 == Reported && *second < 110
        };
        let expected: Vec<u64> = reported.into_iter().filter(|second| *second < 110).collect();
        assert_eq!((0..200).filter(is_reported).collect::<Vec<u64>>(), expected, "{filter:?}");
    }
    // "count 10, seconds 60, new_action drop, timeout 300".
    let filter = Filter::Rate { rate: rate(10, 60), action: Action::Drop, timeout_s: 300 };
    let policy = Policy { filter: Some(filter), ..Policy::default() };
    let mut thresholds = Thresholds::new(10);
    let drops = |second: &u64| {
        thresholds.decide(&policy, Action::Alert, &at(*second)) == (Reported, Action::Drop)
    };
    let dropped: Vec<u64> = (0..330).filter(drops).collect();
    assert_eq!(dropped, (10..=310).chain(322..330).collect::<Vec<u64>>());
}

#[test]
fn memory_is_bounded_and_what_expires_first_makes_room() {
    let limit = Threshold {
        how: ThresholdHow::Limit,
        rate: Rate { track: Track::Source, count: 1, seconds: 60 },
    };
    let policy = Policy { filter: Some(Filter::Threshold(limit)), ..Policy::default() };
    let from = |host: u32, nanos: u64| Match {
        rule: RuleId { gid: 1, sid: 1, rev: 1 },
        ends: Some((IpAddr::V4(host.into()), ip("10.0.0.2"))),
        ports: (1, 2),
        flow: None,
        now: Instant::from_nanos(nanos),
    };
    for capacity in [0, 1, 2, 100] {
        let room = capacity.max(1) as u32;
        let mut thresholds = Thresholds::new(capacity);
        let mut note =
            |host, nanos| thresholds.decide(&policy, Action::Alert, &from(host, nanos)).0;
        for host in 0..room {
            assert_eq!(note(host, u64::from(host)), Reported);
        }
        for host in 0..room {
            assert_eq!(note(host, 1000), Silent, "all are known");
        }
        assert_eq!(note(room, 2000), Reported, "the first makes room");
        for host in 1..=room {
            assert_eq!(note(host, 3000), Silent);
        }
        assert_eq!(note(0, 4000), Reported, "it was forgotten");
        for host in 0..10 * room {
            note(host + 1000, 61 * SECOND + 5000);
        }
        assert!(thresholds.evicted() > u64::from(room), "{}", thresholds.evicted());
        assert!(thresholds.len() <= capacity.max(1));
    }
    // Expired entries are reused before more are allocated.
    let mut thresholds = Thresholds::new(1000);
    for host in 0..5000 {
        thresholds.decide(&policy, Action::Alert, &from(host, u64::from(host) * 30 * SECOND));
    }
    assert!(thresholds.len() <= 4 && thresholds.evicted() == 0, "{}", thresholds.len());
}

#[test]
fn suppressed_alerts_act_and_are_not_counted() {
    use warpline_nids_rules::{Addresses, SuppressEnd};
    let v4 = |text: &str| text.parse().unwrap();
    let net = Addresses { v4: vec![(v4("10.0.0.0"), v4("10.0.0.255"))], ..Addresses::default() };
    let (net, inside, outside) = (Arc::new(net), ip("10.0.0.255"), ip("10.0.1.0"));
    let six = ip("2001:db8::1");
    for (end, ends, suppressed) in [
        (SuppressEnd::Source, (inside, outside), true),
        (SuppressEnd::Source, (outside, inside), false),
        (SuppressEnd::Destination, (inside, outside), false),
        (SuppressEnd::Destination, (outside, inside), true),
        (SuppressEnd::Either, (inside, outside), true),
        (SuppressEnd::Either, (outside, inside), true),
        (SuppressEnd::Either, (outside, outside), false),
        (SuppressEnd::Either, (six, six), false),
    ] {
        let first = Threshold {
            how: ThresholdHow::Limit,
            rate: Rate { track: Track::Rule, count: 1, seconds: 60 },
        };
        let policy = Policy {
            suppressed: [(end, Arc::clone(&net))].into(),
            filter: Some(Filter::Threshold(first)),
            ..Policy::default()
        };
        let what = Match { ends: Some(ends), ..NO_IP };
        let other = Match { ends: Some((ip("192.0.2.1"), ip("192.0.2.2"))), ..what };
        let mut thresholds = Thresholds::new(10);
        let decided = [&what, &other].map(|one| thresholds.decide(&policy, Action::Drop, one).0);
        let expected = if suppressed { [Silent, Reported] } else { [Reported, Silent] };
        assert_eq!(decided, expected, "{end:?} {ends:?}");
    }
    let what = NO_IP;
    let silent = Policy { is_silent: true, ..Policy::default() };
    let mut thresholds = Thresholds::new(1);
    assert_eq!(thresholds.decide(&silent, Action::Drop, &what), (Silent, Action::Drop));
    assert_eq!(thresholds.decide(&Policy::default(), Action::Pass, &what), (Silent, Action::Pass));
}
