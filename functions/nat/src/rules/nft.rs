//! Chains of type nat of `nft -j list ruleset`, at the hooks `prerouting` and `postrouting`, and
//! those that they lead to.

use serde_json::Value;
use warpline_packet::Prefix;

use super::chains::{Lead, RETURNS, RuleChains, Unfollowed, WIDENED_JUMP, walk};
use super::inside_ports::InsidePorts;
use super::nft_chains::{HOOKS, NatChains, base_chains, chain_name, name, rule_name};
use super::nft_conditions::{Conditions, is_own_destination, way};
use super::own_addresses::{PARTLY_OWN, Refused, beside_own};
use super::ports::RulePorts;
use super::scope::Scope;
use super::{NatRules, Translation, add_new, prefixes, version};
use crate::fixed_keys::can_forward;
use warpline_nf::{Diagnostic, Side, SourceText};
use warpline_packet::wire::ip_protocol;
use warpline_rewrite::addresses::{PortRange, address_of};
use warpline_rule_files::nft::{objects, parse, text};
use warpline_rule_files::nft_value::{Fault, Sets, ValueKind, list, short};

/// Reads the rules that translate sources.
pub fn parse_nft(source: &SourceText, ports: &RulePorts) -> NatRules {
    ports.read(|ports| read(source, ports))
}

fn read(source: &SourceText, ports: &RulePorts) -> NatRules {
    let mut found = NatRules::default();
    let document = match parse(source) {
        Ok(document) => document,
        Err(mistake) => {
            found.mistakes.push(mistake);
            return found;
        }
    };
    let bases = base_chains(&document, source, &mut found);
    let chains = NatChains::of(&document);
    let mut sets = Sets::with_interfaces(ports.interfaces.clone());
    for set in objects(&document, "set") {
        sets.by_name.insert(name(set, "name"), set);
    }
    // Hosts that a destination rule maps may have a source rule of their own.
    for hook in HOOKS {
        for (base, _) in bases.iter().filter(|(_, own)| *own == hook) {
            let Some(number) = chains.find(*base) else { continue };
            let (sets, found) = (&mut sets, &mut found);
            walk(&mut Listed { chains: &chains, source, hook, ports, sets, found }, number);
        }
    }
    found.report_accepting();
    found.report_partly_own(ports);
    found
}

const HELP: &str = "unsupported = \"skip\" leaves this out: more is translated, and less let in";

/// The chains of a hook.
struct Listed<'a, 'b> {
    chains: &'b NatChains<'a>,
    source: &'b SourceText,
    hook: &'b str,
    ports: &'b RulePorts,
    sets: &'b mut Sets<'a>,
    found: &'b mut NatRules,
}

impl<'a> RuleChains for Listed<'a, '_> {
    type Rule = &'a Value;

    fn rules(&self, chain: usize) -> Vec<Self::Rule> {
        self.chains.rules(chain).to_vec()
    }

    fn name(&self, chain: usize) -> String {
        chain_name(self.chains.name(chain))
    }

    fn ports(&self) -> &RulePorts {
        self.ports
    }

    fn widens(&self) -> bool {
        self.hook == "postrouting"
    }

    fn has_one_version(&self) -> bool {
        false
    }

    fn read(&mut self, rule: &'a Value, outer: &Scope, is_base: bool) -> Option<Lead> {
        let read = self.rule(rule, outer, is_base);
        let (source, place) = (self.source, rule_name(rule));
        let unsupported = |what: &str| unsupported(source, &place, what);
        self.found.note_place(|| source.whole(format!("{place}: ")));
        self.found.note_partly_own(|| unsupported(PARTLY_OWN));
        self.found.note_accepting(|why| unsupported(&why));
        match read {
            Ok((troubles, lead)) => {
                for what in troubles {
                    add_new(&mut self.found.unsupported, unsupported(&what));
                }
                lead
            }
            Err(fault) => {
                let why = match fault {
                    Fault::Wrong(why) => why,
                    Fault::Unsupported(what) => format!("not supported: {what}"),
                };
                add_new(&mut self.found.mistakes, source.whole(format!("{place}: {why}")));
                None
            }
        }
    }

    fn refuse(&mut self, rule: &'a Value, scope: &Scope, why: Unfollowed) {
        let place = rule_name(rule);
        match why {
            Unfollowed::Return => {
                let report = unsupported(self.source, &place, RETURNS);
                add_new(&mut self.found.unsupported, report);
                self.skip(rule, scope);
            }
            Unfollowed::Wrong(why) => {
                let report = self.source.whole(format!("{place}: {why}"));
                add_new(&mut self.found.mistakes, report);
            }
        }
    }
}

fn unsupported(source: &SourceText, place: &str, what: &str) -> Diagnostic {
    source.whole(format!("{place}: not supported: {what}")).help(HELP)
}

/// What of a rule is not supported and can be left out, and where it leads.
type Read = Result<(Vec<String>, Option<Lead>), Fault>;

