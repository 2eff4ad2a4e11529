//! The conditions of a rule of iptables: options and their values, as `iptables-save` prints them.

use core::net::{IpAddr, Ipv4Addr};

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use crate::region::{End, Region, States, addresses};
use crate::rules::{FLAGS, PROTOCOLS, message_types};
use crate::words::{Trouble, Word};
use crate::{Interfaces, NumberSet, PortDirection};

/// The conditions and the target of a rule.
pub struct SavedConditions<'a> {
    /// The packets that satisfy all supported conditions.
    pub when: Region,
    /// Conditions that cannot be expressed here.
    pub unsupported: Vec<Trouble>,
    /// Whether a condition takes for granted that packets leave by another port than they came by.
    pub presumes_crossing: bool,
    /// `-j` or `-g` with the words after it.
    pub target: Option<(Word<'a>, Vec<Word<'a>>)>,
}

/// Extensions whose options are known; those of others are not supported, whatever they are.
const MODULES: [&str; 9] =
    ["tcp", "udp", "icmp", "icmp6", "multiport", "state", "conntrack", "comment", "iprange"];

/// Options that are no condition, so that they can't be turned around.
const UNNEGATED: [&str; 9] =
    ["-m", "--match", "-c", "--set-counters", "--comment", "-j", "-g", "--jump", "--goto"];

struct Reader<'a, 'w> {
    words: &'w [Word<'a>],
    version: u8,
    tracked: bool,
    interfaces: &'w Interfaces,
    found: SavedConditions<'a>,
    /// Options that may stand once.
    seen: Vec<&'a str>,
    /// The protocol, where it is one.
    protocol: Option<u8>,
}

