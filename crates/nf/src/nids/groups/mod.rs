//! Which rules may match which packet, found without asking each.
//!
//! A rule with a literal is found by it: packets fall into groups by protocol and ports, and a group's matcher looks for
//! the literals of all rules that may match there, so that a packet is scanned by one matcher. A rule without is
//! found by the addresses that it names, where these are few; what is left is asked for every packet of its groups.

mod addresses;
mod ports;
mod seams;
mod stretches;

use core::net::IpAddr;
use core::ops::Range;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::addresses::AddressIndex;
use self::ports::{GroupSet, PortClasses, Sides};
use self::seams::Seams;
use super::matcher::{self, Cache, Choice, Matcher, Pattern};
use super::rules::{Addresses, Protocol, Rule};

/// What a rule is found by.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// A literal that has to be in the payload, where there is one.
    pub pattern: Option<Pattern>,
    /// It is asked once for each direction of a flow: it is about addresses only.
    pub is_once: bool,
    /// It never matches, and is asked of nothing.
    pub is_dead: bool,
}

/// See the module.
pub struct Groups {
    /// By [`Upper`].
    uppers: [UpperGroups; 4],
    /// Rules without a literal that name few sources, few destinations: those asked for every packet, then those asked
    /// once a direction.
    by_address: [[AddressIndex; 2]; 2],
    memory_len: usize,
    patterns_max: usize,
}

/// What packets fall apart by before ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upper {
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// The groups of one [`Upper`].
struct UpperGroups {
    classes: PortClasses,
    /// In the order of [`PortClasses::index`].
    groups: Vec<Arc<Group>>,
}

/// The rules of packets that are scanned alike.
pub struct Group {
    /// Nothing, where no rule has a literal.
    matcher: Option<Box<dyn Matcher>>,
    /// Where the rules of each literal begin; one more than there are literals.
    starts: Vec<u32>,
    rules: Vec<u32>,
    always: Vec<u32>,
    once: Vec<u32>,
    patterns: Vec<Pattern>,
    pattern_len_max: usize,
    seams: Seams,
}

impl Groups {
    /// Of rules, each with what it is found by. `cache` is as for [`matcher::build`]. The error says why there is no
    /// such matcher.
    pub fn new(
        rules: &[Rule],
        anchors: &[Anchor],
        choice: Choice,
        cache: Option<&Cache>,
    ) -> Result<Self, String> {
        let all = (0..).zip(rules.iter().zip(anchors)).filter(|(_, (_, anchor))| !anchor.is_dead);
        let all: Vec<Member<'_>> = all.map(Member::new).collect();
        let (by_address, all): (Vec<_>, Vec<_>) = all.into_iter().partition(Member::is_by_address);
        let index = |is_once: bool, is_dst: bool| {
            let members = by_address.iter().filter(move |member| member.anchor.is_once == is_once);
            AddressIndex::new(members.filter_map(move |member| member.indexed(is_dst)))
        };
        let mut built = Built { choice, cache, groups: HashMap::new() };
        let mut uppers = Vec::with_capacity(UPPERS.len());
        for upper in UPPERS {
            let members: Vec<&Member<'_>> =
                all.iter().filter(|member| member.is_of(upper)).collect();
            uppers.push(UpperGroups::new(upper, &members, &mut built)?);
        }
        let memory_len = built.groups.values().map(|group| group.memory_len()).sum();
        let patterns_max =
            built.groups.values().map(|group| group.patterns.len()).max().unwrap_or(0);
        let Ok(uppers) = uppers.try_into() else { return Err("a group for each protocol".into()) };
        let by_address =
            [[index(false, false), index(false, true)], [index(true, false), index(true, true)]];
        Ok(Self { uppers, by_address, memory_len, patterns_max })
    }

    /// The group of a packet of `protocol` between these ports; both 0 where it has none.
    #[inline]
    pub fn of(&self, protocol: u8, src_port: u16, dst_port: u16) -> &Group {
        let upper = &self.uppers[Upper::of(protocol) as usize];
        &upper.groups[upper.classes.index(upper.classes.key(src_port, dst_port))]
    }

