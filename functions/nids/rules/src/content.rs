//! `content` and the options that change it (manual, "Payload Keywords").

use std::sync::Arc;

use super::draft::{Draft, Setting};
use super::lines::raw_byte;
use super::piece::{Piece, Read, Refusal};
use super::{Content, Dialect, FastPattern, Need, PayloadTest, Value};

/// The greatest `distance` and `within`.
const RELATIVE_MAX: i64 = 1 << 20;
const OFFSET_MAX: i64 = u16::MAX as i64;

/// Reads the option, if it is one of these.
pub(super) fn option(setting: &Setting<'_>, draft: &mut Draft) -> Option<Read<()>> {
    Some(match &*setting.key {
        "content" => content(setting, draft),
        "uricontent" => {
            draft.need(Need::Buffer("http.uri".into()));
            content(setting, draft)
        }
        "nocase" | "rawbytes" | "startswith" | "endswith" => bare(setting, draft),
        "depth" => depth(setting, draft),
        "offset" => offset(setting, draft),
        "distance" => distance(setting, draft),
        "within" => within(setting, draft),
        "fast_pattern" => fast_pattern(setting, draft),
        _ => return None,
    })
}

/// The least payload length of a match; `None` for a negated content.
pub(super) fn end_min(content: &Content) -> Option<i64> {
    let offset = match content.offset {
        Some(Value::Number(offset)) => offset,
        _ => 0,
    };
    (!content.is_negated).then_some(offset + content.bytes.len() as i64)
}

fn content(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let (is_negated, text) = setting.quoted()?;
    let bytes = bytes(text, draft.dialect)?;
    if bytes.is_empty() {
        return Err(text.broken("the content is empty"));
    }
    draft.payload.push(PayloadTest::Content(Content {
        bytes: Arc::from(bytes),
        is_nocase: false,
        is_negated,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        starts: false,
        ends: false,
        fast_pattern: None,
    }));
    Ok(())
}

