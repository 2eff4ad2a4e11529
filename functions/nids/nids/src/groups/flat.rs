//! The groups as flat tables, for kernels: the group of a packet, and the literals of each group.

use std::collections::HashMap;
use std::sync::Arc;

use super::ports::FLAT_CLASSES;
use super::{Group, Groups, Pattern, UPPERS, Upper};

/// No group with literals, no literal of a group.
const NONE: u32 = u32::MAX;

/// See the module. Groups without a literal have no number.
pub struct FlatGroups {
    /// The class of each port: of TCP's by source, by destination, and of UDP's.
    pub port_classes: Vec<u8>,
    /// By what packets fall apart by before ports, by class of source port, by class of destination
    /// port: the number of the group, or `NONE`.
    pub numbers: Vec<u32>,
    /// For each group the id that it has for each of all literals, or `NONE`.
    pub ids: Vec<Vec<u32>>,
}

impl FlatGroups {
    /// Classes of ports. The last is of ports that no rule asks for, and of packets without ports.
    pub const CLASSES: usize = FLAT_CLASSES;
    /// Bytes of [`FlatGroups::port_classes`].
    pub const PORT_CLASSES_LEN: usize = 4 << 16;

    /// Of `groups`.
    pub fn new(groups: &Groups) -> Self {
        let all = (0..).zip(&groups.patterns);
        let places: HashMap<&Pattern, usize> =
            all.map(|(place, pattern)| (pattern, place)).collect();
        let mut flat = Self { port_classes: Vec::new(), numbers: Vec::new(), ids: Vec::new() };
        for upper in [Upper::Tcp, Upper::Udp] {
            let classes = &groups.uppers[upper as usize].classes;
            flat.port_classes
                .extend([0, 1].into_iter().flat_map(|side| classes.flat_classes(side)));
        }
        let mut known = HashMap::new();
        for upper in UPPERS {
            let own = &groups.uppers[upper as usize];
            for classes in 0..FLAT_CLASSES * FLAT_CLASSES {
                let place = own.classes.flat_index(classes / FLAT_CLASSES, classes % FLAT_CLASSES);
                // Not all classes are there.
                let group = own.groups.get(place).filter(|group| group.matcher.is_some());
                let number = group.map_or(NONE, |group| {
                    *known.entry(Arc::as_ptr(group)).or_insert_with(|| flat.add(group, &places))
                });
                flat.numbers.push(number);
            }
        }
        flat
    }

    /// Gives the number of a group that had none.
    fn add(&mut self, group: &Group, places: &HashMap<&Pattern, usize>) -> u32 {
        let mut ids = vec![NONE; places.len()];
        for (id, pattern) in (0..).zip(&group.patterns) {
            if let Some(&place) = places.get(pattern) {
                ids[place] = id;
            }
        }
        self.ids.push(ids);
        self.ids.len() as u32 - 1
    }
}
