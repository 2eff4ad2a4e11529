//! Rules of `nft -j list ruleset`: the base chain that forwards, and the chains it leads to.
//!
//! The document has no lines of its own, so a mistake names table, chain, the rule's handle and the
//! number of the statement. Unsupported rules fail closed, as in the reader of iptables.

use std::collections::HashMap;

use serde_json::Value;

use super::{Imported, Interfaces, nft_value::Fault};
use crate::chains::{Chain, ChainRule, Chains, Then};
use crate::nft_rule::{self, Verdict};
use crate::nft_stops::stops;
use crate::nft_tables::Dormant;
use crate::nft_value::{Sets, list, short};
use crate::rules::{Action, RULES_MAX};
use warpline_config::{Diagnostic, SourceText};

/// Bytes of a document; what is made of it in memory is several times as much.
pub const NFT_LEN_MAX: usize = 1 << 26;

/// Whether a text is in this form, or in that of `nft list ruleset`, which [`parse`] refuses by its
/// name.
pub fn is_nft(text: &str) -> bool {
    text.trim_start().starts_with('{') || listing(text).is_some()
}

/// The number of the first line in the language of `nft`, and the line. Comments may come before
/// it.
fn listing(text: &str) -> Option<(usize, &str)> {
    let is_other = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let (number, line) = (1..).zip(text.lines()).find(|(_, line)| !is_other(line))?;
    let is_table = line.starts_with("table ") && line.trim_end().ends_with('{');
    let commands = ["flush ", "define ", "add ", "create ", "delete ", "destroy ", "include "];
    (is_table || commands.iter().any(|word| line.starts_with(word))).then_some((number, line))
}

/// The objects of a document, or what is wrong with it as a whole.
pub fn parse(source: &SourceText) -> Result<Value, Diagnostic> {
    if source.text.len() > NFT_LEN_MAX {
        return Err(source.whole(format!("is larger than {} MiB", NFT_LEN_MAX >> 20)));
    }
    if let Some((number, line)) = listing(&source.text) {
        let reported = "is in the language of `nft`; write the output of `nft -j list ruleset`";
        return Err(source.in_line(number, line, 0, line.len(), reported));
    }
    let document: Value = serde_json::from_str(&source.text).map_err(|error| {
        let text = source.text.lines().nth(error.line().wrapping_sub(1)).unwrap_or("");
        let reported = error.to_string();
        let reported = reported.split(" at line ").next().unwrap_or_default();
        source.in_line(error.line().max(1), text, error.column().saturating_sub(1), 1, reported)
    })?;
    if document.get("nftables").is_none_or(|objects| !objects.is_array()) {
        return Err(source.whole("has no list `nftables`, as `nft -j list ruleset` prints it"));
    }
    Ok(document)
}

/// Objects of a kind in a document.
pub fn objects<'a>(document: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    list(document.get("nftables")).iter().filter_map(move |object| object.get(kind))
}

/// The text of a field; empty where there is none.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Family, table and name of a chain, a rule or a set.
type Name<'a> = (&'a str, &'a str, &'a str);

fn name<'a>(object: &'a Value, field: &str) -> Name<'a> {
    (text(object, "family"), text(object, "table"), text(object, field))
}

/// Reads the rules that packets meet in the base chain called `chain`, or in that of the hook
/// `forward`.
pub fn parse_nft(
    source: &SourceText,
    chain: Option<&str>,
    tracked: bool,
    interfaces: &Interfaces,
) -> Imported {
    let mut found = Imported::default();
    match parse(source) {
        Ok(document) => {
            let mut reader = Reader::new(source, &document, tracked, &mut found);
            reader.sets.interfaces = interfaces.clone();
            reader.read(chain);
        }
        Err(mistake) => found.mistakes.push(mistake),
    }
    found
}

/// A chain of the document.
struct NftChain<'a> {
    name: Name<'a>,
    object: &'a Value,
    rules: Vec<&'a Value>,
}

/// Chains that may stop packets, each with a rule that does.
struct Stops<'a> {
    /// Of those that translate.
    nat: HashMap<Name<'a>, &'a Value>,
    other: HashMap<Name<'a>, &'a Value>,
}

struct Reader<'a, 'f> {
    source: &'f SourceText,
    tracked: bool,
    sets: Sets<'a>,
    saved: Vec<NftChain<'a>>,
    numbers: HashMap<Name<'a>, usize>,
    chains: Chains,
    /// The number of each chain of the document among `chains`, where it has one.
    taken: Vec<Option<usize>>,
    due: Vec<usize>,
    found: &'f mut Imported,
}

