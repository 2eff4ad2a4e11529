//! ClassBench filter sets: one filter a line, in the columns of the tool's seed files.
//!
//! ```text
//! @192.0.2.0/24  198.51.100.7/32  0 : 65535  80 : 80  0x06/0xFF  0x0200/0x1200
//! ```
//!
//! Source, destination, source ports, destination ports, protocol and its mask, flags and their
//! mask (may be absent). The flags' upper byte is the TCP header's 14th byte or the ICMP type, the
//! lower byte the ICMP code. A filter has no action of its own.

use core::ops::RangeInclusive;

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use crate::rules::{Action, EndMatch, Message, Rule, RuleFile, SegmentFlags};
use crate::words::{Cursor, Trouble, Word};
use warpline_config::SourceText;

/// Whether a file is in this form: its first line other than blanks and comments begins with `@`.
pub fn is_classbench(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|l| l.starts_with('@'))
}

/// Reads a ClassBench file; every filter's action is `action`.
pub fn parse_classbench(source: &SourceText, action: Action) -> RuleFile {
    RuleFile::read(source, |cursor, draft| {
        draft.rule.action = action;
        filter(cursor, &mut draft.rule)
    })
}

fn filter(cursor: &mut Cursor<'_>, rule: &mut Rule) -> Result<(), Trouble> {
    let src = cursor.need("a source prefix")?;
    rule.src = EndMatch { prefixes: prefix(src, src.text.strip_prefix('@'))?, ports: Vec::new() };
    let dst = cursor.need("a destination prefix")?;
    rule.dst = EndMatch { prefixes: prefix(dst, Some(dst.text))?, ports: Vec::new() };
    rule.src.ports = ports(cursor)?;
    rule.dst.ports = ports(cursor)?;
    let protocol = cursor.need("a protocol and its mask")?;
    rule.protocols = match masked(protocol, 0xff)? {
        (_, 0) => Vec::new(),
        (number, 0xff) => vec![number as u8],
        _ => {
            // Without a protocol, ports would be those of TCP and UDP.
            rule.forget_ports();
            return Err(protocol.unsupported("a protocol mask other than 0x00 and 0xFF"));
        }
    };
    if let Some(flags) = cursor.next_word() {
        conditions(flags, rule)?;
    }
    if let Some(more) = cursor.next_word() {
        return Err(more.wrong("a filter ends before this"));
    }
    check(rule, cursor)
}

/// A prefix of length 0 is any address of its family, so it stays a condition.
fn prefix(word: Word<'_>, text: Option<&str>) -> Result<Vec<Prefix>, Trouble> {
    let text = text.ok_or_else(|| word.wrong("a filter begins with `@`"))?;
    text.parse().map(|prefix| vec![prefix]).map_err(|why: &str| {
        word.wrong(why).help("prefixes are like 192.0.2.0/24; the first has an `@` before it")
    })
}

/// `LOW : HIGH`; all ports is no condition.
fn ports(cursor: &mut Cursor<'_>) -> Result<Vec<RangeInclusive<u16>>, Trouble> {
    let port = |word: Word<'_>| {
        let digits = word.text.bytes().all(|b| b.is_ascii_digit());
        let port = digits.then(|| word.text.parse::<u16>().ok()).flatten();
        port.ok_or_else(|| word.wrong("not a port (0 to 65535)").help("ports are like 0 : 65535"))
    };
    let first = port(cursor.need("a port")?)?;
    let colon = cursor.need("`:`")?;
    if colon.text != ":" {
        return Err(colon.wrong("`:` is due here").help("ports are like 0 : 65535"));
    }
    let word = cursor.need("a port")?;
    let last = port(word)?;
    if first > last {
        return Err(word.wrong("the range ends before it begins"));
    }
    Ok(if first == 0 && last == u16::MAX { Vec::new() } else { vec![first..=last] })
}

/// `0xVALUE/0xMASK`, both at most `max`.
fn masked(word: Word<'_>, max: u16) -> Result<(u16, u16), Trouble> {
    let hex = |text: &str| {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = plain.then(|| u16::from_str_radix(digits, 16).ok()).flatten()?;
        (value <= max).then_some(value)
    };
    let (value, mask) = word.text.split_once('/').unwrap_or((word.text, ""));
    let (Some(value), Some(mask)) = (hex(value), hex(mask)) else {
        let help = format!("it is like 0x06/0xFF, both parts at most {max:#x}");
        return Err(word.wrong("not a value and its mask").help(help));
    };
    if value & !mask != 0 {
        return Err(word.wrong("the value has bits that its mask leaves out"));
    }
    Ok((value, mask))
}

fn conditions(word: Word<'_>, rule: &mut Rule) -> Result<(), Trouble> {
    let (value, mask) = masked(word, u16::MAX)?;
    let ([high, low], [high_mask, low_mask]) = (value.to_be_bytes(), mask.to_be_bytes());
    match (&rule.protocols[..], high_mask, low_mask) {
        (_, 0, 0) => {}
        ([ip_protocol::TCP], _, 0) => {
            rule.flags = Some(SegmentFlags { value: high, mask: high_mask });
        }
        ([ip_protocol::ICMP | ip_protocol::ICMPV6], 0xff, 0) => {
            rule.message = Some(Message { types: vec![high..=high], codes: Vec::new() });
        }
        ([ip_protocol::ICMP | ip_protocol::ICMPV6], 0xff, 0xff) => {
            rule.message = Some(Message { types: vec![high..=high], codes: vec![low..=low] });
        }
        _ => {
            let help = "TCP has 0xFF00, ICMP 0xFF00 or 0xFFFF, other protocols 0x0000";
            return Err(word.unsupported("this mask of flags with this protocol").help(help));
        }
    }
    Ok(())
}

fn check(rule: &mut Rule, cursor: &Cursor<'_>) -> Result<(), Trouble> {
    let has_ports = !rule.src.ports.is_empty() || !rule.dst.ports.is_empty();
    let portless = |p: &u8| !matches!(*p, ip_protocol::TCP | ip_protocol::UDP);
    if has_ports && rule.protocols.iter().any(portless) {
        rule.forget_ports();
        return Err(cursor.whole().unsupported("ports of a protocol other than TCP and UDP"));
    }
    if rule.protocols.iter().any(|&p| ip_protocol::is_extension(p) && p != ip_protocol::AH) {
        rule.protocols.clear();
        return Err(cursor.whole().unsupported("an IPv6 extension header as a protocol"));
    }
    if !rule.is_of(4) && !rule.is_of(6) {
        return Err(cursor.whole().wrong("matches nothing: it requires IPv4 and IPv6 at once"));
    }
    Ok(())
}
