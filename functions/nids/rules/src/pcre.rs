//! `pcre` (manual, "Perl Compatible Regular Expressions"). The expression itself is checked when it
//! is compiled.

use std::sync::Arc;

use super::draft::{Draft, Setting};
use super::lines::raw_byte;
use super::piece::{Piece, Read, Refusal};
use super::{Need, PayloadTest, Pcre};

/// Reads the option, if it is this one.
pub(super) fn option(setting: &Setting<'_>, draft: &mut Draft) -> Option<Read<()>> {
    (setting.key == "pcre").then(|| pcre(setting, draft))
}

fn pcre(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let (is_negated, value, _) = setting.negatable()?;
    let (value, captures) = without_captures(value);
    let wrong = || value.expected("this is not an expression", "/expression/flags");
    let start = value.text.find('/').ok_or_else(wrong)?;
    let end = last_slash(value.text).filter(|end| *end > start).ok_or_else(wrong)?;
    if start > 0 {
        return Err(wrong());
    }
    let pattern = value.part(start + 1..end);
    let mut pcre = Pcre {
        pattern: Arc::from(bytes(pattern.text)),
        is_negated,
        is_caseless: false,
        is_dot_all: false,
        is_multi_line: false,
        is_extended: false,
        is_anchored: false,
        is_dollar_end: false,
        is_ungreedy: false,
        is_relative: false,
    };
    // As Suricata has it, an expression without its first quote ends at the other.
    let flags = value.behind(end + 1).text.split('"').next().unwrap_or_default();
    for (at, flag) in flags.char_indices() {
        let place = value.part(end + 1 + at..end + 1 + at + flag.len_utf8());
        self::flag(flag, place, &mut pcre, draft)?;
    }
    draft.payload.push(PayloadTest::Pcre(pcre));
    if captures { Err(Refusal::Held(Need::value("pcre", "captures"))) } else { Ok(()) }
}

/// Cuts off `, flow:name, pkt:name, alert:name`; whether there was such a thing.
fn without_captures(value: Piece<'_>) -> (Piece<'_>, bool) {
    let ends = ["flow:", "pkt:", "alert:"].iter().filter_map(|scope| {
        let before = value.text[..value.text.find(scope)?].trim_end();
        before.ends_with(',').then(|| before.trim_end_matches([',', ' ']).len())
    });
    match ends.min() {
        Some(end) => (value.part(0..end), true),
        None => (value, false),
    }
}

/// The last slash that has no odd number of `\` before it.
fn last_slash(text: &str) -> Option<usize> {
    let mut slashes = text.rmatch_indices('/').map(|(at, _)| at);
    slashes.find(|at| {
        let escapes = text[..*at].bytes().rev().take_while(|b| *b == b'\\').count();
        escapes % 2 == 0
    })
}

fn bytes(pattern: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pattern.len());
    for c in pattern.chars() {
        match raw_byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn flag(flag: char, place: Piece<'_>, pcre: &mut Pcre, draft: &mut Draft) -> Read<()> {
    match flag {
        'i' => pcre.is_caseless = true,
        's' => pcre.is_dot_all = true,
        'm' => pcre.is_multi_line = true,
        'x' => pcre.is_extended = true,
        'A' => pcre.is_anchored = true,
        'E' => pcre.is_dollar_end = true,
        'G' => pcre.is_ungreedy = true,
        'R' => pcre.is_relative = true,
        // The raw payload is what is looked at anyway, and the limits are the same for all.
        'B' | 'O' => {}
        other => match buffer(other) {
            Some(buffer) => draft.need(Need::Buffer(buffer.into())),
            None => {
                let message = format!("`{flag}` is not a flag");
                return Err(place.expected(message, "ismxAEGRBO, or a buffer's: UIPQHDMCKSYVWZ"));
            }
        },
    }
    Ok(())
}

/// The buffer that a flag is for.
fn buffer(flag: char) -> Option<&'static str> {
    Some(match flag {
        'U' => "http.uri",
        'I' => "http.uri.raw",
        'P' => "http.request_body",
        'Q' => "http.response_body",
        'H' => "http.header",
        'D' => "http.header.raw",
        'M' => "http.method",
        'C' | 'K' => "http.cookie",
        'S' => "http.stat_code",
        'Y' => "http.stat_msg",
        'V' => "http.user_agent",
        'W' => "http.host",
        'Z' => "http.host.raw",
        _ => return None,
    })
}