/// The bytes of a text: `|0d 0a|` in hexadecimal, `\` before `;`, `\`, `"` and `:`.
fn bytes(text: Piece<'_>, dialect: Dialect) -> Read<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.text.len());
    let mut at = 0;
    while let Some(c) = text.behind(at).text.chars().next() {
        let place = text.part(at..at + c.len_utf8());
        at += c.len_utf8();
        match c {
            '|' => {
                let end = text.behind(at).text.find('|').ok_or_else(|| {
                    place.expected("`|` without its end", "bytes in hexadecimal: |0d 0a|")
                })?;
                hex(text.part(at..at + end), &mut bytes)?;
                at += end + 1;
            }
            '\\' => {
                let escaped = escaped(text.behind(at), dialect);
                let help = r#"\; \\ \" \:"#;
                let escaped = escaped
                    .ok_or_else(|| place.expected("`\\` before the wrong character", help))?;
                push(escaped, &mut bytes);
                at += escaped.len_utf8();
            }
            '"' => return Err(place.expected("`\"` in the content", r#"\" or |22|"#)),
            c => push(c, &mut bytes),
        }
    }
    Ok(bytes)
}

/// The character after a `\`. Suricata allows only characters that need the escape.
fn escaped(rest: Piece<'_>, dialect: Dialect) -> Option<char> {
    let next = rest.text.chars().next();
    next.filter(|c| dialect == Dialect::Snort || matches!(c, ':' | ';' | '\\' | '"'))
}

fn push(c: char, bytes: &mut Vec<u8>) {
    match raw_byte(c) {
        Some(byte) => bytes.push(byte),
        None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn hex(text: Piece<'_>, bytes: &mut Vec<u8>) -> Read<()> {
    let mut high = None;
    for (at, c) in text.text.char_indices().filter(|(_, c)| !matches!(c, ' ' | ',')) {
        let Some(digit) = c.to_digit(16) else {
            let place = text.part(at..at + c.len_utf8());
            return Err(
                place.expected(format!("`{c}` is not a digit"), "bytes in hexadecimal: |0d 0a|")
            );
        };
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push((high << 4 | digit) as u8),
        }
    }
    if high.is_some() {
        return Err(text.expected("half a byte", "two digits for each byte: |0d 0a|"));
    }
    Ok(())
}

fn bare(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    setting.bare()?;
    let content = draft.last_content(setting)?;
    match &*setting.key {
        "nocase" if content.is_nocase => return Err(twice(setting)),
        "nocase" => content.is_nocase = true,
        "endswith" => content.ends = true,
        "startswith" => {
            if content.starts {
                return Err(twice(setting));
            }
            if content.offset.or(content.depth).is_some() || content.is_relative() {
                return Err(setting.name.expected(
                    "`startswith` with offset, depth, distance or within",
                    "one or the other",
                ));
            }
            movable(setting, content)?;
            content.starts = true;
        }
        // Nothing is changed before the payload is looked at.
        _ => {}
    }
    Ok(())
}

fn twice(setting: &Setting<'_>) -> Refusal {
    setting.name.broken(format!("`{}` is repeated for one content", setting.key))
}

/// Whether a place can be given to a content that is the fast pattern.
fn movable(setting: &Setting<'_>, content: &Content) -> Read<()> {
    match content.fast_pattern {
        Some(FastPattern::Only) => {
            Err(setting.name.broken(format!("`{}` with fast_pattern:only", setting.key)))
        }
        Some(_) if content.is_negated => {
            let message = format!("`{}` with fast_pattern of a negated content", setting.key);
            Err(setting.name.broken(message))
        }
        _ => Ok(()),
    }
}

/// The content to give `offset` or `depth`.
fn absolute<'d>(setting: &Setting<'_>, draft: &'d mut Draft) -> Read<&'d mut Content> {
    let content = draft.last_content(setting)?;
    if content.is_relative() || content.starts {
        let message = format!("`{}` with distance, within or startswith", setting.key);
        return Err(setting.name.expected(message, "one or the other for one content"));
    }
    movable(setting, content)?;
    Ok(content)
}

fn depth(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let text = setting.value()?;
    let depth = draft.number_or_name(text, 0, OFFSET_MAX)?;
    let content = absolute(setting, draft)?;
    if content.depth.replace(depth).is_some() {
        return Err(twice(setting));
    }
    long_enough(text, depth, content)
}

/// Less than the content is long never matches.
fn long_enough(text: Piece<'_>, number: Value, content: &Content) -> Read<()> {
    let len = content.bytes.len();
    match number {
        Value::Number(number) if number < len as i64 => Err(text.expected(
            format!("{number} is less than the content's {len} bytes"),
            format!("{len} or more"),
        )),
        _ => Ok(()),
    }
}

fn offset(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let text = setting.value()?;
    if draft.dialect == Dialect::Snort && text.starts_with('-') {
        return Err(Refusal::Held(Need::value("offset", "negative")));
    }
    let offset = draft.number_or_name(text, 0, OFFSET_MAX)?;
    match absolute(setting, draft)?.offset.replace(offset) {
        None => Ok(()),
        Some(_) => Err(twice(setting)),
    }
}

/// The content to give `distance` or `within`.
fn relative<'d>(setting: &Setting<'_>, draft: &'d mut Draft) -> Read<&'d mut Content> {
    if follows_fast_pattern_only(draft) {
        // Unless it is in another buffer.
        let message = format!("`{}` after a content with fast_pattern:only", setting.key);
        draft.doubt(setting.name.broken(message));
    }
    let content = draft.last_content(setting)?;
    if content.offset.or(content.depth).is_some() || content.starts {
        let message = format!("`{}` with offset, depth or startswith", setting.key);
        return Err(setting.name.expected(message, "one or the other for one content"));
    }
    movable(setting, content)?;
    Ok(content)
}

/// Whether the content or expression before the last content is not looked for again.
fn follows_fast_pattern_only(draft: &Draft) -> bool {
    let tests = draft.payload.iter().rev();
    let mut behind = tests.skip_while(|test| !matches!(test, PayloadTest::Content(_))).skip(1);
    let before = behind.find(|t| matches!(t, PayloadTest::Content(_) | PayloadTest::Pcre(_)));
    matches!(before, Some(PayloadTest::Content(c)) if c.fast_pattern == Some(FastPattern::Only))
}

fn distance(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let distance = draft.number_or_name(setting.value()?, -RELATIVE_MAX, RELATIVE_MAX)?;
    match relative(setting, draft)?.distance.replace(distance) {
        None => Ok(()),
        Some(_) => Err(twice(setting)),
    }
}

fn within(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let text = setting.value()?;
    let within = draft.number_or_name(text, -RELATIVE_MAX, RELATIVE_MAX)?;
    let content = relative(setting, draft)?;
    if content.within.replace(within).is_some() {
        return Err(twice(setting));
    }
    long_enough(text, within, content)
}

fn fast_pattern(setting: &Setting<'_>, draft: &mut Draft) -> Read<()> {
    let others = draft
        .payload
        .iter()
        .filter(|test| matches!(test, PayloadTest::Content(c) if c.fast_pattern.is_some()));
    let is_other = others.count() > 0;
    let content = draft.last_content(setting)?;
    let pattern = match setting.value.filter(|v| !v.is_empty()) {
        None => FastPattern::Whole,
        Some(value) if value.text == "only" => FastPattern::Only,
        Some(value) => part(value, content.bytes.len())?,
    };
    let is_placed = content.is_relative() || content.offset.or(content.depth).is_some();
    let is_placed = is_placed || content.starts;
    if is_placed && (content.is_negated || pattern == FastPattern::Only) {
        return Err(setting
            .name
            .broken("`fast_pattern` of a content that is only looked for in a place"));
    }
    if content.is_negated && pattern == FastPattern::Only {
        return Err(setting.name.broken("`fast_pattern:only` of a negated content"));
    }
    content.fast_pattern = Some(pattern);
    if is_other {
        // Each buffer has its own.
        draft.doubt(setting.name.broken("`fast_pattern` is repeated"));
    }
    Ok(())
}

/// `offset,length`.
fn part(value: Piece<'_>, len: usize) -> Read<FastPattern> {
    let help = "only, or where a part starts, a comma, and how long it is";
    let Some((start, length)) = value.split_once(",") else {
        return Err(value.expected(format!("`{}` is not part of a content", value.text), help));
    };
    let (start, length) = (start.decimal::<u16>()?, length.decimal::<u16>()?);
    if length == 0 || usize::from(start) + usize::from(length) > len {
        return Err(value.expected(format!("the content has {len} bytes"), "a part of it"));
    }
    Ok(FastPattern::Part(start, length))
}
