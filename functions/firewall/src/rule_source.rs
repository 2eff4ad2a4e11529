//! The files of rules that a firewall's table names, in whichever form they are.

use super::rule_set::{Policy, RuleSet};
use warpline_nf::{Diagnostic, Diagnostics, Resources, Section, SourceText};
use warpline_rule_files::parse_iptables;
use warpline_rule_files::save_file::is_iptables;
use warpline_rule_files::{Action, Rule, parse_lines};
use warpline_rule_files::{Imported, Interfaces, Leaves, RegionRule};
use warpline_rule_files::{is_classbench, parse_classbench};
use warpline_rule_files::{is_nft, parse_nft};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Auto,
    Lines,
    ClassBench,
    Iptables,
    Nft,
}

const FORMATS: [(&str, Format); 5] = [
    ("auto", Format::Auto),
    ("lines", Format::Lines),
    ("classbench", Format::ClassBench),
    ("iptables", Format::Iptables),
    ("nft", Format::Nft),
];

impl Format {
    fn of(text: &str) -> Self {
        if is_classbench(text) {
            Self::ClassBench
        } else if is_iptables(text) {
            Self::Iptables
        } else if is_nft(text) {
            Self::Nft
        } else {
            Self::Lines
        }
    }
}

/// Whether unsupported rules are skipped. Otherwise they are mistakes.
#[derive(Clone, Copy)]
struct Skip(bool);

impl Skip {
    /// Passes on the messages of a file's reader. Returns whether the file's rules may be used.
    fn settle(
        self,
        section: &mut Section<'_>,
        resources: &mut Resources,
        source: &SourceText,
        [mistakes, unsupported]: [&Diagnostics; 2],
    ) -> bool {
        hand_on(mistakes, source, |mistake| section.note(mistake));
        if self.0 {
            hand_on(unsupported, source, |left_out| resources.notice(left_out));
        } else {
            hand_on(unsupported, source, |mistake| section.note(mistake));
        }
        mistakes.is_empty() && (self.0 || unsupported.is_empty())
    }
}

/// Hands on what is listed, and as many more as were counted.
fn hand_on(all: &Diagnostics, source: &SourceText, mut to: impl FnMut(Diagnostic)) {
    all.iter().for_each(|reported| to(reported.clone()));
    all.unlisted().for_each(|kind| to(source.whole(kind)));
}

/// The rules of the files that the table names. Notes every mistake in them.
pub(super) fn read(
    section: &mut Section<'_>,
    resources: &mut Resources,
    policy: Policy,
) -> Option<RuleSet> {
    let format = section.choice("format", &FORMATS, Format::Auto);
    let action = section.choice("classbench_action", super::ACTIONS, Action::Accept);
    let skip = Skip(section.choice("unsupported", &[("error", false), ("skip", true)], false));
    if !section.has("rules_v6") {
        section.require("rules", "a file of rules");
    }
    let source = section.file("rules");
    let format = match (&source, format) {
        (Some(source), Format::Auto) => Format::of(&source.text),
        (None, Format::Auto) if section.has("rules_v6") => Format::Iptables,
        (_, chosen) => chosen,
    };
    let set = match format {
        Format::Iptables => read_iptables(section, resources, skip, source, policy)?,
        Format::Nft => {
            refuse(section, &["rules_v6"], "requires rules of iptables");
            read_nft(section, resources, skip, &source?, policy)?
        }
        _ => {
            refuse(section, &["rules_v6", "chain"], "requires rules of iptables or nft");
            let source = source?;
            let file = match format {
                Format::ClassBench => parse_classbench(&source, action),
                _ => parse_lines(&source),
            };
            let found = [&file.mistakes, &file.unsupported];
            let reads = skip.settle(section, resources, &source, found);
            if !policy.tracked {
                refuse_established(section, &source, &file.rules);
            }
            if !reads {
                return None;
            }
            if file.rules.is_empty() && file.unsupported.is_empty() {
                let own = super::ACTIONS.iter().find(|(_, action)| *action == policy.default);
                let default = own.map_or("drop", |(name, _)| name);
                let text = format!("it has no rules; `default` decides on all packets: {default}");
                let mut remarks = Diagnostics::default();
                remarks.push(source.whole(text));
                resources.remarks_of(&remarks);
            }
            let accepts = file.rules.iter().any(|rule| rule.action == Action::Accept);
            let passes = accepts || policy.default == Action::Accept;
            refuse_emptied(section, &source, file.accepts_left_out, passes);
            RuleSet::build(&file.rules, policy)
        }
    };
    if let Err(why) = &set {
        section.mistake("rules", why.to_string());
    }
    set.ok()
}