/// Parses the words after `-A CHAIN`. Connection states require tracking.
pub fn read<'a>(
    words: &[Word<'a>],
    version: u8,
    tracked: bool,
    interfaces: &Interfaces,
) -> Result<SavedConditions<'a>, Trouble> {
    let when = Region::all(version);
    let (unsupported, presumes_crossing) = (Vec::new(), false);
    let found = SavedConditions { when, unsupported, presumes_crossing, target: None };
    let (seen, protocol) = (Vec::new(), None);
    let mut reader = Reader { words, version, tracked, interfaces, found, seen, protocol };
    while let Some(word) = reader.next() {
        let negated = word.text == "!" && !word.quoted;
        let word = if negated { reader.need(word)? } else { word };
        if negated && UNNEGATED.contains(&word.text) {
            return Err(word.wrong("this cannot be negated with `!`"));
        }
        if let "-j" | "-g" | "--jump" | "--goto" = word.text {
            let options = std::mem::take(&mut reader.words).to_vec();
            reader.found.target = Some((word, options));
            break;
        }
        reader.option(word, negated)?;
    }
    Ok(reader.found)
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> Option<Word<'a>> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*first)
    }

    fn need(&mut self, before: Word<'a>) -> Result<Word<'a>, Trouble> {
        self.next().ok_or_else(|| before.wrong("the line ends where its value is due"))
    }

    fn once(&mut self, word: Word<'a>) -> Result<(), Trouble> {
        if self.seen.contains(&word.text) {
            return Err(word.wrong("a rule has this once"));
        }
        self.seen.push(word.text);
        Ok(())
    }

    fn option(&mut self, word: Word<'a>, negated: bool) -> Result<(), Trouble> {
        match word.text {
            "-m" | "--match" => return self.module(word),
            "-c" | "--set-counters" => {
                self.need(word)?;
                return self.need(word).map(drop);
            }
            "--comment" => return self.need(word).map(drop),
            _ => self.once(word)?,
        }
        match word.text {
            "-s" | "--source" => self.prefixes(word, End::Src, negated),
            "-d" | "--destination" => self.prefixes(word, End::Dst, negated),
            "--src-range" => self.range(word, End::Src, negated),
            "--dst-range" => self.range(word, End::Dst, negated),
            "-i" | "--in-interface" => self.interface(word, PortDirection::In, negated),
            "-o" | "--out-interface" => self.interface(word, PortDirection::Out, negated),
            "-p" | "--protocol" => self.protocols(word, negated),
            "--sport" | "--source-port" => self.ports(word, &[End::Src], negated),
            "--dport" | "--destination-port" => self.ports(word, &[End::Dst], negated),
            "--sports" | "--source-ports" => self.ports(word, &[End::Src], negated),
            "--dports" | "--destination-ports" => self.ports(word, &[End::Dst], negated),
            "--ports" => self.ports(word, &[End::Src, End::Dst], negated),
            "--tcp-flags" => self.flags(word, negated),
            "--syn" => self.segments(word, 0x17, 0x02, negated),
            "--icmp-type" if self.version == 4 => self.messages(word, negated),
            "--icmpv6-type" if self.version == 6 => self.messages(word, negated),
            "--ctstate" | "--state" => self.states(word, negated),
            _ => {
                self.skip(word);
                Ok(())
            }
        }
    }

    /// Leaves out an option that is not supported, with its values.
    fn skip(&mut self, word: Word<'a>) {
        self.found.unsupported.push(word.unsupported("no such condition"));
        while let Some(next) = self.words.first()
            && (next.quoted || !(next.text.starts_with('-') || next.text == "!"))
        {
            self.next();
        }
    }

    fn module(&mut self, word: Word<'a>) -> Result<(), Trouble> {
        let name = self.need(word)?;
        if MODULES.contains(&name.text) {
            return self.transport_module(name);
        }
        self.found.unsupported.push(name.unsupported("no such match"));
        let known = ["-m", "--match", "-j", "-g", "--jump", "--goto"];
        let begins = |word: &Word<'_>| !word.quoted && known.contains(&word.text);
        let rest = self.words.iter().position(begins).unwrap_or(self.words.len());
        self.words = &self.words[rest..];
        Ok(())
    }

    /// The matches of protocols with ports read their headers even without an option: Linux has
    /// none of them match a later fragment.
    fn transport_module(&mut self, name: Word<'a>) -> Result<(), Trouble> {
        let protocols: &[u8] = match name.text {
            "tcp" => &[ip_protocol::TCP],
            "udp" => &[ip_protocol::UDP],
            "multiport" => &[ip_protocol::TCP, ip_protocol::UDP],
            _ => return Ok(()),
        };
        match self.protocol {
            Some(protocol) if protocols.contains(&protocol) => self.found.when.ported(),
            // Ports of other protocols are a mistake where `multiport` lists them.
            Some(_) if name.text == "multiport" => {}
            _ => return Err(name.wrong("requires its protocol (`-p`) before it")),
        }
        Ok(())
    }

    /// A name, or the beginning of names and `+`.
    fn interface(
        &mut self,
        word: Word<'a>,
        way: PortDirection,
        negated: bool,
    ) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let named = self.interfaces.named(value.text, '+');
        match named.and_then(|ports| self.interfaces.seen(way, ports)) {
            Ok((seen, ports)) => {
                self.found.when.interface(seen, &ports, negated);
                self.found.presumes_crossing |= self.interfaces.presumes(way);
            }
            Err(why) => self.found.unsupported.push(value.unsupported(why)),
        }
        Ok(())
    }

    fn prefixes(&mut self, word: Word<'a>, end: End, negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let mut prefixes = Vec::new();
        for part in value.split(',') {
            match prefix(part)? {
                Some(prefix) if prefix.address().is_ipv4() == (self.version == 4) => {
                    prefixes.push(prefix);
                }
                Some(_) => return Err(part.wrong("an address of the other family")),
                None => {
                    let trouble = part.unsupported("a mask that is not a prefix");
                    self.found.unsupported.push(trouble);
                    return Ok(());
                }
            }
        }
        self.found.when.address(end, &addresses(&prefixes, self.version), negated);
        Ok(())
    }

    /// `192.0.2.1-192.0.2.9`
    fn range(&mut self, word: Word<'a>, end: End, negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let (first, last) = value.text.split_once('-').unwrap_or((value.text, value.text));
        let number = |text: &str| match text.parse() {
            Ok(IpAddr::V4(address)) if self.version == 4 => Some(address.to_bits().into()),
            Ok(IpAddr::V6(address)) if self.version == 6 => Some(address.to_bits()),
            _ => None,
        };
        let set =
            number(first).zip(number(last)).map(|(first, last)| NumberSet::range(first, last));
        let set = set.filter(|set| !set.is_empty());
        let set = set.ok_or_else(|| value.wrong("not a range of this family's addresses"))?;
        self.found.when.address(end, &set, negated);
        Ok(())
    }

    fn protocols(&mut self, word: Word<'a>, negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        if matches!(value.text, "all" | "0") {
            return if negated { Err(value.wrong("matches nothing")) } else { Ok(()) };
        }
        let number = protocol_number(value)?;
        if self.version == 6 && ip_protocol::is_extension(number) {
            let trouble = value.unsupported("an IPv6 extension header is not a protocol");
            self.found.unsupported.push(trouble);
            return Ok(());
        }
        self.protocol = (!negated).then_some(number);
        let set = NumberSet::range(number.into(), number.into());
        self.found.when.protocols(&set, negated);
        Ok(())
    }

    fn ports(&mut self, word: Word<'a>, ends: &[End], negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let mut ranges = Vec::new();
        for part in value.split(',') {
            let (first, last) = port_range(part, ':')?;
            ranges.push((first.into(), last.into()));
        }
        let ports = NumberSet::of(ranges);
        match self.protocol {
            Some(ip_protocol::TCP | ip_protocol::UDP) => {}
            None => return Err(word.wrong("ports take `-p tcp` or `-p udp` before them")),
            Some(_) => {
                self.found.unsupported.push(word.unsupported("ports of this protocol"));
                return Ok(());
            }
        }
        match ends {
            // Of either end, and that is no product of sets unless negated.
            [_, _] if !negated => {
                self.found.unsupported.push(word.unsupported("the ports of either end"));
            }
            ends => ends.iter().for_each(|&end| self.found.when.port(end, &ports, negated)),
        }
        Ok(())
    }

    fn flags(&mut self, word: Word<'a>, negated: bool) -> Result<(), Trouble> {
        let (mask, value) = (self.need(word)?, self.need(word)?);
        let bits = |word: Word<'_>| match word.text {
            "ALL" => Ok(0x3f),
            "NONE" => Ok(0),
            _ => word.split(',').try_fold(0, |bits, part| {
                let name = part.text.to_ascii_lowercase();
                let flag = FLAGS.iter().find(|&&(own, _)| own == name);
                let help = "flags: FIN, SYN, RST, PSH, ACK, URG, ALL, NONE";
                flag.map(|&(_, bit)| bits | bit as u8)
                    .ok_or_else(|| part.wrong("not a flag").help(help))
            }),
        };
        let (mask, set) = (bits(mask)?, bits(value)?);
        self.segments(word, mask, set, negated)
    }

    fn segments(
        &mut self,
        word: Word<'a>,
        mask: u8,
        set: u8,
        negated: bool,
    ) -> Result<(), Trouble> {
        if self.protocol != Some(ip_protocol::TCP) {
            return Err(word.wrong("requires `-p tcp` before it"));
        }
        self.found.when.ported();
        self.found.when.flags(|flags| (flags & mask == set) != negated);
        Ok(())
    }

    /// `8`, `3/4`, `any`, or a name.
    fn messages(&mut self, word: Word<'a>, negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let own = if self.version == 4 { ip_protocol::ICMP } else { ip_protocol::ICMPV6 };
        if self.protocol != Some(own) {
            return Err(word.wrong("requires the protocol of ICMP before it"));
        }
        let all = NumberSet::range(0, u8::MAX.into());
        let (kind, code) = value.text.split_once('/').unwrap_or((value.text, ""));
        let named = message_types(self.version).iter().find(|(name, _)| *name == kind);
        let number = |text: &str| text.parse::<u8>().ok();
        let mut codes = match number(code) {
            _ if code.is_empty() => all.clone(),
            Some(code) => NumberSet::range(code.into(), code.into()),
            None => return Err(value.wrong("not a type and its code")),
        };
        let types = match named.map(|&(_, number)| number).or_else(|| number(kind)) {
            // For ICMP, 255 stands for any type, whatever code is with it; for ICMPv6 it is a type.
            Some(255) if self.version == 4 => {
                codes.clone_from(&all);
                all
            }
            None if kind == "any" => all,
            Some(kind) => NumberSet::range(kind.into(), kind.into()),
            None => return Err(value.wrong("not a type").help("types are like 8, 3/4, any")),
        };
        self.found.when.messages(&types, &codes, negated);
        Ok(())
    }

    fn states(&mut self, word: Word<'a>, negated: bool) -> Result<(), Trouble> {
        let value = self.need(word)?;
        let mut states = 0;
        for part in value.split(',') {
            match (States::named(&part.text.to_ascii_lowercase()), part.text) {
                (Some(state), _) => states |= state,
                // Addresses are not translated where the firewall stands.
                (None, "SNAT" | "DNAT") => {
                    self.found.unsupported.push(part.unsupported("a state of translation"));
                    return Ok(());
                }
                (None, _) => {
                    let help = "states: NEW, ESTABLISHED, RELATED, INVALID, UNTRACKED";
                    return Err(part.wrong("not a state").help(help));
                }
            }
        }
        if !self.tracked {
            let why = "requires established = true in the firewall's table";
            return Err(word.wrong(why));
        }
        self.found.when.states(States(if negated { States::ALL & !states } else { states }));
        Ok(())
    }
}

