//! Divides the packets of a protocol into groups, by the ports that rules name.
//!
//! A rule belongs to the side where it names few ports: `any -> any 80` to the destination,
//! `any 80 -> any` to the source. One that names few on neither side is about every packet. Ports
//! with the same rules on a side are one class. Classes with many rules get groups of their own,
//! and the rest share one. Every group's matcher has the rules about all packets again: a few more
//! literals cost a scan little, but each matcher costs memory and time to build.

use super::stretches::Stretches;
use warpline_nids_rules::{Header, Ports};

/// Classes of a side that get groups of their own, at most.
const OWN_GROUPS_MAX: usize = 16;
/// Rules that ask for such a class, at least, and how many times as many may be about all packets.
const OWN_RULES_MIN: u32 = 16;
const GENERAL_RULES_SHARE: u32 = 32;
/// Membership in a set of more ports than this divides packets too little.
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
        class: u8,
    },
    /// Ports that few rules ask for, on one side.
    Rest,
    /// Rules ask for both ports: everything.
    All,
}

/// The classes of both sides of a protocol's ports.
pub(super) struct PortClasses {
    /// By port, for source and for destination; empty for a side whose ports no rule names.
    of_port: [Box<[u8]>; 2],
    /// How many classes of a side have groups of their own.
    own: [u8; 2],
}

/// Classes that have no groups of their own: of ports that few rules ask for, and that none asks
/// for.
const REST: u8 = u8::MAX - 1;
const UNASKED: u8 = u8::MAX;

/// The classes numbered after those with groups of their own, in a numbering without gaps.
const LAST_CLASSES: [u8; 2] = [REST, UNASKED];
/// How many numbers that takes. The last is of ports that none asks for.
pub(super) const FLAT_CLASSES: usize = OWN_GROUPS_MAX + LAST_CLASSES.len();

/// The groups that a rule is in: bits, by [`PortClasses::index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupSet(u64);

impl GroupSet {
    /// Every group.
    pub(super) const ALL: Self = Self(u64::MAX);

    /// Whether the group at this place is one.
    pub(super) fn has(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }
}

/// As many groups as a set has bits.
const _: () = assert!(3 + 2 * OWN_GROUPS_MAX <= u64::BITS as usize);

/// On which sides a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides<'a> {
    pub(super) by_src: Option<&'a Ports>,
    pub(super) by_dst: Option<&'a Ports>,
}

