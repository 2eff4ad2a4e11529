//! Filters: at which positions of a payload literals may occur, and which.
//!
//! [`Grams`] looks at every second position for four bytes of a literal, hashed, in a bitmap. A literal of five bytes
//! or more has two such grams that follow each other, one of which stands at an even position. [`Pairs`] looks at
//! every position for two bytes of the shorter ones. Both fold letters more coarsely than ASCII does (by the bit
//! 0x20), so that what they find is compared.

use super::anchors;
use super::literals::Literals;

/// Literals of fewer bytes are found by pairs.
pub(super) const GRAM_LITERAL_LEN_MIN: usize = 5;
/// The bit that tells lower case from upper.
const FOLD: u32 = 0x2020_2020;
/// Bits of the bitmap for each gram, at least.
const BITS_PER_GRAM: usize = 32;
/// Logarithms of the fewest and the most bits: 1 KiB and 128 KiB.
const BITS_LOG: core::ops::RangeInclusive<u32> = 13..=20;

/// A literal that may be found where a filter says.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Entry {
    /// The bytes that the filter found, folded.
    pub(super) gram: u32,
    /// Four other bytes of the literal, folded.
    probe: u32,
    pub(super) literal: u32,
    /// How far the literal starts before what was found.
    pub(super) back: u16,
    /// Where the probe is in the literal.
    probe_at: u16,
}

impl Entry {
    /// Of the gram at `at` of a literal of at least four bytes; the probe is that end of it which is farther away.
    fn of_gram(literal: u32, bytes: &[u8], at: usize) -> Self {
        let probe_at = if at * 2 >= bytes.len() - 4 { 0 } else { bytes.len() - 4 };
        Self {
            gram: folded(word(bytes, at)),
            probe: folded(word(bytes, probe_at)),
            literal,
            back: at as u16,
            probe_at: probe_at as u16,
        }
    }

    /// Whether the literal may start at `start` of `bytes`.
    #[inline]
    pub(super) fn may_start(&self, bytes: &[u8], start: usize) -> bool {
        bytes
            .get(start + usize::from(self.probe_at)..)
            .and_then(|rest| rest.first_chunk())
            .is_some_and(|&probe| folded(u32::from_le_bytes(probe)) == self.probe)
    }
}

/// Lists of entries, by bucket.
#[derive(Clone, Debug)]
struct Buckets {
    /// Bucket `i` is `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    entries: Vec<Entry>,
}

impl Buckets {
    fn new(count: usize, mut entries: Vec<Entry>, bucket: impl Fn(&Entry) -> usize) -> Self {
        entries.sort_by_key(&bucket);
        let start = |i| entries.partition_point(|entry| bucket(entry) < i) as u32;
        Self { starts: (0..=count).map(start).collect(), entries }
    }

    #[inline]
    fn get(&self, bucket: usize) -> &[Entry] {
        &self.entries[self.starts[bucket] as usize..self.starts[bucket + 1] as usize]
    }

    fn memory_len(&self) -> usize {
        self.starts.len() * 4 + self.entries.len() * size_of::<Entry>()
    }
}

/// The filter of literals of [`GRAM_LITERAL_LEN_MIN`] bytes or more.
#[derive(Clone, Debug)]
pub(super) struct Grams {
    /// A bit for each hash.
    bits: Vec<u64>,
    /// Hashes are the top bits of 32.
    shift: u32,
    /// By the top bits of the hash.
    buckets: Buckets,
    bucket_shift: u32,
}

impl Grams {
    pub(super) fn new(literals: &Literals) -> Self {
        let entries = gram_entries(literals);
        let bits_log = (entries.len() * BITS_PER_GRAM).next_power_of_two().ilog2();
        let bits_log = bits_log.clamp(*BITS_LOG.start(), *BITS_LOG.end());
        let buckets_log = entries.len().next_power_of_two().ilog2().clamp(1, bits_log);
        let (shift, bucket_shift) = (32 - bits_log, 32 - buckets_log);
        let mut bits = vec![0; 1 << (bits_log - 6)];
        for entry in &entries {
            let hash = hash(entry.gram) >> shift;
            bits[hash as usize / 64] |= 1 << (hash % 64);
        }
        let bucket = |entry: &Entry| (hash(entry.gram) >> bucket_shift) as usize;
        Self { bits, shift, buckets: Buckets::new(1 << buckets_log, entries, bucket), bucket_shift }
    }

