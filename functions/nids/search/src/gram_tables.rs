//! The literals of a large set as flat tables, for kernels: a filter of hashed grams, the literals
//! in buckets by the same hash, and a dense automaton for literals without a good gram.
//!
//! A literal is found by one gram, four of its bytes: of those whose buckets have room, the least
//! dull one with the fewest others. The automaton has literals of fewer bytes, runs of one byte
//! (such a gram is at every place of a longer run), and literals whose buckets are all full. The
//! same patterns give the same tables.

use super::anchors;
use super::flat::Flat;
use super::literals::{Literals, NOCASE};
use super::{Error, Pattern};

/// Bytes of a gram.
const GRAM_LEN: usize = 4;
/// Bits of the filter for each gram, at least.
const BITS_PER_GRAM: usize = 32;
/// Logarithms of the fewest and the most bits: 1 KiB, and 128 KiB, which is what a multiprocessor
/// of a GPU has room for beside packets.
const BITS_LOG: core::ops::RangeInclusive<u32> = 13..=20;
/// Literals of a bucket, at most.
const BUCKET_MAX: u8 = 16;
/// How much duller a gram may be than another whose bucket has one literal more.
const DULLNESS_PER_LITERAL: u32 = 2;
/// Numbers of a row.
const ROW_WORDS: usize = 4;

/// See the module.
pub struct GramTables {
    /// A bit for each hash: those that a gram has are 1.
    pub filter: Vec<u32>,
    /// By how much hashes are shifted down for the filter, and for a bucket.
    pub filter_shift: u32,
    /// By how many bits a hash is shifted to give its bucket.
    pub bucket_shift: u32,
    /// Bucket `i` is rows `starts[i]..starts[i + 1]`.
    pub starts: Vec<u32>,
    /// Four numbers for each literal: its gram; the gram's distance from the start, with the
    /// literal's length in the upper half; its start in `folded`; its first entry. One more row at
    /// the end holds the last of these numbers.
    pub rows: Vec<u32>,
    /// The literals' bytes, folded.
    pub folded: Vec<u8>,
    /// As in [`Flat`]: first those of the rows in their order, then those of `rest`.
    pub entries: Vec<u32>,
    /// Bytes of the patterns whose case counts.
    pub exact: Vec<u8>,
    /// The pattern of each entry.
    pub patterns: Vec<u32>,
    /// The automaton of the other literals, where there are some. Its entries, exact bytes and
    /// patterns were moved to those above, and its outputs name them there.
    pub rest: Option<Flat>,
}

/// A bucket's content, before it is put into tables.
struct Row {
    bucket: u32,
    gram: u32,
    back: usize,
    literal: u32,
}

/// Where literals go.
struct Placed {
    rows: Vec<Row>,
    rest: Vec<u32>,
    buckets_log: u32,
}

impl GramTables {
    /// The factor for hashes: their top bits depend on all bits of the gram (Knuth, TAOCP 3, 6.4).
    pub const HASH_FACTOR: u32 = 0x9e37_79b1;

    /// Tables of `patterns`. The few that grams do not separate may take up to `rest_len_max` bytes
    /// of cells.
    ///
    /// # Errors
    ///
    /// They would take more.
    pub fn new(patterns: &[Pattern], rest_len_max: usize) -> Result<Self, Error> {
        let literals = Literals::new(patterns)?;
        let Placed { mut rows, rest, buckets_log } = place(&literals);
        rows.sort_by_key(|row| (row.bucket, row.literal));
        let bits_log = (rows.len() * BITS_PER_GRAM).next_power_of_two().ilog2();
        let bits_log = bits_log.clamp(*BITS_LOG.start(), *BITS_LOG.end());
        let start = |bucket| rows.partition_point(|row| row.bucket < bucket) as u32;
        let mut tables = Self {
            filter: vec![0; 1 << (bits_log - 5)],
            filter_shift: 32 - bits_log,
            bucket_shift: 32 - buckets_log,
            starts: (0..=1 << buckets_log).map(start).collect(),
            rows: Vec::with_capacity(ROW_WORDS * (rows.len() + 1)),
            folded: Vec::new(),
            entries: Vec::new(),
            exact: Vec::new(),
            patterns: Vec::new(),
            rest: None,
        };
        rows.iter().for_each(|row| tables.push(row, &literals));
        tables.rows.extend([0, 0, 0, tables.patterns.len() as u32]);
        if !rest.is_empty() {
            tables.add_rest(&rest, &literals, patterns, rest_len_max)?;
        }
        Ok(tables)
    }

