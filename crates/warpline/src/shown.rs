//! Text for terminals: the contents of rules, names and files must not move a cursor or change text
//! written before.

use std::borrow::Cow;
use std::fmt::Write;

use warpline_nf::is_deceptive;

/// `text` with deceptive characters written as `\u001b`, except tabs and line ends. JSON stays
/// valid: it escapes them the same way.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| is_deceptive(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_odd) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(shown("a\tb\nö"), "a\tb\nö");
        assert_eq!(shown("\x1b[2J\u{9b}31m\x7f\r"), "\\u001b[2J\\u009b31m\\u007f\\u000d");
        assert_eq!(shown("\u{202e}txt"), "\\u202etxt");
        assert_eq!(shown("\u{e0041}"), "\\udb40\\udc41");
        let json = serde_json::json!({ "a\u{9b}\x1b": "\u{202e}\x7f\u{e0041}" });
        let text = shown(&json.to_string()).into_owned();
        assert!(!text.contains(char::is_control));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
    }
}
