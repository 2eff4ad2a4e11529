//! The table `nat` of `iptables-save`: its chains `PREROUTING` and `POSTROUTING`, and those that
//! they lead to.

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use super::chains::{Lead, RETURNS, RuleChains, Unfollowed, WIDENED_JUMP, walk};
use super::iptables_conditions::{Conditions, Hook, Target, conditions};
use super::iptables_options::{endpoint, translation};
use super::own_addresses::{PARTLY_OWN, Refused, beside_own};
use super::ports::RulePorts;
use super::scope::Scope;
use super::{NatRules, add_new};
use crate::fixed_keys::can_forward;
use warpline_nf::{Side, SourceText};
use warpline_rewrite::{Mapped, PortSet};
use warpline_rule_files::iptables_match::prefix;
use warpline_rule_files::save_file::{self, SavedRule, SavedTable};
use warpline_rule_files::words::{Trouble, Word};

const OWN_FOR_ALL: &str = "unsupported = \"skip\" gives it to all packets that no rule accepts";
const OWN_INSTEAD: &str = "unsupported = \"skip\" translates to the host's own address";
const OWN_FIRST: &str = "write a rule for its own address before this one";
const LETS_IN: &str = "lets in new connections from outside, which Linux does not";
const MAP_INWARD: &str = "write the same NETMAP in PREROUTING, too, or use SNAT";
pub(super) const LEFT_OUT: &str = "unsupported = \"skip\" skips the rule";

/// Reads the rules that translate.
pub fn parse_iptables(source: &SourceText, ports: &RulePorts) -> NatRules {
    ports.read(|ports| parse(source, ports))
}

fn parse(source: &SourceText, ports: &RulePorts) -> NatRules {
    let file = save_file::parse(source);
    let mut found = NatRules { mistakes: file.mistakes.clone(), ..NatRules::default() };
    let Some(table) = file.tables.iter().find(|table| table.name == "nat") else {
        found.mistakes.push(source.whole("has no table `nat`"));
        return found;
    };
    // Hosts that a destination rule maps may have a source rule of their own.
    for hook in [Hook::Prerouting, Hook::Postrouting] {
        let name = if hook == Hook::Prerouting { "PREROUTING" } else { "POSTROUTING" };
        let Some(number) = table.find(name) else { continue };
        let chain = &table.chains[number];
        if let Some(policy) = chain.policy.filter(|policy| *policy != "ACCEPT") {
            let trouble = chain.word().wrong(format!("not supported: the policy {policy}"));
            found.mistakes.push(trouble.diagnostic(source, chain.number, chain.line));
        }
        walk(&mut Saved { table, source, hook, ports, found: &mut found }, number);
    }
    found.report_accepting();
    found.report_partly_own(ports);
    found
}

/// The chains of a hook.
struct Saved<'a> {
    table: &'a SavedTable<'a>,
    source: &'a SourceText,
    hook: Hook,
    ports: &'a RulePorts,
    found: &'a mut NatRules,
}

impl<'a> RuleChains for Saved<'a> {
    type Rule = &'a SavedRule<'a>;

    fn rules(&self, chain: usize) -> Vec<Self::Rule> {
        self.table.chains[chain].rules.iter().collect()
    }

    fn name(&self, chain: usize) -> String {
        format!("`{}`", self.table.chains[chain].name)
    }

    fn ports(&self) -> &RulePorts {
        self.ports
    }

    fn widens(&self) -> bool {
        self.hook == Hook::Postrouting
    }

    fn has_one_version(&self) -> bool {
        true
    }

    fn read(&mut self, rule: Self::Rule, outer: &Scope, is_base: bool) -> Option<Lead> {
        let read = self.rule(rule, outer, is_base).unwrap_or_else(|trouble| (vec![trouble], None));
        read.0.into_iter().for_each(|trouble| self.report(trouble, rule));
        read.1
    }

    fn refuse(&mut self, rule: Self::Rule, scope: &Scope, why: Unfollowed) {
        let words = rule.words().unwrap_or_default();
        let is_jump = |word: &&Word<'_>| matches!(word.text, "-j" | "-g" | "--jump" | "--goto");
        let word = words.iter().find(is_jump).copied().unwrap_or(Word::new("", 0));
        match why {
            Unfollowed::Return => {
                self.skip(rule, scope);
                self.report(word.unsupported(RETURNS).help(LEFT_OUT), rule);
            }
            Unfollowed::Wrong(why) => self.report(word.wrong(why), rule),
        }
    }
}

impl<'a> Saved<'a> {
    fn report(&mut self, trouble: Trouble, rule: &SavedRule<'_>) {
        let list = match trouble.unsupported {
            true => &mut self.found.unsupported,
            false => &mut self.found.mistakes,
        };
        let report = trouble.diagnostic(self.source, rule.number, rule.line);
        // A chain is read for each jump to it.
        add_new(list, report);
    }