    /// How many of the patterns grams find.
    pub fn by_grams(&self) -> usize {
        self.rows.last().map_or(0, |&entries| entries as usize)
    }

    /// Bytes of all tables.
    pub fn memory_len(&self) -> usize {
        let words = [&self.filter, &self.starts, &self.rows, &self.entries];
        let words: usize = words.iter().map(|words| 4 * words.len()).sum();
        let rest = self.rest.as_ref().map_or(0, |rest| rest.cells.len() + 4 * rest.outputs.len());
        words + self.folded.len() + self.exact.len() + rest
    }

    fn push(&mut self, row: &Row, literals: &Literals) {
        let bytes = literals.get(row.literal);
        let hash = hash(row.gram) >> self.filter_shift;
        self.filter[hash as usize / 32] |= 1 << (hash % 32);
        let shape = row.back as u32 | (bytes.len() as u32) << 16;
        self.rows.extend([row.gram, shape, self.folded.len() as u32, self.patterns.len() as u32]);
        self.folded.extend(bytes);
        let [first, last] = [0, 1].map(|more| literals.id_starts[row.literal as usize + more]);
        for entry in first as usize..last as usize {
            let exact = literals.exact_starts[entry];
            let moved = if exact == NOCASE { NOCASE } else { self.exact.len() as u32 };
            if exact != NOCASE {
                self.exact.extend(&literals.exact[exact as usize..][..bytes.len()]);
            }
            self.entries.extend([bytes.len() as u32, moved]);
            self.patterns.push(literals.ids[entry]);
        }
    }

    /// Makes the automaton of the literals in `rest`.
    fn add_rest(
        &mut self,
        rest: &[u32],
        literals: &Literals,
        patterns: &[Pattern],
        len_max: usize,
    ) -> Result<(), Error> {
        let ids = rest.iter().flat_map(|&literal| {
            let [first, last] = [0, 1].map(|more| literals.id_starts[literal as usize + more]);
            &literals.ids[first as usize..last as usize]
        });
        let ids: Vec<u32> = ids.copied().collect();
        let own: Vec<Pattern> = ids.iter().map(|&id| patterns[id as usize].clone()).collect();
        if Flat::cells_len(&own) > len_max {
            return Err(Error::TooLong);
        }
        let mut flat = Flat::new(&own)?;
        let (entries, exact) = (self.patterns.len() as u32, self.exact.len() as u32);
        for output in flat.outputs.chunks_exact_mut(3) {
            output[..2].iter_mut().for_each(|entry| *entry += entries);
        }
        for entry in flat.entries.drain(..).as_slice().chunks_exact(2) {
            let moved = if entry[1] == NOCASE { NOCASE } else { entry[1] + exact };
            self.entries.extend([entry[0], moved]);
        }
        self.exact.append(&mut flat.exact);
        self.patterns.extend(flat.patterns.drain(..).map(|own| ids[own as usize]));
        self.rest = Some(flat);
        Ok(())
    }
}

