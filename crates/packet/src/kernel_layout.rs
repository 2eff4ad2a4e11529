//! The layout of arenas and tables for kernels, as named numbers. They are made from the table of
//! columns, so no offset is written twice.
//!
//! A kernel gets an arena byte for byte as on the host, and the table of a launch
//! ([`crate::LaunchRows`]). A row has `COLUMN_name` bytes before a column, and
//! `COLUMN_SCRATCH + 4 * w` before scratch word `w`. That times the launch's rows is the start of
//! the column. Fields of frames have no numbers: kernels reach them by accessors
//! (`kernel_fields.rs`).

use core::mem::offset_of;

use crate::arena::{COLUMNS, ROW_LEN};
use crate::{Flags, Headers, LinkType, Verdict};

/// The numbers, by name.
pub fn kernel_layout() -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    let mut add = |name: String, value: usize| all.push((name, value as u64));
    for (name, before) in COLUMNS {
        add(format!("COLUMN{}", upper(name)), *before);
    }
    add("COLUMN_SCRATCH".into(), ROW_LEN);
    let parts = [
        ("END", offset_of!(Headers, end)),
        ("L3", offset_of!(Headers, l3)),
        ("L4", offset_of!(Headers, l4)),
        ("PAYLOAD", offset_of!(Headers, payload)),
        ("FLAGS", offset_of!(Headers, flags)),
        ("VERSION", offset_of!(Headers, version)),
        ("PROTOCOL", offset_of!(Headers, protocol)),
        ("LIE", Headers::LIE_AT),
    ];
    parts.into_iter().for_each(|(name, at)| add(format!("HEADERS_{name}"), at));
    let constants = [
        ("VERDICT_FORWARD", Verdict::Forward as usize),
        ("VERDICT_DROPPED", Verdict::Dropped as usize),
        ("VERDICT_MALFORMED", Verdict::Malformed as usize),
        ("FLAG_FRAGMENT", Flags::FRAGMENT.into()),
        ("FLAG_LATER_FRAGMENT", Flags::LATER_FRAGMENT.into()),
        ("FLAG_SNAPPED", Flags::SNAPPED.into()),
        ("FLAG_VLAN", Flags::VLAN.into()),
        ("FLAG_IP_OPTIONS", Flags::IP_OPTIONS.into()),
        ("FLAG_TRANSPORT", Flags::TRANSPORT.into()),
        ("FLAG_GENERATED", Flags::GENERATED.into()),
        ("FLAG_ANSWER", Flags::ANSWER.into()),
        ("FLAG_WRAPPED", Flags::WRAPPED.into()),
        ("FLAG_OPENED", Flags::OPENED.into()),
        ("FLAGS_KEPT", Flags::KEPT.into()),
        ("FLAG_IP_CUT", Flags::IP_CUT.into()),
        ("LINKTYPE_ETHERNET", LinkType::ETHERNET.0.into()),
        ("LINKTYPE_RAW", LinkType::RAW.0.into()),
    ];
    constants.into_iter().for_each(|(name, value)| add(name.into(), value));
    all
}

/// `HeadersOf` as `_HEADERS_OF`.
fn upper(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_tokens_of_c() {
        let all = kernel_layout();
        let names: std::collections::HashSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        let is_token = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        assert!(names.iter().all(|name| name.chars().all(is_token)), "{names:?}");
        let of = |name: &str| all.iter().find(|(own, _)| own == name).map(|(_, value)| *value);
        assert_eq!(of("COLUMN_TIMESTAMP"), Some(0));
        assert_eq!(of("COLUMN_CAPTURED"), Some(8));
        assert_eq!(of("COLUMN_SCRATCH"), Some(ROW_LEN as u64));
    }
}