impl<'a, 'f> Reader<'a, 'f> {
    fn new(
        source: &'f SourceText,
        document: &'a Value,
        tracked: bool,
        found: &'f mut Imported,
    ) -> Self {
        let mut reader = Self {
            source,
            tracked,
            sets: Sets::default(),
            saved: Vec::new(),
            numbers: HashMap::new(),
            chains: Chains::default(),
            taken: Vec::new(),
            due: Vec::new(),
            found,
        };
        let dormant = Dormant::of(document, source, |mistake| reader.found.mistakes.push(mistake));
        let of = |kind| objects(document, kind).filter(|object| !dormant.has(object));
        for object in of("chain") {
            let name = name(object, "name");
            reader.numbers.insert(name, reader.saved.len());
            reader.saved.push(NftChain { name, object, rules: Vec::new() });
        }
        for set in objects(document, "set").chain(objects(document, "map")) {
            reader.sets.by_name.insert(name(set, "name"), set);
        }
        for (count, rule) in of("rule").enumerate() {
            let chain = reader.numbers.get(&name(rule, "chain"));
            match chain.and_then(|&chain| reader.saved.get_mut(chain)) {
                _ if count >= RULES_MAX => {
                    let reported = format!("more than {RULES_MAX} rules");
                    reader.found.mistakes.push(source.whole(reported));
                    break;
                }
                Some(chain) => chain.rules.push(rule),
                None => {
                    let reported = format!("{}: unknown chain", place(rule, None));
                    reader.found.mistakes.push(source.whole(reported));
                }
            }
        }
        reader.taken = vec![None; reader.saved.len()];
        reader
    }

    fn mistake(&mut self, reported: String) {
        self.found.mistakes.push(self.source.whole(reported));
    }

    fn read(mut self, chain: Option<&str>) {
        let stops = self.stops();
        let bases = [4, 6].map(|version| self.base(chain, version, &stops));
        if bases.iter().all(Option::is_none) && self.found.mistakes.is_empty() {
            self.mistake(match chain {
                Some(chain) => format!("has no base chain `{}` of type filter", short(chain)),
                None => "has no base chain of type filter with hook forward".into(),
            });
        }
        self.refuse_others(&bases, &stops);
        let entries = bases.map(|base| base.map(|saved| (self.number(saved), self.policy(saved))));
        let mut next = 0;
        while let Some(&saved) = self.due.get(next) {
            for rule in std::mem::take(&mut self.saved[saved].rules) {
                self.rule(rule, saved, next);
            }
            next += 1;
        }
        self.found.presumes_crossing = self.sets.presumes_crossing;
        if !self.found.mistakes.is_empty() {
            return;
        }
        for (version, entry) in [4, 6].into_iter().zip(entries) {
            let Some((base, policy)) = entry else { continue };
            match self.chains.flatten(base, policy, version) {
                Ok(rules) => self.found.rules.extend(rules),
                Err(unfit) => {
                    self.mistake(format!("rule handle {}: {}", unfit.place, unfit.why));
                }
            }
        }
    }

