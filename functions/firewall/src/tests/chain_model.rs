//! Chains of rules as the manuals of iptables and nftables tell them: a packet walks through them,
//! jumps and returns. Chains are drawn at random; what prints them in either form is with the
//! tests.

use core::net::IpAddr;

use warpline_nf::{HopPorts, Port, Ports, Resources, Side};
use warpline_packet::Prefix;

use super::Draw;
use super::traffic::{self, PORTS, Sent};

/// Where a packet goes from a rule that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Accept,
    Drop,
    Return,
    Jump(usize),
    Goto(usize),
    /// The next rule is tried.
    Nothing,
}

/// A condition, and whether it is turned around.
pub(super) type Maybe<T> = Option<(bool, T)>;

/// The ports of a chain, and how packets cross it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crossing {
    NoPorts,
    /// Each packet leaves by the other port.
    TwoPorts,
    /// A router chose a next hop before.
    ByRoute,
}

/// The port of each next hop with [`Crossing::ByRoute`].
const HOPS: [Option<u16>; 5] = [None, Some(0), Some(1), Some(2), None];

impl Crossing {
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::NoPorts => &[],
            Self::TwoPorts => &["eth0", "wan"],
            Self::ByRoute => &["eth0", "wan", "eth1"],
        }
    }

    /// The interface and the next hop of packet `n`.
    pub(super) fn comes(self) -> fn(u64) -> [u16; 2] {
        match self {
            Self::NoPorts => |_| [0, 0],
            Self::TwoPorts => |n| [(n % 2) as u16, 0],
            Self::ByRoute => |n| [(n % 3) as u16, (n / 3 % 5) as u16],
        }
    }

    /// The names of the ports by which packet `n` comes and leaves.
    pub(super) fn ways(self, n: u64) -> [Option<&'static str>; 2] {
        let [way_in, hop] = self.comes()(n);
        let out = match self {
            Self::NoPorts => None,
            Self::TwoPorts => Some(1 - way_in),
            Self::ByRoute => HOPS[usize::from(hop)],
        };
        [Some(way_in), out].map(|port| self.names().get(usize::from(port?)).copied())
    }

    /// Of a chain with these ports.
    pub(super) fn resources(self) -> Resources {
        let port = |name: &&str| Port { name: (*name).into(), side: Side::Inside };
        let ports = Ports::new(self.names().iter().map(port).collect());
        let mut resources = Resources::default().with_ports(ports);
        if self == Self::ByRoute {
            resources.set_hop_ports(HopPorts::new(HOPS.to_vec()));
        }
        resources
    }
}

/// A name, or the beginning of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    pub(super) text: &'static str,
    pub(super) is_start: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ModelRule {
    pub(super) ways: [Maybe<Pattern>; 2],
    pub(super) src: Maybe<Prefix>,
    pub(super) dst: Maybe<Prefix>,
    pub(super) protocol: Maybe<u8>,
    pub(super) src_port: Maybe<(u16, u16)>,
    pub(super) dst_port: Maybe<(u16, u16)>,
    /// Flags that are looked at, and those of them that are set.
    pub(super) flags: Maybe<(u8, u8)>,
    /// Type and code.
    pub(super) message: Maybe<(u8, Option<u8>)>,
    pub(super) target: Target,
}

/// Chains; the first is where packets enter.
#[derive(Clone, Debug)]
pub(super) struct ModelChains {
    pub(super) version: u8,
    pub(super) accepts: bool,
    pub(super) chains: Vec<Vec<ModelRule>>,
}

impl ModelChains {
    pub(super) fn drawn(draw: &mut Draw, version: u8, crossing: Crossing) -> Self {
        let count = 1 + draw.below(4);
        let chain = |draw: &mut Draw, number: usize| {
            (0..draw.below(7)).map(|_| rule(draw, version, number, count, crossing)).collect()
        };
        let chains = (0..count).map(|number| chain(draw, number)).collect();
        Self { version, accepts: draw.one_in(2), chains }
    }

    /// Whether a whole packet is accepted.
    pub(super) fn accepts(&self, sent: &Sent, ways: [Option<&str>; 2]) -> bool {
        self.walk(0, sent, ways).unwrap_or(self.accepts)
    }

    /// Walks a chain. Returns whether it accepts, or `None` if it decides nothing.
    fn walk(&self, chain: usize, sent: &Sent, ways: [Option<&str>; 2]) -> Option<bool> {
        for rule in self.chains[chain].iter().filter(|rule| rule.meets(sent, ways)) {
            match rule.target {
                Target::Accept => return Some(true),
                Target::Drop => return Some(false),
                Target::Return => return None,
                Target::Goto(to) => return self.walk(to, sent, ways),
                Target::Nothing => {}
                Target::Jump(to) => {
                    if let Some(decided) = self.walk(to, sent, ways) {
                        return Some(decided);
                    }
                }
            }
        }
        None
    }
}

