//! Which ports the rules of a protocol ask for, and so how its packets fall into groups.
//!
//! A rule stands on the side where it names few ports: `any -> any 80` by destination, `any 80 -> any` by source; one that names
//! few on neither side is about every packet. Ports for which the same rules of a side ask are one class. The classes that
//! many rules ask for get groups of their own; the rest share one, because every group's matcher holds the rules about
//! all packets again: a few more literals cost a scan little, and each matcher costs memory and time to build.

use std::collections::HashMap;

use crate::nids::rules::{Header, Ports};

/// Classes of a side that get groups of their own, at most.
const OWN_GROUPS_MAX: usize = 16;
/// Rules that ask for such a class, at least, and how many times as many may be about all packets.
const OWN_RULES_MIN: u32 = 16;
const GENERAL_RULES_SHARE: u32 = 32;
/// A set of more ports than this says little about a packet.
const FEW_PORTS: u32 = 4096;
const PORTS: usize = 1 << 16;

/// Where the rules about a packet are: as rules see it, the two sides of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum GroupKey {
    /// No rule asks for either port: only those about all packets.
    General,
    /// One with a group of its own asks for this port, by source or by destination.
    Own {
        /// The destination's.
        is_dst: bool,
        /// Which class of that side.
        class: u16,
    },
    /// Ports that few rules ask for, on one side.
    Rest,
    /// Rules ask for both ports: everything.
    All,
}

/// The classes of both sides of a protocol's ports.
pub(super) struct PortClasses {
    /// By port, for source and for destination.
    of_port: [Box<[u16]>; 2],
    /// How many classes have groups of their own; a side's classes are those first, then the rest, with the
    /// last for ports that no rule asks for.
    own: [u16; 2],
}

/// A port that no rule asks for.
const UNASKED: u16 = u16::MAX;

/// On which sides a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides<'a> {
    pub(super) by_src: Option<&'a Ports>,
    pub(super) by_dst: Option<&'a Ports>,
}

impl<'a> Sides<'a> {
    /// Of a rule; one that goes either way stands on both sides.
    pub(super) fn of(header: &'a Header) -> Self {
        let (src, dst) = (few(&header.src_ports), few(&header.dst_ports));
        match (src, dst) {
            (None, None) => Self { by_src: None, by_dst: None },
            (_, Some(dst)) => {
                Self { by_src: header.is_bidirectional.then_some(dst), by_dst: Some(dst) }
            }
            (Some(src), None) => {
                Self { by_src: Some(src), by_dst: header.is_bidirectional.then_some(src) }
            }
        }
    }

    /// Whether it is about every packet.
    pub(super) fn is_general(&self) -> bool {
        self.by_src.is_none() && self.by_dst.is_none()
    }
}

fn few(ports: &Ports) -> Option<&Ports> {
    let count: u32 = ports.0.iter().map(|&(first, last)| u32::from(last - first) + 1).sum();
    (count <= FEW_PORTS).then_some(ports)
}

