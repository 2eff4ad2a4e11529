//! Lines that `ip xfrm state` and `ip xfrm policy` have in common.

use core::net::IpAddr;
use core::ops::{Range, RangeInclusive};

use warpline_packet::Prefix;
use warpline_packet::wire::ip_protocol;

use super::source::Source;
use super::values::{ANY_PORTS, check_ports, protocol};
use crate::sa::{Lifetime, Limits, Mode, Selector};
use warpline_nf::Diagnostic;

/// A word of a line.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// Where it begins in the file.
    at: usize,
}

impl<'a> Word<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn place(self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// The word is a mistake.
    pub(super) fn wrong(self, message: &'static str) -> Trouble {
        Trouble { at: self.place(), message, unsupported: false }
    }

    /// The word asks for what there isn't.
    pub(super) fn unsupported(self, message: &'static str) -> Trouble {
        Trouble { unsupported: true, ..self.wrong(message) }
    }
}

/// An error in a line. Messages are fixed texts, so none has a part of a key.
#[derive(Debug)]
pub(super) struct Trouble {
    at: Range<usize>,
    message: &'static str,
    pub(super) unsupported: bool,
}

impl Trouble {
    pub(super) fn diagnostic(&self, source: &Source) -> Diagnostic {
        let kind = if self.unsupported { "not supported: " } else { "" };
        let message = format!("`{}`: {kind}{}", source.word(self.at.clone()), self.message);
        source.reported(self.at.clone(), message)
    }
}

/// The words of a line.
pub(super) struct Words<'a> {
    line: Word<'a>,
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<Word<'a>> {
        let rest = self.rest.trim_start();
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let at = self.line.at + self.line.text.len() - rest.len();
        self.rest = &rest[len..];
        (len > 0).then_some(Word { text: &rest[..len], at })
    }

    /// The next word, which stays.
    pub(super) fn peek(&self) -> Option<Word<'a>> {
        Words { line: self.line, rest: self.rest }.next()
    }

    /// The next word; the line's end is a mistake.
    pub(super) fn need(&mut self) -> Result<Word<'a>, Trouble> {
        self.next().ok_or_else(|| self.whole().wrong("the line ends early"))
    }

    /// Takes `text`, which must come next.
    pub(super) fn expect(&mut self, text: &str) -> Result<(), Trouble> {
        let word = self.need()?;
        if word.text == text {
            Ok(())
        } else {
            Err(word.wrong("unexpected in output of `ip xfrm`"))
        }
    }

    /// A number, in whichever form; what follows it in parentheses is left out.
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Trouble> {
        let word = self.need()?;
        number(word.text).ok_or_else(|| word.wrong("not a number, or one out of range"))
    }

    pub(super) fn address(&mut self) -> Result<IpAddr, Trouble> {
        let word = self.need()?;
        word.text.parse().map_err(|_| word.wrong("not an IPv4 or IPv6 address"))
    }

    /// The line as a word, for a mistake of the whole of it.
    pub(super) fn whole(&self) -> Word<'a> {
        let text = self.line.text.trim_start();
        Word { text: text.trim_end(), at: self.line.at + self.line.text.len() - text.len() }
    }
}

/// A number from 0, in decimal or after `0x`, perhaps followed by something in parentheses.
pub(super) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let text = text.trim_end_matches(',');
    let text = text.split('(').next().unwrap_or_default();
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    T::try_from(u64::from_str_radix(digits, radix).ok()?).ok()
}

/// An SA or policy: lines from one that isn't indented to the next.
pub(super) struct Block<'a> {
    pub(super) lines: Vec<Words<'a>>,
}

impl Block<'_> {
    /// From the first word to the last.
    pub(super) fn place(&self) -> Range<usize> {
        self.lines.first().map_or(0..0, |line| line.whole().place())
    }
}

