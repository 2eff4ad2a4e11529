//! Numbers in payloads: manual, "Payload Keywords", from `byte_test` to `byte_math`.
//!
//! Positions are offsets in the stream, as in [`chain`](super::chain). A number that is not
//! completely in the buffer is missing. Arithmetic is unsigned, with 64 bits, and wraps.

use super::chain::TestPosition;
use warpline_nids_rules::{
    ANY_BASE, Compare, Encoding, JumpFrom, MathOperator, Number, PayloadTest, Value,
};

/// The most bytes of a number: in binary, as text.
const BYTES_MAX: (usize, usize) = (8, 23);
/// The same of `byte_math`.
const MATH_BYTES_MAX: (usize, usize) = (4, 10);

/// The most bytes read of text whose end no rule states. More digits exceed 64 bits, unless they
/// are zeros.
const ENDLESS_MAX: usize = 256;

/// The numbers found by `byte_extract` and `byte_math`.
pub(super) type Slots = [u64; 256];

/// A number as it was read.
struct Read {
    value: u64,
    start: i64,
    /// The end of its last byte; for text, of its last digit.
    end: i64,
}

/// As a position or count.
pub(super) fn signed(value: Value, slots: &Slots) -> i64 {
    match value {
        Value::Number(number) => number,
        Value::Slot(slot) => i64::try_from(slots[usize::from(slot)]).unwrap_or(i64::MAX),
    }
}

fn unsigned(value: Value, slots: &Slots) -> u64 {
    match value {
        Value::Number(number) => number as u64,
        Value::Slot(slot) => slots[usize::from(slot)],
    }
}

/// Runs a test on numbers. Returns the end of the last match from then on; `None` if the test
/// fails.
pub(super) fn run(test: &PayloadTest, place: TestPosition<'_>, slots: &mut Slots) -> Option<i64> {
    match test {
        PayloadTest::ByteTest { number, compare, is_negated, value } => {
            let read = read(number, place, slots, BYTES_MAX)?;
            let found = masked(read.value, number.mask);
            let holds = compares(*compare, found, unsigned(*value, slots));
            (holds != *is_negated).then_some(place.last)
        }
        PayloadTest::ByteJump { number, multiplier, is_aligned, from, post_offset } => {
            let read = read(number, place, slots, BYTES_MAX)?;
            let value = masked(read.value, number.mask).wrapping_mul(u64::from(*multiplier));
            let value = if *is_aligned { aligned(value, 4) } else { value };
            // Values of 2^63 and more jump back; numbers as text with a minus sign are such values.
            let by = value.wrapping_add(unsigned(*post_offset, slots)) as i64;
            jump(place, &read, *from, by)
        }
        PayloadTest::ByteExtract { number, multiplier, align, slot } => {
            let read = read(number, place, slots, BYTES_MAX)?;
            let value = masked(read.value, number.mask).wrapping_mul(u64::from(*multiplier));
            slots[usize::from(*slot)] = aligned(value, u64::from(*align));
            Some(read.end)
        }
        PayloadTest::ByteMath { number, operator, value, slot } => {
            let read = read(number, place, slots, MATH_BYTES_MAX)?;
            let result = calculated(*operator, read.value, unsigned(*value, slots))?;
            slots[usize::from(*slot)] = masked(result, number.mask);
            Some(read.end)
        }
        _ => None,
    }
}

fn read(
    number: &Number,
    place: TestPosition<'_>,
    slots: &Slots,
    max: (usize, usize),
) -> Option<Read> {
    let base = if number.is_relative { place.last } else { 0 };
    let start = base.saturating_add(signed(number.offset, slots));
    let len = usize::try_from(signed(number.bytes, slots)).ok()?;
    let bytes = match number.encoding {
        // Suricata hands `strtoull` what is there.
        Encoding::Text(_) if len == 0 => {
            let left = usize::try_from(place.end().saturating_sub(start)).ok()?;
            place.bytes_at(start, left.min(ENDLESS_MAX))?
        }
        _ => place.bytes_at(start, len)?,
    };
    let (value, used) = match number.encoding {
        Encoding::Big if len <= max.0 => (binary(bytes.iter()), len),
        Encoding::Little if len <= max.0 => (binary(bytes.iter().rev()), len),
        Encoding::Text(base) if len <= max.1 => text(bytes, base)?,
        _ => return None,
    };
    Some(Read { value, start, end: start.saturating_add(used as i64) })
}

