//! The conditions of a rule of iptables that translates.

use warpline_packet::Prefix;

use super::rule_ports::RulePorts;
use super::rules::version;
use super::skipped::Skipped;
use warpline_rewrite::PortSet;
use warpline_rule_files::PortDirection;
use warpline_rule_files::iptables_match::{port_range, prefix, protocol_number};
use warpline_rule_files::words::{Trouble, Word};

const WIDENED: &str = "unsupported = \"skip\" translates without this condition";

/// Matches whose options are read.
const MATCHES: [&str; 9] =
    ["tcp", "udp", "icmp", "icmp6", "multiport", "comment", "sctp", "dccp", "udplite"];

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Prerouting,
    Postrouting,
}

/// The conditions of a rule.
#[derive(Default)]
pub(super) struct Conditions<'a> {
    pub(super) sources: Option<Vec<Prefix>>,
    pub(super) destinations: Vec<Prefix>,
    pub(super) not_destinations: Vec<Prefix>,
    pub(super) protocol: Option<u8>,
    /// Destination ports.
    pub(super) ports: Vec<(u16, u16)>,
    /// The ports of the chain by which packets come.
    pub(super) came_by: PortSet,
    /// Conditions without which the rule holds, if they are skipped.
    pub(super) troubles: Vec<Trouble>,
    /// The first condition without which it would hold for too much.
    pub(super) needed: Option<Trouble>,
    /// Whether it asks for an interface that is no port of the chain.
    pub(super) is_elsewhere: bool,
    /// Whether no packet matches.
    pub(super) is_void: bool,
    pub(super) target: Option<(Word<'a>, Vec<Word<'a>>)>,
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
                own.sources = Some(prefix_list(value)?);
                if hook == Hook::Prerouting {
                    own.need(value.unsupported("a forward for some remotes only"));
                }
            }
            "-d" | "--destination" => {
                let list = prefix_list(value()?)?;
                let to = if is_negated { &mut own.not_destinations } else { &mut own.destinations };
                to.extend(list);
            }
            "-p" | "--protocol" if is_negated => own.need(word.unsupported("`!` before `-p`")),
            "-p" | "--protocol" => {
                let number = protocol_number(value()?)?;
                own.protocol = (number > 0).then_some(number);
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports"
                if !is_negated =>
            {
                let value = value()?;
                if !own.ports.is_empty() {
                    own.need(word.unsupported("a second condition on the port"));
                }
                for part in value.split(',') {
                    own.ports.push(port_range(part, ':')?);
                }
                if hook == Hook::Postrouting {
                    own.need(word.unsupported("a port of the destination").help(WIDENED));
                }
            }
            "-m" | "--match" => {
                let name = value()?;
                is_known = MATCHES.contains(&name.text);
                if !is_known {
                    own.need(name.unsupported("no such match"));
                }
            }
            "--comment" => drop(value()?),
            "-j" | "--jump" => {
                own.target = Some((value()?, words.collect()));
                return Ok(own);
            }
            "-g" | "--goto" => return Err(word.wrong("rules of other chains are not followed")),
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
    Ok(own)
}

impl Conditions<'_> {
    /// The IP version, where addresses show it.
    pub(super) fn version(&self) -> Option<u8> {
        let sources = self.sources.iter().flatten();
        let mut all = sources.chain(&self.destinations).chain(&self.not_destinations);
        all.next().copied().map(version)
    }

    /// The conditions of a rule that may be skipped; `None` if it takes no packet of the chain.
    pub(super) fn as_skipped(&self, line: usize) -> Option<Skipped> {
        (!self.is_elsewhere).then(|| Skipped {
            destinations: self.destinations.clone(),
            version: self.version(),
            protocol: self.protocol,
            ports: self.ports.clone(),
            place: format!("line {line}"),
        })
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
        let way = if hook == Hook::Prerouting { PortDirection::In } else { way };
        let named = ports.interfaces.named(value.text, '+');
        self.is_elsewhere |= named.is_err() && !negated && ports.has_any();
        match named.and_then(|named| ports.condition(way, &named, negated)) {
            Ok(Some(came_by)) => self.came_by = self.came_by.and(came_by),
            Ok(None) => self.is_void = true,
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