impl PortClasses {
    /// Of rules that stand on these sides.
    pub(super) fn new(rules: &[Sides<'_>]) -> Self {
        let general = rules.iter().filter(|sides| sides.is_general()).count() as u32;
        let least = OWN_RULES_MIN.max(general / GENERAL_RULES_SHARE);
        let (by_src, own_src) = classes(rules.iter().map(|sides| sides.by_src), least);
        let (by_dst, own_dst) = classes(rules.iter().map(|sides| sides.by_dst), least);
        Self { of_port: [by_src, by_dst], own: [own_src, own_dst] }
    }

    /// The group of a packet from port `src` to port `dst`.
    pub(super) fn key(&self, src: u16, dst: u16) -> GroupKey {
        let (by_src, by_dst) = (self.class(0, src), self.class(1, dst));
        match (by_src, by_dst) {
            (UNASKED, UNASKED) => GroupKey::General,
            (class, UNASKED) => self.one(0, class),
            (UNASKED, class) => self.one(1, class),
            _ => GroupKey::All,
        }
    }

    /// Whether a rule on these sides may match a packet of the group.
    pub(super) fn has(&self, key: GroupKey, sides: &Sides<'_>) -> bool {
        if sides.is_general() {
            return true;
        }
        match key {
            GroupKey::General => false,
            GroupKey::All => true,
            GroupKey::Own { is_dst, class } => {
                let ports = if is_dst { sides.by_dst } else { sides.by_src };
                self.any(usize::from(is_dst), ports, |own| own == class)
            }
            GroupKey::Rest => [sides.by_src, sides.by_dst]
                .into_iter()
                .enumerate()
                .any(|(side, ports)| self.any(side, ports, |class| class >= self.own[side])),
        }
    }

    /// Every group that there is, in the order of [`PortClasses::index`].
    pub(super) fn keys(&self) -> impl Iterator<Item = GroupKey> {
        let own = |is_dst: bool| {
            (0..self.own[usize::from(is_dst)]).map(move |class| GroupKey::Own { is_dst, class })
        };
        let shared = [GroupKey::General, GroupKey::Rest, GroupKey::All];
        shared.into_iter().chain(own(false)).chain(own(true))
    }

    /// The place of a group among all.
    pub(super) fn index(&self, key: GroupKey) -> usize {
        match key {
            GroupKey::General => 0,
            GroupKey::Rest => 1,
            GroupKey::All => 2,
            GroupKey::Own { is_dst, class } => {
                3 + usize::from(is_dst) * usize::from(self.own[0]) + usize::from(class)
            }
        }
    }

    fn class(&self, side: usize, port: u16) -> u16 {
        self.of_port[side][usize::from(port)]
    }

    fn one(&self, side: usize, class: u16) -> GroupKey {
        if class < self.own[side] {
            GroupKey::Own { is_dst: side == 1, class }
        } else {
            GroupKey::Rest
        }
    }

    fn any(&self, side: usize, ports: Option<&Ports>, is: impl Fn(u16) -> bool) -> bool {
        let ranges = ports.map_or(&[][..], |ports| &ports.0);
        ranges.iter().any(|&(first, last)| (first..=last).any(|port| is(self.class(side, port))))
    }
}

/// The class of every port on a side, the most asked for first, and how many have groups of their own: at least `least`
/// rules ask for them.
fn classes<'a>(rules: impl Iterator<Item = Option<&'a Ports>>, least: u32) -> (Box<[u16]>, u16) {
    // Two ports are one class when the same rules ask for them: split step by step, as each rule divides classes.
    let mut of_port = vec![0u32; PORTS];
    let mut asked = vec![0u32];
    for ports in rules.flatten() {
        let mut split: HashMap<u32, u32> = HashMap::new();
        for port in ports.0.iter().flat_map(|&(first, last)| first..=last) {
            let class = &mut of_port[usize::from(port)];
            *class = *split.entry(*class).or_insert_with(|| {
                asked.push(asked[*class as usize] + 1);
                asked.len() as u32 - 1
            });
        }
    }
    let mut found: Vec<u32> = of_port.iter().copied().filter(|&class| class > 0).collect();
    found.sort_unstable();
    found.dedup();
    found.sort_by_key(|&class| (core::cmp::Reverse(asked[class as usize]), class));
    let places: HashMap<u32, u16> =
        found.iter().zip(0..UNASKED).map(|(&class, at)| (class, at)).collect();
    let place = |class: &u32| match class {
        0 => UNASKED,
        // More classes than places: there are 65,536 ports, so one at most; it shares the last.
        class => places.get(class).copied().unwrap_or(UNASKED - 1),
    };
    let own = found.iter().take_while(|&&class| asked[class as usize] >= least);
    (of_port.iter().map(place).collect(), own.take(OWN_GROUPS_MAX).count() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(ranges: &[(u16, u16)]) -> Ports {
        Ports(ranges.to_vec())
    }

    #[test]
    fn a_packet_s_group_has_every_rule_that_its_ports_fit() {
        let sets: Vec<Ports> = [
            vec![(0, u16::MAX)],
            vec![(80, 80)],
            vec![(80, 81), (8080, 8080)],
            vec![(443, 443)],
            vec![(1024, 2000)],
            vec![(0, 0), (u16::MAX, u16::MAX)],
        ]
        .into_iter()
        .chain((0..60).map(|n| vec![(3000 + n, 3000 + 2 * n)]))
        .map(|ranges| ports(&ranges))
        .collect();
        let rules: Vec<(&Ports, &Ports, bool)> = (0..sets.len())
            .flat_map(|n| {
                [(n, 0, n % 2 == 0), (0, n, n % 3 == 0), (n, (n * 7) % sets.len(), n % 5 == 0)]
            })
            .map(|(src, dst, both)| (&sets[src], &sets[dst], both))
            .collect();
        let sides: Vec<Sides<'_>> = rules
            .iter()
            .map(|&(src, dst, both)| match (few(src), few(dst)) {
                (None, None) => Sides { by_src: None, by_dst: None },
                (_, Some(dst)) => Sides { by_src: both.then_some(dst), by_dst: Some(dst) },
                (Some(src), None) => Sides { by_src: Some(src), by_dst: both.then_some(src) },
            })
            .collect();
        let classes = PortClasses::new(&sides);
        assert!(classes.own.iter().all(|&own| 0 < own && usize::from(own) <= OWN_GROUPS_MAX));
        let has = |ports: &Ports, port: u16| ports.0.iter().any(|&(a, b)| a <= port && port <= b);
        let mut looked_at = 0;
        for src in [0, 79, 80, 81, 443, 1024, 3000, 3001, 3050, 3118, 5000, u16::MAX] {
            for dst in [0, 80, 81, 443, 2000, 2001, 3010, 3059, 3099, 40_000, u16::MAX] {
                let key = classes.key(src, dst);
                assert!(classes.keys().any(|known| known == key));
                for ((from, to, both), sides) in rules.iter().zip(&sides) {
                    let fits = (has(from, src) && has(to, dst))
                        || (*both && has(from, dst) && has(to, src));
                    assert!(!fits || classes.has(key, sides), "{src} {dst} {key:?} {sides:?}");
                    looked_at += usize::from(fits);
                }
            }
        }
        assert!(looked_at > 500);
        assert_eq!(PortClasses::new(&[]).key(80, 80), GroupKey::General);
        let places: Vec<usize> = classes.keys().map(|key| classes.index(key)).collect();
        assert!(places.iter().copied().eq(0..places.len()));
    }
}
