//! Which packets that one SA opens the policies send on by another.
//!
//! State is divided by peers. If a packet may come from one peer and leave to another, it needs the
//! state of both, so the chain has one shard. Found without regard to the order of policies: an
//! earlier one may take the packets in question.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use warpline_packet::Prefix;

use super::sa::{Action, Database, Direction, Mode, Policy, Sa, Selector};
use super::traffic::ANY_PORT;
use warpline_nf::{Diagnostic, Diagnostics};

/// SAs, by their rows, of packets that are opened and sealed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forwarding {
    /// The first pair with different peers.
    pub(super) between_peers: Option<[usize; 2]>,
    /// The first pair with the same peer.
    pub(super) back: Option<[usize; 2]>,
}

/// The two ends of an SA, in either direction.
type Peers = [IpAddr; 2];

fn peers(sa: &Sa) -> Peers {
    [sa.src.min(sa.dst), sa.src.max(sa.dst)]
}

impl Forwarding {
    pub(super) fn of(database: &Database) -> Self {
        let Database { sas, policies, .. } = database;
        let protecting = Protecting::new(sas, policies);
        let mut found = Self::default();
        let inbound = sas.iter().enumerate().filter(|(_, sa)| sa.direction == Direction::In);
        for (row, sa) in inbound {
            for selector in protecting.carried_by(sa) {
                let ways = [(selector.clone(), true), (reversed(&selector), false)];
                for (selector, is_onward) in ways {
                    found.look(&protecting, (row, sa), &selector, is_onward);
                }
            }
            if found.between_peers.is_some() {
                break;
            }
        }
        found
    }

    /// The remark of `check`.
    pub(super) fn remarks(&self, sas: &[Sa]) -> Diagnostics {
        let mut remarks = Diagnostics::default();
        let name = |row: usize| sas.get(row).map_or("", |sa| &sa.name);
        if let Some([from, to]) = self.between_peers {
            let (from, to) = (name(from), name(to));
            remarks.push(Diagnostic::bare(format!(
                "the policies may send packets of SA {from:?} on by SA {to:?}, which has another \
                 peer: the chain runs on one lane"
            )));
        }
        if let Some([from, to]) = self.back {
            let (from, to) = (name(from), name(to));
            remarks.push(Diagnostic::bare(format!(
                "the policies may send packets of SA {from:?} back to their peer by SA {to:?}: \
                 give these policies the addresses inside as `src`"
            )));
        }
        remarks
    }

    /// Looks for policies for packets of `selector`: those of `sa`, or answers to them.
    fn look(
        &mut self,
        protecting: &Protecting<'_>,
        (row, sa): (usize, &Sa),
        selector: &Selector,
        is_onward: bool,
    ) {
        for &(policy, out) in protecting.candidates(selector) {
            let is_other = peers(sa) != peers(&protecting.sas[out]);
            let is_open = match is_other {
                true => self.between_peers.is_none(),
                false => is_onward && self.back.is_none(),
            };
            if !is_open || !meet(selector, policy) {
                continue;
            }
            match is_other {
                true => self.between_peers = Some([row, out]),
                false => self.back = Some([row, out]),
            }
        }
    }
}

/// The policies that protect, to be found by addresses.
struct Protecting<'a> {
    sas: &'a [Sa],
    by_src: Index<'a>,
    by_dst: Index<'a>,
    /// By the peers of their SAs.
    by_peers: HashMap<Peers, Vec<&'a Selector>>,
}

impl<'a> Protecting<'a> {
    fn new(sas: &'a [Sa], policies: &'a [Policy]) -> Self {
        let protecting = policies.iter().filter_map(|policy| match policy.action {
            Action::Protect(row) => Some((&policy.selector, row)),
            Action::Bypass | Action::Discard => None,
        });
        let all: Vec<(&Selector, usize)> = protecting.collect();
        let mut by_peers: HashMap<Peers, Vec<&Selector>> = HashMap::new();
        for (selector, row) in &all {
            by_peers.entry(peers(&sas[*row])).or_default().push(selector);
        }
        let by_src = Index::new(&all, |selector| selector.src);
        let by_dst = Index::new(&all, |selector| selector.dst);
        Self { sas, by_src, by_dst, by_peers }
    }