    /// The base chain for packets of a version. Others that never stop one are left out.
    fn base(&mut self, wanted: Option<&str>, version: u8, stops: &Stops<'a>) -> Option<usize> {
        let own = if version == 4 { "ip" } else { "ip6" };
        let fits = |chain: &NftChain<'_>| {
            let (family, _, name) = chain.name;
            let object = chain.object;
            (family == own || family == "inet")
                && text(object, "type") == "filter"
                && wanted.map_or(text(object, "hook") == "forward", |wanted| name == wanted)
        };
        let all: Vec<usize> =
            (0..self.saved.len()).filter(|&saved| fits(&self.saved[saved])).collect();
        let mut stopping = all.iter().filter(|&&saved| self.stopped_by(saved, stops).is_some());
        let first = stopping.next().or(all.first()).copied()?;
        if let Some(&second) = stopping.next() {
            let [first, second] =
                [first, second].map(|saved| chain_reported(self.saved[saved].name));
            self.mistake(format!(
                "two base chains for IPv{version}, which is not supported: {first} and {second}"
            ));
        }
        Some(first)
    }

    /// Other base chains on the way of forwarded packets may stop them, too.
    fn refuse_others(&mut self, bases: &[Option<usize>; 2], stops: &Stops<'a>) {
        let hook = bases.iter().flatten().next().map(|&base| text(self.saved[base].object, "hook"));
        for saved in 0..self.saved.len() {
            let NftChain { name, object, .. } = self.saved[saved];
            let own = text(object, "hook");
            let met = matches!(own, "ingress" | "egress" | "prerouting" | "postrouting")
                || Some(own) == hook;
            if !met || bases.contains(&Some(saved)) {
                continue;
            }
            let reported = chain_reported(name);
            let Some(by) = self.stopped_by(saved, stops) else {
                if text(object, "type") != "nat" {
                    let reported = format!("{reported}, of hook {own}, is left out");
                    self.found.notices.push(self.source.whole(reported));
                }
                continue;
            };
            self.mistake(format!(
                "not supported: {reported}, of hook {own}, also filters this hook, by {by}"
            ));
        }
    }

    /// The rule or policy by which base chain `saved` may stop packets.
    fn stopped_by(&self, saved: usize, stops: &Stops<'a>) -> Option<String> {
        let NftChain { name, object, .. } = self.saved[saved];
        let of_kind = if text(object, "type") == "nat" { &stops.nat } else { &stops.other };
        let by_policy = text(object, "policy") != "accept";
        let by = of_kind.get(&name).map(|rule| place(rule, None));
        by.or_else(|| by_policy.then(|| "its policy".into()))
    }

    fn stops(&self) -> Stops<'a> {
        let chains = self.saved.iter().map(|chain| (chain.name, &chain.rules[..]));
        let [nat, other] = [true, false].map(|is_nat| stops(chains.clone(), &self.sets, is_nat));
        Stops { nat, other }
    }

    fn policy(&self, saved: usize) -> Action {
        match text(self.saved[saved].object, "policy") {
            "accept" => Action::Accept,
            _ => Action::Drop,
        }
    }

    fn number(&mut self, saved: usize) -> usize {
        if let Some(number) = self.taken[saved] {
            return number;
        }
        let number = self.chains.list.len();
        let name = self.saved[saved].name.2.to_owned();
        self.chains.list.push(Chain { name, steps: Vec::new() });
        self.taken[saved] = Some(number);
        self.due.push(saved);
        number
    }

    fn rule(&mut self, rule: &'a Value, saved: usize, chain: usize) {
        let (family, table, _) = self.saved[saved].name;
        let statements = list(rule.get("expr"));
        let read = nft_rule::read(statements, &mut self.sets, (family, table), self.tracked);
        let read = match read {
            Ok(read) => read,
            Err((number, why)) => {
                return self.mistake(format!("{}: {why}", place(rule, Some(number))));
            }
        };
        for (number, what) in read.silent {
            let reported = format!("{}: `{what}` does nothing here", place(rule, Some(number)));
            self.found.notices.push(self.source.whole(reported));
        }
        let thens = read.outcomes.iter().map(|outcome| self.then(outcome.verdict, family, table));
        let thens: Result<Vec<Then>, Fault> = thens.collect();
        let thens = match thens {
            Ok(thens) => thens,
            Err(Fault::Wrong(why) | Fault::Unsupported(why)) => {
                return self.mistake(format!("{}: {why}", place(rule, None)));
            }
        };
        let leads = |then: &Then| !matches!(then, Then::Decide(_));
        let is_whole = read.unsupported.is_empty();
        let more = read.unsupported.len().saturating_sub(1);
        if let Some((number, what)) = read.unsupported.into_iter().next() {
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let reported = format!("{}: not supported: {what}{more}", place(rule, Some(number)));
            if thens.iter().any(leads) {
                self.mistake(format!("{reported}, in a rule that leads to another chain"));
            } else {
                let widened = thens.contains(&Then::Decide(Action::Drop));
                let iptables = [super::iptables::LEFT_OUT, super::iptables::WIDENED];
                let help = iptables[usize::from(widened)];
                self.found.unsupported.push(self.source.whole(reported).help(help));
            }
            let accepts = thens.contains(&Then::Decide(Action::Accept));
            self.found.accepts_left_out += usize::from(accepts);
        }
        let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or(0) as u32;
        for (outcome, then) in read.outcomes.into_iter().zip(thens) {
            if is_whole || then == Then::Decide(Action::Drop) {
                let step = ChainRule { when: outcome.conditions.when, then, place: handle };
                self.chains.list[chain].steps.push(step);
            }
        }
    }

    fn then(
        &mut self,
        verdict: Verdict<'_>,
        family: &'a str,
        table: &'a str,
    ) -> Result<Then, Fault> {
        let (chain, back) = match verdict {
            Verdict::Is(then) => return Ok(then),
            Verdict::To { chain, back } => (chain, back),
        };
        let saved = self.numbers.get(&(family, table, chain)).copied();
        let is_plain = |&saved: &usize| self.saved[saved].object.get("hook").is_none();
        let wrong = || Fault::wrong(format!("no chain `{}` to go to", short(chain)));
        let number = self.number(saved.filter(is_plain).ok_or_else(wrong)?);
        Ok(if back { Then::Jump(number) } else { Then::Goto(number) })
    }
}

fn chain_reported((family, table, name): Name<'_>) -> String {
    format!("`{} {} {}`", short(family), short(table), short(name))
}

/// Where a rule is, and which of its statements.
fn place(rule: &Value, statement: Option<usize>) -> String {
    let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or(0);
    let place = format!("{} rule handle {handle}", chain_reported(name(rule, "chain")));
    match statement {
        Some(number) => format!("{place}, statement {number}"),
        None => place,
    }
}
