//! Rules, and the readable form of a file of rules: one rule a line.
//!
//! ```text
//! rule     = action ["established"] [protocol] {option} ["from" side] ["to" side]
//! action   = "accept" | "drop"
//! protocol = "any" | "ip" | name-or-number {"," name-or-number}
//! option   = "type" types | "code" codes | "flags" ("any" | flag {"," flag} "/" flag {"," flag})
//! side     = "any" | prefix {"," prefix}    then, if wanted, "port" ports
//! ports    = number ["-" number] {"," number ["-" number]}
//! ```
//!
//! `#` starts a comment. Each line that cannot be parsed is reported with its place. Rules with
//! unsupported conditions are reported separately, so that a chain may choose to leave them out.

use core::ops::RangeInclusive;

use warpline_packet::Prefix;
use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol, tcp};

use crate::words::{Cursor, Trouble, Word};
use warpline_config::{Diagnostics, SourceText};

/// Rules that a file may have.
pub const RULES_MAX: usize = 1 << 16;

/// The action on a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It continues.
    Accept,
    /// It ends here.
    Drop,
}

/// Conditions on one end of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndMatch {
    /// The address is in one of these; empty for any address.
    pub prefixes: Vec<Prefix>,
    /// The packet has a port, in one of these; empty for any packet, with ports or without.
    pub ports: Vec<RangeInclusive<u16>>,
}

/// A condition on an ICMP or ICMPv6 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type is in one of these.
    pub types: Vec<RangeInclusive<u8>>,
    /// Its code is in one of these; empty for any.
    pub codes: Vec<RangeInclusive<u8>>,
}

/// A condition on the flags of a TCP segment: those in `mask` read `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFlags {
    /// Flags that are set, of those in `mask`; bits as in the TCP header's 14th byte.
    pub value: u8,
    /// Flags that are looked at.
    pub mask: u8,
}

/// A rule. It matches a packet that meets all of its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The action on a packet that matches.
    pub action: Action,
    /// The packet is part of a connection that was accepted.
    pub established: bool,
    /// The protocol after the IP headers is one of these; empty for any.
    pub protocols: Vec<u8>,
    /// A condition on ICMP (protocol 1, IPv4) or ICMPv6 (protocol 58, IPv6).
    pub message: Option<Message>,
    /// A condition on TCP.
    pub flags: Option<SegmentFlags>,
    /// Conditions on its source.
    pub src: EndMatch,
    /// Conditions on its destination.
    pub dst: EndMatch,
    /// Its line in the file, from 1.
    pub line: usize,
}

impl Rule {
    /// A rule without conditions.
    pub fn new(action: Action, line: usize) -> Self {
        Self {
            action,
            established: false,
            protocols: Vec::new(),
            message: None,
            flags: None,
            src: EndMatch::default(),
            dst: EndMatch::default(),
            line,
        }
    }
}

/// A parsed file of rules.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// Lines that cannot be parsed.
    pub mistakes: Diagnostics,
    /// Valid rules with unsupported conditions. Those that drop are among `rules` too, without
    /// these conditions.
    pub unsupported: Diagnostics,
    /// How many of them would accept; they are left out.
    pub accepts_left_out: usize,
}

/// A rule that is being read.
pub struct Draft {
    /// The conditions read so far. Each one that is missing lets the rule match more packets.
    pub rule: Rule,
    /// Whether it accepts or drops packets, and does not only count them, for example.
    pub decides: bool,
}

