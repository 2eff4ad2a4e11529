//! The ports of one side, divided into classes: those that the same rules name.
//!
//! Sets of ports begin and end at few places. So the ranges between these are divided and not each
//! port, and rules with the same set divide them once.

use core::cmp::Reverse;
use std::collections::HashMap;

use warpline_nids_rules::Ports;

/// How often rules ask for the ports of a side, and the classes that come of it.
pub(super) struct Stretches<'a> {
    sets: Vec<AskedSet<'a>>,
    places: HashMap<&'a Ports, usize>,
    /// Where stretches begin; the last ends at the last place.
    borders: Vec<u32>,
    /// By stretch; 0 if no rule names it.
    classes: Vec<u32>,
    /// How many rules ask for each class.
    asked: Vec<u32>,
}

struct AskedSet<'a> {
    ports: &'a Ports,
    rules: u32,
}

impl<'a> Stretches<'a> {
    /// Of the sets that rules ask for.
    pub(super) fn new(rules: impl Iterator<Item = &'a Ports>) -> Self {
        let (mut sets, mut places): (Vec<AskedSet<'a>>, HashMap<_, _>) = Default::default();
        for ports in rules {
            let place = *places.entry(ports).or_insert_with(|| {
                sets.push(AskedSet { ports, rules: 0 });
                sets.len() - 1
            });
            sets[place].rules += 1;
        }
        let ranges = sets.iter().flat_map(|set| &set.ports.0);
        let mut borders: Vec<u32> =
            ranges.flat_map(|&(first, last)| [first.into(), u32::from(last) + 1]).collect();
        borders.sort_unstable();
        borders.dedup();
        let classes = vec![0; borders.len().saturating_sub(1)];
        let mut stretches = Self { sets, places, borders, classes, asked: vec![0] };
        stretches.divide();
        stretches
    }

    /// Two stretches are one class when the same sets have them: split step by step, as each set
    /// divides classes.
    fn divide(&mut self) {
        let Self { sets, borders, classes, asked, .. } = self;
        for set in sets {
            let mut split: HashMap<u32, u32> = HashMap::new();
            for at in stretches_of(borders, set.ports) {
                let class = &mut classes[at];
                *class = *split.entry(*class).or_insert_with(|| {
                    asked.push(asked[*class as usize] + set.rules);
                    asked.len() as u32 - 1
                });
            }
        }
    }

    /// Up to `max` classes for which `least` rules ask or more, the most asked for first.
    pub(super) fn most_asked(&self, least: u32, max: usize) -> Vec<u32> {
        let mut found: Vec<u32> = self.classes.clone();
        found.retain(|&class| class > 0 && self.asked[class as usize] >= least);
        found.sort_unstable();
        found.dedup();
        found.sort_by_key(|&class| (Reverse(self.asked[class as usize]), class));
        found.truncate(max);
        found
    }

    /// Every stretch that rules ask for: its first port, its last, its class.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u16, u32)> {
        let ends = self.borders.windows(2).map(|ends| (ends[0] as u16, (ends[1] - 1) as u16));
        let all = ends.zip(&self.classes).map(|((first, last), &class)| (first, last, class));
        all.filter(|&(_, _, class)| class > 0)
    }

    /// The classes of a set that a rule asks for, by its stretches.
    pub(super) fn classes_of(&self, ports: &Ports) -> impl Iterator<Item = u32> {
        stretches_of(&self.borders, ports).map(|at| self.classes[at])
    }

    /// The place of a set among those that rules ask for, each once.
    pub(super) fn place(&self, ports: &Ports) -> Option<usize> {
        self.places.get(ports).copied()
    }

    /// The sets that rules ask for, each once.
    pub(super) fn sets(&self) -> impl Iterator<Item = &'a Ports> {
        self.sets.iter().map(|set| set.ports)
    }
}

/// The places of the stretches that `ports` are made of, whose ends are among `borders`.
fn stretches_of(borders: &[u32], ports: &Ports) -> impl Iterator<Item = usize> {
    ports.0.iter().flat_map(move |&(first, last)| {
        let place = |border: u32| borders.partition_point(|&known| known < border);
        place(first.into())..place(u32::from(last) + 1)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A set with bounds from a short list, so that many sets share them.
    fn set() -> impl Strategy<Value = Ports> {
        const BOUNDS: [u16; 10] = [0, 1, 2, 80, 81, 443, 1024, 1030, u16::MAX - 1, u16::MAX];
        prop::collection::btree_set(0..BOUNDS.len(), 1..6).prop_map(|places| {
            let bounds: Vec<u16> = places.into_iter().map(|at| BOUNDS[at]).collect();
            let ranges = bounds.chunks(2).map(|ends| (ends[0], *ends.last().unwrap()));
            Ports(ranges.filter(|&(first, last)| last - first <= 1024).collect())
        })
    }

    fn has(ports: &Ports, port: u16) -> bool {
        ports.0.iter().any(|&(first, last)| first <= port && port <= last)
    }

    proptest! {
        /// Two ports are one class exactly when the same rules ask for them, and it counts those.
        #[test]
        fn classes_are_ports_that_the_same_rules_ask_for(
            rules in prop::collection::vec(set(), 0..12)) {
            let stretches = Stretches::new(rules.iter());
            let mut of_port = vec![0; 1 << 16];
            for (first, last, class) in stretches.iter() {
                of_port[usize::from(first)..=usize::from(last)].fill(class);
            }
            let mut known: HashMap<Vec<bool>, u32> = HashMap::new();
            for port in (0..2000).chain(u16::MAX - 2..=u16::MAX) {
                let class = of_port[usize::from(port)];
                let askers: Vec<bool> = rules.iter().map(|rule| has(rule, port)).collect();
                let count = askers.iter().filter(|asks| **asks).count() as u32;
                prop_assert_eq!((class > 0, stretches.asked[class as usize]), (count > 0, count));
                prop_assert_eq!(*known.entry(askers).or_insert(class), class);
                for rule in &rules {
                    prop_assert_eq!(stretches.classes_of(rule).any(|c| c == class && c > 0), {
                        class > 0 && rule.0.iter()
                            .any(|&(a, b)| of_port[a.into()..=b.into()].contains(&class))
                    });
                }
            }
            let mut own: Vec<u32> = known.values().copied().collect();
            own.sort_unstable();
            own.dedup();
            prop_assert_eq!(own.len(), known.len());
            let most = stretches.most_asked(2, 3);
            prop_assert!(most.is_sorted_by_key(|&class| Reverse(stretches.asked[class as usize])));
            let many = known.values().filter(|&&class| stretches.asked[class as usize] >= 2);
            prop_assert_eq!(most.len(), many.count().min(3));
        }
    }
}
