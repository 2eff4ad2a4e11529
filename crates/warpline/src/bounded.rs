//! Text of a length that a person can read: a name or an argument may have any.

use std::borrow::Cow;
use std::ops::Range;

/// Characters that are shown of a long line, from its start and from its end.
const HEAD: usize = 1200;
const TAIL: usize = 600;

/// `text` without the middle of each line that is longer than a message has reason to be.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    let is_long = |line: &str| line.len() > HEAD + TAIL && middle(line).is_some();
    if !text.lines().any(is_long) {
        return text.into();
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(shortened).collect();
    lines.join("\n").into()
}

fn shortened(line: &str) -> Cow<'_, str> {
    let Some(left_out) = middle(line) else { return line.into() };
    let count = line[left_out.clone()].chars().count();
    let (head, tail) = (&line[..left_out.start], &line[left_out.end..]);
    format!("{head} [... {count} characters ...] {tail}").into()
}

/// The range between the head and the tail of a line.
fn middle(line: &str) -> Option<Range<usize>> {
    let (start, _) = line.char_indices().nth(HEAD)?;
    let (end, _) = line[start..].char_indices().nth_back(TAIL - 1)?;
    (end > 0).then_some(start..start + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_lose_their_middle() {
        let whole = format!("short\n{}\n", "ö".repeat(HEAD + TAIL));
        assert_eq!(bounded(&whole), whole);
        let (head, tail) = ("x".repeat(HEAD), "z".repeat(TAIL));
        let long = format!("a\n{head}{}{tail}\nb", "ö".repeat(1 << 20));
        let counted = format!("a\n{head} [... {} characters ...] {tail}\nb", 1 << 20);
        assert_eq!(bounded(&long), counted);
    }
}