/// The blocks of a file.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').map(move |text| {
        let line = Word { text, at };
        at += text.len();
        line
    });
    let mut lines =
        core::iter::from_fn(move || lines.find(|line| !line.text.trim().is_empty())).peekable();
    core::iter::from_fn(move || {
        let first = lines.next()?;
        let mut block = vec![first];
        while let Some(line) = lines.next_if(|line| line.text.starts_with([' ', '\t'])) {
            block.push(line);
        }
        let lines = block.into_iter().map(|line| Words { line, rest: line.text });
        Some(Block { lines: lines.collect() })
    })
}

/// The places of whatever could be of a key.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    for block in blocks(text) {
        for mut line in block.lines {
            let first = line.next().map_or("", |word| word.text);
            let has_key = ["auth", "enc", "aead", "comp"].iter().any(|own| first.starts_with(own))
                && !["encap", "enc-mask"].contains(&first);
            while let Some(word) = line.next() {
                let open = word.text.len() <= 3 || word.text.ends_with(')');
                if has_key && !open
                    || word.text.starts_with("0x")
                        && word.text.len() > 10
                        && !word.text.ends_with(')')
                {
                    secrets.push(word.place());
                }
            }
        }
    }
    secrets
}

/// The second line of an SA or a template.
pub(super) struct Id {
    pub(super) spi: u32,
    pub(super) reqid: u32,
    pub(super) mode: Mode,
}

/// `proto esp [spi N] reqid N mode MODE`, after its first word.
pub(super) fn id(line: &mut Words<'_>) -> Result<Id, Trouble> {
    let proto = line.need()?;
    if proto.text != "esp" {
        return Err(proto.unsupported("IPsec protocols other than esp"));
    }
    let mut word = line.need()?;
    let mut spi = 0;
    if word.text == "spi" {
        spi = line.number()?;
        word = line.need()?;
    }
    if word.text != "reqid" {
        return Err(word.wrong("unexpected in output of `ip xfrm`"));
    }
    let reqid = line.number()?;
    line.expect("mode")?;
    let word = line.need()?;
    let mode = match word.text {
        "tunnel" => Mode::Tunnel,
        "transport" => Mode::Transport,
        _ => return Err(word.unsupported("modes other than tunnel and transport")),
    };
    Ok(Id { spi, reqid, mode })
}

/// `src PREFIX dst PREFIX [proto P] [sport N] ...`. The list has the unsupported parts; without
/// them the selector is wider.
pub(super) fn selector(line: &mut Words<'_>) -> Result<(Selector, Vec<Trouble>), Trouble> {
    line.expect("src")?;
    let src = prefix(line)?;
    line.expect("dst")?;
    let place = line.whole();
    let dst = prefix(line)?;
    if src.address().is_ipv4() != dst.address().is_ipv4() {
        return Err(place.wrong("source and destination are of different IP versions"));
    }
    let mut selector =
        Selector { src, dst, protocol: None, src_ports: ANY_PORTS, dst_ports: ANY_PORTS };
    let mut unsupported = Vec::new();
    while let Some(word) = line.next() {
        match word.text {
            "proto" => {
                let name = line.need()?;
                selector.protocol = protocol(name.text)
                    .ok_or_else(|| name.wrong("not a protocol that is known"))?;
            }
            "sport" => selector.src_ports = one(line)?,
            "dport" => selector.dst_ports = one(line)?,
            "type" | "code"
                if !matches!(selector.protocol, Some(ip_protocol::ICMP | ip_protocol::ICMPV6)) =>
            {
                line.need()?;
                unsupported.push(word.unsupported("types of protocols other than ICMP and ICMPv6"));
            }
            "type" => selector.src_ports = one(line)?,
            "code" => selector.dst_ports = one(line)?,
            "uid" => {
                let user = line.need()?;
                if user.text != "0" {
                    unsupported.push(user.unsupported("policies of users"));
                }
            }
            "dev" | "key" => {
                line.need()?;
                unsupported
                    .push(word.unsupported("selectors beyond addresses, protocol and ports"));
            }
            _ => unsupported.push(word.unsupported("unknown word in a selector")),
        }
    }
    if let Err(why) = check_ports(&selector) {
        unsupported.push(place.unsupported(why));
        (selector.src_ports, selector.dst_ports) = (ANY_PORTS, ANY_PORTS);
    }
    Ok((selector, unsupported))
}