impl<'a> Sides<'a> {
    /// For a rule; one for both directions is on both sides.
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
    /// Of rules that stand on these sides; and the groups of each.
    pub(super) fn new(rules: &[Sides<'_>]) -> (Self, Vec<GroupSet>) {
        let general = rules.iter().filter(|sides| sides.is_general()).count() as u32;
        let least = OWN_RULES_MIN.max(general / GENERAL_RULES_SHARE);
        let by_src = Stretches::new(rules.iter().filter_map(|sides| sides.by_src));
        let by_dst = Stretches::new(rules.iter().filter_map(|sides| sides.by_dst));
        let sides = [by_src, by_dst];
        let own = sides.each_ref().map(|side| side.most_asked(least, OWN_GROUPS_MAX));
        let classes = Self {
            of_port: [0, 1].map(|side| table(&sides[side], &own[side])),
            own: own.each_ref().map(|own| own.len() as u8),
        };
        let bits = [false, true].map(|is_dst| classes.bits(&sides, &own, is_dst));
        let of_side = |side: usize, ports: Option<&Ports>| {
            ports.and_then(|ports| bits[side].get(sides[side].place(ports)?)).copied().unwrap_or(0)
        };
        let groups = rules.iter().map(|rule| match rule.is_general() {
            true => GroupSet::ALL,
            false => GroupSet(of_side(0, rule.by_src) | of_side(1, rule.by_dst)),
        });
        let groups = groups.collect();
        (classes, groups)
    }

    /// The groups of each set of ports that rules of a side ask for.
    fn bits(&self, sides: &[Stretches<'_>; 2], own: &[Vec<u32>; 2], is_dst: bool) -> Vec<u64> {
        let (side, own) = (&sides[usize::from(is_dst)], &own[usize::from(is_dst)]);
        let bit = |class: u32| match place(own, class) {
            REST => GroupKey::Rest,
            class => GroupKey::Own { is_dst, class },
        };
        let all = 1 << self.index(GroupKey::All);
        let bits = |class: u32| 1 << self.index(bit(class));
        let of_set = |ports| side.classes_of(ports).map(bits).fold(all, |all, bit| all | bit);
        side.sets().map(of_set).collect()
    }

    /// The group of a packet from port `src` to port `dst`.
    pub(super) fn key(&self, src: u16, dst: u16) -> GroupKey {
        self.key_of(self.class(0, src), self.class(1, dst))
    }

    #[inline]
    fn key_of(&self, by_src: u8, by_dst: u8) -> GroupKey {
        match (by_src, by_dst) {
            (UNASKED, UNASKED) => GroupKey::General,
            (class, UNASKED) => self.one(0, class),
            (UNASKED, class) => self.one(1, class),
            _ => GroupKey::All,
        }
    }

    /// The class of every port on a side, as a number below [`FLAT_CLASSES`].
    pub(super) fn flat_classes(&self, side: usize) -> impl Iterator<Item = u8> {
        (0..=u16::MAX).map(move |port| {
            let class = self.class(side, port);
            LAST_CLASSES
                .iter()
                .position(|&own| own == class)
                .map_or(class, |at| (OWN_GROUPS_MAX + at) as u8)
        })
    }

    /// The place of the group of packets whose ports are of these classes, as
    /// [`PortClasses::flat_classes`] numbers them.
    pub(super) fn flat_index(&self, by_src: usize, by_dst: usize) -> usize {
        let class = |flat: usize| {
            flat.checked_sub(OWN_GROUPS_MAX).map_or(flat as u8, |at| LAST_CLASSES[at])
        };
        self.index(self.key_of(class(by_src), class(by_dst)))
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        3 + usize::from(self.own[0]) + usize::from(self.own[1])
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

    #[inline]
    fn class(&self, side: usize, port: u16) -> u8 {
        self.of_port[side].get(usize::from(port)).copied().unwrap_or(UNASKED)
    }

    #[inline]
    fn one(&self, side: usize, class: u8) -> GroupKey {
        match class {
            REST => GroupKey::Rest,
            class => GroupKey::Own { is_dst: side == 1, class },
        }
    }
}

/// The class of every port on a side of which these have groups of their own.
fn table(side: &Stretches<'_>, own: &[u32]) -> Box<[u8]> {
    let mut of_port = Vec::new();
    for (first, last, class) in side.iter() {
        of_port.resize(PORTS, UNASKED);
        of_port[usize::from(first)..=usize::from(last)].fill(place(own, class));
    }
    of_port.into()
}

fn place(own: &[u32], class: u32) -> u8 {
    own.iter().position(|&known| known == class).map_or(REST, |at| at as u8)
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
        let (classes, groups) = PortClasses::new(&sides);
        let has = |ports: &Ports, port: u16| ports.0.iter().any(|&(a, b)| a <= port && port <= b);
        let mut looked_at = 0;
        for src in [0, 79, 80, 81, 443, 1024, 3000, 3001, 3050, 3118, 5000, u16::MAX] {
            for dst in [0, 80, 81, 443, 2000, 2001, 3010, 3059, 3099, 40_000, u16::MAX] {
                let key = classes.key(src, dst);
                assert!(classes.index(key) < classes.len());
                for ((from, to, both), groups) in rules.iter().zip(&groups) {
                    let fits = (has(from, src) && has(to, dst))
                        || (*both && has(from, dst) && has(to, src));
                    let is_in = groups.has(classes.index(key));
                    assert!(!fits || is_in, "{src} {dst} {key:?} {groups:?}");
                    looked_at += usize::from(fits);
                }
            }
        }
        assert!(looked_at > 500);
        assert_eq!(PortClasses::new(&[]).0.key(80, 80), GroupKey::General);
        let own = |is_dst: bool| {
            let classes = 0..classes.own[usize::from(is_dst)];
            classes.map(move |class| GroupKey::Own { is_dst, class })
        };
        let shared = [GroupKey::General, GroupKey::Rest, GroupKey::All];
        let keys = shared.into_iter().chain(own(false)).chain(own(true));
        assert!(keys.map(|key| classes.index(key)).eq(0..classes.len()));
    }

    #[test]
    fn ports_that_few_rules_ask_for_share_a_group() {
        let [many, few] = [ports(&[(80, 80)]), ports(&[(90, 90)])];
        let to = |ports, count| vec![Sides { by_src: None, by_dst: Some(ports) }; count];
        let general = |count| vec![Sides { by_src: None, by_dst: None }; count];
        for (rules, own) in [
            ([to(&many, 16), to(&few, 15), general(0)], 1),
            ([to(&many, 40), to(&few, 39), general(40 * 32)], 1),
            ([to(&many, 40), to(&few, 39), general(42 * 32)], 0),
        ] {
            let (classes, groups) = PortClasses::new(&rules.concat());
            assert_eq!(classes.own, [0, own]);
            assert_eq!(classes.key(1, 80) == GroupKey::Rest, own == 0);
            assert_eq!(classes.key(1, 90), GroupKey::Rest);
            let of = |port| classes.index(classes.key(1, port));
            let set = |places: [usize; 2]| GroupSet(places.map(|at| 1 << at).iter().sum());
            let expected = [(0, of(80)), (rules[0].len(), of(90))];
            for (rule, group) in expected {
                assert_eq!(groups[rule], set([classes.index(GroupKey::All), group]));
            }
            assert!(groups[rules[0].len() + rules[1].len()..].iter().all(|g| *g == GroupSet::ALL));
        }
    }
}
