//! A matcher written from the manual ("Payload Keywords") alone: the oracle of the fast one.
//!
//! It has no order of search. It keeps every way in which the tests so far can hold, each with the
//! end of its last match and the extracted values. From each it makes all the ways in which the
//! next test can hold as well.

use warpline_nids_rules::*;

/// One way for the tests so far to hold.
#[derive(Clone, PartialEq, Debug)]
struct Way {
    last: i128,
    slots: [u64; 4],
}

/// The bytes from `start` on of a stream, or of a packet with `start` 0.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) start: i128,
}

/// An expression that matches one byte of each set in turn.
pub(super) type Sets = Vec<Vec<u8>>;

/// A test, with the byte sets that the oracle uses instead of an expression.
#[derive(Clone, Debug)]
pub(super) struct NaiveTest {
    pub(super) test: PayloadTest,
    pub(super) sets: Sets,
}

pub(super) fn holds(tests: &[NaiveTest], seen: Seen<'_>) -> bool {
    if seen.bytes.is_empty() {
        return tests.is_empty();
    }
    let mut ways = vec![Way { last: 0, slots: [0; 4] }];
    for test in tests {
        let mut next: Vec<Way> = Vec::new();
        for way in &ways {
            for new in next_ways(test, way, seen) {
                if !next.contains(&new) {
                    next.push(new);
                }
            }
        }
        ways = next;
    }
    !ways.is_empty()
}

fn next_ways(test: &NaiveTest, way: &Way, seen: Seen<'_>) -> Vec<Way> {
    let if_so = |holds: bool| if holds { vec![way.clone()] } else { Vec::new() };
    let to = |ends: Vec<i128>| ends.into_iter().map(|last| Way { last, ..way.clone() }).collect();
    match &test.test {
        PayloadTest::Content(content) if content.is_negated => {
            if_so(can_tell(content, way, seen) && places(content, way, seen).is_empty())
        }
        PayloadTest::Content(content) => to(places(content, way, seen)),
        PayloadTest::Pcre(pcre) if pcre.is_negated => {
            if_so(matches(pcre, &test.sets, way, seen).is_empty())
        }
        PayloadTest::Pcre(pcre) => to(matches(pcre, &test.sets, way, seen)),
        PayloadTest::IsDataAt { at, is_relative, is_negated } => {
            let at = number(*at, way);
            // A relative count may end at the byte after the end.
            let is_there = match is_relative {
                true => way.last + at <= seen.end(),
                false => at < seen.end(),
            };
            if_so(is_there != *is_negated)
        }
        PayloadTest::Bsize(span) => if_so(span.contains(seen.end() as u64)),
        PayloadTest::ByteTest { number: n, compare, is_negated, value } => {
            let Some((found, _)) = read(n, way, seen, 8, 23) else { return Vec::new() };
            let (found, with) = (masked(found, n.mask), number(*value, way) as u64 as i128);
            let holds = match compare {
                Compare::Less => found < with,
                Compare::LessEqual => found <= with,
                Compare::Equal => found == with,
                Compare::GreaterEqual => found >= with,
                Compare::Greater => found > with,
                Compare::And => found & with != 0,
                Compare::Xor => found ^ with != 0,
            };
            if_so(holds != *is_negated)
        }
        PayloadTest::ByteJump { number: n, multiplier, is_aligned, from, post_offset } => {
            let Some((found, behind)) = read(n, way, seen, 8, 23) else { return Vec::new() };
            let mut by = masked(found, n.mask) * i128::from(*multiplier);
            while *is_aligned && by % 4 != 0 {
                by += 1;
            }
            let base = match from {
                JumpFrom::Here => behind,
                JumpFrom::Start => 0,
                JumpFrom::End => seen.end(),
            };
            let goal = (base + signed_64(by + number(*post_offset, way))).max(0);
            to(if goal <= seen.end() { vec![goal] } else { Vec::new() })
        }
        PayloadTest::ByteExtract { number: n, multiplier, align, slot } => {
            let Some((found, behind)) = read(n, way, seen, 8, 23) else { return Vec::new() };
            let mut value = masked(found, n.mask) * i128::from(*multiplier);
            while *align > 0 && value % i128::from(*align) != 0 {
                value += 1;
            }
            vec![with_slot(way, *slot, value, behind)]
        }
        PayloadTest::ByteMath { number: n, operator, value, slot } => {
            let Some((left, behind)) = read(n, way, seen, 4, 10) else { return Vec::new() };
            let right = number(*value, way);
            let result = match operator {
                MathOperator::Add => left + right,
                MathOperator::Sub => left - right,
                MathOperator::Mul => left * right,
                MathOperator::Div if right == 0 => return Vec::new(),
                MathOperator::Div => left / right,
                MathOperator::ShiftLeft => (0..right.min(64)).fold(left, |v, _| v * 2 % (1 << 64)),
                MathOperator::ShiftRight => (0..right.min(64)).fold(left, |v, _| v / 2),
            };
            vec![with_slot(way, *slot, masked(result.rem_euclid(1 << 64), n.mask), behind)]
        }
    }
}

fn with_slot(way: &Way, slot: u8, value: i128, last: i128) -> Way {
    let mut way = Way { last, ..way.clone() };
    way.slots[usize::from(slot)] = value as u64;
    way
}

impl Seen<'_> {
    fn end(&self) -> i128 {
        self.start + self.bytes.len() as i128
    }

    fn byte(&self, position: i128) -> Option<u8> {
        let at = usize::try_from(position - self.start).ok()?;
        self.bytes.get(at).copied()
    }
}

