//! The options of a rule: split at `;`, each parsed by its own file, and together made into a
//! [`Rule`].

use std::borrow::Cow;

use super::draft::{Context, Draft, Setting};
use super::piece::{Piece, Read, Refusal};
use super::{
    Dialect, Need, PayloadTest, Protocol, Rule, SourceLine, about, byte_option, content,
    flow_option, header, keywords, packet_option, pcre, rate, requires,
};
use warpline_config::LISTED_MAX;

/// Options of a rule that are read.
const OPTIONS_MAX: usize = 1024;

/// A rule that was read.
pub(super) enum ReadRule {
    /// It can be applied.
    Active(Box<Rule>),
    /// It has the needs in the draft.
    Held,
}

/// Reads the rule in `text` into `draft`.
pub(super) fn rule(
    text: Piece<'_>,
    place: SourceLine,
    draft: &mut Draft,
    context: &mut Context<'_>,
) -> Read<ReadRule> {
    let (action, header, rest) = header::read(text, draft, context)?;
    if !rest.starts_with('(') {
        return Err(rest.expected("the options are missing", "(msg:\"...\"; sid:1;)"));
    }
    let (settings, end) = settings(rest.part(0..closed(rest.text)).behind(1));
    let requirements = settings.iter().filter(|setting| setting.key == "requires");
    // Without an end the rule is broken, for any engine.
    for setting in requirements.filter(|_| end.is_ok()) {
        requires::check(setting.value()?)?;
    }
    for setting in &settings {
        match apply(setting, draft, context) {
            Err(Refusal::Held(need)) => draft.need(need),
            other => other?,
        }
    }
    end?;
    if !draft.said.sid {
        return Err(text.part(0..0).expected("`sid` is missing", "each rule has its number"));
    }
    if !draft.needs.is_empty() {
        return Ok(ReadRule::Held);
    }
    together(text, draft)?;
    rate::with_header(text, header.protocol, draft)?;
    if let Some(doubt) = draft.doubt.take() {
        return Err(doubt);
    }
    Ok(ReadRule::Active(Box::new(Rule {
        place,
        action,
        header,
        about: core::mem::take(&mut draft.about),
        packet: core::mem::take(&mut draft.packet),
        flow: core::mem::take(&mut draft.flow),
        payload: core::mem::take(&mut draft.payload),
        slots: draft.slots.len() as u8,
        effects: core::mem::take(&mut draft.effects),
        threshold: draft.threshold,
        detection_filter: draft.detection_filter,
    })))
}

/// Where the last option ends.
fn closed(options: &str) -> usize {
    options.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == ')').len().max(1)
}

/// The options that stand before each `;` that has no `\` before it, and the mistake after them.
fn settings(options: Piece<'_>) -> (Vec<Setting<'_>>, Read<()>) {
    let bytes = options.text.as_bytes();
    let (mut settings, mut start) = (Vec::with_capacity(16), 0);
    for at in (0..bytes.len()).filter(|&at| bytes[at] == b';') {
        if at > start && bytes[at - 1] == b'\\' {
            continue;
        }
        let setting = options.part(start..at).trim();
        if settings.len() == OPTIONS_MAX {
            let end = setting.broken(format!("more than {OPTIONS_MAX} options"));
            return (settings, Err(end));
        }
        if !setting.is_empty() {
            settings.push(self::setting(setting));
        }
        start = at + 1;
    }
    let rest = options.behind(start).trim();
    let end = match rest.text.as_bytes().first() {
        None => Ok(()),
        Some(b')') => Err(rest.expected("text after the end of the rule", "`)` ends it")),
        Some(_) => {
            Err(rest.expected("`;` is missing", "each option ends with `;`, the last one too"))
        }
    };
    (settings, end)
}

fn setting(setting: Piece<'_>) -> Setting<'_> {
    let colon = setting.text.find(':').unwrap_or(setting.text.len());
    let name = setting.part(0..colon).trim();
    let value = setting.text.get(colon + 1..).map(|_| setting.behind(colon + 1).trim());
    let key = if name.text.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name.text)
    };
    Setting { key, name, value }
}

fn apply(setting: &Setting<'_>, draft: &mut Draft, context: &mut Context<'_>) -> Read<()> {
    if setting.key.is_empty() {
        return Err(setting.name.broken("the name of the option is missing"));
    }
    about::option(setting, draft, context)
        .or_else(|| content::option(setting, draft))
        .or_else(|| flow_option::option(setting, draft, context))
        .or_else(|| packet_option::option(setting, draft))
        .or_else(|| byte_option::option(setting, draft))
        .or_else(|| pcre::option(setting, draft))
        .or_else(|| rate::option(setting, draft))
        .unwrap_or_else(|| without_effect(setting, context))
}

/// Options that change nothing here, and those that are not applied.
fn without_effect(setting: &Setting<'_>, context: &mut Context<'_>) -> Read<()> {
    match &*setting.key {
        // Buffers are not applied, so the payload is always what is looked at.
        "pkt_data" | "prefilter" => setting.bare(),
        "requires" => Ok(()),
        key => Err(match Need::of_keyword(key) {
            Some(need) => Refusal::Held(need),
            None => unknown(setting, context),
        }),
    }
}

/// The mistake of an unknown keyword. Only the first [`LISTED_MAX`] of a file are listed, so the
/// others need no suggestion.
fn unknown(setting: &Setting<'_>, context: &mut Context<'_>) -> Refusal {
    let message = format!("`{}` is not a keyword", setting.name.text);
    let is_listed = context.unknown_keywords < LISTED_MAX;
    context.unknown_keywords += 1;
    match is_listed.then(|| keywords::suggestion(&setting.key)).flatten() {
        Some(help) => setting.name.expected(message, help),
        None => setting.name.broken(message),
    }
}

/// Checks conditions between options.
fn together(text: Piece<'_>, draft: &Draft) -> Read<()> {
    let is_stream = draft.flow.stream == Some(true) || draft.protocol == Some(Protocol::TcpStream);
    if is_stream && let Some(place) = &draft.said.packet {
        return Err(text.part(place.clone()).expected(
            "this is about packets, and the rule about the stream alone",
            "no dsize, flags, ttl, ... with tcp-stream or flow:only_stream",
        ));
    }
    let Some((dsize, place)) = &draft.said.dsize else { return Ok(()) };
    let needed = draft.payload.iter().filter_map(|test| match test {
        PayloadTest::Content(content) => content::end_min(content),
        _ => None,
    });
    match needed.max() {
        Some(needed) if needed > i64::from(*dsize) => {
            let message = format!("no payload of {dsize} bytes holds the {needed} of a content");
            Err(text.part(place.clone()).broken(message))
        }
        _ => Ok(()),
    }
}

impl Dialect {
    /// The name in configurations: `suricata`, `snort`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Suricata => "suricata",
            Self::Snort => "snort",
        }
    }
}
