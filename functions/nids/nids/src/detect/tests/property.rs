//! Random rules over random payloads: the fast matcher agrees with the naive one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::build;
use super::naive::{self, NaiveTest, Seen};
use crate::detect::{Buffer, Detector, Limits, Scratch};
use warpline_nids_rules::*;

const ALPHABET: &[u8] = b"abAB12 \x00\x01\x03";

fn byte() -> impl Strategy<Value = u8> {
    select(ALPHABET)
}

/// Mostly numbers; a slot is 0 if no earlier test wrote it.
fn value(min: i64, max: i64) -> impl Strategy<Value = Value> {
    prop_oneof![5 => (min..=max).prop_map(Value::Number), 1 => (0..2u8).prop_map(Value::Slot)]
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Option<T>> {
    prop_oneof![3 => Just(None), 2 => strategy.prop_map(Some)]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

/// A content is placed from the start or from the end of the last match, as in rules.
fn content() -> impl Strategy<Value = PayloadTest> {
    let placed = prop_oneof![
        Just((None, None, None, None)),
        (maybe(value(0, 6)), maybe(value(1, 8))).prop_map(|(o, d)| (o, d, None, None)),
        (maybe(value(-4, 5)), maybe(value(1, 6))).prop_map(|(d, w)| (None, None, d, w)),
        (value(-4, 5), value(1, 6)).prop_map(|(d, w)| (None, None, Some(d), Some(w))),
    ];
    (vec(byte(), 1..=2), placed, rarely(), rarely(), rarely(), rarely()).prop_map(
        |(bytes, (offset, depth, distance, within), is_nocase, is_negated, starts, ends)| {
            let is_placed = [offset, depth, distance, within].iter().any(Option::is_some);
            PayloadTest::Content(Content {
                is_nocase,
                is_negated,
                offset,
                depth,
                distance,
                within,
                starts: starts && !is_placed,
                ends,
                ..build::content(&bytes)
            })
        },
    )
}

fn pcre() -> impl Strategy<Value = NaiveTest> {
    let set = prop_oneof![
        4 => byte().prop_map(|byte| vec![byte]),
        1 => vec(byte(), 2..=3),
        1 => Just((0..=255).filter(|byte| *byte != b'\n').collect::<Vec<u8>>()),
    ];
    (vec(set, 1..=3), rarely(), rarely(), rarely(), any::<bool>()).prop_map(
        |(sets, is_negated, is_caseless, is_anchored, is_relative)| {
            let class = |set: &Vec<u8>| match set.len() {
                255 => ".".to_owned(),
                _ => format!("[{}]", set.iter().map(|b| format!("\\x{b:02x}")).collect::<String>()),
            };
            let pattern: String = sets.iter().map(class).collect();
            let test = PayloadTest::Pcre(Pcre {
                pattern: pattern.as_bytes().into(),
                is_negated,
                is_caseless,
                is_dot_all: false,
                is_multi_line: false,
                is_extended: false,
                is_anchored,
                is_dollar_end: false,
                is_ungreedy: false,
                is_relative,
            });
            NaiveTest { test, sets }
        },
    )
}

fn number() -> impl Strategy<Value = Number> {
    let encoding = select(vec![
        Encoding::Big,
        Encoding::Big,
        Encoding::Little,
        Encoding::Text(8),
        Encoding::Text(10),
        Encoding::Text(16),
        Encoding::Text(ANY_BASE),
    ]);
    let mask = prop_oneof![4 => Just(0u32), 1 => select(vec![1, 2, 3, 0x30, 0x0f])];
    (value(0, 3), value(-2, 5), any::<bool>(), encoding, mask).prop_map(
        |(bytes, offset, is_relative, encoding, mask)| Number {
            bytes,
            offset,
            is_relative,
            encoding,
            mask,
        },
    )
}

fn with_number() -> impl Strategy<Value = PayloadTest> {
    let compare = select(vec![
        Compare::Less,
        Compare::LessEqual,
        Compare::Equal,
        Compare::GreaterEqual,
        Compare::Greater,
        Compare::And,
        Compare::Xor,
    ]);
    let from = select(vec![JumpFrom::Here, JumpFrom::Here, JumpFrom::Start, JumpFrom::End]);
    let operator = select(vec![
        MathOperator::Add,
        MathOperator::Sub,
        MathOperator::Mul,
        MathOperator::Div,
        MathOperator::ShiftLeft,
        MathOperator::ShiftRight,
    ]);
    prop_oneof![
        (number(), compare, rarely(), value(0, 60)).prop_map(
            |(number, compare, is_negated, value)| {
                PayloadTest::ByteTest { number, compare, is_negated, value }
            }
        ),
        (number(), 0..3u32, rarely(), from, value(-6, 4)).prop_map(
            |(number, multiplier, is_aligned, from, post_offset)| PayloadTest::ByteJump {
                number,
                multiplier,
                is_aligned,
                from,
                post_offset
            }
        ),
        (number(), 1..3u32, select(vec![0u8, 0, 2, 4]), 0..2u8).prop_map(
            |(number, multiplier, align, slot)| PayloadTest::ByteExtract {
                number,
                multiplier,
                align,
                slot
            }
        ),
        (number(), operator, value(0, 5), 0..2u8).prop_map(|(number, operator, value, slot)| {
            PayloadTest::ByteMath { number, operator, value, slot }
        }),
    ]
}

fn any_test() -> impl Strategy<Value = NaiveTest> {
    let plain = |test| NaiveTest { test, sets: Vec::new() };
    prop_oneof![
        6 => content().prop_map(plain),
        2 => pcre(),
        3 => with_number().prop_map(plain),
        1 => (value(0, 12), any::<bool>(), any::<bool>())
            .prop_map(move |(at, is_relative, is_negated)| {
            plain(PayloadTest::IsDataAt { at, is_relative, is_negated })
        }),
        1 => (0..8u64, 4..20u64, rarely()).prop_map(move |(min, max, is_negated)| {
            plain(PayloadTest::Bsize(Span { min, max, is_negated }))
        }),
    ]
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 20 * ProptestConfig::default().cases, max_shrink_iters: 20_000,
            ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_naive_one(
        tests in vec(any_test(), 1..=5), bytes in vec(byte(), 0..=16),
            start in prop_oneof![3 => Just(0u64), 1 => 1..5u64],
    ) {
        let payload = tests.iter().map(|test| test.test.clone()).collect();
        let rule = Rule { payload, slots: 2, ..build::rule() };
        let limits = Limits { steps: 10_000_000, ..Limits::default() };
        let (detector, broken) = Detector::new(&[rule], limits);
        prop_assert_eq!(broken, []);
        let mut scratch = Scratch::new().unwrap();
        // The state left by one evaluation does not affect the next.
        detector.payload_matches(0, Buffer::packet(b"1aBab\x00\x01\x03 2"), &mut scratch);
        let fast = detector.payload_matches(0, Buffer { bytes: &bytes, start }, &mut scratch);
        prop_assert_eq!(scratch.step_limit_hits + scratch.regex_limit_hits, 0);
        let seen = Seen { bytes: &bytes, start: start.into() };
        prop_assert_eq!(fast, naive::holds(&tests, seen));
    }
}
