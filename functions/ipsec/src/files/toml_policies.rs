//! Policies in TOML, one `[[policy]]` table each, in the order of evaluation.

use super::entry::{Asked, Does};
use super::source::Source;
use super::toml_file::{self, SELECTOR_KEYS, of};
use warpline_nf::{Diagnostics, Section};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Protect,
    Bypass,
    Discard,
}

const ACTIONS: [(&str, Option<Action>); 3] = [
    ("protect", Some(Action::Protect)),
    ("bypass", Some(Action::Bypass)),
    ("discard", Some(Action::Discard)),
];

/// Reads the file; every mistake is noted.
pub(super) fn read(source: &mut Source, section: &mut Section<'_>) -> Vec<Asked> {
    let mut policies = Vec::new();
    toml_file::read(source, section, "policy", |shown, item, mistakes| {
        let mut found = Diagnostics::default();
        let mut section = of(shown, &item, "policy", &mut found);
        let keys: Vec<&str> = SELECTOR_KEYS.into_iter().chain(["action", "sa"]).collect();
        section.refuse_all_but(&keys);
        let selector = toml_file::selector(&mut section, item.0);
        let does = does(&mut section);
        if let (Some(selector), Some(does)) = (selector, does) {
            policies.push(Asked { selector, is_out: true, priority: 0, does, at: item.1.clone() });
        }
        found.iter().for_each(|mistake| mistakes.push(mistake.clone()));
    });
    policies
}

fn does(section: &mut Section<'_>) -> Option<Does> {
    section.require("action", "\"protect\", \"bypass\" or \"discard\"");
    let action = section.choice("action", &ACTIONS, None);
    let names = section.parsed_list::<String>("sa");
    match action? {
        Action::Protect if names.is_empty() => {
            if !section.has("sa") {
                section.require("sa", "the name of the protecting SA, or a list of names");
            } else {
                section.mistake("sa", "`sa` must be the name of an SA, or a list of names");
            }
            None
        }
        Action::Protect => Some(Does::Named(names)),
        other => {
            if section.has("sa") {
                section.mistake("sa", "`sa` requires action = \"protect\"");
            }
            Some(if other == Action::Bypass { Does::Bypass } else { Does::Discard })
        }
    }
}
