//! Reads of a payload's first bytes.

/// Whether the bytes begin as something does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    /// They end before it is certain.
    Maybe,
    No,
}

impl Fit {
    pub(super) fn of(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }

    /// Yes with both, no with either.
    pub(super) fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes => other(),
            Self::Maybe | Self::No => self,
        }
    }
}

/// Whether `bytes` have `text` from `at` on; `is_nocase` ignores the case of ASCII letters.
#[inline]
pub(super) fn has(bytes: &[u8], at: usize, text: &[u8], is_nocase: bool) -> Fit {
    let rest = bytes.get(at..).unwrap_or(&[]);
    // The first byte, in either case, rules most texts out.
    if let (Some(own), Some(first)) = (rest.first(), text.first())
        && own | CASE != first | CASE
    {
        return Fit::No;
    }
    compare(rest, text, is_nocase)
}

fn compare(rest: &[u8], text: &[u8], is_nocase: bool) -> Fit {
    let len = rest.len().min(text.len());
    let is_same = match is_nocase {
        true => rest[..len].eq_ignore_ascii_case(&text[..len]),
        false => rest[..len] == text[..len],
    };
    match is_same {
        false => Fit::No,
        true if len < text.len() => Fit::Maybe,
        true => Fit::Yes,
    }
}

/// The bit that distinguishes the cases of a letter.
const CASE: u8 = 0x20;

/// Whether the byte at `at` satisfies `fits`.
pub(super) fn byte(bytes: &[u8], at: usize, fits: impl FnOnce(u8) -> bool) -> Fit {
    bytes.get(at).map_or(Fit::Maybe, |byte| Fit::of(fits(*byte)))
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// An element of BER (X.690, 8.1) with a tag of one byte and a length of at most four: the tag, the
/// length that it states, and what follows both.
pub(super) fn ber(bytes: &[u8]) -> Option<(u8, usize, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if first < 0x80 {
        return Some((tag, first.into(), rest));
    }
    let count = usize::from(first & 0x7f);
    let (len, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
    Some((tag, len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest))
}

/// The value of an INTEGER of one to four bytes, and what follows it.
pub(super) fn ber_integer(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (tag, len, rest) = ber(bytes)?;
    let (value, rest) =
        rest.split_at_checked(len).filter(|_| tag == 2 && (1..=4).contains(&len))?;
    Some((value.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)), rest))
}