fn one(line: &mut Words<'_>) -> Result<RangeInclusive<u16>, Trouble> {
    line.number().map(|number| number..=number)
}

fn prefix(line: &mut Words<'_>) -> Result<Prefix, Trouble> {
    let word = line.need()?;
    let wrong = || word.wrong("not an address with the length of its prefix");
    let (address, len) = word.text.split_once('/').ok_or_else(wrong)?;
    let address = address.parse().map_err(|_| wrong())?;
    number(len).and_then(|len| Prefix::new(address, len)).ok_or_else(wrong)
}

/// The blocks `lifetime config:` and `lifetime current:`.
#[derive(Default)]
pub(super) struct Times {
    part: XfrmPart,
    limits: Lifetime,
    /// The used part of the limits.
    bytes: u64,
    packets: u64,
    /// When it was added.
    pub(super) added: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum XfrmPart {
    #[default]
    None,
    Config,
    Current,
}

impl Times {
    /// Takes a line where it is one of these; `first` is its first word.
    pub(super) fn take(&mut self, first: Word<'_>, line: &mut Words<'_>) -> Result<bool, Trouble> {
        match (self.part, first.text) {
            (_, "lifetime") => {
                let word = line.need()?;
                self.part = match word.text {
                    "config:" => XfrmPart::Config,
                    "current:" => XfrmPart::Current,
                    _ => return Err(word.wrong("unexpected in output of `ip xfrm`")),
                };
            }
            (XfrmPart::Config, "limit:") => {
                for hard in [false, true] {
                    line.expect(if hard { "hard" } else { "soft" })?;
                    let word = line.need()?;
                    let limit = limit(word)?;
                    let limits = self.of(hard);
                    let is_bytes = word.text.contains("(bytes)");
                    *(if is_bytes { &mut limits.bytes } else { &mut limits.packets }) = limit;
                }
            }
            (XfrmPart::Config, "expire") => {
                line.need()?;
                for hard in [false, true] {
                    line.expect(if hard { "hard" } else { "soft" })?;
                    let seconds: u64 = line.number()?;
                    let own = &mut self.of(hard).seconds;
                    if seconds > 0 {
                        *own = Some(own.map_or(seconds, |own| own.min(seconds)));
                    }
                }
            }
            (XfrmPart::Current, "add") => {
                let words = [line.need()?, line.need()?];
                if words[0].text != "-" {
                    self.added = format!("{} {}", words[0].text, words[1].text);
                }
                self.part = XfrmPart::None;
            }
            (XfrmPart::Current, text) if text.ends_with("(bytes),") => {
                let wrong = || first.wrong("not a number, or one out of range");
                self.bytes = number(text).ok_or_else(wrong)?;
                self.packets = line.number()?;
            }
            _ => {
                self.part = XfrmPart::None;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn of(&mut self, hard: bool) -> &mut Limits {
        if hard { &mut self.limits.hard } else { &mut self.limits.soft }
    }

    /// The rest.
    pub(super) fn left(&self) -> Lifetime {
        let left = |limits: Limits| Limits {
            bytes: limits.bytes.map(|limit| limit.saturating_sub(self.bytes)),
            packets: limits.packets.map(|limit| limit.saturating_sub(self.packets)),
            ..limits
        };
        Lifetime { soft: left(self.limits.soft), hard: left(self.limits.hard) }
    }
}

fn limit(word: Word<'_>) -> Result<Option<u64>, Trouble> {
    if word.text.starts_with("(INF)") {
        return Ok(None);
    }
    number(word.text).map(Some).ok_or_else(|| word.wrong("not a number, or one out of range"))
}
