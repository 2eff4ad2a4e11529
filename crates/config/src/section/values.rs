//! Typed values of keys.

use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use toml::de::DeValue;

use super::{NumberOrName, Section};

impl<'a> Section<'a> {
    /// A string.
    pub fn string(&mut self, key: &str) -> Option<&'a str> {
        let value = self.value(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some(text);
        }
        self.wrong(value.span(), key, "a string", describe(value.get_ref()));
        None
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.value(key) else { return default };
        if let DeValue::Boolean(on) = value.get_ref() {
            return *on;
        }
        self.wrong(value.span(), key, "true or false", describe(value.get_ref()));
        default
    }

    /// A whole number in `range`.
    pub fn integer(&mut self, key: &str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let Some(value) = self.value(key) else { return default };
        if let Some(number) = whole(value.get_ref(), &range) {
            return number;
        }
        self.wrong(value.span(), key, &allowed(&range), &shown(value.get_ref()));
        default
    }

    /// A finite decimal number.
    pub fn decimal(&mut self, key: &str, default: f64) -> f64 {
        let Some(value) = self.value(key) else { return default };
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        if let Some(number) = number.filter(|number: &f64| number.is_finite()) {
            return number;
        }
        self.wrong(value.span(), key, "a decimal number", &shown(value.get_ref()));
        default
    }

    /// A whole number, or `None` for the one `word` that may stand in its place.
    pub fn integer_or(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
        word: &str,
        default: u64,
    ) -> Option<u64> {
        let Some(value) = self.value(key) else { return Some(default) };
        let number = whole(value.get_ref(), &range);
        let is_word = matches!(value.get_ref(), DeValue::String(text) if text.as_ref() == word);
        if number.is_none() && !is_word {
            let allowed = format!("{} or {word:?}", allowed(&range));
            self.wrong(value.span(), key, &allowed, &shown(value.get_ref()));
        }
        number
    }

    /// A whole number in `range`, or a name.
    pub fn number_or_name(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Option<NumberOrName<'a>> {
        let value = self.value(key)?;
        if let DeValue::String(name) = value.get_ref() {
            return Some(NumberOrName::Name(name));
        }
        if let Some(number) = whole(value.get_ref(), &range) {
            return Some(NumberOrName::Number(number));
        }
        let allowed = format!("{} or a name", allowed(&range));
        self.wrong(value.span(), key, &allowed, &shown(value.get_ref()));
        None
    }

    /// One of the named choices.
    pub fn choice<T: Clone>(&mut self, key: &str, choices: &[(&str, T)], default: T) -> T {
        let Some(value) = self.value(key) else { return default };
        if let DeValue::String(text) = value.get_ref()
            && let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text.as_ref())
        {
            return choice.clone();
        }
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
        self.wrong(value.span(), key, &alternatives(&names), &shown(value.get_ref()));
        default
    }

    /// A string that reads as a `T`; the message of a mistake follows `T`'s own.
    pub fn parsed<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Option<T> {
        let text = self.string(key)?;
        match text.parse::<T>() {
            Ok(value) => Some(value),
            Err(why) => {
                self.mistake(key, format!("`{key}`: {text:?}: {}", why.to_string()));
                None
            }
        }
    }

    /// A list of strings that parse as `T`s; a single string is a list of one. Each that doesn't
    /// parse is a mistake.
    pub fn parsed_list<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Vec<T> {
        self.parsed_items(key).into_iter().map(|(item, _)| item).collect()
    }

    /// The same, with the place of each string.
    pub fn parsed_items<T: FromStr<Err: ToString>>(&mut self, key: &str) -> Vec<(T, Range<usize>)> {
        let mut list = Vec::new();
        self.each_string(key, |section, text, span| match text.parse::<T>() {
            Ok(parsed) => list.push((parsed, span)),
            Err(why) => {
                section.mistake_at(key, span, format!("`{key}`: {text:?}: {}", why.to_string()));
            }
        });
        list
    }

    /// Does `work` with each string of a list and its place; a single string is a list of one.
    /// Other values are mistakes.
    pub(super) fn each_string(
        &mut self,
        key: &str,
        mut work: impl FnMut(&mut Self, &'a str, Range<usize>),
    ) {
        let Some(value) = self.value(key) else { return };
        let items = match value.get_ref() {
            DeValue::Array(items) => &items[..],
            _ => core::slice::from_ref(value),
        };
        for item in items {
            match item.get_ref() {
                DeValue::String(text) => work(self, text.as_ref(), item.span()),
                other => self.wrong(item.span(), key, "a list of strings", describe(other)),
            }
        }
    }

    /// A table of strings by name: name and text of each, in the order of the names.
    pub fn named_strings(&mut self, key: &str) -> Vec<(String, &'a str)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong(value.span(), key, "a table of strings", describe(value.get_ref()));
            return Vec::new();
        };
        let mut strings = Vec::new();
        for (name, value) in table {
            match value.get_ref() {
                DeValue::String(text) => strings.push((name.get_ref().to_string(), text.as_ref())),
                other => self.wrong(value.span(), key, "a table of strings", describe(other)),
            }
        }
        strings
    }
}

/// The number that `value` is, where it is one in `range`.
fn whole(value: &DeValue<'_>, range: &RangeInclusive<u64>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    range.contains(&number).then_some(number)
}

fn allowed(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

pub(super) fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A short value itself, or its kind. Keys of ciphers are longer, so that messages never show one.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.len() <= SHOWN_LEN_MAX => format!("{text:?}"),
        DeValue::Integer(number) if number.as_str().len() <= SHOWN_LEN_MAX => number.to_string(),
        DeValue::Float(number) if number.as_str().len() <= SHOWN_LEN_MAX => number.to_string(),
        other => describe(other).into(),
    }
}

/// Bytes of a value in a message.
const SHOWN_LEN_MAX: usize = 24;

/// `a, b or c`.
fn alternatives(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}
