//! Each rule alone, in virtual time.

mod random;

use super::*;

const NEVER: u64 = u64::MAX;

/// Limits that no test meets by accident.
fn wide() -> LaunchLimits {
    LaunchLimits {
        bytes_max: 1_000_000,
        packets_max: 1_000_000,
        batches_max: 1_000,
        delay_max_ns: NEVER,
        foresees: false,
        launches_max: 8,
        measures: false,
        waiting_bytes_max: usize::MAX,
        waiting_batches_max: 1_000,
        timeout_ns: NEVER,
    }
}

fn load(packets: usize, bytes: usize, oldest_ns: u64) -> Load {
    Load { packets, bytes, oldest_ns }
}

/// A batcher that was handed `loads`, given as packets and bytes.
fn holding(limits: &LaunchLimits, loads: &[(usize, usize)]) -> Batcher {
    let mut batcher = Batcher::new(limits);
    loads.iter().for_each(|&(packets, bytes)| batcher.handle_batch(&load(packets, bytes, 0)));
    batcher
}

/// Batches of each launch that it gives now, and why it was closed.
fn given(batcher: &mut Batcher, now_ns: u64) -> Vec<(usize, Closed)> {
    std::iter::from_fn(|| batcher.poll_launch(now_ns))
        .map(|one| (one.batches, one.closed))
        .collect()
}

#[test]
fn a_launch_is_full_at_each_limit_and_before_what_would_go_over() {
    let limits = LaunchLimits { bytes_max: 100, packets_max: 10, batches_max: 3, ..wide() };
    type Case = (&'static [(usize, usize)], &'static [usize]);
    let cases: &[Case] = &[
        (&[(1, 10), (1, 10)], &[]),
        (&[(1, 99)], &[]),
        (&[(1, 50), (1, 50)], &[2]),
        (&[(1, 50), (1, 51)], &[1]),
        (&[(1, 50), (1, 51), (1, 49)], &[1, 2]),
        (&[(5, 0), (5, 0)], &[2]),
        (&[(5, 0), (6, 0)], &[1]),
        (&[(1, 1), (1, 1), (1, 1)], &[3]),
        (&[(1, 1), (1, 1), (1, 1), (1, 1)], &[3]),
        // One batch alone may be larger; it takes none with it.
        (&[(1, 500)], &[1]),
        (&[(99, 1)], &[1]),
        (&[(1, 10), (1, 500), (1, 10)], &[1, 1]),
    ];
    for (loads, launches) in cases {
        let full: Vec<_> = launches.iter().map(|&batches| (batches, Closed::Full)).collect();
        assert_eq!(given(&mut holding(&limits, loads), 0), full, "{loads:?}");
    }
}

#[test]
fn a_launch_says_what_is_in_it() {
    let mut batcher = Batcher::new(&wide());
    for (packets, bytes, oldest_ns) in [(3, 30, 70), (4, 40, 50), (5, 50, 60)] {
        batcher.handle_batch(&load(packets, bytes, oldest_ns));
    }
    batcher.handle_flush();
    let launch = batcher.poll_launch(80).unwrap();
    let Launch { id, slot, batches, packets, bytes, oldest_ns, closed } = launch;
    assert_eq!((id, slot, closed), (LaunchId(0), 0, Closed::Flushed));
    assert_eq!((batches, packets, bytes, oldest_ns), (3, 12, 120, 50));
}

#[test]
fn a_launch_is_due_when_its_oldest_packet_waited_long_enough_and_not_before() {
    let mut batcher = Batcher::new(&LaunchLimits { delay_max_ns: 100, ..wide() });
    batcher.handle_batch(&load(1, 1, 1_000));
    assert_eq!(batcher.poll_timeout(), Some(1_100));
    // An older packet in a later batch counts, a younger one does not.
    batcher.handle_batch(&load(1, 1, 990));
    batcher.handle_batch(&load(1, 1, 1_050));
    assert_eq!(batcher.poll_timeout(), Some(1_090));
    assert_eq!(batcher.poll_launch(1_089), None);
    assert_eq!(given(&mut batcher, 1_090), [(3, Closed::Due)]);
    // The next one's time begins anew, with its own.
    batcher.handle_batch(&load(1, 1, 1_080));
    assert_eq!(batcher.poll_timeout(), Some(1_180));
}

