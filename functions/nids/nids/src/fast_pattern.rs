//! The literal of a rule that is searched in every payload: one that few payloads contain.
//!
//! As in Suricata (user guide, "Suricata Fast Pattern Determination Explained") it is the one that
//! the rule marks. Otherwise it is the longest, of these the most varied, and of these the first.
//! Unlike there a negated `content` is never taken, since its absence rules nothing out. A run of
//! equal bytes counts as `RUN_LEN_MAX` at most, and a long literal as [`LEN_MAX`] bytes ([`cut`]).

use core::ops::Range;

use warpline_nids_rules::{Content, FastPattern, PayloadTest, Rule};

/// The longest part that is taken, in bytes: more rule nothing out in practice.
pub(crate) const LEN_MAX: usize = 32;
/// The most that a run of one byte counts for, in bytes.
const RUN_LEN_MAX: usize = 3;

/// A part of a rule's `content`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The place of the `content` in [`Rule::payload`].
    pub test: usize,
    /// Which of its bytes; 1 to [`LEN_MAX`] of them.
    pub part: Range<usize>,
}

/// The part of `rule` without which it can't match. `None`: every packet must be looked at.
pub(crate) fn choose(rule: &Rule) -> Option<Chosen> {
    // From the last to the first, as of equal ones `max_by_key` gives the last.
    let contents = || {
        rule.payload.iter().enumerate().rev().filter_map(|(test, payload)| match payload {
            PayloadTest::Content(content) if !content.is_negated => Some((test, content)),
            _ => None,
        })
    };
    let marked = contents().find(|(_, content)| content.fast_pattern.is_some());
    let (test, content) =
        marked.or_else(|| contents().max_by_key(|(_, content)| worth(&content.bytes)))?;
    let part = marked_part(content);
    let cut = cut(&content.bytes[part.clone()]);
    let chosen = Chosen { test, part: part.start + cut.start..part.start + cut.end };
    (!chosen.part.is_empty()).then_some(chosen)
}

/// The part that `fast_pattern:offset,length` selects, as far as the content has it.
fn marked_part(content: &Content) -> Range<usize> {
    let len = content.bytes.len();
    match content.fast_pattern {
        Some(FastPattern::Part(offset, part_len)) => {
            let start = usize::from(offset).min(len);
            start..len.min(start + usize::from(part_len))
        }
        _ => 0..len,
    }
}

/// Up to [`LEN_MAX`] bytes from the end of a literal. A run of one byte at the end is shortened to
/// `RUN_LEN_MAX` bytes, if enough other bytes precede it. Hyperscan looks for the ends of literals
/// first. A rule's author chose words that are rare; many texts have the endings that a cut within
/// a word would leave.
pub(crate) fn cut(bytes: &[u8]) -> Range<usize> {
    let run = bytes.iter().rev().take_while(|byte| Some(*byte) == bytes.last()).count();
    let least = bytes.len().min(LEN_MAX);
    let end = (bytes.len() - run.saturating_sub(RUN_LEN_MAX)).max(least);
    end - least..end
}

/// The rank of a literal: its length, then its variety.
fn worth(bytes: &[u8]) -> (usize, u32) {
    let is_run = bytes.iter().all(|byte| *byte == bytes[0]);
    let len = if is_run { bytes.len().min(RUN_LEN_MAX) } else { bytes.len() };
    (len, variety(bytes))
}

/// Suricata's pattern strength (user guide, same section, appendix A): for every byte that was not
/// there before 3 if it is a letter, 4 if it is another printable one, 0, 1 or 255, or else 6; for
/// every other byte 1.
fn variety(bytes: &[u8]) -> u32 {
    let mut seen = [false; 256];
    let worth = |&byte: &u8| match core::mem::replace(&mut seen[usize::from(byte)], true) {
        true => 1,
        false => match byte {
            b'a'..=b'z' | b'A'..=b'Z' => 3,
            b' '..=b'~' | 0 | 1 | 0xff => 4,
            _ => 6,
        },
    };
    bytes.iter().map(worth).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_nids_rules::{Action, Header, Protocol, SourceLine};

    /// The first letter: `!` negated, others not.
    fn content(text: &str, fast_pattern: Option<FastPattern>) -> PayloadTest {
        PayloadTest::Content(Content {
            bytes: text.as_bytes()[1..].into(),
            is_nocase: false,
            is_negated: text.starts_with('!'),
            offset: None,
            depth: None,
            distance: None,
            within: None,
            starts: false,
            ends: false,
            fast_pattern,
        })
    }

    fn rule(payload: Vec<PayloadTest>) -> Rule {
        Rule {
            place: SourceLine::default(),
            action: Action::Alert,
            header: Header {
                protocol: Protocol::Tcp,
                src: Default::default(),
                src_ports: Default::default(),
                dst: Default::default(),
                dst_ports: Default::default(),
                is_bidirectional: false,
            },
            about: Default::default(),
            packet: Vec::new(),
            flow: Default::default(),
            payload,
            slots: 0,
            effects: Vec::new(),
            threshold: None,
            detection_filter: None,
        }
    }

    #[test]
    fn the_fast_pattern_is_the_marked_one_or_the_longest_and_most_varied() {
        let long = format!("+{}0123456789%$#{}", "a".repeat(40), "b".repeat(40));
        for (contents, chosen) in [
            (&["+GET", "+User-Agent", "+Host"][..], Some((1, 0..10))),
            (&["+aabb", "+abcd", "+dcba"], Some((1, 0..4))),
            (&["+abcd", "+a1c$"], Some((1, 0..4))),
            (&["+abc", "!a much longer one"], Some((0, 0..3))),
            (&["!only this"], None),
            (&[], None),
            (&["+AAAAAAAAAAAA", "+evil"], Some((1, 0..4))),
            (&["+AAAAAAAAAAAA", "+xy"], Some((0, 0..12))),
            (&["*ab", "+abcdef"], Some((0, 0..2))),
            (&["!*", "+abcdef"], Some((1, 0..6))),
            (&[&long], Some((0, 24..56))),
        ] {
            let payload = contents.iter().map(|text| {
                let is_marked = text.starts_with('*');
                content(text, is_marked.then_some(FastPattern::Whole))
            });
            let expected = chosen.map(|(test, part)| Chosen { test, part });
            assert_eq!(choose(&rule(payload.collect())), expected, "{contents:?}");
        }
    }

    #[test]
    fn marked_parts_are_taken_as_far_as_they_are_there() {
        for (offset, len, part) in
            [(2, 3, Some(2..5)), (4, 9, Some(4..6)), (6, 1, None), (9, 1, None)]
        {
            let marked = content("+abcdef", Some(FastPattern::Part(offset, len)));
            let expected = part.map(|part| Chosen { test: 1, part });
            assert_eq!(choose(&rule(vec![content("+longer than that", None), marked])), expected);
        }
    }

    #[test]
    fn tests_that_are_no_contents_keep_their_places() {
        let span = warpline_nids_rules::Span { min: 1, max: 2, is_negated: false };
        let payload = vec![PayloadTest::Bsize(span), content("+abc", None)];
        assert_eq!(choose(&rule(payload)), Some(Chosen { test: 1, part: 0..3 }));
    }
}