/// An address with a length or a mask; `None` for a mask that is no prefix.
pub fn prefix(word: Word<'_>) -> Result<Option<Prefix>, Trouble> {
    let help = "like 192.0.2.1, 192.0.2.0/24, 2001:db8::/32";
    if let Some((address, mask)) = word.text.split_once('/')
        && let (Ok(address), Ok(mask)) = (address.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>())
    {
        let len = mask.to_bits().leading_ones();
        if mask.to_bits().count_ones() != len {
            return Ok(None);
        }
        return Ok(Prefix::new(IpAddr::V4(address), len as u8));
    }
    word.text.parse().map(Some).map_err(|why: &str| word.wrong(why).help(help))
}

/// A port, or two with `between` between them.
pub fn port_range(word: Word<'_>, between: char) -> Result<(u16, u16), Trouble> {
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let port = digits.then(|| text.parse::<u16>().ok()).flatten();
        port.ok_or_else(|| word.wrong("not a port or a range of ports (0 to 65535)"))
    };
    let (first, last) = word.text.split_once(between).unwrap_or((word.text, word.text));
    let first = if first.is_empty() && !last.is_empty() { 0 } else { port(first)? };
    let last = if last.is_empty() { u16::MAX } else { port(last)? };
    if first > last {
        return Err(word.wrong("the range ends before it begins"));
    }
    Ok((first, last))
}

/// A protocol by number or by the name that iptables prints.
pub fn protocol_number(word: Word<'_>) -> Result<u8, Trouble> {
    const OTHERS: [(&str, u8); 9] = [
        ("ipv6-icmp", 58),
        ("icmp6", 58),
        ("ipv6-frag", 44),
        ("ipencap", 4),
        ("dccp", 33),
        ("pim", 103),
        ("vrrp", 112),
        ("l2tp", 115),
        ("udplite", 136),
    ];
    let digits = word.text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| word.text.parse().ok()).flatten();
    let named = PROTOCOLS.iter().chain(&OTHERS).find(|(name, _)| *name == word.text);
    let help = "a number to 255, or tcp, udp, icmp, ipv6-icmp, gre, esp, ah, sctp, ...";
    named.map(|&(_, n)| n).or(number).ok_or_else(|| word.wrong("not a protocol").help(help))
}
