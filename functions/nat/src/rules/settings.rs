//! The settings that a file of rules gives.

use warpline_nf::{Diagnostic, Diagnostics, Resources, Section, SourceText};
use warpline_packet::Prefix;
use warpline_rewrite::Mapped;
use warpline_rewrite::addresses::PortRange;
use warpline_rule_files::nft::is_nft;
use warpline_rule_files::save_file::is_iptables;

use super::iptables::parse_iptables;
use super::nft::parse_nft;
use super::ports::RulePorts;
use super::{ForwardRule, NatRules, Places, Translation};
use crate::fixed_keys::SourceRule;

/// The settings that rules give in place of the table's keys.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) inside: Option<Vec<Prefix>>,
    pub(crate) outside: Option<Vec<Prefix>>,
    pub(crate) ports: Option<PortRange>,
    pub(crate) forwards: Vec<ForwardRule>,
    pub(crate) mapped: Vec<Mapped>,
    pub(crate) places: Places,
    /// Which packets from inside are translated; all where there is none.
    pub(crate) source_rules: Vec<SourceRule>,
    /// Whether nothing is translated to a shared address.
    pub(crate) is_fixed: bool,
}

impl Said {
    /// For rules with mistakes, which were reported already: no key is required in their place.
    fn broken() -> Self {
        Self { inside: Some(Vec::new()), outside: Some(Vec::new()), ..Self::default() }
    }

    /// For rules with fixed translations alone: their hosts are inside. Of others than those with
    /// an address of their own only answers are translated.
    fn fixed(forwards: Vec<ForwardRule>, mapped: Vec<Mapped>, places: Places) -> Self {
        let own: Vec<Prefix> = mapped.iter().map(|own| own.inside).collect();
        let hosts = forwards.iter().map(|own| Prefix::host(own.inside));
        let inside = own.iter().copied().chain(hosts).collect();
        let translates = !own.is_empty();
        let rule =
            SourceRule { sources: own, translates, own: translates, ..SourceRule::default() };
        Self {
            inside: Some(inside),
            outside: Some(Vec::new()),
            forwards,
            mapped,
            places,
            source_rules: vec![rule],
            is_fixed: true,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Auto,
    Iptables,
    Nft,
}

/// Reads the file that `rules` names. Notes every mistake in it.
pub(crate) fn read(section: &mut Section<'_>, resources: &mut Resources) -> Said {
    let formats = [("auto", Format::Auto), ("iptables", Format::Iptables), ("nft", Format::Nft)];
    let format = section.choice("format", &formats, Format::Auto);
    let skip = section.choice("unsupported", &[("error", false), ("skip", true)], false);
    if !section.has("rules") {
        for key in ["format", "unsupported"] {
            if section.has(key) {
                section.mistake(key, format!("`{key}` requires `rules`"));
            }
        }
        return Said::default();
    }
    let Some(source) = section.file("rules") else { return Said::broken() };
    let ports = RulePorts::new(resources.ports());
    let found = match format {
        Format::Nft => parse_nft(&source, &ports),
        Format::Iptables => parse_iptables(&source, &ports),
        Format::Auto if is_nft(&source.text) => parse_nft(&source, &ports),
        Format::Auto if is_iptables(&source.text) => parse_iptables(&source, &ports),
        Format::Auto => {
            let message =
                "is neither what iptables-save prints nor what `nft -j list ruleset` does";
            section.note(source.whole(message));
            return Said::broken();
        }
    };
    let masquerades = found.translation.as_ref().is_some_and(|to| to.outside.is_none());
    resources.remarks_of(&ports.remarks(masquerades));
    hand_on(&found.mistakes, |mistake| section.note(mistake));
    if skip {
        hand_on(&found.unsupported, |left_out| resources.notice(left_out));
    } else {
        hand_on(&found.unsupported, |mistake| section.note(mistake));
    }
    settle(section, &source, found)
}

fn hand_on(all: &Diagnostics, mut to: impl FnMut(Diagnostic)) {
    all.iter().for_each(|message| to(message.clone()));
    let more = all.count() - all.iter().count();
    if more > 0 {
        to(Diagnostic::bare(format!("and {more} more in the rules")));
    }
}

/// The settings from the rules. Reports keys of the table that conflict with them.
fn settle(section: &mut Section<'_>, source: &SourceText, found: NatRules) -> Said {
    let NatRules { forwards, mapped, places, mut source_rules, any_source, .. } = found;
    let fixes = !forwards.is_empty() || !mapped.is_empty();
    let mut refuse = |key: &str, said: bool| {
        if said && section.has(key) {
            section.mistake(key, format!("`{key}` conflicts with `rules`"));
        }
    };
    if source_rules.iter().all(|rule| rule.translates && !rule.has_conditions()) {
        source_rules.clear();
    }
    let Some(Translation { outside, ports }) = found.translation else {
        let is_fixed = fixes
            && !any_source
            && found.inside.is_empty()
            && source_rules.is_empty()
            && !["inside", "outside"].iter().any(|key| section.has(key));
        if is_fixed {
            return Said::fixed(forwards, mapped, places);
        }
        // The keys translate the rest.
        if !source_rules.is_empty() {
            source_rules.push(SourceRule { translates: true, ..SourceRule::default() });
        }
        // Sources without an address to translate to would keep theirs.
        let fixes = fixes && !any_source && found.inside.is_empty();
        if found.mistakes.is_empty() && !fixes {
            section.note(source.whole("has no rule that translates sources"));
            return Said::broken();
        }
        return match fixes {
            true => Said { forwards, mapped, places, source_rules, ..Said::default() },
            false => Said::broken(),
        };
    };
    refuse("inside", !any_source);
    refuse("outside", outside.is_some());
    refuse("ports", ports.is_some());
    let mut inside = found.inside;
    inside.extend(mapped.iter().map(|own| own.inside));
    let inside = (!any_source).then_some(inside);
    Said { inside, outside, ports, forwards, mapped, places, source_rules, is_fixed: false }
}