    /// Rules without a literal that name one of these addresses; with `is_once`, those asked once a direction.
    pub fn by_address(&self, src: IpAddr, dst: IpAddr, is_once: bool) -> impl Iterator<Item = u32> {
        let [by_src, by_dst] = &self.by_address[usize::from(is_once)];
        by_src.of(src).iter().chain(by_dst.of(dst)).copied()
    }

    /// How many groups have a matcher of their own.
    pub fn len(&self) -> usize {
        let groups = self.uppers.iter().flat_map(|upper| &upper.groups);
        let mut own: Vec<_> = groups.map(Arc::as_ptr).collect();
        own.sort_unstable();
        own.dedup();
        own.len()
    }

    /// Whether there are none; never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the matchers.
    pub fn memory_len(&self) -> usize {
        self.memory_len
    }

    /// What the matchers are called, each name once.
    pub fn matcher_names(&self) -> BTreeSet<&'static str> {
        let groups = self.uppers.iter().flat_map(|upper| &upper.groups);
        groups.filter_map(|group| group.matcher()).map(Matcher::name).collect()
    }

    /// How many literals the group with the most has.
    #[inline]
    pub fn patterns_max(&self) -> usize {
        self.patterns_max
    }
}

impl Group {
    /// What looks for the literals; `None` where no rule has one.
    #[inline]
    pub fn matcher(&self) -> Option<&dyn Matcher> {
        self.matcher.as_deref()
    }

    /// The rules found by literal `id` of the matcher.
    #[inline]
    pub fn rules(&self, id: u32) -> &[u32] {
        let range = self.starts.get(id as usize).zip(self.starts.get(id as usize + 1));
        range.and_then(|(&a, &b)| self.rules.get(a as usize..b as usize)).unwrap_or(&[])
    }

    /// The rules found by any literal, some more than once.
    pub fn rules_all(&self) -> &[u32] {
        &self.rules
    }

    /// Whether literal `id` of the matcher is in `bytes` and ends behind place `border` of it.
    pub fn ends_behind(&self, id: u32, bytes: &[u8], border: usize) -> bool {
        let Some(Pattern { bytes: literal, is_nocase }) = self.patterns.get(id as usize) else {
            return false;
        };
        let first = (border + 1).saturating_sub(literal.len());
        bytes.get(first..).unwrap_or(&[]).windows(literal.len()).any(|place| match is_nocase {
            true => place.eq_ignore_ascii_case(literal),
            false => place == &**literal,
        })
    }

    /// The part of `bytes` that holds every literal which lies across place `border`: it begins before and ends behind.
    /// `None` where none does.
    #[inline]
    pub fn spanning(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        self.seams.spanning(bytes, border)
    }

    /// Rules that have nothing to be found by, asked for every packet.
    #[inline]
    pub fn always(&self) -> &[u32] {
        &self.always
    }

    /// The same, asked once for each direction of a flow.
    #[inline]
    pub fn once(&self) -> &[u32] {
        &self.once
    }

    /// Bytes of the longest literal.
    #[inline]
    pub fn pattern_len_max(&self) -> usize {
        self.pattern_len_max
    }

    fn memory_len(&self) -> usize {
        let lists = self.starts.len() + self.rules.len() + self.always.len() + self.once.len();
        let matcher = self.matcher.as_ref().map_or(0, |matcher| matcher.memory_len());
        matcher + self.seams.memory_len() + 4 * lists
    }

    fn new(members: &[&Member<'_>], choice: Choice, cache: Option<&Cache>) -> Result<Self, String> {
        let mut ids: HashMap<(&[u8], bool), usize> = HashMap::new();
        let (mut patterns, mut lists): (Vec<Pattern>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        let (mut always, mut once) = (Vec::new(), Vec::new());
        for member in members {
            let Some(pattern) = &member.anchor.pattern else {
                if member.anchor.is_once {
                    once.push(member.at)
                } else {
                    always.push(member.at)
                }
                continue;
            };
            let id = *ids.entry((&pattern.bytes, pattern.is_nocase)).or_insert_with(|| {
                patterns.push(pattern.clone());
                lists.push(Vec::new());
                lists.len() - 1
            });
            lists[id].push(member.at);
        }
        let matcher = if patterns.is_empty() {
            None
        } else {
            Some(matcher::build(choice, &patterns, cache).map_err(|why| why.to_string())?)
        };
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as u32;
            Some(*end)
        });
        Ok(Self {
            matcher,
            starts: core::iter::once(0).chain(ends).collect(),
            rules: lists.concat(),
            always,
            once,
            seams: Seams::new(&patterns),
            pattern_len_max: patterns.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or(0),
            patterns,
        })
    }
}