    /// Notes a rule of PREROUTING that is left out.
    fn skip(&mut self, rule: &SavedRule<'_>, scope: &Scope) {
        if self.hook == Hook::Prerouting {
            self.found.skipped.extend(scope.as_skipped(format!("line {}", rule.number)));
        }
    }

    /// Adds a rule; gives what of it is not supported and can be left out, and where it leads.
    fn rule(
        &mut self,
        rule: &SavedRule<'a>,
        outer: &Scope,
        is_base: bool,
    ) -> Result<(Vec<Trouble>, Option<Lead>), Trouble> {
        let words = rule.words()?;
        let Conditions { scope, troubles, needed, target } =
            conditions(&words, self.hook, self.ports)?;
        let Some(target) = target else { return Ok((Vec::new(), None)) };
        let asked = scope.clone();
        let scope = scope.within(outer);
        if scope.is_void {
            return Ok((Vec::new(), None));
        }
        let name = target.name;
        let chain = self.table.find(name.text);
        let is_return = name.text == "RETURN" && !is_base;
        if chain.is_some() || is_return {
            if let Some(needed) = needed.as_ref().filter(|_| !self.widens()) {
                self.skip(rule, &scope);
                return Err(needed.clone().help(LEFT_OUT));
            }
            let asked = Scope { is_widened: needed.is_some(), ..asked };
            return Ok(match chain {
                Some(chain) => (troubles, Some(Lead::To { chain, asked, is_goto: target.is_goto })),
                None => (Vec::new(), Some(Lead::Return(asked))),
            });
        }
        if target.is_goto {
            return Err(name.wrong("the table has no such chain"));
        }
        let conditions = Conditions { scope, troubles, needed, target: None };
        let read = match self.hook {
            Hook::Prerouting => self.prerouting(rule, &target, conditions),
            Hook::Postrouting => self.postrouting(rule, &target, conditions),
        };
        read.map(|troubles| (troubles, None))
    }

    fn prerouting(
        &mut self,
        rule: &SavedRule<'_>,
        target: &Target<'_>,
        conditions: Conditions<'_>,
    ) -> Result<Vec<Trouble>, Trouble> {
        let scope = conditions.scope.clone();
        let read = forward(target, conditions, self.ports, self.found);
        let place = || target.name.wrong("").diagnostic(self.source, rule.number, rule.line);
        self.found.note_place(place);
        if read.as_ref().is_err_and(|trouble| trouble.unsupported) {
            self.skip(rule, &scope);
        }
        read
    }

    fn postrouting(
        &mut self,
        rule: &SavedRule<'_>,
        target: &Target<'_>,
        conditions: Conditions<'_>,
    ) -> Result<Vec<Trouble>, Trouble> {
        let read = translate(target, conditions, self.ports, self.found);
        let report = |why: &str, help| {
            let trouble = target.name.unsupported(why).help(help);
            trouble.diagnostic(self.source, rule.number, rule.line)
        };
        self.found.note_partly_own(|| report(PARTLY_OWN, OWN_FOR_ALL));
        self.found.note_accepting(|why| report(&why, OWN_FIRST));
        read
    }
}

/// A rule of PREROUTING.
fn forward(
    Target { name: target, options, .. }: &Target<'_>,
    Conditions { mut scope, needed, .. }: Conditions<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let skipped = |trouble: Trouble| Err(trouble.help(LEFT_OUT));
    let value = |name: &str| {
        let at = options.iter().position(|option| option.text == name);
        at.and_then(|at| options.get(at + 1)).copied()
    };
    match target.text {
        "LOG" => return Ok(Vec::new()),
        "DNAT" | "NETMAP" => {}
        "ACCEPT" | "RETURN" => {
            return skipped(target.unsupported("packets that are not forwarded"));
        }
        "REDIRECT" => return skipped(target.unsupported("ports of the gateway itself")),
        _ => return Err(unknown(*target, "DNAT, NETMAP")),
    }
    if let Some(needed) = needed {
        return skipped(needed);
    }
    if !scope.not_destinations.is_empty() {
        return skipped(target.unsupported("all destinations but some"));
    }
    if target.text == "NETMAP" && scope.protocol.is_some() {
        return skipped(target.unsupported("a host's own address for some packets only"));
    }
    let maps = scope.protocol.is_none();
    if maps && !ports.covers(Side::Outside, scope.came_by) {
        return skipped(target.unsupported("a host's own address at some ports only"));
    }
    if target.text == "NETMAP" {
        let to = value("--to").ok_or_else(|| target.wrong("lacks `--to`"))?;
        let [outside] = scope.destinations[..] else {
            return Err(target.wrong("requires one destination, `-d`"));
        };
        let inside = prefix(to)?.ok_or_else(|| to.wrong("not a prefix"))?;
        return refused(found.map(outside, inside, scope.came_by), to);
    }
    let to = value("--to-destination").ok_or_else(|| target.wrong("lacks `--to-destination`"))?;
    let is_random = options.iter().any(|option| option.text.starts_with("--random"));
    let (inside, inside_ports) = endpoint(to, is_random)?;
    let Some(protocol) = scope.protocol else {
        let ([outside], None) = (&scope.destinations[..], inside_ports) else {
            return Err(target.wrong("requires a protocol, `-p`, or one destination, `-d`"));
        };
        let hosts = Prefix::host(inside);
        return refused(found.map(*outside, hosts, scope.came_by), to);
    };
    let has_ports = [ip_protocol::TCP, ip_protocol::UDP].contains(&protocol);
    if !has_ports && (inside_ports.is_some() || !can_forward(protocol, inside)) {
        return skipped(target.unsupported("a forward of this protocol"));
    }
    if !has_ports && scope.ports.is_empty() {
        scope.ports.push((protocol.into(), protocol.into()));
    } else if !has_ports {
        return skipped(target.unsupported("ports of this protocol"));
    } else if scope.ports.is_empty() {
        return skipped(target.unsupported("a forward of all ports, without `--dport`"));
    }
    let Scope { destinations, ports, came_by, .. } = &scope;
    refused(found.forward(protocol, destinations, ports, inside, inside_ports, *came_by), to)
}

