//! Every matcher against a table of cases and against a search that tries each pattern at each
//! place.

use proptest::prelude::*;
use warpline_packet::hash::mix32;

use super::*;

fn pattern(bytes: &[u8], is_nocase: bool) -> Pattern {
    Pattern { bytes: bytes.into(), is_nocase }
}

/// All of them; Hyperscan where it is installed.
fn matchers(patterns: &[Pattern]) -> Vec<Box<dyn Matcher>> {
    let choices = [Choice::Auto, Choice::Hyperscan, Choice::Dense, Choice::Compact];
    choices.into_iter().filter_map(|choice| matcher(choice, patterns)).collect()
}

fn matcher(choice: Choice, patterns: &[Pattern]) -> Option<Box<dyn Matcher>> {
    match build(choice, patterns, None) {
        Err(Error::Missing(missing)) if choice == Choice::Hyperscan => {
            println!("skipped: {missing}");
            None
        }
        built => Some(built.unwrap()),
    }
}

/// The definition.
fn naive(patterns: &[Pattern], bytes: &[u8]) -> Vec<u32> {
    let occurs = |pattern: &Pattern| {
        bytes.windows(pattern.bytes.len()).any(|window| {
            window.iter().zip(&*pattern.bytes).all(|(a, b)| {
                let folded = |byte: &u8| byte + if byte.is_ascii_uppercase() { 32 } else { 0 };
                a == b || pattern.is_nocase && folded(a) == folded(b)
            })
        })
    };
    (0..).zip(patterns).filter(|(_, pattern)| occurs(pattern)).map(|(id, _)| id).collect()
}

#[track_caller]
fn check(patterns: &[Pattern], matchers: &[Box<dyn Matcher>], bytes: &[u8], expected: &[u32]) {
    for matcher in matchers {
        let mut hits = Hits::new(patterns.len(), patterns.len());
        matcher.scan(bytes, &mut hits);
        assert!(!hits.is_full());
        assert_eq!(hits.ids(), expected, "{} of {}", matcher.name(), bytes.escape_ascii());
    }
}

/// Patterns, `i` before those whose case doesn't count and `=` before others; a payload; the ids.
type Case = (&'static [&'static [u8]], &'static [u8], &'static [u32]);

const CASES: &[Case] = &[
    (&[], b"anything", &[]),
    (&[b"=a"], b"", &[]),
    (&[b"=a", b"=b"], b"b", &[1]),
    (&[b"=a", b"ia", b"=A", b"iA"], b"xxa", &[0, 1, 3]),
    (&[b"=he", b"=she", b"=his", b"=hers"], b"ushers", &[0, 1, 3]),
    (&[b"=abcdef", b"=cde", b"=d"], b"xabcdexx", &[1, 2]),
    (&[b"iContent-Type", b"=content-type"], b"CONTENT-type: x", &[0]),
    (&[b"iContent-Type", b"=content-type"], b"content-type", &[0, 1]),
    // Bytes that differ by the bit 0x20 and are not letters, and letters that are not of ASCII.
    (&[b"i@[\x60{\xc0\xe0", b"i@[\x60{\xe0\xe0"], b"@[\x60{\xc0\xe0", &[0]),
    (&[b"i@@@@@@@@"], b"\x60\x60\x60\x60\x60\x60\x60\x60", &[]),
    (&[b"=\0\0", b"=\0\0\0", b"=\0\0\0\0\0"], b"\0\0\0\0", &[0, 1]),
    (&[b"=\xff\xfe", b"=\x80"], b"\x80\xff\xfe", &[0, 1]),
    (&[b"=dup", b"=dup", b"idup"], b"dup", &[0, 1, 2]),
    (&[b"=aB", b"=Ab", b"iab"], b"aB", &[0, 2]),
    // A later occurrence has the right case.
    (&[b"=Secret"], b"secret SECRET Secret", &[0]),
    (&[b"=start", b"=finish"], b"start and finish", &[0, 1]),
    (&[b"=start!", b"=!finish"], b"start and finish", &[]),
    (&[b"=.", b"=\\x41", b"=[a]", b"=$"], b"A a [a]", &[2]),
    (&[b"=a", b"=aa", b"=aaa", b"=aaaa", b"=aaaaa", b"=aaaaaa"], b"aaaaa", &[0, 1, 2, 3, 4]),
];

#[test]
fn every_matcher_finds_what_the_table_says() {
    for (patterns, bytes, expected) in CASES {
        let patterns: Vec<_> = patterns.iter().map(|p| pattern(&p[1..], p[0] == b'i')).collect();
        assert_eq!(naive(&patterns, bytes), *expected);
        let matchers = matchers(&patterns);
        check(&patterns, &matchers, bytes, expected);
        // Elsewhere in a payload, so that it lies across every cut.
        for pad in [1, 2, 3, 16, 17, 29, 127, 500] {
            let padded = [&vec![b'~'; pad], *bytes, &vec![b'~'; pad]].concat();
            check(&patterns, &matchers, &padded, expected);
        }
    }
}

/// Few letters, so that patterns overlap, are parts of each other, and occur.
fn bytes(len: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let alphabets: [&[u8]; 4] = [b"ab", b"aAbB", b"aA\0@`", b"xyzXY.\xff\xdf"];
    prop::sample::select(alphabets.to_vec()).prop_flat_map(move |letters| {
        prop::collection::vec(prop::sample::select(letters), len.clone())
    })
}

