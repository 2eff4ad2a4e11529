//! Messages of DNS (RFC 1035, 4) and of multicast DNS (RFC 6762).

use super::bytes::{Fit, be16};

const HEADER_LEN: usize = 12;
/// Questions of a message; more are not looked at.
const QUESTIONS_MAX: u16 = 16;
/// Records that a header may announce.
const RECORDS_MAX: u32 = 512;
/// RFC 1035, 3.1: bytes of a name.
const NAME_LEN_MAX: usize = 255;

/// Whether the bytes begin with a header of a message that asks or answers something.
pub(super) fn is_header(bytes: &[u8]) -> Fit {
    match counts(bytes) {
        None => Fit::Maybe,
        Some((questions, records)) => {
            // A refusal may leave its question out.
            let is_answer = bytes[2] & 0x80 != 0;
            let is_asked = questions > 0 || is_answer;
            Fit::of(is_asked && questions <= QUESTIONS_MAX && records <= RECORDS_MAX)
        }
    }
}

/// Whether they are a message whose questions are well formed.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    is_header(bytes) == Fit::Yes && has_questions(bytes)
}

/// The same of multicast DNS, where answers come without questions (RFC 6762, 6).
pub(super) fn is_multicast(bytes: &[u8]) -> bool {
    counts(bytes).is_some_and(|(questions, records)| {
        let is_plausible = questions <= QUESTIONS_MAX && records <= RECORDS_MAX;
        is_plausible && (questions > 0 || records > 0) && has_questions(bytes)
    })
}

/// How many questions there are, and how many records of other sections.
fn counts(bytes: &[u8]) -> Option<(u16, u32)> {
    let records = [6, 8, 10].iter().map(|&at| be16(bytes, at).map(u32::from));
    Some((be16(bytes, 4)?, records.sum::<Option<u32>>()?))
}

fn has_questions(bytes: &[u8]) -> bool {
    let count = be16(bytes, 4).unwrap_or(0);
    let mut rest = bytes.get(HEADER_LEN..);
    (0..count).all(|_| {
        rest = rest.and_then(after_question);
        rest.is_some()
    })
}

/// The bytes after a question: a name in labels and four bytes. The first names have no pointers.
fn after_question(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return bytes.get(at + 5..),
            len @ 1..=63 if at + len < NAME_LEN_MAX => at += 1 + len,
            // RFC 1035, 4.1.4: a later name may end in a pointer.
            0xc0.. if at > 0 => return bytes.get(at + 6..),
            _ => return None,
        }
    }
}
