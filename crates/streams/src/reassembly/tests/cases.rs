//! Cases by hand.

use core::time::Duration;

use warpline_packet::{Instant, LinkType};

use super::super::{Counters, Reassembly, Taken, Why};
use super::fragments::{Fragment, Link};
use super::{Ingress, Reported, take};

const SECOND: u64 = 1_000_000_000;

/// Passes in each fragment, at its second, and returns the results.
fn run(reassembly: &mut Reassembly, fragments: &[(u64, Fragment)]) -> Vec<Reported> {
    let mut ingress = Ingress::new();
    let reported = |(seconds, fragment): &(u64, Fragment)| {
        let nanos = seconds * SECOND;
        take(reassembly, &ingress.packet(&fragment.frame(), fragment.link.kind(), nanos, 0))
    };
    fragments.iter().map(reported).collect()
}

fn all_at_once(version: u8, fragments: &[(usize, bool, &[u8])]) -> Vec<Reported> {
    let of = |&(offset, more, data): &_| (0, Fragment::new(version, offset, more, data));
    let fragments: Vec<_> = fragments.iter().map(of).collect();
    run(&mut Reassembly::new(4, 2000), &fragments)
}

const A: &[u8] = b"01234567";
const B: &[u8] = b"89abcdef";

#[test]
fn both_orders_make_the_whole() {
    for version in [4, 6] {
        let whole = Fragment::new(version, 0, true, A).whole(b"01234567xyz", 0);
        for order in [[0, 1], [1, 0]] {
            let pieces: [(usize, bool, &[u8]); 2] = [(0, true, A), (8, false, b"xyz")];
            let reported = all_at_once(version, &order.map(|at| pieces[at]));
            assert_eq!(reported, [Ok(None), Ok(Some(whole.clone()))]);
        }
    }
}

/// RFC 5722, 4: also fragments that came before and that come later.
#[test]
fn an_overlap_discards_all_of_it() {
    let dead = Err(Why::Overlap);
    for version in [4, 6] {
        let other = b"89abcdeF";
        let cases: [&[(usize, bool, &[u8])]; 6] = [
            &[(0, true, b"0123456789abcdef"), (8, true, b"89abcdef01234567")],
            &[(8, true, B), (0, true, b"0123456789abcdef")],
            // The same bounds, other bytes.
            &[(8, true, B), (8, true, other)],
            // Two ends.
            &[(8, false, B), (16, false, b"x")],
            // Data after the end.
            &[(8, false, B), (16, true, A)],
            &[(16, true, A), (8, false, B)],
        ];
        for pieces in cases {
            let mut all = pieces.to_vec();
            all.extend([(0, true, A), (24, false, B)]);
            let reported = all_at_once(version, &all);
            assert_eq!(
                reported,
                [Ok(None), dead.clone(), dead.clone(), dead.clone()],
                "{pieces:?}"
            );
        }
    }
}

#[test]
fn a_duplicate_is_ignored() {
    for version in [4, 6] {
        let all: [(usize, bool, &[u8]); 5] =
            [(8, true, B), (8, true, B), (16, false, b"x"), (16, false, b"x"), (0, true, A)];
        let reported = all_at_once(version, &all);
        assert!(reported[..4].iter().all(|reported| *reported == Ok(None)));
        assert!(matches!(reported[4], Ok(Some(_))));
        // Two that lie side by side are not one, and a part is not the whole.
        let long = b"89abcdef89abcdef";
        let two: [(usize, bool, &[u8]); 3] = [(8, true, B), (16, true, B), (8, true, long)];
        let part: [(usize, bool, &[u8]); 3] = [(24, true, B), (8, true, long), (8, true, B)];
        assert_eq!(all_at_once(version, &part)[2], Err(Why::Overlap));
        assert_eq!(all_at_once(version, &two)[2], Err(Why::Overlap));
    }
}

