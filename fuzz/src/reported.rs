//! Requirements of messages about a text: no keys of it, no control characters, a line each.

use warpline_nf::Diagnostic;

#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/shown.rs"]
mod shown;

/// Digits in a row that are a key by any reading, and how many of them may be shown at most.
const KEY_DIGITS: usize = 32;
const SHOWN_DIGITS: usize = 15;
/// The mistake, the line, the place in it, the allowed values.
const LINES_MAX: usize = 4;

/// Checks messages about `text`, or about files that were named beside it. Of a line that assigns
/// a key none shows it.
pub fn check_reported<'a>(messages: impl IntoIterator<Item = &'a Diagnostic>, text: &str) {
    for message in messages {
        let own = message.to_string();
        assert!(!own.trim().is_empty());
        assert!(own.lines().count() <= LINES_MAX, "it looks like more than one message: {own}");
        for line in shown::shown(&own).lines() {
            assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{line:?}");
        }
        let line = message.line.checked_sub(1).and_then(|line| text.lines().nth(line));
        if let Some(line) = line.filter(|line| assigns(line)) {
            let keys: Vec<&str> = digits(line).filter(|row| row.len() >= KEY_DIGITS).collect();
            check_keys(&keys, &own);
        }
    }
}

/// Whether a line gives a key, in TOML or as `ip xfrm state` prints it.
fn assigns(line: &str) -> bool {
    let line = line.trim_start();
    let is_value = |name: &str| {
        let rest = line.strip_prefix(name).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with('='))
    };
    let options = ["enc ", "auth ", "auth-trunc ", "aead "];
    ["enc_key", "auth_key", "psk"].iter().any(|name| is_value(name))
        || options.iter().any(|option| line.starts_with(option))
}

/// Checks that nothing of a long row of hexadecimal digits in `text` is in `reported`.
pub fn check_secret(reported: &str, text: &str) {
    let keys: Vec<&str> = digits(text).filter(|digits| digits.len() >= KEY_DIGITS).collect();
    check_keys(&keys, reported);
}

fn check_keys(keys: &[&str], reported: &str) {
    if keys.is_empty() {
        return;
    }
    // The digits of an escape stand for a character that was none.
    let plain = reported.replace("\\u00", " ");
    for row in digits(&plain).filter(|row| row.len() > SHOWN_DIGITS) {
        for part in row.as_bytes().windows(SHOWN_DIGITS + 1) {
            let is_part = |key: &&str| key.as_bytes().windows(part.len()).any(|own| own == part);
            // Numbers may be long, too.
            let is_number = part.iter().all(u8::is_ascii_digit);
            assert!(is_number || !keys.iter().any(is_part), "part of a key is shown: {reported}");
        }
    }
}

/// Rows of hexadecimal digits.
fn digits(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit()).filter(|row| !row.is_empty())
}
