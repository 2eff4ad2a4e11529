//! Finds the rules that may match a packet without testing each.
//!
//! A rule with a literal is found by it. Packets fall into groups by protocol and ports. A group's
//! matcher searches for the literals of all rules that may match there, so one matcher scans a
//! packet. Literals that count at one offset alone are looked for there. `unanchored` has rules
//! without a literal.

mod addresses;
mod flat;
mod literals;
mod ports;
mod ranges;
mod seams;
mod stretches;
mod unanchored;

use core::net::IpAddr;
use core::ops::Range;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use self::flat::FlatGroups;
use self::literals::Literals;
use self::ports::{GroupSet, PortClasses, Sides};
use self::seams::Seams;
use self::unanchored::Unanchored;
pub use self::unanchored::When;
use super::detect::contains;
use warpline_nids_rules::{PacketTest, Protocol, Rule};
use warpline_search::{Cache, Choice, Hits, Matcher, Pattern, Placed};

/// How a rule is found.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// A literal that has to be in the payload, where there is one.
    pub pattern: Option<Pattern>,
    /// The only offset in a packet's payload at which the literal counts; only of rules that look
    /// at packets alone.
    pub place: Option<usize>,
    /// Which packets it is asked on where there is none.
    pub when: When,
    /// It never matches, and is asked of nothing.
    pub is_dead: bool,
}

/// See the module.
pub struct Groups {
    /// By [`Upper`].
    uppers: [UpperGroups; 4],
    /// By [`When`].
    unanchored: [Unanchored; 3],
    /// The literals of all groups, each once.
    patterns: Vec<Pattern>,
    memory_len: usize,
    patterns_max: usize,
}

/// The division of packets before that by ports.
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
    /// `None` if no rule has a literal.
    matcher: Option<Box<dyn Matcher>>,
    /// The literals that the matcher doesn't look for, whose ids follow its own.
    placed: Placed,
    /// Where the rules of each literal begin; one more than there are literals.
    starts: Vec<u32>,
    rules: Vec<u32>,
    patterns: Vec<Pattern>,
    pattern_len_max: usize,
    seams: Seams,
}

