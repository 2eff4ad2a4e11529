//! Keys of tables that the command line sets on top of the chain file.

use toml::de::DeTable;
use warpline_nf::{Diagnostic, Diagnostics, SourceText};

/// A key that an option of the command line sets on top of the chain file.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The option, as it is typed.
    pub(crate) option: &'static str,
    /// `TABLE.KEY=VALUE`.
    pub(crate) text: String,
}

impl Setting {
    /// Those of `--set`.
    pub(crate) fn of_set(set: &[String]) -> Vec<Self> {
        set.iter().map(|text| Self { option: "--set", text: text.clone() }).collect()
    }
}

/// A table's key set on the command line.
pub(super) struct Override {
    pub(super) table: String,
    pub(super) source: SourceText,
}

/// `table.key=value` as a text of its own; a value that is no TOML is a string.
pub(super) fn parse_override(setting: &Setting, mistakes: &mut Diagnostics) -> Option<Override> {
    let Setting { option, text } = setting;
    let parts = text.split_once('=').and_then(|(path, value)| {
        let (table, key) = path.trim().rsplit_once('.')?;
        (!table.is_empty() && !key.is_empty()).then_some((table, key, value))
    });
    let Some((table, key, value)) = parts else {
        let mistake = Diagnostic::bare(format!("{option} {text}: not of the form TABLE.KEY=VALUE"));
        mistakes.push(mistake);
        return None;
    };
    let key = format!("{key:?}");
    let plain = format!("{key} = {value}");
    let quoted = || format!("{key} = {}", serde_json::Value::String(value.into()));
    let body = if DeTable::parse(&plain).is_ok() { plain } else { quoted() };
    Some(Override { table: table.into(), source: SourceText::new(*option, body) })
}