/// Chooses a gram for each literal, those that have fewest to choose from first.
fn place(literals: &Literals) -> Placed {
    let (mut long, mut rest): (Vec<u32>, Vec<u32>) = (0..literals.len() as u32).partition(|&at| {
        let bytes = literals.get(at);
        bytes.len() >= GRAM_LEN && bytes.windows(2).any(|pair| pair[0] != pair[1])
    });
    long.sort_by_key(|&literal| literals.get(literal).len());
    let buckets_log = long.len().next_power_of_two().ilog2().max(1);
    let mut lens = vec![0_u8; 1 << buckets_log];
    let mut rows = Vec::with_capacity(long.len());
    for literal in long {
        let bytes = literals.get(literal);
        let choices = bytes.windows(GRAM_LEN).enumerate().filter_map(|(back, window)| {
            let gram = window.first_chunk().map(|gram| u32::from_le_bytes(*gram))?;
            let bucket = hash(gram) >> (32 - buckets_log);
            let len = lens[bucket as usize];
            let cost = anchors::dullness(window) + DULLNESS_PER_LITERAL * u32::from(len);
            (len < BUCKET_MAX).then_some((cost, Row { bucket, gram, back, literal }))
        });
        match choices.min_by_key(|(cost, _)| *cost) {
            Some((_, row)) => {
                lens[row.bucket as usize] += 1;
                rows.push(row);
            }
            None => rest.push(literal),
        }
    }
    Placed { rows, rest, buckets_log }
}

fn hash(gram: u32) -> u32 {
    gram.wrapping_mul(GramTables::HASH_FACTOR)
}

#[cfg(test)]
mod tests {
    use warpline_packet::hash::mix32;

    use super::*;

    fn pattern(bytes: &[u8]) -> Pattern {
        Pattern { bytes: bytes.into(), is_nocase: false }
    }

    /// `len` of the first `letters` letters.
    fn of_letters(number: u32, len: u32, letters: u32) -> Pattern {
        let bytes: Vec<u8> =
            (0..len).map(|at| b'a' + (mix32(number << 8 | at) % letters) as u8).collect();
        pattern(&bytes)
    }

    fn longest_bucket(tables: &GramTables) -> u32 {
        tables.starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    #[test]
    fn every_pattern_has_one_entry() {
        let patterns: Vec<Pattern> = (0..3000)
            .map(|number| of_letters(number, 1 + number % 20, 2 + number % 24))
            .chain([
                pattern(b"\0\0\0\0\0\0"),
                pattern(b"AbC"),
                pattern(b"aBcDe"),
                pattern(b"AbCdE"),
            ])
            .collect();
        let tables = GramTables::new(&patterns, usize::MAX).unwrap();
        let mut known = tables.patterns.clone();
        known.sort_unstable();
        assert!(known.iter().copied().eq(0..patterns.len() as u32));
        assert_eq!(tables.entries.len(), 2 * patterns.len());
        for (entry, &id) in tables.entries.chunks_exact(2).zip(&tables.patterns) {
            let bytes = &patterns[id as usize].bytes;
            assert_eq!(entry[0] as usize, bytes.len());
            let exact = tables.exact.get(entry[1] as usize..);
            assert!(entry[1] == NOCASE || exact.unwrap().starts_with(bytes));
        }
    }

    #[test]
    fn buckets_have_few_literals_and_the_automaton_has_the_rest() {
        // Of two letters there are sixteen grams, of 26 enough.
        for (letters, is_crowded) in [(2, true), (26, false)] {
            let patterns: Vec<Pattern> =
                (0..2000).map(|number| of_letters(number, 14, letters)).collect();
            let tables = GramTables::new(&patterns, usize::MAX).unwrap();
            assert!(longest_bucket(&tables) <= u32::from(BUCKET_MAX));
            assert_eq!(tables.rest.is_some(), is_crowded);
            assert_eq!(tables.by_grams() < patterns.len(), is_crowded);
        }
    }

    #[test]
    fn an_automaton_that_would_be_too_large_is_an_error() {
        let patterns: Vec<Pattern> = (0..2000)
            .map(|number: u32| pattern(&mix32(number).to_le_bytes()[..3]))
            .chain([pattern(b"long enough")])
            .collect();
        let cells = Flat::cells_len(&patterns[..2000]);
        assert!(GramTables::new(&patterns, cells).is_ok());
        assert_eq!(GramTables::new(&patterns, cells - 1).err(), Some(Error::TooLong));
    }
}