#[test]
fn a_batch_that_comes_too_late_goes_at_once_and_one_without_limit_never() {
    let mut batcher = Batcher::new(&LaunchLimits { delay_max_ns: 100, ..wide() });
    batcher.handle_batch(&load(1, 1, 0));
    assert_eq!(given(&mut batcher, 5_000), [(1, Closed::Due)]);
    let mut batcher = Batcher::new(&LaunchLimits { delay_max_ns: 0, ..wide() });
    batcher.handle_batch(&load(1, 1, 7));
    assert_eq!(given(&mut batcher, 7), [(1, Closed::Due)]);
    let mut batcher = holding(&wide(), &[(1, 1)]);
    assert_eq!((batcher.poll_timeout(), batcher.poll_launch(NEVER - 1)), (None, None));
}

#[test]
fn a_launch_waits_for_no_batch_that_comes_too_late() {
    let limits = LaunchLimits { delay_max_ns: 100, launches_max: 2, ..wide() };
    for (foresees, closed, waits_ns) in [(false, Closed::Due, 100), (true, Closed::Foreseen, 0)] {
        let mut batcher = Batcher::new(&LaunchLimits { foresees, ..limits });
        // The distance of batches is not known yet.
        for at_ns in [1_000, 1_120] {
            batcher.handle_batch(&load(1, 1, at_ns));
            assert_eq!(given(&mut batcher, at_ns), []);
            assert_eq!(given(&mut batcher, at_ns + 100), [(1, Closed::Due)]);
            let id = LaunchId((at_ns - 1_000) / 120);
            assert!(batcher.handle_done(id, at_ns) && batcher.poll_release().is_some());
        }
        batcher.handle_batch(&load(1, 1, 1_240));
        let next_ns = if foresees { 0 } else { 1_340 };
        assert_eq!(batcher.poll_timeout(), Some(next_ns));
        assert_eq!(given(&mut batcher, 1_240 + waits_ns), [(1, closed)]);
        // Batches that come faster are waited for again, and those of a device without a free
        // stream.
        batcher.handle_batch(&load(1, 1, 1_300));
        assert_eq!(batcher.poll_timeout(), Some(1_400));
        assert_eq!(given(&mut batcher, 1_400), [(1, Closed::Due)]);
        for at_ns in [1_500, 1_700, 1_900] {
            batcher.handle_batch(&load(1, 1, at_ns));
        }
        assert_eq!(given(&mut batcher, 9_999), [], "no stream is free");
    }
}

#[test]
fn a_flush_launches_at_once_and_takes_no_later_batch() {
    let mut batcher = holding(&wide(), &[(1, 1), (1, 1)]);
    batcher.handle_flush();
    batcher.handle_flush();
    batcher.handle_batch(&load(1, 1, 0));
    assert_eq!(batcher.poll_timeout(), Some(0));
    assert_eq!(given(&mut batcher, 0), [(2, Closed::Flushed)]);
    assert!(!batcher.is_empty());
}

#[test]
fn a_closed_launch_waits_for_a_stream() {
    let limits = LaunchLimits { batches_max: 1, launches_max: 2, ..wide() };
    let mut batcher = holding(&limits, &[(1, 1), (1, 1), (1, 1)]);
    let (first, second) = (batcher.poll_launch(0).unwrap(), batcher.poll_launch(0).unwrap());
    assert_eq!((batcher.in_flight(), batcher.poll_launch(0)), (2, None));
    assert_eq!(batcher.poll_timeout(), None);
    assert!(batcher.handle_done(second.id, 0));
    assert_eq!(batcher.poll_timeout(), Some(0));
    assert_eq!(batcher.poll_launch(0).map(|third| third.id), Some(LaunchId(2)));
    assert_eq!((batcher.in_flight(), first.id), (2, LaunchId(0)));
}

