//! The literals of a group, and which of them are looked for at their places alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Member, Pattern};
use warpline_search::PlacedPattern;

/// Offsets at which literals are looked for apart, at most: those with the most literals. Each
/// costs a look at every packet.
const PLACES_MAX: usize = 8;

/// See the module.
pub(super) struct Literals {
    /// Each once; first those that may be anywhere.
    pub(super) patterns: Vec<Pattern>,
    /// The rules of each.
    pub(super) lists: Vec<Vec<u32>>,
    /// How many may be anywhere.
    pub(super) floating: usize,
    /// The others.
    pub(super) placed: Vec<PlacedPattern>,
}

/// A literal on its way.
struct Entry {
    pattern: Pattern,
    rules: Vec<u32>,
    /// The only offsets that any of its rules asks for; `None`: it may be anywhere.
    places: Option<BTreeSet<usize>>,
}

impl Literals {
    pub(super) fn of(members: &[&Member<'_>]) -> Self {
        let mut ids: HashMap<(&[u8], bool), usize> = HashMap::new();
        let mut entries: Vec<Entry> = Vec::new();
        for member in members {
            let Some(pattern) = &member.anchor.pattern else { continue };
            let id = *ids.entry((&pattern.bytes, pattern.is_nocase)).or_insert_with(|| {
                let (pattern, places) = (pattern.clone(), Some(BTreeSet::new()));
                entries.push(Entry { pattern, rules: Vec::new(), places });
                entries.len() - 1
            });
            let entry = &mut entries[id];
            entry.rules.push(member.at);
            match (member.anchor.place, &mut entry.places) {
                (Some(place), Some(places)) => _ = places.insert(place),
                _ => entry.places = None,
            }
        }
        let chosen = most_common(&entries);
        let is_placed =
            |entry: &Entry| entry.places.as_ref().is_some_and(|places| places.is_subset(&chosen));
        let (placed, mut all): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_placed);
        let floating = all.len();
        let with_places = |(id, entry): (u32, &Entry)| PlacedPattern {
            id,
            pattern: entry.pattern.clone(),
            places: entry.places.iter().flatten().copied().collect(),
        };
        let with_ids = (floating as u32..).zip(&placed).map(with_places).collect();
        all.extend(placed);
        let (patterns, lists) = all.into_iter().map(|entry| (entry.pattern, entry.rules)).unzip();
        Self { patterns, lists, floating, placed: with_ids }
    }
}

/// The offsets with the most literals.
fn most_common(entries: &[Entry]) -> BTreeSet<usize> {
    let mut counts = BTreeMap::<usize, usize>::new();
    for place in entries.iter().filter_map(|entry| entry.places.as_ref()).flatten() {
        *counts.entry(*place).or_default() += 1;
    }
    let mut places: Vec<(usize, usize)> = counts.into_iter().collect();
    places.sort_by_key(|(place, count)| (core::cmp::Reverse(*count), *place));
    places.into_iter().take(PLACES_MAX).map(|(place, _)| place).collect()
}