/// Keys that would do nothing.
fn refuse(section: &mut Section<'_>, keys: &[&str], why: &str) {
    for key in keys {
        if section.has(key) {
            section.mistake(key, format!("`{key}` {why}"));
        }
    }
}

type Built = Result<RuleSet, warpline_tables::classifier::TooLarge>;

fn read_iptables(
    section: &mut Section<'_>,
    resources: &mut Resources,
    skip: Skip,
    v4: Option<SourceText>,
    policy: Policy,
) -> Option<Built> {
    refuse(section, &["default"], "conflicts with the chain's policy in these rules");
    let chain = section.string("chain").unwrap_or("FORWARD");
    let v6 = if section.has("rules_v6") { section.file("rules_v6") } else { None };
    let interfaces = interfaces(resources);
    let mut rules = Vec::new();
    for (version, source) in [(4, v4), (6, v6)] {
        let Some(source) = source else { continue };
        let found = parse_iptables(&source, version, chain, policy.tracked, &interfaces);
        rules.extend(take(section, resources, skip, &source, found));
    }
    build(section, resources, &rules, policy)
}

fn read_nft(
    section: &mut Section<'_>,
    resources: &mut Resources,
    skip: Skip,
    source: &SourceText,
    policy: Policy,
) -> Option<Built> {
    refuse(section, &["default"], "conflicts with the chain's policy in these rules");
    let chain = section.string("chain");
    let interfaces = interfaces(resources);
    let found = parse_nft(source, chain, policy.tracked, &interfaces);
    let rules = take(section, resources, skip, source, found);
    build(section, resources, &rules, policy)
}

/// The interfaces that rules may name. A function before this one may have chosen a route, which
/// says where a packet will leave; otherwise packets are presumed to cross between two ports.
fn interfaces(resources: &mut Resources) -> Interfaces {
    let names = resources.ports().iter().map(|port| port.name.clone()).collect();
    let leaves = match (resources.hop_ports(), resources.ports().len()) {
        (Some(_), _) => Leaves::ByRoute,
        (None, 2) => Leaves::Across,
        (None, _) => Leaves::Unknown,
    };
    Interfaces::new(names, leaves)
}

/// Returns the rules of an imported file and passes on its messages.
fn take(
    section: &mut Section<'_>,
    resources: &mut Resources,
    skip: Skip,
    source: &SourceText,
    found: Imported,
) -> Vec<RegionRule> {
    hand_on(&found.notices, source, |notice| resources.notice(notice));
    if found.presumes_crossing {
        resources.presume_crossing();
    }
    if skip.settle(section, resources, source, [&found.mistakes, &found.unsupported]) {
        let passes = found.rules.iter().any(|rule| rule.action == Action::Accept);
        refuse_emptied(section, source, found.accepts_left_out, passes);
    }
    found.rules
}

/// A file of which all that accepts was left out lets nothing pass, which no user means.
fn refuse_emptied(section: &mut Section<'_>, source: &SourceText, left_out: usize, passes: bool) {
    if left_out > 0 && !passes {
        let reported = format!("no rule that accepts is left: all {left_out} are not supported");
        section.note(source.whole(reported));
    }
}

fn build(
    section: &mut Section<'_>,
    resources: &mut Resources,
    rules: &[RegionRule],
    policy: Policy,
) -> Option<Built> {
    if section.is_broken() {
        return None;
    }
    let hops = resources.hop_ports();
    let policy = Policy { default: Action::Drop, ..policy };
    Some(RuleSet::of_regions(rules, policy, resources.ports(), hops.as_ref()))
}

fn refuse_established(section: &mut Section<'_>, source: &SourceText, rules: &[Rule]) {
    for rule in rules.iter().filter(|rule| rule.established).take(warpline_nf::LISTED_MAX) {
        let text = source.text.lines().nth(rule.line - 1).unwrap_or_default();
        let at = text.find("established").unwrap_or(0);
        let reported = source.in_line(
            rule.line,
            text,
            at,
            "established".len(),
            "`established` requires established = true in the firewall's table",
        );
        section.note(reported);
    }
}