impl<'a> Listed<'a, '_> {
    /// Adds a rule.
    fn rule(&mut self, rule: &'a Value, outer: &Scope, is_base: bool) -> Read {
        let chain @ (family, table, _) = name(rule, "chain");
        let mut own = Conditions::of_family(family);
        let mut verdict = None;
        for statement in list(rule.get("expr")) {
            let field = statement.as_object().and_then(|fields| fields.iter().next());
            let Some((name, value)) = field else { return Err(Fault::wrong("not a statement")) };
            match &name[..] {
                _ if own.scope.is_void => return Ok((Vec::new(), None)),
                "counter" | "log" => {}
                "match" if way(value).is_some() => {
                    let sets = (&mut *self.sets, self.hook);
                    own.interface(value, sets, (family, table), self.ports)?;
                }
                "match" if self.hook == "prerouting" && is_own_destination(value) => {
                    own.scope.is_local = true;
                }
                "match" => own.add(value, self.sets, (family, table))?,
                "limit" | "quota" | "mangle" | "set" | "ct count" => {
                    own.troubles.push(short(name));
                }
                _ => {
                    verdict = Some((&name[..], value));
                    break;
                }
            }
        }
        let asked = own.scope.clone();
        own.scope = own.scope.within(outer);
        match verdict {
            _ if own.scope.is_void => Ok((Vec::new(), None)),
            Some((verb @ ("jump" | "goto"), to)) => {
                let to = (chain.0, chain.1, text(to, "target"));
                let known = self.chains.find(to);
                let chain = known
                    .ok_or_else(|| Fault::wrong(format!("no chain {} to go to", chain_name(to))))?;
                self.lead(
                    rule,
                    own,
                    |asked| Lead::To { chain, asked, is_goto: verb == "goto" },
                    asked,
                )
            }
            Some(("return", _)) if !is_base => self.lead(rule, own, Lead::Return, asked),
            verdict if self.hook == "postrouting" => {
                postrouting(verdict, own, self.ports, self.found).map(|troubles| (troubles, None))
            }
            verdict => {
                let scope = own.scope.clone();
                let left_out = prerouting(verdict, own, self.ports, self.found)?;
                if !left_out.is_empty() {
                    self.skip(rule, &scope);
                }
                Ok((left_out, None))
            }
        }
    }

    /// Follows a rule, or leaves it out.
    fn lead(
        &mut self,
        rule: &Value,
        mut own: Conditions,
        lead: impl FnOnce(Scope) -> Lead,
        asked: Scope,
    ) -> Read {
        if own.scope.sources.is_some() && !self.widens() {
            own.troubles.push(SOME_REMOTES.into());
        }
        if !own.scope.ports.is_empty() && self.widens() {
            own.troubles.push(PORT_OF_DESTINATION.into());
        }
        if !own.troubles.is_empty() && !self.widens() {
            self.skip(rule, &own.scope);
            return Ok((own.troubles, None));
        }
        let is_widened = !own.troubles.is_empty();
        Ok((own.troubles, Some(lead(Scope { is_widened, ..asked }))))
    }

    /// Notes a rule of destinations that is left out.
    fn skip(&mut self, rule: &Value, scope: &Scope) {
        if !self.widens() {
            self.found.skipped.extend(scope.as_skipped(rule_name(rule)));
        }
    }
}

const SOME_REMOTES: &str = "a forward for some remotes only";
const PORT_OF_DESTINATION: &str = "a port of the destination";

/// Adds a rule of sources; gives what of it is not supported and can be left out.
fn postrouting(
    verdict: Option<(&str, &Value)>,
    Conditions { mut scope, mut troubles }: Conditions,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    match verdict {
        None => Ok(Vec::new()),
        Some(("snat" | "masquerade", _)) if scope.stays_inside => Ok(vec![ports.by_inside_ports()]),
        Some(("accept" | "return", _)) if scope.stays_inside => Ok(Vec::new()),
        Some((name @ ("snat" | "masquerade"), value)) => {
            if !scope.ports.is_empty() {
                troubles.push(PORT_OF_DESTINATION.into());
            }
            if list(value.get("type_flags")).iter().any(|flag| flag == "prefix") {
                troubles.push("`prefix to`, host by host".into());
                // Skipped, these packets get the addresses of the other rules.
                found.source_rules.push(scope.source_rule(true));
                found.add_sources(scope.sources).map_err(Fault::wrong)?;
                return Ok(troubles);
            }
            let translation = translation(name, value, scope.version)?;
            if let Some(&[first, ..]) = translation.outside.as_deref() {
                scope.keep(version(first));
            }
            if scope.is_void {
                return Ok(Vec::new());
            }
            let rule = scope.source_rule(true);
            if let Some(mapped) = found.mapping(scope.sources.as_deref(), &translation) {
                // Of the chain's packets none leaves by an interface that is no port.
                if !scope.is_elsewhere {
                    let why = found.add_own(rule, mapped, ports);
                    troubles.extend(why.map(Into::into));
                }
                return Ok(troubles);
            }
            troubles.extend(found.partly_own(&rule, ports).map(beside_own));
            found.source_rules.push(rule);
            found.add(scope.sources, translation).map_err(Fault::wrong)?;
            Ok(troubles)
        }
        Some(("accept" | "return", _)) if scope.is_widened => Ok(vec![WIDENED_JUMP.into()]),
        Some(("accept" | "return", _)) if troubles.is_empty() && scope.ports.is_empty() => {
            found.accept(scope.source_rule(false), ports);
            Ok(Vec::new())
        }
        Some(("accept" | "return", _)) => Ok(vec!["packets that are not translated".into()]),
        Some((name, _)) => Err(Fault::wrong(format!("not supported: {}", short(name)))),
    }
}