impl RuleFile {
    /// Reads rules line by line with `fill`, which gets each line without its comment.
    pub fn read(
        source: &SourceText,
        fill: impl Fn(&mut Cursor<'_>, &mut Draft) -> Result<(), Trouble>,
    ) -> Self {
        let (mut file, mut count) = (Self::default(), 0);
        for (number, text) in (1..).zip(source.text.lines()) {
            let mut cursor = Cursor::new(text.split('#').next().unwrap_or_default());
            if cursor.peek().is_none() {
                continue;
            }
            if count == RULES_MAX {
                let message = format!("more than {RULES_MAX} rules");
                file.mistakes.push(source.in_line(number, text, 0, text.len(), message));
                break;
            }
            count += 1;
            let mut draft = Draft { rule: Rule::new(Action::Drop, number), decides: true };
            match fill(&mut cursor, &mut draft) {
                Ok(()) => file.rules.push(draft.rule),
                Err(trouble) if trouble.unsupported => {
                    file.unsupported.push(trouble.diagnostic(source, number, text));
                    file.widen(draft);
                }
                Err(trouble) => file.mistakes.push(trouble.diagnostic(source, number, text)),
            }
        }
        file
    }

    /// Keeps of a rule that asks for what there isn't what lets nothing more through.
    fn widen(&mut self, draft: Draft) {
        match draft.rule.action {
            _ if !draft.decides => {}
            Action::Drop => self.rules.push(draft.rule),
            Action::Accept => self.accepts_left_out += 1,
        }
    }
}

/// Reads a file in the readable form.
pub fn parse_lines(source: &SourceText) -> RuleFile {
    RuleFile::read(source, read_rule)
}

fn read_rule(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), Trouble> {
    let refused = action(cursor, draft)?;
    match (conditions(cursor, &mut draft.rule), refused) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(refused)) => Err(refused),
        (Err(trouble), Some(refused)) if trouble.unsupported => Err(refused),
        (Err(trouble), _) => Err(trouble),
    }
}

fn conditions(cursor: &mut Cursor<'_>, rule: &mut Rule) -> Result<(), Trouble> {
    rule.established = cursor.take("established");
    let mut bare = !rule.established;
    if let Some(word) = cursor.peek()
        && !OPTIONS.contains(&word.text)
    {
        rule.protocols = protocols(cursor)?;
        bare = false;
    }
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = cursor.next_word() {
        if seen.contains(&word.text) {
            return Err(word.wrong("a rule has this once"));
        }
        seen.push(word.text);
        match word.text {
            "from" => rule.src = side(cursor)?,
            "to" => rule.dst = side(cursor)?,
            "type" => rule.message = Some(message(cursor, word, &rule.protocols)?),
            "code" => codes(cursor, word, rule)?,
            "flags" => rule.flags = Some(flags(cursor, word, rule)?),
            _ => return Err(unknown(word)),
        }
        bare = false;
    }
    if bare {
        return Err(cursor
            .end()
            .wrong("a rule without conditions")
            .help("`from any to any` means every packet"));
    }
    check(rule, cursor)
}

const OPTIONS: [&str; 5] = ["from", "to", "type", "code", "flags"];