#[test]
fn malformed_fragments_are_refused() {
    for version in [4, 6] {
        let all: [(usize, bool, &[u8]); 4] =
            [(0, true, b"0123456"), (8, true, b""), (8, false, b"x"), (0, true, A)];
        let reported = all_at_once(version, &all);
        assert_eq!(reported[..3], [Err(Why::Malformed), Err(Why::Malformed), Ok(None)]);
        assert!(matches!(reported[3], Ok(Some(_))));
        let beyond = all_at_once(version, &[(65_528, false, A)]);
        assert_eq!(beyond, [Err(Why::Malformed)]);
        let mut ingress = Ingress::new();
        let frame = Fragment::new(version, 0, true, A).frame();
        let cut = ingress.packet(&frame, LinkType::ETHERNET, 0, 1);
        assert_eq!(take(&mut Reassembly::new(1, 100), &cut), Err(Why::Malformed));
    }
    // A TCP header in two: RFC 8200, 4.5 forbids it, RFC 791 doesn't.
    for (version, expected) in [(4, Ok(None)), (6, Err(Why::Malformed))] {
        let first = Fragment { protocol: 6, ..Fragment::new(version, 0, true, A) };
        assert_eq!(run(&mut Reassembly::new(1, 100), &[(0, first)]), [expected]);
    }
}

#[test]
fn lengths_up_to_the_bound() {
    for (version, head_len) in [(4, 34), (6, 54)] {
        for (spare, is_whole) in [(0, true), (1, false)] {
            let mut reassembly = Reassembly::new(1, head_len + 9 - spare);
            let pieces = [(8, false, &b"x"[..]), (0, true, A)];
            let pieces = pieces.map(|(at, more, data)| (0, Fragment::new(version, at, more, data)));
            let last = run(&mut reassembly, &pieces).pop().unwrap();
            assert_eq!(matches!(last, Ok(Some(_))), is_whole);
            assert_eq!(last == Err(Why::TooLong), !is_whole);
        }
    }
}

/// The longest datagrams, in the largest memory: 65,535 bytes with the IPv4 header, without that of
/// IPv6.
#[test]
fn the_longest_datagrams() {
    let data: Vec<u8> = (0..65_535_u32).map(|at| (at / 7) as u8).collect();
    for (version, len_max) in [(4, 65_515), (6, 65_535)] {
        for (len, is_whole) in [(len_max, true), (len_max + 1, false)] {
            let Some(data) = data.get(..len) else { continue };
            let mut reassembly = Reassembly::new(1, usize::MAX >> 40);
            let cut = |(at, part): (usize, &[u8])| {
                (0, Fragment::new(version, at * 1400, (at + 1) * 1400 < len, part))
            };
            let pieces: Vec<_> = data.chunks(1400).enumerate().map(cut).collect();
            let reported = run(&mut reassembly, &pieces).pop().unwrap();
            let whole = Fragment::new(version, 0, true, &[]).whole(data, 0);
            assert_eq!(reported == Ok(Some(whole)), is_whole, "{version} {len}");
        }
    }
}

/// RFC 3168, 5.3.
#[test]
fn congestion_marks() {
    const DROPPED: Option<u8> = None;
    let cases = [
        (0, 0, Some(0)),
        (1, 1, Some(1)),
        (2, 3, Some(3)),
        (3, 1, Some(3)),
        (3, 3, Some(3)),
        (0, 3, DROPPED),
        (3, 0, DROPPED),
    ];
    for version in [4, 6] {
        for (first, second, whole) in cases {
            let a = Fragment { ecn: first, ..Fragment::new(version, 0, true, A) };
            let b = Fragment { ecn: second, ..Fragment::new(version, 8, false, B) };
            let expected = match whole {
                Some(ecn) => Ok(Some(a.whole(b"0123456789abcdef", ecn))),
                None => Err(Why::Ecn),
            };
            for pair in [[a.clone(), b.clone()], [b, a]] {
                let reported = run(&mut Reassembly::new(1, 100), &pair.map(|f| (0, f)));
                assert_eq!(reported, [Ok(None), expected.clone()], "{first} {second}");
            }
        }
    }
}

#[test]
fn time_is_over() {
    for (version, seconds) in [(4, 30), (6, 60)] {
        for (wait, is_whole) in [(seconds - 1, true), (seconds, false)] {
            let a = Fragment::new(version, 0, true, A);
            let b = Fragment::new(version, 8, false, B);
            let mut reassembly = Reassembly::new(1, 100);
            let reported = run(&mut reassembly, &[(5, a.clone()), (5 + wait, b.clone())]);
            assert_eq!(matches!(reported[1], Ok(Some(_))), is_whole);
            assert_eq!(reassembly.counters().expired, u64::from(!is_whole));

            let given = Reassembly::new(1, 100).with_timeouts(Duration::ZERO, Duration::ZERO);
            assert_eq!(run(&mut { given }, &[(5, a), (5, b)])[1], Ok(None));
        }
    }
    let mut reassembly = Reassembly::new(1, 100);
    run(&mut reassembly, &[(0, Fragment::new(4, 0, true, A))]);
    reassembly.expire(Instant::from_secs(29));
    assert_eq!(reassembly.counters().expired, 0);
    reassembly.expire(Instant::from_secs(30));
    assert_eq!(reassembly.counters().expired, 1);
}

