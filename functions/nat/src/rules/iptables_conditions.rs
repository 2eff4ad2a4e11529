//! The conditions of a rule of iptables that translates.

use warpline_packet::Prefix;

use super::ports::{LOOPBACK, RulePorts};
use super::scope::Scope;
use super::version;
use warpline_rule_files::PortDirection;
use warpline_rule_files::iptables_match::{port_range, prefix, protocol_number};
use warpline_rule_files::words::{Trouble, Word};

const WIDENED: &str = "unsupported = \"skip\" translates without this condition";

/// Matches whose options are read.
const MATCHES: [&str; 9] =
    ["tcp", "udp", "icmp", "icmp6", "multiport", "comment", "sctp", "dccp", "udplite"];

/// The match by the type of an address, which is read in PREROUTING.
const ADDRTYPE: &str = "addrtype";

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Prerouting,
    Postrouting,
}

/// The conditions of a rule.
#[derive(Default)]
pub(super) struct Conditions<'a> {
    pub(super) scope: Scope,
    /// Conditions without which the rule holds, if they are skipped.
    pub(super) troubles: Vec<Trouble>,
    /// The first condition without which it would hold for too much.
    pub(super) needed: Option<Trouble>,
    pub(super) target: Option<Target<'a>>,
}

/// The target of a rule.
pub(super) struct Target<'a> {
    /// A target, or another chain.
    pub(super) name: Word<'a>,
    pub(super) options: Vec<Word<'a>>,
    /// Whether it is another chain, from which packets do not return here.
    pub(super) is_goto: bool,
}

/// Reads the conditions of a rule, and its target.
pub(super) fn conditions<'a>(
    words: &[Word<'a>],
    hook: Hook,
    ports: &RulePorts,
) -> Result<Conditions<'a>, Trouble> {
    let mut own = Conditions::default();
    let (mut words, mut negated, mut is_known) = (words.iter().copied(), false, true);
    while let Some(word) = words.next() {
        let is_negated = std::mem::replace(&mut negated, word.text == "!" && !word.quoted);
        let end = || word.wrong("the line ends where its value is due");
        let mut value = || words.next().ok_or_else(end);
        match word.text {
            _ if word.quoted => {}
            "-s" | "--source" if is_negated => {
                return Err(word.wrong("all sources but some can't be translated"));
            }
            "-s" | "--source" => {
                let value = value()?;
                own.scope.sources = Some(prefix_list(value)?);
                if hook == Hook::Prerouting {
                    own.need(value.unsupported("a forward for some remotes only"));
                }
            }
            "-d" | "--destination" => {
                let list = prefix_list(value()?)?;
                let to = match is_negated {
                    true => &mut own.scope.not_destinations,
                    false => &mut own.scope.destinations,
                };
                to.extend(list);
            }
            "-p" | "--protocol" if is_negated => own.need(word.unsupported("`!` before `-p`")),
            "-p" | "--protocol" => {
                let number = protocol_number(value()?)?;
                own.scope.protocol = (number > 0).then_some(number);
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports"
                if !is_negated =>
            {
                let value = value()?;
                if !own.scope.ports.is_empty() {
                    own.need(word.unsupported("a second condition on the port"));
                }
                for part in value.split(',') {
                    own.scope.ports.push(port_range(part, ':')?);
                }
                if hook == Hook::Postrouting {
                    own.need(word.unsupported("a port of the destination").help(WIDENED));
                }
            }
            "-m" | "--match" => {
                let name = value()?;
                let is_own = name.text == ADDRTYPE && hook == Hook::Prerouting;
                is_known = is_own || MATCHES.contains(&name.text);
                if !is_known {
                    own.need(name.unsupported("no such match"));
                }
            }
            "--dst-type" if is_known && !is_negated && hook == Hook::Prerouting => {
                let kind = value()?;
                own.scope.is_local = true;
                if kind.text != "LOCAL" {
                    own.need(kind.unsupported("addresses of another type than LOCAL"));
                }
            }
            "--comment" => drop(value()?),
            "-j" | "--jump" | "-g" | "--goto" => {
                let is_goto = matches!(word.text, "-g" | "--goto");
                let (name, options) = (value()?, words.collect());
                own.target = Some(Target { name, options, is_goto });
                break;
            }
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let is_in = matches!(word.text, "-i" | "--in-interface");
                let way = if is_in { PortDirection::In } else { PortDirection::Out };
                own.interface(value()?, (way, is_negated), hook, ports);
            }
            // As in `-jACCEPT`.
            text if ["-j", "-g", "--j", "--g"].iter().any(|jump| text.starts_with(jump)) => {
                return Err(word.wrong("targets are like `-j ACCEPT`"));
            }
            // Options of an unknown match were reported with it.
            _ if !is_known => {}
            text if text.starts_with('-') => own.need(word.unsupported("no such condition")),
            // `!`, or the value of a condition that is not supported.
            _ => {}
        }
    }
    own.scope.version = own.version();
    Ok(own)
}

impl Conditions<'_> {
    /// The IP version, where addresses show it.
    fn version(&self) -> Option<u8> {
        let Scope { sources, destinations, not_destinations, .. } = &self.scope;
        let mut all = sources.iter().flatten().chain(destinations).chain(not_destinations);
        all.next().copied().map(version)
    }

    /// A condition that is not supported: without it a source rule translates more.
    fn need(&mut self, trouble: Trouble) {
        if self.needed.is_none() {
            self.needed = Some(trouble.clone());
        }
        self.troubles.push(trouble.help(WIDENED));
    }

    fn interface(
        &mut self,
        value: Word<'_>,
        (way, negated): (PortDirection, bool),
        hook: Hook,
        ports: &RulePorts,
    ) {
        // Before a route is chosen, packets leave by no interface.
        let is_none = hook == Hook::Prerouting && way == PortDirection::Out;
        if is_none || value.text == LOOPBACK {
            self.scope.is_void |= !negated;
            return;
        }
        let named = ports.interfaces.named(value.text, '+');
        self.scope.is_elsewhere |= named.is_err() && !negated && ports.has_any();
        if named.as_ref().is_ok_and(|named| ports.stays_inside(way, named, negated)) {
            self.scope.stays_inside = true;
            return;
        }
        match named.and_then(|named| ports.condition(way, &named, negated)) {
            Ok(Some(came_by)) => self.scope.came_by = self.scope.came_by.and(came_by),
            Ok(None) => self.scope.is_void = true,
            Err(why) => self.need(value.unsupported(why)),
        }
    }
}

fn prefix_list(word: Word<'_>) -> Result<Vec<Prefix>, Trouble> {
    let one = |part| {
        prefix(part)?.ok_or_else(|| part.wrong("a mask that is not a prefix can't be translated"))
    };
    word.split(',').map(one).collect()
}