/// A target that is not one of `targets`.
fn unknown(target: Word<'_>, targets: &str) -> Trouble {
    target.wrong("no such target").help(format!("targets: {targets}, or a chain of the table"))
}

fn refused(done: Result<(), Refused>, to: Word<'_>) -> Result<Vec<Trouble>, Trouble> {
    match done {
        Ok(()) => Ok(Vec::new()),
        Err(Refused::Unsupported(why)) => Err(to.unsupported(why).help(LEFT_OUT)),
        Err(Refused::Wrong(why)) => Err(to.wrong(why)),
    }
}

/// A rule of POSTROUTING.
fn translate(
    Target { name: target, options, .. }: &Target<'_>,
    Conditions { scope, mut troubles, needed, .. }: Conditions<'_>,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<Trouble>, Trouble> {
    let sources = scope.sources.clone();
    match target.text {
        "SNAT" | "MASQUERADE" | "NETMAP" if scope.stays_inside => {
            return Err(target.unsupported(ports.by_inside_ports()).help(LEFT_OUT));
        }
        "SNAT" | "MASQUERADE" | "NETMAP" => {}
        "LOG" => return Ok(Vec::new()),
        "ACCEPT" | "RETURN" if scope.stays_inside => return Ok(Vec::new()),
        "ACCEPT" | "RETURN" => {
            // Without one of its conditions more packets would keep their source.
            let widened = || scope.is_widened.then(|| target.unsupported(WIDENED_JUMP));
            if let Some(needed) = needed.or_else(widened) {
                return Err(needed.help(LEFT_OUT));
            }
            found.accept(scope.source_rule(false), ports);
            return Ok(Vec::new());
        }
        _ => return Err(unknown(*target, "SNAT, MASQUERADE, NETMAP, ACCEPT, RETURN")),
    }
    let (translation, map_to) = translation(*target, options)?;
    let mapped = match (target.text, map_to, sources.as_deref()) {
        ("NETMAP", None, _) => return Err(target.wrong("lacks `--to`")),
        ("NETMAP", Some(outside), Some(&[inside])) => {
            Some(Mapped { outside, inside, came_by: PortSet::ALL })
        }
        ("NETMAP", ..) => return Err(target.wrong("requires one source, `-s`")),
        _ => found.mapping(sources.as_deref(), &translation),
    };
    if let Some(mapped) = mapped {
        // Of the chain's packets none leaves by an interface that is no port.
        if scope.is_elsewhere {
            let why = needed.unwrap_or_else(|| target.unsupported(WIDENED_JUMP));
            return Err(why.help(LEFT_OUT));
        }
        // A mapping has no state, so it lets in more than answers.
        if !found.mapped.iter().any(|own| own.is_like(&mapped)) {
            return Err(target.wrong(LETS_IN).help(MAP_INWARD));
        }
        let why = found.add_own(scope.source_rule(true), mapped, ports);
        troubles.extend(why.map(|why| target.unsupported(why).help(OWN_INSTEAD)));
        return Ok(troubles);
    }
    let rule = scope.source_rule(true);
    if let Some(hosts) = found.partly_own(&rule, ports) {
        troubles.push(target.unsupported(beside_own(hosts)).help(OWN_INSTEAD));
    }
    found.add(sources, translation).map_err(|why| target.wrong(why))?;
    found.source_rules.push(rule);
    Ok(troubles)
}