    /// The packets that `sa` carries. If it has no selectors, they come from where policies send
    /// packets to its peer.
    fn carried_by(&self, sa: &Sa) -> Vec<Selector> {
        if sa.mode == Mode::Transport {
            return vec![between(Prefix::host(sa.src), Prefix::host(sa.dst))];
        }
        if !sa.selectors.is_empty() {
            return sa.selectors.clone();
        }
        let Some(towards) = self.by_peers.get(&peers(sa)) else {
            return FAMILIES.map(Prefix::family_of).map(|all| between(all, all)).into();
        };
        let to_any = |own: &&Selector| between(own.dst, Prefix::family_of(own.dst.address()));
        towards.iter().map(to_any).collect()
    }

    /// The policies that may be for packets of `selector`, by the address that leaves fewer.
    fn candidates(&self, selector: &Selector) -> impl Iterator<Item = &(&'a Selector, usize)> {
        let [by_src, by_dst] = [self.by_src.around(selector.src), self.by_dst.around(selector.dst)];
        let len = |slices: &[&[_]]| slices.iter().map(|slice| slice.len()).sum::<usize>();
        let fewer = if len(&by_src) < len(&by_dst) { by_src } else { by_dst };
        fewer.into_iter().flatten()
    }
}

/// Policies with the rows of their SAs, in the order of one of their prefixes.
struct Index<'a> {
    entries: Vec<(&'a Selector, usize)>,
    /// The prefix of each entry.
    keys: Vec<Key>,
    /// All lengths of prefixes, ascending.
    lens: Vec<u8>,
}

/// Whether a prefix is of IPv6, its first address, its length.
type Key = (bool, u128, u8);

fn key(prefix: Prefix) -> Key {
    (prefix.address().is_ipv6(), prefix.bounds().0, prefix.len())
}

impl<'a> Index<'a> {
    fn new(all: &[(&'a Selector, usize)], prefix: fn(&Selector) -> Prefix) -> Self {
        let mut entries = all.to_vec();
        entries.sort_by_key(|(selector, _)| key(prefix(selector)));
        let keys: Vec<Key> = entries.iter().map(|(selector, _)| key(prefix(selector))).collect();
        let mut lens: Vec<u8> = keys.iter().map(|(_, _, len)| *len).collect();
        lens.sort_unstable();
        lens.dedup();
        Self { entries, keys, lens }
    }

    /// The policies whose prefix contains `prefix`, or lies in it.
    fn around(&self, prefix: Prefix) -> Vec<&[(&'a Selector, usize)]> {
        let (is_v6, first, len) = key(prefix);
        let wider = self.lens.iter().filter(|&&own| own < len);
        let wider = wider.filter_map(|&own| Prefix::new(prefix.address(), own)).map(|own| {
            let (start, end) = (key(own), key(own));
            self.slice(|key| *key < start, |key| *key <= end)
        });
        let last = prefix.bounds().1;
        let within =
            self.slice(|key| *key < (is_v6, first, len), |key| *key <= (is_v6, last, u8::MAX));
        wider.chain([within]).collect()
    }

    fn slice(
        &self,
        is_before: impl Fn(&Key) -> bool,
        is_up_to: impl Fn(&Key) -> bool,
    ) -> &[(&'a Selector, usize)] {
        let start = self.keys.partition_point(is_before);
        let end = self.keys.partition_point(is_up_to);
        self.entries.get(start..end).unwrap_or(&[])
    }
}

const FAMILIES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Packets of any protocol between two prefixes.
fn between(src: Prefix, dst: Prefix) -> Selector {
    Selector { src, dst, protocol: None, src_ports: ANY_PORT, dst_ports: ANY_PORT }
}

/// Answers to packets of `selector`, whose protocol may be ICMP.
fn reversed(selector: &Selector) -> Selector {
    between(selector.dst, selector.src)
}

/// Whether a packet may match both.
fn meet(a: &Selector, b: &Selector) -> bool {
    let prefixes = |a: Prefix, b: Prefix| a.contains(b.address()) || b.contains(a.address());
    let ports = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| {
        a.start() <= b.end() && b.start() <= a.end()
    };
    prefixes(a.src, b.src)
        && prefixes(a.dst, b.dst)
        && (a.protocol.is_none() || b.protocol.is_none() || a.protocol == b.protocol)
        && ports(&a.src_ports, &b.src_ports)
        && ports(&a.dst_ports, &b.dst_ports)
}
