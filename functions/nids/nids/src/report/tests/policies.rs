//! Which of several thresholds applies to a rule.

use super::*;
use crate::report::{Filter, Policies};
use warpline_nids_rules::{
    DetectionFilter, GlobalFilter, GlobalThreshold, Ids, Rate, RateFilter, SuppressEnd,
    Suppression, Threshold, ThresholdFile, ThresholdHow, Track,
};

fn rate(count: u32) -> Rate {
    Rate { track: Track::Source, count, seconds: 60 }
}

fn detection(count: u32) -> DetectionFilter {
    DetectionFilter { rate: rate(count), unique_on: None }
}

fn limit(count: u32) -> Threshold {
    Threshold { how: ThresholdHow::Limit, rate: rate(count) }
}

fn global(gid: u32, sid: u32, count: u32) -> GlobalFilter {
    GlobalFilter::Threshold(GlobalThreshold { ids: Ids { gid, sid }, threshold: limit(count) })
}

fn filter(gid: u32, sid: u32, count: u32) -> GlobalFilter {
    let (ids, new_action) = (Ids { gid, sid }, Action::Drop);
    GlobalFilter::Rate(RateFilter { ids, rate: rate(count), new_action, timeout_s: 9 })
}

fn rated(count: u32) -> Filter {
    Filter::Rate { rate: rate(count), action: Action::Drop, timeout_s: 9 }
}

#[test]
fn lines_apply_in_their_order() {
    let plain = rule(5, "");
    let own = Rule { threshold: Some(limit(100)), ..rule(5, "") };
    let detecting = Rule { detection_filter: Some(detection(200)), ..rule(5, "") };
    let other = rule(6, "");
    for (filters, expected) in [
        (vec![], [None, Some(100), Some(200), None]),
        (vec![global(1, 5, 1)], [Some(1), Some(1), Some(1), None]),
        (vec![global(1, 5, 1), global(1, 5, 2)], [Some(2), Some(2), Some(2), None]),
        (vec![global(0, 0, 3), global(0, 0, 4)], [Some(3), Some(100), Some(200), Some(3)]),
        (vec![global(1, 0, 3), global(1, 5, 4)], [Some(4), Some(4), Some(4), Some(3)]),
        (vec![global(1, 5, 4), global(1, 0, 3)], [Some(4), Some(4), Some(4), Some(3)]),
        (vec![global(2, 0, 3), global(2, 5, 4)], [None, Some(100), Some(200), None]),
        (vec![filter(1, 5, 7)], [Some(7), Some(100), Some(200), None]),
        (vec![filter(0, 0, 7)], [Some(7), Some(100), Some(200), Some(7)]),
        (vec![global(1, 5, 1), filter(1, 5, 7)], [Some(1), Some(1), Some(1), None]),
        (vec![filter(1, 5, 7), global(1, 5, 1)], [Some(1), Some(1), Some(1), None]),
        // Suricata 7.0.10 warns of these, and has the first.
        (vec![global(0, 0, 1), filter(1, 5, 7)], [Some(1), Some(100), Some(200), Some(1)]),
        (vec![filter(1, 5, 7), global(0, 0, 1)], [Some(7), Some(100), Some(200), Some(1)]),
        (vec![filter(1, 0, 7), global(1, 0, 1)], [Some(7), Some(100), Some(200), Some(7)]),
    ] {
        let file = ThresholdFile { filters, suppressions: vec![] };
        let policies = Policies::new(&file);
        let found = [&plain, &own, &detecting, &other].map(|rule| policies.of(rule).filter);
        let count = |filter: Option<Filter>| filter.map(|filter| filter.rate().count);
        assert_eq!(found.map(count), expected, "{file:?}");
        for filter in found.into_iter().flatten() {
            let count = filter.rate().count;
            let kind = match count {
                7 => rated(7),
                200 => Filter::Detection(detection(200)),
                _ => Filter::Threshold(limit(count)),
            };
            assert_eq!(filter, kind);
        }
    }
}

#[test]
fn suppressions_add_up() {
    let address = |host: u8| {
        let host = std::net::Ipv4Addr::new(10, 0, 0, host);
        Some((
            SuppressEnd::Source,
            Arc::new(Addresses { v4: vec![(host, host)], ..Addresses::default() }),
        ))
    };
    let line = |gid, sid, only| Suppression { ids: Ids { gid, sid }, only };
    let file = ThresholdFile {
        suppressions: vec![
            line(0, 0, address(1)),
            line(1, 5, address(2)),
            line(1, 0, address(3)),
            line(3, 0, None),
            line(1, 7, None),
        ],
        ..ThresholdFile::default()
    };
    let policies = Policies::new(&file);
    let with_gid = |sid, gid| {
        let mut rule = rule(sid, "");
        rule.about.gid = gid;
        rule
    };
    for (rule, hosts, silent) in [
        (rule(5, ""), &[1, 2, 3][..], false),
        (rule(6, ""), &[1, 3], false),
        (rule(7, ""), &[1, 3], true),
        (with_gid(5, 2), &[1], false),
        (with_gid(5, 3), &[1], true),
    ] {
        let policy = policies.of(&rule);
        assert_eq!(policy.is_silent, silent, "{:?}", rule.about);
        for host in 0..10 {
            let ends = (IpAddr::from([10, 0, 0, host]), ip("192.0.2.1"));
            assert_eq!(policy.suppresses(ends), hosts.contains(&host), "{host}");
            assert!(!policy.suppresses((ends.1, ends.0)));
        }
    }
    let noalert = Rule { about: About { is_silent: true, ..About::default() }, ..rule(9, "") };
    assert!(policies.of(&noalert).is_silent);
}

#[test]
fn a_shard_decides_what_the_verdict_hangs_on() {
    let policies = ThresholdFile::default();
    let of = |filter| {
        let policy = Policies::new(&policies).of(&rule(1, ""));
        crate::report::Policy { filter, ..policy }
    };
    let alerting = Filter::Rate { rate: rate(1), action: Action::Alert, timeout_s: 1 };
    for (filter, action, is_early) in [
        (None, Action::Drop, false),
        (Some(Filter::Threshold(limit(1))), Action::Alert, false),
        (Some(Filter::Threshold(limit(1))), Action::Drop, true),
        (Some(Filter::Detection(detection(1))), Action::Pass, true),
        (Some(rated(1)), Action::Alert, true),
        (Some(alerting), Action::Drop, true),
        (Some(alerting), Action::Alert, false),
    ] {
        assert_eq!(of(filter).decides_verdict(action), is_early, "{filter:?} {action:?}");
    }
}