/// Reads `value` as a two's complement number of 64 bits.
fn signed_64(value: i128) -> i128 {
    let half = 1 << 63;
    (value + half).rem_euclid(2 * half) - half
}

fn number(value: Value, way: &Way) -> i128 {
    match value {
        Value::Number(number) => number.into(),
        Value::Slot(slot) => way.slots[usize::from(slot)].into(),
    }
}

/// The end positions of a content's matches.
fn places(content: &Content, way: &Way, seen: Seen<'_>) -> Vec<i128> {
    let mut found = Vec::new();
    for first in seen.start..seen.end() {
        let behind = first + content.bytes.len() as i128;
        let is_there = (first..behind).zip(content.bytes.iter()).all(|(position, wanted)| {
            seen.byte(position).is_some_and(|byte| {
                let folded = byte.eq_ignore_ascii_case(wanted);
                byte == *wanted || (content.is_nocase && folded)
            })
        });
        if is_there && is_allowed(content, way, first, behind, seen) {
            found.push(behind);
        }
    }
    found
}

fn is_allowed(content: &Content, way: &Way, first: i128, behind: i128, seen: Seen<'_>) -> bool {
    let value = |value: Option<Value>| value.map(|v| number(v, way));
    let offset = value(content.offset).unwrap_or(0);
    let distance = value(content.distance).unwrap_or(0);
    let is_relative = content.distance.is_some() || content.within.is_some();
    first >= offset
        && value(content.depth).is_none_or(|depth| behind <= offset + depth)
        && (!is_relative || first >= way.last + distance)
        && bounds(content, way).is_none_or(|end| behind <= end)
        && (!content.starts || first == 0)
        && (!content.ends || behind == seen.end())
}

/// Where `within` ends, unless that is before the start: the manual is silent there, and Suricata
/// bounds nothing then.
fn bounds(content: &Content, way: &Way) -> Option<i128> {
    let distance = content.distance.map_or(0, |distance| number(distance, way));
    let end = way.last + distance + number(content.within?, way);
    (end >= 0).then_some(end)
}

/// Whether any byte of where the content must not be is seen, as far as the rule bounds it.
fn can_tell(content: &Content, way: &Way, seen: Seen<'_>) -> bool {
    let value = |value: Option<Value>| value.map(|v| number(v, way));
    let depth = value(content.depth).map(|d| value(content.offset).unwrap_or(0).max(0) + d);
    let within = bounds(content, way);
    let start = content.starts.then_some(content.bytes.len() as i128);
    seen.start == 0 || [depth, within, start].into_iter().flatten().all(|end| end > seen.start)
}

/// The end positions of the matches of an expression of sets.
fn matches(pcre: &Pcre, sets: &Sets, way: &Way, seen: Seen<'_>) -> Vec<i128> {
    let base = if pcre.is_relative { way.last } else { 0 }.clamp(seen.start, seen.end());
    let is_in = |set: &Vec<u8>, byte: u8| {
        let other = if byte.is_ascii_lowercase() {
            byte.to_ascii_uppercase()
        } else {
            byte.to_ascii_lowercase()
        };
        set.contains(&byte) || (pcre.is_caseless && set.contains(&other))
    };
    (base..=seen.end())
        .filter(|first| !pcre.is_anchored || *first == base)
        .filter(|first| {
            (*first..).zip(sets).all(|(p, set)| seen.byte(p).is_some_and(|byte| is_in(set, byte)))
        })
        .map(|first| first + sets.len() as i128)
        .collect()
}

/// The number and its end position.
fn read(
    n: &Number,
    way: &Way,
    seen: Seen<'_>,
    binary_max: i128,
    text_max: i128,
) -> Option<(i128, i128)> {
    let first = number(n.offset, way) + if n.is_relative { way.last } else { 0 };
    let len = number(n.bytes, way);
    let max = if matches!(n.encoding, Encoding::Text(_)) { text_max } else { binary_max };
    if len > max || first < seen.start || first > seen.end() {
        return None;
    }
    let is_endless = len == 0 && matches!(n.encoding, Encoding::Text(_));
    let behind = if is_endless { seen.end() } else { first + len };
    let bytes: Vec<u8> = (first..behind).map(|p| seen.byte(p)).collect::<Option<_>>()?;
    let mut value: i128 = 0;
    match n.encoding {
        Encoding::Big => bytes.iter().for_each(|b| value = value * 256 + i128::from(*b)),
        Encoding::Little => bytes.iter().rev().for_each(|b| value = value * 256 + i128::from(*b)),
        Encoding::Text(base) => {
            let text: String = bytes.iter().map(|b| *b as char).collect();
            let trimmed = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
            let is_hex = |c: char| c.is_ascii_hexdigit();
            let (base, start) = match trimmed.strip_prefix("0x") {
                Some(rest) if base == 0 && rest.starts_with(is_hex) => (16, 2),
                _ if base == 0 && trimmed.starts_with('0') => (8, 0),
                _ if base == 0 => (10, 0),
                _ => (u32::from(base), 0),
            };
            let digits: String =
                trimmed[start..].chars().take_while(|d| d.is_digit(base)).collect();
            value = i128::from_str_radix(&digits, base).ok()?;
            let used = text.len() - trimmed.len() + start + digits.len();
            return Some((value, first + used as i128));
        }
    }
    Some((value, first + len))
}

/// These bits, moved right once for each zero below the mask.
fn masked(mut value: i128, mask: u32) -> i128 {
    if mask == 0 {
        return value;
    }
    value &= i128::from(mask);
    let mut mask = mask;
    while mask & 1 == 0 {
        mask >>= 1;
        value >>= 1;
    }
    value
}