impl Groups {
    /// Of rules, each with its literal, if it has one. `cache` is as for
    /// [`warpline_search::build`]. The error says why there is no such matcher.
    pub fn new(
        rules: &[Rule],
        anchors: &[Anchor],
        choice: Choice,
        cache: Option<&Cache>,
    ) -> Result<Self, String> {
        let all = (0..).zip(rules.iter().zip(anchors)).filter(|(_, (_, anchor))| !anchor.is_dead);
        let all: Vec<Member<'_>> = all.map(Member::new).collect();
        let (all, unanchored): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|member| member.anchor.pattern.is_some());
        let unanchored = WHENS.map(|when| {
            Unanchored::new(unanchored.iter().filter(|member| member.anchor.when == when))
        });
        let mut sets = MemberSets::default();
        let uppers = UPPERS.map(|upper| {
            let members: Vec<&Member<'_>> =
                all.iter().filter(|member| member.is_of(upper)).collect();
            UpperSets::new(upper, &members, &mut sets)
        });
        let built = on_all_cores(&sets.all, |members| Group::new(members, choice, cache));
        let built = built.into_iter().map(|group| group.map(Arc::new));
        let built: Vec<Arc<Group>> = built.collect::<Result<_, _>>()?;
        let memory_len = built.iter().map(|group| group.memory_len()).sum();
        let patterns_max = built.iter().map(|group| group.patterns.len()).max().unwrap_or(0);
        let uppers = uppers.map(|upper| upper.with(&built));
        let mut known = HashSet::new();
        let patterns = all.iter().filter_map(|member| member.anchor.pattern.as_ref());
        let patterns = patterns.filter(|&pattern| known.insert(pattern)).cloned().collect();
        Ok(Self { uppers, unanchored, patterns, memory_len, patterns_max })
    }

    /// The group of a packet of `protocol` between these ports; both 0 where it has none.
    #[inline]
    pub fn of(&self, protocol: u8, src_port: u16, dst_port: u16) -> &Group {
        let upper = &self.uppers[Upper::of(protocol) as usize];
        &upper.groups[upper.classes.index(upper.classes.key(src_port, dst_port))]
    }

    /// Rules without a literal that may match a packet of `protocol` from and to these addresses
    /// and ports, some more than once; ports are 0 where it has none.
    #[inline]
    pub fn unanchored(
        &self,
        when: When,
        protocol: u8,
        addresses: [IpAddr; 2],
        ports: [u16; 2],
    ) -> impl Iterator<Item = u32> {
        self.unanchored[when as usize].rules(Upper::of(protocol), addresses, ports)
    }

    /// How many groups have a matcher of their own.
    pub fn len(&self) -> usize {
        let groups = self.uppers.iter().flat_map(|upper| &upper.groups);
        let mut own: Vec<_> = groups.map(Arc::as_ptr).collect();
        own.sort_unstable();
        own.dedup();
        own.len()
    }

    /// The literals of all groups, each once.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether there are none; never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the matchers.
    pub fn memory_len(&self) -> usize {
        self.memory_len
    }

    /// The names of the matchers, each once.
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
    /// The matcher of literals that may be anywhere, in streams as well; `None` if no rule has a
    /// literal.
    #[inline]
    pub fn matcher(&self) -> Option<&dyn Matcher> {
        self.matcher.as_deref()
    }

    /// Adds the ids of all literals in the payload of a packet to `hits`.
    #[inline]
    pub fn scan_packet(&self, payload: &[u8], hits: &mut Hits) {
        self.placed.scan(payload, hits);
        if let Some(matcher) = &self.matcher {
            matcher.scan(payload, hits);
        }
    }

    /// Whether literal `id`, which a packet's payload has, is where it counts.
    #[inline]
    pub fn stands(&self, id: u32, payload: &[u8]) -> bool {
        self.placed.stands(id, payload)
    }

    /// The rules found by literal `id`.
    #[inline]
    pub fn rules(&self, id: u32) -> &[u32] {
        let range = self.starts.get(id as usize).zip(self.starts.get(id as usize + 1));
        range.and_then(|(&a, &b)| self.rules.get(a as usize..b as usize)).unwrap_or(&[])
    }

    /// The rules found by any literal, some more than once.
    pub fn rules_all(&self) -> &[u32] {
        &self.rules
    }

    /// Whether literal `id` of the matcher is in `bytes` and ends after place `border` of it.
    pub fn ends_behind(&self, id: u32, bytes: &[u8], border: usize) -> bool {
        let Some(Pattern { bytes: literal, is_nocase }) = self.patterns.get(id as usize) else {
            return false;
        };
        let first = (border + 1).saturating_sub(literal.len());
        bytes.get(first..).is_some_and(|bytes| contains(bytes, literal, *is_nocase))
    }

    /// Whether a literal may lie across the border after the third of eight bytes; the first byte
    /// is the highest.
    #[inline]
    pub fn may_span(&self, eight: u64) -> bool {
        self.seams.may_span(eight)
    }

    /// The part of `bytes` that holds every literal across place `border`. It begins before the
    /// border and ends after it. `None` if no literal lies across.
    #[inline]
    pub fn spanning(&self, bytes: &[u8], border: usize) -> Option<Range<usize>> {
        self.seams.spanning(bytes, border)
    }

    /// Bytes of the longest literal.
    #[inline]
    pub fn pattern_len_max(&self) -> usize {
        self.pattern_len_max
    }

    fn memory_len(&self) -> usize {
        let lists = self.starts.len() + self.rules.len();
        let matcher = self.matcher.as_ref().map_or(0, |matcher| matcher.memory_len());
        matcher + self.placed.memory_len() + self.seams.memory_len() + 4 * lists
    }

    fn new(members: &[&Member<'_>], choice: Choice, cache: Option<&Cache>) -> Result<Self, String> {
        let Literals { patterns, lists, floating, placed } = Literals::of(members);
        let anywhere = &patterns[..floating];
        let matcher = if patterns.is_empty() {
            None
        } else {
            Some(warpline_search::build(choice, anywhere, cache).map_err(|why| why.to_string())?)
        };
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as u32;
            Some(*end)
        });
        Ok(Self {
            matcher,
            placed: Placed::new(placed),
            starts: core::iter::once(0).chain(ends).collect(),
            rules: lists.concat(),
            seams: Seams::new(anywhere),
            pattern_len_max: anywhere.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or(0),
            patterns,
        })
    }
}

