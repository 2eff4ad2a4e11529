//! The common part of the two TOML files: tables read key by key, and the text that may be shown.

use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{Source, scrubbed};
use super::values::{ANY_PORTS, check_ports, ports, protocol};
use crate::sa::Selector;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Section, SourceText};

use core::ops::RangeInclusive;
use warpline_packet::Prefix;

/// A table, and its place.
pub(super) type Table<'a> = (&'a DeTable<'a>, Range<usize>);

/// Reads a TOML file: `each` is called for every `[[name]]` table.
pub(super) fn read(
    source: &mut Source,
    section: &mut Section<'_>,
    name: &str,
    mut each: impl FnMut(&SourceText, Table<'_>, &mut Diagnostics),
) {
    let text = source.take_text();
    let root = match DeTable::parse(&text) {
        Ok(root) => root,
        Err(error) => {
            source.show(&text, unread(&text));
            let at = error.span().unwrap_or_default();
            let why = scrubbed(error.message().lines().next().unwrap_or_default());
            source.mistake(section, at, format!("neither TOML nor output of `ip xfrm`: {why}"));
            return;
        }
    };
    let mut secrets = Vec::new();
    hide(root.get_ref(), &mut secrets);
    source.show(&text, secrets);
    let shown = source.shown.clone();
    let mut found = Diagnostics::default();
    let whole = (root.get_ref(), 0..0);
    of(&shown, &whole, "the file", &mut found).refuse_all_but(&[name]);
    let items = tables(&shown, root.get_ref(), name, &mut found);
    hand_on(source, section, &mut found);
    for item in items {
        each(&shown, item, &mut found);
        hand_on(source, section, &mut found);
        if source.is_hopeless() {
            return;
        }
    }
}

fn hand_on(source: &mut Source, section: &mut Section<'_>, found: &mut Diagnostics) {
    for mistake in core::mem::take(found).iter() {
        let mut mistake = mistake.clone();
        mistake.message = scrubbed(&mistake.message);
        source.mistakes += 1;
        section.note(mistake);
    }
}

/// A table's reader.
pub(super) fn of<'a>(
    shown: &'a SourceText,
    (table, span): &Table<'a>,
    name: &'a str,
    mistakes: &'a mut Diagnostics,
) -> Section<'a> {
    let layer = Layer { source: shown, table, span: span.clone() };
    Section::new(vec![layer], name, Folder::Bundled(&[]), mistakes)
}

/// The tables that `key` lists.
pub(super) fn tables<'a>(
    shown: &SourceText,
    table: &'a DeTable<'a>,
    key: &str,
    mistakes: &mut Diagnostics,
) -> Vec<Table<'a>> {
    let Some(value) = table.get(key) else { return Vec::new() };
    let mut wrong = |at: &Spanned<DeValue<'_>>| {
        mistakes.push(shown.mistake(at.span(), format!("`{key}` must be a list of tables")));
    };
    let DeValue::Array(items) = value.get_ref() else {
        wrong(value);
        return Vec::new();
    };
    let mut tables = Vec::with_capacity(items.len());
    for item in items {
        match item.get_ref() {
            DeValue::Table(table) => tables.push((table, item.span())),
            _ => wrong(item),
        }
    }
    tables
}

/// The table that `key` holds.
pub(super) fn table<'a>(
    shown: &SourceText,
    table: &'a DeTable<'a>,
    key: &str,
    mistakes: &mut Diagnostics,
) -> Option<Table<'a>> {
    let value = table.get(key)?;
    if let DeValue::Table(table) = value.get_ref() {
        return Some((table, value.span()));
    }
    mistakes.push(shown.mistake(value.span(), format!("`{key}` must be a table")));
    None
}

/// Keys whose values may be shown.
const OPEN: &[&str] = &[
    "name",
    "direction",
    "spi",
    "reqid",
    "src",
    "dst",
    "mode",
    "cipher",
    "auth",
    "esn",
    "replay_window",
    "src_port",
    "dst_port",
    "protocol",
    "src_ports",
    "dst_ports",
    "bytes",
    "packets",
    "seconds",
    "sequence",
    "dscp",
    "ecn",
    "df",
    "hops",
    "mtu",
    "action",
    "sa",
];