#[test]
fn an_overdue_launch_grows_while_all_streams_are_busy() {
    let limits = LaunchLimits { delay_max_ns: 100, batches_max: 3, launches_max: 1, ..wide() };
    let mut batcher = holding(&limits, &[(1, 1)]);
    let first = batcher.poll_launch(100).unwrap();
    batcher.handle_batch(&load(1, 1, 100));
    assert_eq!((batcher.poll_timeout(), batcher.poll_launch(300)), (None, None));
    batcher.handle_batch(&load(1, 1, 300));
    batcher.handle_done(first.id, 0);
    assert_eq!(given(&mut batcher, 301), [(2, Closed::Due)]);
}

#[test]
fn room_ends_at_the_bounds_and_comes_back_with_release() {
    let limits = LaunchLimits { waiting_bytes_max: 100, waiting_batches_max: 4, ..wide() };
    let mut batcher = holding(&limits, &[(1, 99)]);
    assert!(batcher.has_room());
    batcher.handle_batch(&load(1, 50, 0));
    assert_eq!((batcher.has_room(), batcher.held_bytes()), (false, 149));
    // No more batches come, so it leaves as it is.
    assert_eq!(batcher.poll_timeout(), Some(0));
    let launch = batcher.poll_launch(0).unwrap();
    assert_eq!((launch.batches, launch.closed), (2, Closed::NoRoom));
    batcher.handle_done(launch.id, 0);
    assert!(!batcher.has_room());
    assert_eq!(batcher.poll_release(), Some(launch));
    assert!(batcher.has_room() && batcher.is_empty());

    let mut batcher = holding(&limits, &[(1, 1); 3]);
    assert!(batcher.has_room());
    batcher.handle_batch(&load(1, 1, 0));
    assert_eq!((batcher.has_room(), batcher.held_batches()), (false, 4));
    assert_eq!(given(&mut batcher, 0), [(4, Closed::NoRoom)]);
}

#[test]
fn launches_are_released_in_the_order_of_closing() {
    let mut batcher = holding(&LaunchLimits { batches_max: 1, ..wide() }, &[(1, 1); 3]);
    let launches: Vec<Launch> = std::iter::from_fn(|| batcher.poll_launch(0)).collect();
    for done in [2, 1] {
        assert!(batcher.handle_done(launches[done].id, 0));
        assert_eq!(batcher.poll_release(), None);
    }
    assert!(batcher.handle_done(launches[0].id, 0));
    assert_eq!(batcher.poll_timeout(), Some(0));
    let released: Vec<Launch> = std::iter::from_fn(|| batcher.poll_release()).collect();
    assert_eq!(released, launches);
}

#[test]
fn a_launch_is_done_once_and_only_after_it_was_given_out() {
    let mut batcher = holding(&LaunchLimits { batches_max: 1, ..wide() }, &[(1, 1); 2]);
    assert!(!batcher.handle_done(LaunchId(0), 0));
    let first = batcher.poll_launch(0).unwrap();
    assert!(!batcher.handle_done(LaunchId(1), 0));
    assert!(!batcher.handle_done(LaunchId(u64::MAX), 0));
    assert!(batcher.handle_done(first.id, 0) && !batcher.handle_done(first.id, 0));
    batcher.poll_release().unwrap();
    batcher.poll_launch(0).unwrap();
    assert!(!batcher.handle_done(first.id, 0));
    assert_eq!(batcher.in_flight(), 1);
}

#[test]
fn a_slow_launch_is_passed_by_a_bounded_number() {
    let limits = LaunchLimits { batches_max: 1, launches_max: 2, ..wide() };
    let mut batcher = holding(&limits, &[(1, 1); 9]);
    let slow = batcher.poll_launch(0).unwrap();
    let mut slots = vec![slow.slot];
    while let Some(launch) = batcher.poll_launch(0) {
        slots.push(launch.slot);
        batcher.handle_done(launch.id, 0);
    }
    assert_eq!((slots, batcher.slots()), (vec![0, 1, 2, 3], 4));
    assert_eq!(batcher.poll_timeout(), None);
    batcher.handle_done(slow.id, 0);
    batcher.poll_release().unwrap();
    assert_eq!(batcher.poll_launch(0).map(|launch| launch.slot), Some(0));
}