const UPPERS: [Upper; 4] = [Upper::Tcp, Upper::Udp, Upper::Icmp, Upper::Other];

impl Upper {
    #[inline]
    fn of(protocol: u8) -> Self {
        match protocol {
            6 => Self::Tcp,
            17 => Self::Udp,
            1 | 58 => Self::Icmp,
            _ => Self::Other,
        }
    }

    /// Whether its packets have ports that groups go by.
    fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }
}

/// A rule on its way into groups.
struct Member<'a> {
    at: u32,
    rule: &'a Rule,
    anchor: &'a Anchor,
    sides: Sides<'a>,
}

impl<'a> Member<'a> {
    fn new((at, (rule, anchor)): (u32, (&'a Rule, &'a Anchor))) -> Self {
        Self { at, rule, anchor, sides: Sides::of(&rule.header) }
    }

    fn is_of(&self, upper: Upper) -> bool {
        match self.rule.header.protocol {
            Protocol::Ip | Protocol::Ipv4 | Protocol::Ipv6 | Protocol::PacketHeader => true,
            Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => upper == Upper::Tcp,
            Protocol::Udp => upper == Upper::Udp,
            Protocol::Icmp | Protocol::Icmpv4 | Protocol::Icmpv6 => upper == Upper::Icmp,
            Protocol::Sctp => upper == Upper::Other,
        }
    }

    fn is_by_address(&self) -> bool {
        let header = &self.rule.header;
        self.anchor.pattern.is_none() && (is_few(&header.src) || is_few(&header.dst))
    }

    /// The rule and the addresses that it is found by at the source or the destination.
    fn indexed(&self, is_dst: bool) -> Option<(u32, &'a Addresses)> {
        let header = &self.rule.header;
        let (by_src, addresses) =
            if is_few(&header.src) { (true, &header.src) } else { (false, &header.dst) };
        (by_src != is_dst || header.is_bidirectional).then_some((self.at, &**addresses))
    }
}

/// Whether a set names so few addresses that being one of them says much.
fn is_few(addresses: &Addresses) -> bool {
    let v4: u64 = addresses.v4.iter().map(|(a, b)| u64::from(b.to_bits() - a.to_bits()) + 1).sum();
    let v6 = addresses.v6.iter().map(|(a, b)| b.to_bits() - a.to_bits()).max().unwrap_or(0);
    v4 <= FEW_V4 && v6 <= FEW_V6
}

const FEW_V4: u64 = 1 << 20;
const FEW_V6: u128 = 1 << 96;

/// The groups made so far, by the rules in them: many ports have the same.
struct Built<'c> {
    choice: Choice,
    cache: Option<&'c Cache>,
    groups: HashMap<Vec<u32>, Arc<Group>>,
}

impl Built<'_> {
    fn group(&mut self, members: &[&Member<'_>]) -> Result<Arc<Group>, String> {
        let key: Vec<u32> = members.iter().map(|member| member.at).collect();
        if let Some(group) = self.groups.get(&key) {
            return Ok(Arc::clone(group));
        }
        let group = Arc::new(Group::new(members, self.choice, self.cache)?);
        self.groups.insert(key, Arc::clone(&group));
        Ok(group)
    }
}

impl UpperGroups {
    fn new(upper: Upper, members: &[&Member<'_>], built: &mut Built<'_>) -> Result<Self, String> {
        let sides: Vec<Sides<'_>> = match upper.has_ports() {
            true => members.iter().map(|member| member.sides).collect(),
            false => Vec::new(),
        };
        let (classes, mut sets) = PortClasses::new(&sides);
        sets.resize(members.len(), GroupSet::ALL);
        let group = |at: usize| {
            let own = members.iter().zip(&sets).filter(|(_, set)| set.has(at));
            built.group(&own.map(|(member, _)| *member).collect::<Vec<_>>())
        };
        let groups = (0..classes.len()).map(group).collect::<Result<_, _>>()?;
        Ok(Self { classes, groups })
    }
}