/// Collects the places of all values but those of [`OPEN`] keys.
fn hide(table: &DeTable<'_>, secrets: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        hide_value(OPEN.contains(&key.get_ref().as_ref()), value, secrets);
    }
}

fn hide_value(is_open: bool, value: &Spanned<DeValue<'_>>, secrets: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => hide(table, secrets),
        DeValue::Array(items) => {
            items.iter().for_each(|item| hide_value(is_open, item, secrets));
        }
        _ if is_open => {}
        _ => secrets.push(value.span()),
    }
}

/// The text to hide in a file that isn't TOML: everything except the headers of tables and the text
/// before `=`.
fn unread(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut hidden = Vec::new();
    for line in text.split_inclusive('\n') {
        let plain = |text: &str| {
            text.len() < 40
                && text.bytes().all(|b| b" \t\r\n[]_".contains(&b) || b.is_ascii_lowercase())
        };
        let from = match line.find('=') {
            Some(at) if plain(&line[..at]) => at + 1,
            None if plain(line) => line.len(),
            _ => 0,
        };
        hidden.push(start + from..start + line.len());
        start += line.len();
    }
    hidden
}

/// A value that is a number or a string.
fn text_of(section: &mut Section<'_>, table: &DeTable<'_>, key: &str) -> Option<String> {
    match table.get(key)?.get_ref() {
        DeValue::Integer(_) => Some(section.integer(key, 0..=u64::from(u16::MAX), 0).to_string()),
        _ => section.string(key).map(str::to_owned),
    }
}

fn port_range(
    section: &mut Section<'_>,
    table: &DeTable<'_>,
    key: &str,
) -> Option<RangeInclusive<u16>> {
    if !section.has(key) {
        return Some(ANY_PORTS);
    }
    let read = ports(&text_of(section, table, key)?);
    if read.is_none() {
        section
            .mistake(key, format!("`{key}` must be a number from 0 to 65535, or two: \"1-1023\""));
    }
    read
}

/// Keys of a selector.
pub(super) const SELECTOR_KEYS: [&str; 5] = ["src", "dst", "protocol", "src_ports", "dst_ports"];

/// The selector in a table.
pub(super) fn selector(section: &mut Section<'_>, table: &DeTable<'_>) -> Option<Selector> {
    let (src, dst) = (section.parsed::<Prefix>("src"), section.parsed::<Prefix>("dst"));
    if !section.has("src") && !section.has("dst") {
        section.require("src", "a prefix; `dst` may take its place");
    }
    let protocol = match text_of(section, table, "protocol") {
        None if section.has("protocol") => None,
        None => Some(None),
        Some(text) => {
            let read = protocol(&text);
            if read.is_none() {
                let reported =
                    "`protocol` must be a name, such as tcp, a number from 0 to 255, or any";
                section.mistake("protocol", reported);
            }
            read
        }
    };
    let (src_ports, dst_ports) =
        (port_range(section, table, "src_ports"), port_range(section, table, "dst_ports"));
    let all = |other: Prefix| Prefix::new(other.address(), 0);
    let (src, dst) = match (section.has("src"), section.has("dst")) {
        (true, true) => (src?, dst?),
        (true, false) => (src?, all(src?)?),
        _ => (all(dst?)?, dst?),
    };
    if src.address().is_ipv4() != dst.address().is_ipv4() {
        section.mistake("dst", "`src` and `dst` are of different IP versions");
        return None;
    }
    let (protocol, src_ports, dst_ports) = (protocol?, src_ports?, dst_ports?);
    let selector = Selector { src, dst, protocol, src_ports, dst_ports };
    if let Err(why) = check_ports(&selector) {
        let key = if section.has("src_ports") { "src_ports" } else { "dst_ports" };
        section.mistake(key, why);
        return None;
    }
    Some(selector)
}