#[test]
fn the_watchdog_names_a_launch_once() {
    let limits = LaunchLimits { batches_max: 1, timeout_ns: 100, ..wide() };
    let mut batcher = holding(&limits, &[(1, 1); 3]);
    let launches = [10, 20, 30].map(|now_ns| batcher.poll_launch(now_ns).unwrap());
    assert_eq!(batcher.poll_timeout(), Some(110));
    batcher.handle_done(launches[0].id, 0);
    batcher.poll_release().unwrap();
    assert_eq!(batcher.poll_timeout(), Some(120));
    assert_eq!(batcher.poll_expired(119), None);
    assert_eq!(batcher.poll_expired(120), Some(launches[1]));
    assert_eq!((batcher.poll_expired(120), batcher.poll_timeout()), (None, Some(130)));
    // It still holds its stream, until the caller reports that it is done.
    assert_eq!(batcher.in_flight(), 2);
    assert!(batcher.handle_done(launches[1].id, 0));
    assert_eq!(batcher.poll_release(), Some(launches[1]));
    assert_eq!(batcher.poll_expired(130), Some(launches[2]));
    assert_eq!(batcher.poll_timeout(), None);
    // Once it is excused, it is named again.
    batcher.handle_excuse(launches[2].id, 140);
    batcher.handle_excuse(launches[1].id, 140);
    assert_eq!((batcher.poll_expired(239), batcher.poll_timeout()), (None, Some(240)));
    assert_eq!(batcher.poll_expired(240), Some(launches[2]));
    assert_eq!(batcher.poll_timeout(), None);
}

#[test]
fn a_second_work_is_watched_as_long_as_the_first() {
    let limits = LaunchLimits { batches_max: 1, timeout_ns: 100, ..wide() };
    let mut batcher = holding(&limits, &[(1, 1); 2]);
    let launches = [10, 20].map(|now_ns| batcher.poll_launch(now_ns).unwrap());
    batcher.handle_next_work(launches[0].id, 90);
    assert_eq!((batcher.poll_expired(119), batcher.poll_expired(120)), (None, Some(launches[1])));
    // One that was named is not watched any more.
    batcher.handle_next_work(launches[1].id, 130);
    assert_eq!(batcher.poll_timeout(), Some(190));
    batcher.handle_done(launches[0].id, 180);
    batcher.handle_next_work(launches[0].id, 180);
    batcher.handle_next_work(LaunchId(7), 180);
    assert_eq!(batcher.poll_expired(u64::MAX), None);
}

#[test]
fn as_many_are_in_flight_as_measuring_allows() {
    let limits = LaunchLimits { batches_max: 1, launches_max: 8, measures: true, ..wide() };
    let (mut batcher, mut flying, mut now) = (Batcher::new(&limits), VecDeque::new(), 0);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2_000 {
        while batcher.held_batches() < 20 {
            batcher.handle_batch(&load(1, 1_000, now));
        }
        flying.extend(std::iter::from_fn(|| batcher.poll_launch(now)));
        seen.insert(batcher.streams());
        assert!(batcher.in_flight() >= batcher.streams(), "none that may go waits");
        // One at a time, whatever is in flight.
        now += 1_000;
        batcher.handle_done(flying.pop_front().map(|one: Launch| one.id).unwrap(), now);
        batcher.poll_release().unwrap();
    }
    assert_eq!((Vec::from_iter(seen), batcher.streams()), (vec![1, 2, 4, 8], 1));
}

#[test]
fn limits_that_nothing_could_keep_are_raised() {
    let zero = LaunchLimits {
        bytes_max: 0,
        packets_max: 0,
        batches_max: 0,
        delay_max_ns: 0,
        foresees: false,
        launches_max: 0,
        measures: false,
        waiting_bytes_max: 0,
        waiting_batches_max: 0,
        timeout_ns: 0,
    };
    let mut batcher = holding(&zero, &[(0, 0)]);
    let launch = batcher.poll_launch(0).unwrap();
    assert_eq!(batcher.poll_expired(0), Some(launch));
    batcher.handle_done(launch.id, 0);
    assert_eq!(batcher.poll_release(), Some(launch));
    assert!(batcher.is_empty() && batcher.has_room());
    let most = LaunchLimits { launches_max: usize::MAX, waiting_batches_max: usize::MAX, ..wide() };
    assert_eq!(Batcher::new(&most).limits().launches_max, 256);
}
