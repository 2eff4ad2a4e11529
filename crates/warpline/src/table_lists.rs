//! Lists of tables: `[[port]]`, `[[route]]`.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use warpline_nf::{Diagnostics, SourceText};

/// The tables of list `name` of a file, each with its place; `max` at most.
pub(crate) fn tables<'a>(
    source: &SourceText,
    file: &'a DeTable<'a>,
    (name, max): (&str, usize),
    mistakes: &mut Diagnostics,
) -> Vec<(&'a DeTable<'a>, Range<usize>)> {
    let Some(value) = file.get(name) else { return Vec::new() };
    let is_list = format!("`{name}` is a list of tables: [[{name}]]");
    let items = match value.get_ref() {
        DeValue::Array(items) => items,
        DeValue::Table(_) => {
            let text = format!("`[{name}]` is one table of a list");
            let help = format!("write [[{name}]] before each {name}'s keys");
            mistakes.push(source.mistake(value.span(), text).help(help));
            return Vec::new();
        }
        _ => {
            mistakes.push(source.mistake(value.span(), is_list));
            return Vec::new();
        }
    };
    if items.len() > max {
        let text = format!("{} {name}s: a file has {max} at most", items.len());
        mistakes.push(source.mistake(items[max].span(), text));
    }
    let mut tables = Vec::new();
    for item in items.iter().take(max) {
        match item.get_ref() {
            DeValue::Table(table) => tables.push((table, item.span())),
            _ => mistakes.push(source.mistake(item.span(), is_list.clone())),
        }
    }
    tables
}
