//! The options of a rule: split at `;`, each parsed by its own file, and together made into a
//! [`Rule`].

use std::borrow::Cow;

use super::draft::{Context, Draft, Setting};
use super::piece::{Piece, Read, Refusal};
use super::{
    Configs, Dialect, Need, PayloadTest, Place, Protocol, Rule, Variables, about, byte_option,
    content, flow_option, header, need, packet_option, pcre, rate, requires,
};

/// Options of a rule that are read.
const OPTIONS_MAX: usize = 1024;

/// A rule that was read.
pub(super) enum Outcome {
    /// It can be applied.
    Active(Box<Rule>),
    /// It has the needs in the draft.
    Held,
}

/// Reads the rule in `text` into `draft`.
pub(super) fn rule(
    text: Piece<'_>,
    place: Place,
    draft: &mut Draft,
    context: &mut Context<'_>,
) -> Read<Outcome> {
    let (action, header, rest) = header::read(text, draft, context)?;
    if !rest.starts_with('(') {
        return Err(rest.expected("the options are missing", "(msg:\"...\"; sid:1;)"));
    }
    let settings = settings(rest.part(0..closed(rest.text)).behind(1))?;
    for setting in settings.iter().filter(|s| s.key == "requires") {
        requires::check(setting.value()?)?;
    }
    for setting in &settings {
        match apply(setting, draft, context) {
            Err(Refusal::Held(need)) => draft.need(need),
            other => other?,
        }
    }
    if !draft.said.sid {
        return Err(text.part(0..0).expected("`sid` is missing", "each rule has its number"));
    }
    if !draft.needs.is_empty() {
        return Ok(Outcome::Held);
    }
    together(text, draft)?;
    if let Some(doubt) = draft.doubt.take() {
        return Err(doubt);
    }
    Ok(Outcome::Active(Box::new(Rule {
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

/// The options that stand before each `;` that has no `\` before it.
fn settings(options: Piece<'_>) -> Read<Vec<Setting<'_>>> {
    let bytes = options.text.as_bytes();
    let (mut settings, mut start) = (Vec::with_capacity(16), 0);
    for at in (0..bytes.len()).filter(|&at| bytes[at] == b';') {
        if at > start && bytes[at - 1] == b'\\' {
            continue;
        }
        let setting = options.part(start..at).trim();
        if settings.len() == OPTIONS_MAX {
            return Err(setting.broken(format!("more than {OPTIONS_MAX} options")));
        }
        if !setting.is_empty() {
            settings.push(self::setting(setting));
        }
        start = at + 1;
    }
    let rest = options.behind(start).trim();
    if !rest.is_empty() {
        return Err(rest.expected("`;` is missing", "each option ends with `;`, the last one too"));
    }
    Ok(settings)
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

/// Whether a keyword (in lower case) is applied.
pub(super) fn is_applied(key: &str) -> bool {
    let key = Piece::new(key);
    let setting = Setting { key: Cow::Borrowed(key.text), name: key, value: None };
    let (variables, configs) = (Variables::default(), Configs::default());
    let mut context = Context::new(&variables, &configs);
    !matches!(apply(&setting, &mut Draft::default(), &mut context), Err(Refusal::Held(_)))
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
        .unwrap_or_else(|| without_effect(setting))
}

/// Options that change nothing here, and those that are not applied.
fn without_effect(setting: &Setting<'_>) -> Read<()> {
    match &*setting.key {
        // Buffers are not applied, so the payload is always what is looked at.
        "pkt_data" | "prefilter" => setting.bare(),
        "requires" => Ok(()),
        key => Err(Refusal::Held(Need::of_keyword(key))),
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

/// Whether a keyword (in lower case) is Suricata's or Snort's.
pub(super) fn is_known(key: &str) -> bool {
    need::is_known(key) || is_applied(key)
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
