//! Text for terminals: what rules, names and files say must not move a cursor or change what was written before.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with control characters written as `\u001b`, except tabs and line ends, and also characters that change the
/// direction of writing. JSON stays valid: it escapes them the same way.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || is_bidirectional(c);
    if !text.contains(is_odd) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Whether a character changes the direction of what follows (Unicode Standard Annex 9, 2).
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(shown("a\tb\nö"), "a\tb\nö");
        assert_eq!(shown("\x1b[2J\u{9b}31m\x7f\r"), "\\u001b[2J\\u009b31m\\u007f\\u000d");
        assert_eq!(shown("\u{202e}txt"), "\\u202etxt");
        let json = serde_json::json!({ "a\u{9b}\x1b": "\u{202e}\x7f" });
        let text = shown(&json.to_string()).into_owned();
        assert!(!text.contains(char::is_control));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
    }
}
