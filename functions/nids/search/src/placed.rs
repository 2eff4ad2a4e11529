//! Patterns that count at given places of a payload alone, as a `content` does whose `depth` is its
//! length. A look at each place costs less than a search, above all of short patterns.

use super::glance::Pairs;
use super::{Hits, Pattern};

/// A pattern that counts at `places`.
#[derive(Clone, Debug)]
pub struct PlacedPattern {
    /// Its id among the hits.
    pub id: u32,
    /// The bytes.
    pub pattern: Pattern,
    /// Offsets in the payload, at least one.
    pub places: Vec<usize>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Placed {
    /// By offset, in ascending order.
    places: Box<[Place]>,
    /// In the order of their ids, which have no gaps.
    patterns: Box<[PlacedPattern]>,
}

/// The patterns of one offset.
#[derive(Debug)]
struct Place {
    offset: usize,
    /// The first two bytes of all patterns of two and more.
    pairs: Pairs,
    /// These patterns by their first two bytes, in ascending order; one that has several cases is
    /// there for each.
    by_pair: Box<[(u16, u32, Pattern)]>,
    /// Patterns of one byte.
    singles: Box<[(u32, Pattern)]>,
}

impl Placed {
    /// Of `patterns`, in the order of their ids, which have no gaps.
    pub fn new(patterns: Vec<PlacedPattern>) -> Self {
        let mut offsets: Vec<usize> = patterns.iter().flat_map(|own| own.places.clone()).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let place = |offset| {
            let of_place = patterns.iter().filter(|own| own.places.contains(&offset));
            Place::new(offset, of_place)
        };
        let places = offsets.into_iter().map(place).collect();
        Self { places, patterns: patterns.into() }
    }

    /// Adds the ids of patterns that stand at one of their places in `bytes` to `hits`, whose order
    /// is lost.
    #[inline]
    pub fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        for place in &self.places {
            let Some(text) = bytes.get(place.offset..) else { return };
            place.scan(text, hits);
        }
    }

    /// Whether pattern `id` stands at one of its places in `bytes`; also if it is none of these.
    #[inline]
    pub fn stands(&self, id: u32, bytes: &[u8]) -> bool {
        let own = self.patterns.first().and_then(|first| id.checked_sub(first.id));
        let own = own.and_then(|at| self.patterns.get(at as usize));
        own.is_none_or(|PlacedPattern { pattern, places, .. }| {
            let mut texts = places.iter().filter_map(|&place| bytes.get(place..));
            texts.any(|text| begins_with(text, pattern))
        })
    }

    /// Bytes of the tables.
    pub fn memory_len(&self) -> usize {
        self.places.iter().map(Place::memory_len).sum()
    }
}

impl Place {
    fn new<'a>(offset: usize, patterns: impl Iterator<Item = &'a PlacedPattern>) -> Self {
        let (mut pairs, mut by_pair, mut singles) = (Pairs::new(), Vec::new(), Vec::new());
        for PlacedPattern { id, pattern, .. } in patterns {
            match *pattern.bytes {
                [a, b, ..] => {
                    pairs.add([a, b], pattern.is_nocase);
                    let cases = Pairs::cases([a, b], pattern.is_nocase);
                    by_pair.extend(cases.map(|pair| (pair, *id, pattern.clone())));
                }
                _ => singles.push((*id, pattern.clone())),
            }
        }
        by_pair.sort_unstable_by_key(|(pair, id, _)| (*pair, *id));
        by_pair.dedup_by_key(|(pair, id, _)| (*pair, *id));
        Self { offset, pairs, by_pair: by_pair.into(), singles: singles.into() }
    }

    #[inline]
    fn scan(&self, text: &[u8], hits: &mut Hits) {
        for (id, pattern) in &self.singles {
            if begins_with(text, pattern) {
                hits.insert(*id);
            }
        }
        if let Some(pair) = text.first_chunk()
            && self.pairs.has(u16::from_le_bytes(*pair))
        {
            self.compare(u16::from_le_bytes(*pair), text, hits);
        }
    }

    #[inline(never)]
    fn compare(&self, pair: u16, text: &[u8], hits: &mut Hits) {
        let first = self.by_pair.partition_point(|(own, ..)| *own < pair);
        let of_pair = self.by_pair[first..].iter().take_while(|(own, ..)| *own == pair);
        let there = of_pair.filter(|(_, _, pattern)| begins_with(text, pattern));
        there.for_each(|(_, id, _)| hits.insert(*id));
    }

    fn memory_len(&self) -> usize {
        Pairs::MEMORY_LEN + size_of_val(&*self.by_pair) + size_of_val(&*self.singles)
    }
}

#[inline]
fn begins_with(text: &[u8], Pattern { bytes, is_nocase }: &Pattern) -> bool {
    text.get(..bytes.len()).is_some_and(|text| match is_nocase {
        true => text.eq_ignore_ascii_case(bytes),
        false => text == &**bytes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_few_bytes(len: core::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"aAb[{\0".to_vec()), len)
    }

    proptest! {
        /// Few letters, so that patterns stand where they count.
        #[test]
        fn finds_what_stands_at_its_place(
            patterns in prop::collection::vec(
                (of_few_bytes(1..5), any::<bool>(), prop::collection::vec(0..6_usize, 1..3)),
                0..8,
            ),
            text in of_few_bytes(0..10),
        ) {
            let own = (0..).zip(&patterns).map(|(id, (bytes, is_nocase, places))| PlacedPattern {
                id,
                pattern: Pattern { bytes: (&**bytes).into(), is_nocase: *is_nocase },
                places: places.clone(),
            });
            let mut hits = Hits::new(patterns.len(), patterns.len());
            let placed = Placed::new(own.collect());
            placed.scan(&text, &mut hits);
            hits.sort();
            let stands = |(bytes, is_nocase, places): &(Vec<u8>, bool, Vec<usize>)| {
                places.iter().any(|&place| {
                    (0..bytes.len()).all(|at| text.get(place + at).is_some_and(|byte| {
                        let fold = |byte: &u8| if *is_nocase && byte.is_ascii_uppercase() {
                            byte + 32
                        } else {
                            *byte
                        };
                        fold(byte) == fold(&bytes[at])
                    }))
                })
            };
            let all = (0..).zip(&patterns);
            let expected: Vec<u32> =
                all.filter(|(_, own)| stands(own)).map(|(id, _)| id).collect();
            prop_assert_eq!(hits.ids(), &*expected);
            let standing = (0..patterns.len() as u32).filter(|&id| placed.stands(id, &text));
            prop_assert_eq!(standing.collect::<Vec<_>>(), expected);
            prop_assert!(placed.stands(patterns.len() as u32, &text));
        }
    }
}