fn binary<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Parses like C's `strtoull`: blanks and a sign before, any text after. Also returns the number of
/// bytes used.
fn text(bytes: &[u8], base: u8) -> Option<(u64, usize)> {
    let blanks = bytes.iter().take_while(|b| matches!(b, b' ' | b'\t'..=b'\r')).count();
    let mut at = blanks;
    let is_negative = bytes.get(at) == Some(&b'-');
    if is_negative || bytes.get(at) == Some(&b'+') {
        at += 1;
    }
    let is_zero = bytes.get(at) == Some(&b'0');
    let is_hexadecimal = is_zero
        && matches!(bytes.get(at + 1), Some(b'x' | b'X'))
        && bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit);
    let base = match base {
        ANY_BASE if is_hexadecimal => 16,
        ANY_BASE if is_zero => 8,
        ANY_BASE => 10,
        base => base,
    };
    let digit = |at: usize| (*bytes.get(at)? as char).to_digit(u32::from(base));
    if base == 16 && is_hexadecimal {
        at += 2;
    }
    let mut value = u64::from(digit(at)?);
    at += 1;
    while let Some(next) = digit(at) {
        value = value.checked_mul(u64::from(base))?.checked_add(u64::from(next))?;
        at += 1;
    }
    Some((if is_negative { value.wrapping_neg() } else { value }, at))
}

fn masked(value: u64, mask: u32) -> u64 {
    if mask == 0 { value } else { (value & u64::from(mask)) >> mask.trailing_zeros() }
}

fn aligned(value: u64, to: u64) -> u64 {
    match value.checked_rem(to) {
        None | Some(0) => value,
        Some(over) => value.wrapping_add(to - over),
    }
}

fn compares(compare: Compare, found: u64, with: u64) -> bool {
    match compare {
        Compare::Less => found < with,
        Compare::LessEqual => found <= with,
        Compare::Equal => found == with,
        Compare::GreaterEqual => found >= with,
        Compare::Greater => found > with,
        Compare::And => found & with != 0,
        Compare::Xor => found ^ with != 0,
    }
}

/// A jump to before the start goes to the start; one past the end fails.
fn jump(place: TestPosition<'_>, read: &Read, from: JumpFrom, by: i64) -> Option<i64> {
    let base = match from {
        JumpFrom::Here => read.end,
        JumpFrom::Start => 0,
        JumpFrom::End => place.end(),
    };
    let to = base.saturating_add(by).max(0);
    debug_assert!(read.start <= read.end);
    (to <= place.end()).then_some(to)
}

fn calculated(operator: MathOperator, left: u64, right: u64) -> Option<u64> {
    let bits = u32::try_from(right).unwrap_or(u32::MAX);
    match operator {
        MathOperator::Add => Some(left.wrapping_add(right)),
        MathOperator::Sub => Some(left.wrapping_sub(right)),
        MathOperator::Mul => Some(left.wrapping_mul(right)),
        MathOperator::Div => left.checked_div(right),
        MathOperator::ShiftLeft => Some(left.checked_shl(bits).unwrap_or(0)),
        MathOperator::ShiftRight => Some(left.checked_shr(bits).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::{ANY_BASE, text};

    #[test]
    fn reads_text_as_c_does() {
        type Case = (&'static [u8], u8, Option<(u64, usize)>);
        let cases: [Case; 20] = [
            (b"123", 10, Some((123, 3))),
            (b"  +12x", 10, Some((12, 5))),
            (b"-1", 10, Some((u64::MAX, 2))),
            (b"x1", 10, None),
            (b"", 10, None),
            (b" ", 10, None),
            (b"-", 10, None),
            (b"0x1fg", 16, Some((0x1f, 4))),
            (b"1F", 16, Some((0x1f, 2))),
            (b"0xg", 16, Some((0, 1))),
            (b"0779", 8, Some((0o77, 3))),
            (b"18446744073709551615", 10, Some((u64::MAX, 20))),
            (b"18446744073709551616", 10, None),
            (b"1\x002", 10, Some((1, 1))),
            (b"0x1f", ANY_BASE, Some((0x1f, 4))),
            (b"-017", ANY_BASE, Some((0o17u64.wrapping_neg(), 4))),
            (b"019", ANY_BASE, Some((1, 2))),
            (b" 19", ANY_BASE, Some((19, 3))),
            (b"0xg", ANY_BASE, Some((0, 1))),
            (b"0", ANY_BASE, Some((0, 1))),
        ];
        for (bytes, base, expected) in cases {
            assert_eq!(text(bytes, base), expected, "{:?}", bytes.escape_ascii().to_string());
        }
    }
}