/// One who listens waits a minute for each, whatever the version.
#[test]
fn a_listener_waits_for_each_fragment() {
    for version in [4, 6] {
        for (wait, is_whole) in [(59, true), (60, false)] {
            let pieces = [(0, true, A), (8, true, B), (16, false, A)];
            let of = |(offset, more, data)| Fragment::new(version, offset, more, data);
            let times = (1..).step_by(wait);
            let fragments: Vec<(u64, Fragment)> = times.zip(pieces.map(of)).collect();
            let mut reassembly = Reassembly::new(1, 100).listening();
            let reported = run(&mut reassembly, &fragments);
            assert_eq!(matches!(reported[2], Ok(Some(_))), is_whole, "version {version}, {wait} s");
        }
    }
    // The most recently used one is given up last.
    let of = |ident, at| Fragment { ident, ..Fragment::new(4, at, at < 16, A) };
    let mut reassembly = Reassembly::new(2, 100).listening();
    let order = [of(1, 0), of(2, 0), of(1, 8), of(3, 0), of(1, 16)];
    let fragments: Vec<(u64, Fragment)> = (1..).zip(order).collect();
    assert!(matches!(run(&mut reassembly, &fragments)[4], Ok(Some(_))));
}

/// A gateway takes fragments as they come; one who listens to several networks keeps these apart.
#[test]
fn vlans_are_distinguished_on_request() {
    for version in [4, 6] {
        let a = Fragment::new(version, 0, true, A);
        let tagged = Fragment { link: Link::Tagged, ..Fragment::new(version, 8, false, B) };
        let pieces = [(0, a), (0, tagged)];
        let is_whole = |mut reassembly| matches!(run(&mut reassembly, &pieces)[1], Ok(Some(_)));
        assert!(is_whole(Reassembly::new(2, 100)));
        assert!(!is_whole(Reassembly::new(2, 100).by_vlan(true)));
    }
}

#[test]
fn the_oldest_makes_room() {
    let of = |version, ident, at| {
        let data = if at == 0 { A } else { B };
        Fragment { ident, ..Fragment::new(version, at, at == 0, data) }
    };
    let mut reassembly = Reassembly::new(2, 100);
    let order = [(6, 1, 0), (4, 2, 0), (4, 3, 0), (4, 2, 8), (4, 3, 8), (6, 1, 8)];
    let reported = run(
        &mut reassembly,
        &order.map(|(v, ident, at)| (u64::from(ident != 1), of(v, ident, at))),
    );
    let complete: Vec<bool> =
        reported.iter().map(|reported| matches!(reported, Ok(Some(_)))).collect();
    assert_eq!(complete, [false, false, false, true, true, false]);
    let expected = Counters { fragments: 6, complete: 2, evicted: 1, ..Counters::default() };
    assert_eq!(*reassembly.counters(), expected);
}

/// However many datagrams one source begins, it has others' places only as far as they have fewer.
#[test]
fn a_source_makes_room_for_itself() {
    let of = |src, ident, at| {
        let data = if at == 0 { A } else { B };
        Fragment { src, ident, ..Fragment::new(4, at, at == 0, data) }
    };
    let mut reassembly = Reassembly::new(8, 100);
    let others = (10..14).map(|src| (0, of(src, 1, 0)));
    let flood = (0..500).map(|ident| (1, of(1, ident, 0)));
    run(&mut reassembly, &others.chain(flood).collect::<Vec<_>>());
    let rest: Vec<_> = (10..14).map(|src| (2, of(src, 1, 8))).collect();
    let reported = run(&mut reassembly, &rest);
    assert!(reported.iter().all(|reported| matches!(reported, Ok(Some(_)))), "{reported:?}");
    assert_eq!(reassembly.counters().evicted, 496);
}

#[test]
fn whole_packets_are_not_taken() {
    let mut ingress = Ingress::new();
    let mut reassembly = Reassembly::new(1, 100);
    for frame in
        [Fragment::new(4, 0, false, A).frame(), Fragment::new(6, 0, false, A).frame(), vec![0; 60]]
    {
        let packet = ingress.packet(&frame, LinkType::ETHERNET, 0, 0);
        assert_eq!(reassembly.take(&packet), Taken::Whole);
    }
    assert_eq!(*reassembly.counters(), Counters::default());
}