const WHENS: [When; 3] = [When::Packet, When::Direction, When::Syn];
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
        let of_header = match self.rule.header.protocol {
            Protocol::Ip | Protocol::Ipv4 | Protocol::Ipv6 | Protocol::PacketHeader => true,
            Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => upper == Upper::Tcp,
            Protocol::Udp => upper == Upper::Udp,
            Protocol::Icmp | Protocol::Icmpv4 | Protocol::Icmpv6 => upper == Upper::Icmp,
            Protocol::Sctp => upper == Upper::Other,
        };
        of_header && self.rule.packet.iter().all(|test| may_hold(test, upper))
    }
}

/// Whether a packet of `upper` may satisfy `test`, as far as its protocol is concerned.
fn may_hold(test: &PacketTest, upper: Upper) -> bool {
    let PacketTest::IpProto(spans) = test else { return true };
    (0..=u8::MAX).any(|protocol| {
        Upper::of(protocol) == upper && spans.iter().all(|span| span.contains(protocol))
    })
}

/// The rules of each group, each set once: many ports have the same.
#[derive(Default)]
struct MemberSets<'m, 'a> {
    all: Vec<Vec<&'m Member<'a>>>,
    /// Where the set with these rules is.
    known: HashMap<Vec<u32>, usize>,
}

impl<'m, 'a> MemberSets<'m, 'a> {
    /// The number of the set of these.
    fn number(&mut self, members: Vec<&'m Member<'a>>) -> usize {
        let key: Vec<u32> = members.iter().map(|member| member.at).collect();
        *self.known.entry(key).or_insert_with(|| {
            self.all.push(members);
            self.all.len() - 1
        })
    }
}

/// The groups of one [`Upper`], not yet built.
struct UpperSets {
    classes: PortClasses,
    /// The number of each group's set, in the order of [`PortClasses::index`].
    groups: Vec<usize>,
}

impl UpperSets {
    fn new<'m, 'a>(
        upper: Upper,
        members: &[&'m Member<'a>],
        built: &mut MemberSets<'m, 'a>,
    ) -> Self {
        let sides: Vec<Sides<'_>> = match upper.has_ports() {
            true => members.iter().map(|member| member.sides).collect(),
            false => Vec::new(),
        };
        let (classes, mut sets) = PortClasses::new(&sides);
        sets.resize(members.len(), GroupSet::ALL);
        let group = |at: usize| {
            let own = members.iter().zip(&sets).filter(|(_, set)| set.has(at));
            built.number(own.map(|(member, _)| *member).collect())
        };
        let groups = (0..classes.len()).map(group).collect();
        Self { classes, groups }
    }

    fn with(self, built: &[Arc<Group>]) -> UpperGroups {
        let groups = self.groups.iter().map(|&set| Arc::clone(&built[set])).collect();
        UpperGroups { classes: self.classes, groups }
    }
}

/// Does `work` on each of `items`, on as many cores as the calling thread may use. Gives the
/// results in their order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let numbers = core::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = numbers.map_while(|at| Some((at, work(items.get(at)?))));
        own.collect::<Vec<_>>()
    };
    let helpers =
        thread::available_parallelism().map_or(1, usize::from).min(items.len()).saturating_sub(1);
    let mut results = thread::scope(|scope| {
        // Without a thread, the others do its share.
        let spawn =
            |_| thread::Builder::new().name("compiler".into()).spawn_scoped(scope, share).ok();
        let started: Vec<_> = (0..helpers).filter_map(spawn).collect();
        let mut results = share();
        for helper in started {
            results.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