/// Reads the action. Gives what there isn't of one that drops all the same: a queue that no program
/// reads does.
fn action(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<Option<Trouble>, Trouble> {
    let word = cursor.need("an action")?;
    let unsupported = || word.unsupported("no such action").help("actions: accept, drop");
    match word.text {
        "accept" => draft.rule.action = Action::Accept,
        "drop" => {}
        "reject" | "queue" => return Ok(Some(unsupported())),
        "log" | "count" => {
            draft.decides = false;
            return Err(unsupported());
        }
        "-P" | "-A" | "-N" | "-I" | "iptables" | "ip6tables" | "Chain" => {
            let help = "of iptables, the output of `iptables-save` is read";
            return Err(word.wrong("not an action").help(help));
        }
        _ => return Err(word.wrong("not an action").help("actions: accept, drop")),
    }
    Ok(None)
}

/// Keywords of other firewalls' languages are reported as unsupported, other words as mistakes.
fn unknown(word: Word<'_>) -> Trouble {
    let help = "next in a rule: from, to, type, code, flags";
    match word.text {
        "in" | "out" | "on" | "via" | "not" | "!" | "log" | "limit" | "state" | "vlan" | "mac"
        | "dscp" | "ttl" | "quick" | "keep" | "label" => {
            word.unsupported("no such condition").help(help)
        }
        _ => word.wrong("not a condition").help(help),
    }
}

pub(crate) const PROTOCOLS: &[(&str, u8)] = &[
    ("tcp", ip_protocol::TCP),
    ("udp", ip_protocol::UDP),
    ("icmp", ip_protocol::ICMP),
    ("icmpv6", ip_protocol::ICMPV6),
    ("igmp", ip_protocol::IGMP),
    ("ipip", ip_protocol::IPV4),
    ("ipv6", ip_protocol::IPV6),
    ("gre", ip_protocol::GRE),
    ("esp", ip_protocol::ESP),
    ("ah", ip_protocol::AH),
    ("ospf", 89),
    ("sctp", ip_protocol::SCTP),
];

fn protocols(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Trouble> {
    if cursor.take("any") || cursor.take("ip") {
        return Ok(Vec::new());
    }
    let one = |word: Word<'_>| {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == word.text).map(|&(_, n)| n);
        let number = named.or_else(|| word.text.parse().ok());
        let number = number.ok_or_else(|| {
            let names: Vec<&str> = PROTOCOLS.iter().map(|&(name, _)| name).collect();
            let help = format!("protocols: any, {}, or a number to 255", names.join(", "));
            word.wrong("not a protocol, nor `established`, `from` or `to`").help(help)
        })?;
        // The walk over IPv6 headers never ends at one of these, so the rule would never match.
        if ip_protocol::is_extension(number) && number != ip_protocol::AH {
            return Err(word.unsupported("an IPv6 extension header is not a protocol"));
        }
        Ok(number)
    };
    cursor.list("a protocol", one)
}

fn side(cursor: &mut Cursor<'_>) -> Result<EndMatch, Trouble> {
    let mut side = EndMatch::default();
    let is_address = |word: Word<'_>| word.text != "port" && !OPTIONS.contains(&word.text);
    if !cursor.take("any") && cursor.peek().is_none_or(is_address) {
        side.prefixes = cursor.list("an address", prefix)?;
    }
    if let Some(word) = cursor.peek()
        && word.text == "port"
    {
        cursor.next_word();
        side.ports = cursor.list("a port", |word| range(word, "a port or range of ports"))?;
    }
    Ok(side)
}

fn prefix(word: Word<'_>) -> Result<Prefix, Trouble> {
    if word.text.starts_with('!') {
        return Err(word.unsupported("no negation"));
    }
    let help = "`any`, 192.0.2.1, 192.0.2.0/24, 2001:db8::/32, or several with commas";
    word.text.parse().map_err(|why: &str| word.wrong(why).help(help))
}

fn range<T>(word: Word<'_>, what: &str) -> Result<RangeInclusive<T>, Trouble>
where
    T: core::str::FromStr + PartialOrd + Copy + core::fmt::Display + Bounded,
{
    let (first, last) = word.text.split_once('-').unwrap_or((word.text, word.text));
    let wrong = || word.wrong(format!("not {what} (0 to {})", T::MAX));
    // The standard parser takes a sign, which is a mistake here.
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok());
    let read = |text: &str| digits(text).flatten().ok_or_else(wrong);
    let (first, last): (T, T) = (read(first)?, read(last)?);
    if first > last {
        return Err(word.wrong("the range ends before it begins"));
    }
    Ok(first..=last)
}

trait Bounded {
    const MAX: Self;
}
impl Bounded for u8 {
    const MAX: Self = Self::MAX;
}
impl Bounded for u16 {
    const MAX: Self = Self::MAX;
}

const TYPES_V4: &[(&str, u8)] = &[
    ("echo-reply", icmpv4::message::ECHO_REPLY),
    ("unreachable", icmpv4::message::UNREACHABLE),
    ("redirect", icmpv4::message::REDIRECT),
    ("echo-request", icmpv4::message::ECHO_REQUEST),
    ("time-exceeded", icmpv4::message::TIME_EXCEEDED),
    ("parameter-problem", icmpv4::message::PARAMETER_PROBLEM),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];

const TYPES_V6: &[(&str, u8)] = &[
    ("unreachable", icmpv6::message::UNREACHABLE),
    ("packet-too-big", icmpv6::message::PACKET_TOO_BIG),
    ("time-exceeded", icmpv6::message::TIME_EXCEEDED),
    ("parameter-problem", icmpv6::message::PARAMETER_PROBLEM),
    ("echo-request", icmpv6::message::ECHO_REQUEST),
    ("echo-reply", icmpv6::message::ECHO_REPLY),
    ("router-solicitation", icmpv6::message::ROUTER_SOLICITATION),
    ("router-advertisement", icmpv6::message::ROUTER_ADVERTISEMENT),
    ("neighbor-solicitation", icmpv6::message::NEIGHBOR_SOLICITATION),
    ("neighbor-advertisement", icmpv6::message::NEIGHBOR_ADVERTISEMENT),
    ("redirect", icmpv6::message::REDIRECT),
];

/// Types of ICMP, for IPv4, or ICMPv6, by name.
pub(crate) fn message_types(version: u8) -> &'static [(&'static str, u8)] {
    if version == 4 { TYPES_V4 } else { TYPES_V6 }
}

