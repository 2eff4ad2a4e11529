//! A rule while it is parsed, and the data that its parsers share.

use core::ops::Range;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::group::{Groups, Variables};
use super::piece::{Fault, Piece, Read, Refusal};
use super::{
    About, Addresses, Configs, Content, DetectionFilter, Dialect, Effect, FlowTests, Name, Names,
    Need, PacketTest, PayloadTest, Ports, Protocol, Threshold, Value,
};

/// The most needs reported for one rule.
const NEEDS_MAX: usize = 64;

/// Parser state shared by all rules of a set.
pub(super) struct Context<'c> {
    pub(super) variables: &'c Variables,
    pub(super) configs: &'c Configs,
    pub(super) addresses: Groups<Addresses>,
    pub(super) ports: Groups<Ports>,
    words: HashSet<Arc<str>>,
    names: HashMap<u32, (NameKind, Box<str>)>,
    /// Unknown classes, each reported once.
    pub(super) missing_classes: HashSet<Box<str>>,
    /// Unknown systems of references, likewise.
    pub(super) missing_references: HashSet<Box<str>>,
    /// Unknown keywords found so far in the file.
    pub(super) unknown_keywords: usize,
}

/// The kind of a name. Names of different kinds are distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    FlowBit = b'b' as isize,
    FlowInt = b'i' as isize,
    HostBit = b'h' as isize,
    PairBit = b'p' as isize,
}

impl<'c> Context<'c> {
    pub(super) fn new(variables: &'c Variables, configs: &'c Configs) -> Self {
        Self {
            variables,
            configs,
            addresses: Groups::default(),
            ports: Groups::default(),
            words: HashSet::new(),
            names: HashMap::new(),
            missing_classes: HashSet::new(),
            missing_references: HashSet::new(),
            unknown_keywords: 0,
        }
    }

    /// `text`, kept once however often it is said.
    pub(super) fn word(&mut self, text: &str) -> Arc<str> {
        if let Some(word) = self.words.get(text) {
            return Arc::clone(word);
        }
        let word: Arc<str> = text.into();
        self.words.insert(Arc::clone(&word));
        word
    }

    /// The texts of all names.
    pub(super) fn into_names(self) -> Names {
        self.names.into_iter().map(|(name, (_, text))| (Name(name), text.into())).collect()
    }

    /// The name that `piece` is.
    pub(super) fn name(&mut self, kind: NameKind, piece: Piece<'_>) -> Read<Name> {
        if piece.is_empty() || piece.text.contains(char::is_whitespace) {
            return Err(piece.expected("this is not a name", "one word"));
        }
        let name = hash(kind, piece.text);
        match self.names.get(&name) {
            None => {
                self.names.insert(name, (kind, piece.text.into()));
            }
            Some((known, text)) if (*known, &**text) != (kind, piece.text) => {
                let message = format!("`{}` has the same hash as `{text}`: rename it", piece.text);
                return Err(piece.broken(message));
            }
            Some(_) => {}
        }
        Ok(Name(name))
    }
}

/// FNV-1a of the kind and the text.
pub(super) fn hash(kind: NameKind, text: &str) -> u32 {
    let bytes = [kind as u8].into_iter().chain(text.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// An option of a rule.
pub(super) struct Setting<'a> {
    /// Its name in lower case.
    pub(super) key: Cow<'a, str>,
    pub(super) name: Piece<'a>,
    /// The text after the colon, trimmed.
    pub(super) value: Option<Piece<'a>>,
}

impl<'a> Setting<'a> {
    /// The value, which there must be.
    pub(super) fn value(&self) -> Read<Piece<'a>> {
        let value = self.value.filter(|v| !v.is_empty());
        value.ok_or_else(|| self.name.broken(format!("`{}` needs a value", self.key)))
    }

    /// There must be no value.
    pub(super) fn bare(&self) -> Read<()> {
        match self.value.filter(|v| !v.is_empty()) {
            None => Ok(()),
            Some(value) => Err(value.broken(format!("`{}` takes no value", self.key))),
        }
    }

    /// Whether `!` stands before the value, and what stands in its quotes, if it has any.
    pub(super) fn negatable(&self) -> Read<(bool, Piece<'a>, bool)> {
        let value = self.value()?;
        let (is_negated, value) = match value.strip("!") {
            Some(value) => (true, value),
            None => (false, value),
        };
        let Some(quoted) = value.text.strip_prefix('"') else {
            return Ok((is_negated, value, false));
        };
        if quoted.strip_suffix('"').is_none() {
            let end = value.behind(value.text.len().saturating_sub(1));
            return Err(end.expected("`\"` is missing", "the value stands in double quotes"));
        }
        Ok((is_negated, value.part(1..value.text.len() - 1), true))
    }

    /// As [`Setting::negatable`], with quotes that there must be.
    pub(super) fn quoted(&self) -> Read<(bool, Piece<'a>)> {
        let (is_negated, value, is_quoted) = self.negatable()?;
        if !is_quoted {
            return Err(value.expected("`\"` is missing", "the value stands in double quotes"));
        }
        Ok((is_negated, value))
    }
}