/// Adds a rule that forwards; gives why it is left out.
fn prerouting(
    verdict: Option<(&str, &Value)>,
    mut own: Conditions,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    match verdict {
        None => {}
        Some(("dnat", value)) => return forward(value, own, ports, found),
        Some(("accept" | "return", _)) => {
            own.troubles.push("packets that are not forwarded".into())
        }
        Some(("redirect", _)) => own.troubles.push("ports of the gateway itself".into()),
        Some((name, _)) => own.troubles.push(short(name)),
    }
    Ok(own.troubles)
}

fn forward(
    value: &Value,
    Conditions { scope: mut own, troubles }: Conditions,
    ports: &RulePorts,
    found: &mut NatRules,
) -> Result<Vec<String>, Fault> {
    if own.sources.is_some() {
        return Ok(vec![SOME_REMOTES.into()]);
    }
    if !own.not_destinations.is_empty() {
        return Ok(vec!["all destinations but some".into()]);
    }
    if !troubles.is_empty() {
        return Ok(troubles);
    }
    let version = address_version(value, own.version);
    own.keep(version);
    if own.is_void {
        return Ok(Vec::new());
    }
    let address = value.get("addr").unwrap_or(&Value::Null);
    let set = Sets::default().read(address, ValueKind::Address(version), ("", ""))?;
    let [(first, last)] = set.ranges() else { return Err(Fault::wrong("not an address")) };
    if first != last {
        return Ok(vec!["a range of inside hosts".into()]);
    }
    let inside = address_of(version, *first);
    let to = match value.get("port") {
        None => None,
        Some(port) => match Sets::default().read(port, ValueKind::Port, ("", ""))?.ranges() {
            &[(first, last)] => {
                let is = |flag: &Value| matches!(flag.as_str(), Some("random" | "fully-random"));
                let is_random = list(value.get("flags")).iter().any(is);
                let range = (first as u16, last as u16);
                Some(InsidePorts { range, base: None, is_random })
            }
            _ => return Err(Fault::wrong("not a range of ports")),
        },
    };
    match own.protocol {
        None if !ports.covers(Side::Outside, own.came_by) => {
            Ok(vec!["a host's own address at some ports only".into()])
        }
        None => match (&own.destinations[..], to) {
            (&[outside], None) => refused(found.map(outside, Prefix::host(inside), own.came_by)),
            _ => Err(Fault::wrong("dnat without a protocol or one destination")),
        },
        Some(protocol @ (ip_protocol::TCP | ip_protocol::UDP)) => {
            if own.ports.is_empty() {
                return Ok(vec!["a forward of all ports, without `dport`".into()]);
            }
            let (outside, ports) = (&own.destinations, &own.ports);
            refused(found.forward(protocol, outside, ports, inside, to, own.came_by))
        }
        Some(protocol) if own.ports.is_empty() && to.is_none() && can_forward(protocol, inside) => {
            let ports = [(protocol.into(), protocol.into())];
            refused(found.forward(protocol, &own.destinations, &ports, inside, None, own.came_by))
        }
        Some(_) => Ok(vec!["a forward of this protocol".into()]),
    }
}

fn refused(done: Result<(), Refused>) -> Result<Vec<String>, Fault> {
    match done {
        Ok(()) => Ok(Vec::new()),
        Err(Refused::Unsupported(why)) => Ok(vec![why]),
        Err(Refused::Wrong(why)) => Err(Fault::wrong(why)),
    }
}

/// The IP version of the address of a statement in a rule for packets of `version`.
fn address_version(value: &Value, version: Option<u8>) -> u8 {
    match text(value, "family") {
        "ip" => 4,
        "ip6" => 6,
        _ => version.unwrap_or(4),
    }
}

fn translation(name: &str, value: &Value, version: Option<u8>) -> Result<Translation, Fault> {
    let mut translation = Translation { outside: None, ports: None };
    if let Some(address) = value.get("addr") {
        let version = address_version(value, version);
        let set = Sets::default().read(address, ValueKind::Address(version), ("", ""))?;
        translation.outside = Some(prefixes(&set, version));
    } else if name == "snat" {
        return Err(Fault::wrong("snat without an address"));
    }
    if let Some(ports) = value.get("port") {
        let set = Sets::default().read(ports, ValueKind::Port, ("", ""))?;
        let [(first, last)] = set.ranges() else {
            return Err(Fault::wrong("not a range of ports"));
        };
        let range: Result<PortRange, &str> = format!("{first}-{last}").parse();
        translation.ports = Some(range.map_err(Fault::wrong)?);
    }
    Ok(translation)
}