fn message(cursor: &mut Cursor<'_>, word: Word<'_>, of: &[u8]) -> Result<Message, Trouble> {
    let names = match of {
        [ip_protocol::ICMP] => TYPES_V4,
        [ip_protocol::ICMPV6] => TYPES_V6,
        _ => return Err(word.wrong("`type` requires the protocol icmp or icmpv6, alone")),
    };
    let one = |word: Word<'_>| match names.iter().find(|(name, _)| *name == word.text) {
        Some(&(_, number)) => Ok(number..=number),
        None => range(word, "a type").map_err(|trouble| {
            let names: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
            trouble.help(format!("types: a number, a range, {}", names.join(", ")))
        }),
    };
    Ok(Message { types: cursor.list("a type", one)?, codes: Vec::new() })
}

fn codes(cursor: &mut Cursor<'_>, word: Word<'_>, rule: &mut Rule) -> Result<(), Trouble> {
    let Some(message) = &mut rule.message else {
        return Err(word.wrong("`code` requires `type` before it"));
    };
    message.codes = cursor.list("a code", |word| range(word, "a code or range of codes"))?;
    Ok(())
}

pub(crate) const FLAGS: [(&str, u16); 6] = [
    ("fin", tcp::flags::FIN),
    ("syn", tcp::flags::SYN),
    ("rst", tcp::flags::RST),
    ("psh", tcp::flags::PSH),
    ("ack", tcp::flags::ACK),
    ("urg", tcp::flags::URG),
];

fn flags(cursor: &mut Cursor<'_>, word: Word<'_>, rule: &Rule) -> Result<SegmentFlags, Trouble> {
    if rule.protocols != [ip_protocol::TCP] {
        return Err(word.wrong("`flags` requires the protocol tcp, alone"));
    }
    let word = cursor.need("flags")?;
    let help = "`syn/syn,ack`: of syn and ack, syn alone is set; `none/syn`: syn is not set";
    let wrong = |what: &str| word.wrong(what).help(help);
    let bits = |names: &str| {
        names.split(',').try_fold(0, |bits, name| {
            let flag = FLAGS.iter().find(|&&(own, _)| own == name).map(|&(_, bit)| bit as u8);
            flag.map(|flag| bits | flag)
        })
    };
    let (set, of) = word.text.split_once('/').ok_or_else(|| wrong("flags without a `/`"))?;
    let value = if set == "none" { Some(0) } else { bits(set) };
    let (Some(value), Some(mask)) = (value, bits(of)) else {
        return Err(wrong("flags are: fin, syn, rst, psh, ack, urg"));
    };
    if value & !mask != 0 {
        return Err(wrong("a flag before the `/` that is missing after it"));
    }
    Ok(SegmentFlags { value, mask })
}

/// Checks that involve several conditions.
fn check(rule: &mut Rule, cursor: &Cursor<'_>) -> Result<(), Trouble> {
    let portless = |p: &u8| !matches!(*p, ip_protocol::TCP | ip_protocol::UDP);
    let has_ports = !rule.src.ports.is_empty() || !rule.dst.ports.is_empty();
    if has_ports && rule.protocols.contains(&ip_protocol::SCTP) {
        rule.forget_ports();
        return Err(cursor.whole().unsupported("no ports of sctp"));
    }
    if has_ports && rule.protocols.iter().any(portless) {
        return Err(cursor.whole().wrong("ports take the protocol tcp, udp or any"));
    }
    if !rule.is_of(4) && !rule.is_of(6) {
        let why = "matches nothing: it requires IPv4 and IPv6 at once";
        return Err(cursor.whole().wrong(why));
    }
    Ok(())
}

impl Rule {
    /// Takes the ports out: the side matches any.
    pub fn forget_ports(&mut self) {
        self.src.ports.clear();
        self.dst.ports.clear();
    }

    /// Whether a packet of IP version 4 or 6 could match.
    pub fn is_of(&self, version: u8) -> bool {
        let side = |side: &EndMatch| {
            let own = |prefix: &Prefix| prefix.address().is_ipv4() == (version == 4);
            side.prefixes.is_empty() || side.prefixes.iter().any(own)
        };
        // ICMP is IPv4's and ICMPv6 is IPv6's, whatever a header claims.
        let other = if version == 4 { ip_protocol::ICMPV6 } else { ip_protocol::ICMP };
        side(&self.src) && side(&self.dst) && self.protocols != [other]
    }
}