fn patterns() -> impl Strategy<Value = Vec<Pattern>> {
    let pattern =
        |len| (bytes(len), any::<bool>()).prop_map(|(b, is_nocase)| pattern(&b, is_nocase));
    prop::collection::vec(prop_oneof![pattern(1..5), pattern(1..12), pattern(5..40)], 0..20)
}

proptest! {
    #[test]
    fn every_matcher_finds_what_a_naive_search_does(
        patterns in patterns(),
        mut payload in bytes(0..400),
        places in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
    ) {
        for (which, place) in places {
            if !patterns.is_empty() {
                let at = place.index(payload.len() + 1);
                payload.splice(at..at, which.get(&patterns).bytes.iter().copied());
            }
        }
        check(&patterns, &matchers(&patterns), &payload, &naive(&patterns, &payload));
    }
}

fn random(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| mix32(seed.wrapping_mul(0x1_0001) ^ i) as u8).collect()
}

#[test]
fn long_payloads_are_searched_to_their_end() {
    let patterns: Vec<_> = (0..50)
        .map(|i| pattern(&random(i, 1 + i as usize % 20), i % 2 == 0))
        .chain([pattern(&random(99, PATTERN_LEN_MAX), false)])
        .collect();
    let matchers = matchers(&patterns);
    for (seed, len) in [(1000, 65_535), (1001, 65_536), (1002, 9_001)] {
        let mut payload = random(seed, len);
        check(&patterns, &matchers, &payload, &naive(&patterns, &payload));
        let at = len - PATTERN_LEN_MAX;
        payload[at..].copy_from_slice(&patterns[50].bytes);
        payload[..19].copy_from_slice(&patterns[18].bytes);
        check(&patterns, &matchers, &payload, &naive(&patterns, &payload));
    }
}

#[test]
fn large_sets_are_searched() {
    let patterns: Vec<_> =
        (0..20_000).map(|i| pattern(&random(i, 4 + i as usize % 17), i % 3 == 0)).collect();
    let matchers = matchers(&patterns);
    let mut payload = random(7_654_321, 1460);
    for (at, id) in [(0, 19_999), (200, 0), (333, 4_242), (900, 77), (1440, 16)] {
        let bytes = &patterns[id].bytes;
        payload[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let expected = naive(&patterns, &payload);
    assert!(expected.len() >= 5);
    check(&patterns, &matchers, &payload, &expected);
}

#[test]
fn more_hits_than_fit_are_said_by_every_matcher() {
    let patterns: Vec<_> = (b'a'..=b'z').map(|byte| pattern(&[byte, byte], true)).collect();
    for matcher in matchers(&patterns) {
        let mut hits = Hits::new(3, patterns.len());
        matcher.scan(b"aabbcc cc", &mut hits);
        assert_eq!((hits.ids(), hits.is_full()), (&[0, 1, 2][..], false), "{}", matcher.name());
        hits.clear();
        matcher.scan(b"aabbcczz", &mut hits);
        assert_eq!((hits.ids(), hits.is_full()), (&[][..], true), "{}", matcher.name());
    }
}

/// Payloads of near matches cost a bounded amount of work a byte, for any patterns.
#[test]
fn floods_are_linear() {
    let text =
        |i: u32| -> Vec<u8> { (0..24).map(|k| b'a' + (mix32(i * 64 + k) % 3) as u8).collect() };
    let patterns: Vec<_> = (0..2000)
        .map(|i| pattern(&[text(i), b"!?".to_vec()].concat(), i % 2 == 0))
        .chain((1..60).map(|len| pattern(&[vec![b'.'; len], b"!".to_vec()].concat(), false)))
        .chain((1..60).map(|len| pattern(&vec![b'a'; len], false)))
        .collect();
    let compact = Compact::new(&patterns).unwrap();
    let floods = [
        (0..1000).flat_map(text).collect::<Vec<u8>>(),
        vec![b'.'; 20_000],
        b"aA".repeat(10_000),
        b"aaaa!?".repeat(3000),
        patterns[..800].iter().flat_map(|p| p.bytes[1..].to_vec()).collect(),
    ];
    for flood in floods {
        let mut hits = Hits::new(patterns.len(), patterns.len());
        let work = compact.scan_counted(&flood, &mut hits);
        assert!(work <= flood.len() * 3 + 64, "{work} of {}", flood.len());
        assert_eq!(hits.ids(), naive(&patterns, &flood));
    }
}

#[test]
fn patterns_that_are_empty_or_too_long_are_an_error() {
    for choice in [Choice::Auto, Choice::Dense, Choice::Compact] {
        for len in [0, PATTERN_LEN_MAX + 1] {
            let patterns = [pattern(b"a", false), pattern(&vec![b'a'; len], false)];
            let error = build(choice, &patterns, None).err().unwrap();
            assert_eq!(error.to_string(), "pattern 1 is not of 1 to 4096 bytes");
        }
    }
}

#[test]
fn without_hyperscan_small_sets_are_dense_and_large_ones_compact() {
    let set = |count| (0..count).map(|i| pattern(&random(i, 16), false)).collect::<Vec<_>>();
    for (patterns, is_dense) in [(set(20), true), (set(5000), false)] {
        let built = Dense::new_within(&patterns, DENSE_AUTO_LEN_MAX);
        assert_eq!(built.is_ok(), is_dense);
    }
}