impl ModelRule {
    fn meets(&self, sent: &Sent, ways: [Option<&str>; 2]) -> bool {
        let is_it = |(asked, way): (&Maybe<Pattern>, Option<&str>)| {
            asked.is_none_or(|(not, Pattern { text, is_start })| {
                let own = |name: &str| if is_start { name.starts_with(text) } else { name == text };
                way.is_some_and(own) != not
            })
        };
        if !self.ways.iter().zip(ways).all(is_it) {
            return false;
        }
        let address = |bits: u128| match sent.version {
            4 => IpAddr::V4((bits as u32).into()),
            _ => IpAddr::V6(bits.into()),
        };
        let within = |side: Maybe<Prefix>, bits| {
            side.is_none_or(|(not, prefix)| prefix.contains(address(bits)) != not)
        };
        let port = |side: Maybe<(u16, u16)>, port: u16| {
            side.is_none_or(|(not, (first, last))| (first <= port && port <= last) != not)
        };
        within(self.src, sent.src)
            && within(self.dst, sent.dst)
            && self.protocol.is_none_or(|(not, protocol)| (sent.protocol == protocol) != not)
            && port(self.src_port, sent.src_port)
            && port(self.dst_port, sent.dst_port)
            && self.flags.is_none_or(|(not, (mask, set))| (sent.flags & mask == set) != not)
            && self.message.is_none_or(|(not, (kind, code))| {
                (sent.message_type == kind && code.is_none_or(|code| sent.code == code)) != not
            })
    }
}

fn pattern(draw: &mut Draw, crossing: Crossing) -> Maybe<Pattern> {
    if crossing == Crossing::NoPorts || draw.one_in(2) {
        return None;
    }
    let name = draw.pick(crossing.names());
    let is_start = draw.one_in(4);
    let text = if is_start { &name[..draw.below(name.len() + 1)] } else { name };
    Some((draw.one_in(3), Pattern { text, is_start }))
}

fn rule(
    draw: &mut Draw,
    version: u8,
    number: usize,
    count: usize,
    crossing: Crossing,
) -> ModelRule {
    let maybe = |draw: &mut Draw, n| (!draw.one_in(n)).then(|| draw.one_in(4));
    let icmp = if version == 4 { 1 } else { 58 };
    let range = |draw: &mut Draw| {
        let (a, b) = (draw.pick(PORTS), draw.pick(PORTS));
        if draw.one_in(2) { (a, a) } else { (a.min(b), a.max(b)) }
    };
    let protocol = maybe(draw, 3).map(|not| (not, draw.pick(&[6, 6, 17, 17, icmp, 47, 50])));
    let mut rule = ModelRule {
        ways: [pattern(draw, crossing), pattern(draw, crossing)],
        src: maybe(draw, 2).map(|not| (not, traffic::prefix(draw, version))),
        dst: maybe(draw, 2).map(|not| (not, traffic::prefix(draw, version))),
        protocol,
        src_port: None,
        dst_port: None,
        flags: None,
        message: None,
        target: draw.pick(&[
            Target::Accept,
            Target::Drop,
            Target::Return,
            Target::Nothing,
            Target::Accept,
            Target::Drop,
        ]),
    };
    match protocol {
        Some((false, 6 | 17)) => {
            rule.src_port = maybe(draw, 2).map(|not| (not, range(draw)));
            rule.dst_port = maybe(draw, 2).map(|not| (not, range(draw)));
        }
        Some((false, 1 | 58)) if draw.one_in(2) => {
            let code = draw.one_in(2).then(|| draw.pick(&[0, 1]));
            rule.message = Some((draw.one_in(3), (draw.pick(&[0, 3, 8, 128, 135]), code)));
        }
        _ => {}
    }
    if protocol == Some((false, 6)) && draw.one_in(3) {
        let mask = draw.next() as u8 & 0x3f | 2;
        rule.flags = Some((draw.one_in(3), (mask, draw.next() as u8 & mask)));
    }
    if number + 1 < count && draw.one_in(2) {
        let to = number + 1 + draw.below(count - number - 1);
        rule.target = if draw.one_in(3) { Target::Goto(to) } else { Target::Jump(to) };
    }
    rule
}

/// Packets of every port and every flag in use that a packet whose header is hidden may be.
pub(super) fn revealed(sent: &Sent) -> Vec<Sent> {
    let mut all = Vec::new();
    for &src_port in PORTS {
        for &dst_port in PORTS {
            for flags in [0, 2, 18, 16, 63, 21] {
                for message_type in [0, 3, 8, 128, 135, 200] {
                    let code = src_port as u8 & 1;
                    let seen = sent.clone();
                    all.push(Sent { src_port, dst_port, flags, message_type, code, ..seen });
                }
            }
        }
    }
    all
}