    /// 1 where a gram, folded, may be one of a literal.
    #[inline]
    pub(super) fn has(&self, gram: u32) -> u32 {
        let hash = hash(gram) >> self.shift;
        (self.bits[hash as usize / 64] >> (hash % 64)) as u32 & 1
    }

    /// The literals that may have `gram`.
    #[inline]
    pub(super) fn entries(&self, gram: u32) -> &[Entry] {
        self.buckets.get((hash(gram) >> self.bucket_shift) as usize)
    }

    pub(super) fn memory_len(&self) -> usize {
        self.bits.len() * 8 + self.buckets.memory_len()
    }
}

/// Two entries of each literal that is long enough, one byte apart, where it is least dull.
fn gram_entries(literals: &Literals) -> Vec<Entry> {
    let long =
        (0..literals.len() as u32).filter(|&i| literals.get(i).len() >= GRAM_LITERAL_LEN_MIN);
    long.flat_map(|literal| {
        let bytes = literals.get(literal);
        let at = anchors::rarest(bytes, GRAM_LITERAL_LEN_MIN).start;
        [at, at + 1].map(|at| Entry::of_gram(literal, bytes, at))
    })
    .collect()
}

/// The filter of literals of fewer than [`GRAM_LITERAL_LEN_MIN`] bytes.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    /// A bit for each pair of bytes, the first in the low half.
    bits: Vec<u64>,
    /// By the first byte of the pair.
    buckets: Buckets,
}

impl Pairs {
    /// `None`: there are none so short.
    pub(super) fn new(literals: &Literals) -> Option<Self> {
        let short =
            (0..literals.len() as u32).filter(|&i| literals.get(i).len() < GRAM_LITERAL_LEN_MIN);
        let mut bits = vec![0_u64; 1 << 10];
        let mut entries = Vec::new();
        for literal in short {
            let pair = anchors::rarest(literals.get(literal), 2);
            let back = pair.start as u16;
            let bytes = &literals.get(literal)[pair];
            let first = u32::from(bytes[0]) | 0x20;
            // One byte alone may stand before any other.
            let seconds = bytes.get(1).map_or(0..=255, |&second| second..=second);
            for second in seconds {
                let pair = first | (u32::from(second) | 0x20) << 8;
                bits[pair as usize / 64] |= 1 << (pair % 64);
            }
            entries.push(Entry { gram: first, literal, back, ..Entry::default() });
        }
        let buckets = Buckets::new(256, entries, |entry| entry.gram as usize);
        (!buckets.entries.is_empty()).then_some(Self { bits, buckets })
    }

    /// 1 where the low two bytes, folded, may be of a literal.
    #[inline]
    pub(super) fn has(&self, gram: u32) -> u32 {
        let pair = gram & 0xffff;
        (self.bits[pair as usize / 64] >> (pair % 64)) as u32 & 1
    }

    /// The literals that may have the pair in the low two bytes.
    #[inline]
    pub(super) fn entries(&self, gram: u32) -> &[Entry] {
        self.buckets.get((gram & 0xff) as usize)
    }

    pub(super) fn memory_len(&self) -> usize {
        self.bits.len() * 8 + self.buckets.memory_len()
    }
}

/// The four bytes at `at`; zeros behind the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, from)| *to = *from);
    u32::from_le_bytes(word)
}

#[inline]
pub(super) fn folded(gram: u32) -> u32 {
    gram | FOLD
}

/// Its top bits depend on all bits of the gram (Knuth, TAOCP 3, 6.4).
#[inline]
fn hash(gram: u32) -> u32 {
    gram.wrapping_mul(0x9e37_79b1)
}