/// A rule while it is read.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) dialect: Dialect,
    /// `None` for an application protocol, which is among the needs.
    pub(super) protocol: Option<Protocol>,
    pub(super) about: About,
    pub(super) said: Said,
    pub(super) packet: Vec<PacketTest>,
    pub(super) flow: FlowTests,
    pub(super) payload: Vec<PayloadTest>,
    /// Names that `byte_extract` (`false`) and `byte_math` (`true`) write to.
    pub(super) slots: Vec<(Box<str>, bool)>,
    pub(super) effects: Vec<Effect>,
    pub(super) threshold: Option<Threshold>,
    pub(super) detection_filter: Option<DetectionFilter>,
    pub(super) needs: Vec<Need>,
    /// A fault that is reported unless the rule is unsupported anyway: the missing buffer may allow
    /// it.
    pub(super) doubt: Option<Refusal>,
    /// Warnings about a valid rule.
    pub(super) notices: Vec<Fault>,
}

/// Options that stand once.
#[derive(Default)]
pub(super) struct Said {
    pub(super) msg: bool,
    pub(super) sid: bool,
    pub(super) rev: bool,
    pub(super) gid: bool,
    pub(super) priority: bool,
    pub(super) class: bool,
    /// A class that is not known.
    pub(super) unknown_class: bool,
    /// The greatest payload that `dsize` allows, and where it stands.
    pub(super) dsize: Option<(u16, Range<usize>)>,
    /// Where the first test of a packet stands.
    pub(super) packet: Option<Range<usize>>,
}

impl Draft {
    /// The content that a modifier is about: the last one.
    pub(super) fn last_content(&mut self, setting: &Setting<'_>) -> Read<&mut Content> {
        let contents = self.payload.iter_mut().rev();
        let mut contents = contents.filter_map(|test| match test {
            PayloadTest::Content(content) => Some(content),
            _ => None,
        });
        let missing =
            || setting.name.broken(format!("`{}` needs a `content` before it", setting.key));
        contents.next().ok_or_else(missing)
    }

    /// A number from `min` to `max`, or the name of an earlier `byte_extract` or `byte_math`.
    pub(super) fn number_or_name(&self, piece: Piece<'_>, min: i64, max: i64) -> Read<Value> {
        if !piece.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return piece.signed(min, max).map(Value::Number);
        }
        self.found(piece)
    }

    /// The slot of the earlier `byte_extract`, or else `byte_math`, named `piece`.
    pub(super) fn found(&self, piece: Piece<'_>) -> Read<Value> {
        let slot = |is_math| {
            self.slots.iter().position(|slot| (&*slot.0, slot.1) == (piece.text, is_math))
        };
        let slot = slot(false).or_else(|| slot(true)).and_then(|slot| u8::try_from(slot).ok());
        slot.map(Value::Slot).ok_or_else(|| {
            piece.expected(
                format!("nothing before this is called `{}`", piece.text),
                "a number, or what `byte_extract` or `byte_math` wrote before",
            )
        })
    }

    /// A new slot called `name`.
    pub(super) fn slot(&mut self, name: Piece<'_>, is_math: bool) -> Read<u8> {
        let starts = name.text.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts || name.text.contains(|c: char| c.is_whitespace()) {
            return Err(name.expected("this is not a name", "one word that starts with a letter"));
        }
        let slot = u8::try_from(self.slots.len()).map_err(|_| name.broken("too many names"))?;
        self.slots.push((name.text.into(), is_math));
        Ok(slot)
    }

    /// Asks for `need`, once.
    pub(super) fn need(&mut self, need: Need) {
        if self.needs.len() < NEEDS_MAX && !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// Notes what is wrong unless the rule is held.
    pub(super) fn doubt(&mut self, refusal: Refusal) {
        self.doubt.get_or_insert(refusal);
    }

    /// Tells of something that is not wrong.
    pub(super) fn notice(&mut self, piece: Piece<'_>, message: String) {
        self.notices.push(Fault { at: piece.place(), message, help: None });
    }

    /// Refuses `setting` in rules of protocols that `fits` is not true of.
    pub(super) fn only_for(
        &self,
        setting: &Setting<'_>,
        protocols: &str,
        fits: impl Fn(Protocol) -> bool,
    ) -> Read<()> {
        if self.protocol.is_none_or(fits) {
            return Ok(());
        }
        let message = format!("`{}` is for {protocols} alone", setting.key);
        Err(setting.name.broken(message))
    }
}

impl Protocol {
    /// Whether a rule of it may be about TCP.
    pub(super) fn may_be_tcp(self) -> bool {
        !matches!(self, Self::Udp | Self::Sctp | Self::Icmp | Self::Icmpv4 | Self::Icmpv6)
    }

    /// Whether a rule of it may be about ICMP.
    pub(super) fn may_be_icmp(self) -> bool {
        !matches!(self, Self::Tcp | Self::TcpPacket | Self::TcpStream | Self::Udp | Self::Sctp)
    }
}
