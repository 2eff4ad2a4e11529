//! Filters: the positions of a payload where literals may occur, and which ones.
//!
//! [`Grams`] looks up four bytes at every second position, hashed, in a bitmap. A literal of five
//! bytes or more has two such consecutive grams, one of them at an even position. [`Pairs`] looks
//! up two bytes of the shorter ones.

use super::anchors;
use super::literals::Literals;

/// Literals of fewer bytes are found by pairs.
pub(super) const GRAM_LITERAL_LEN_MIN: usize = 5;
/// Bits of the bitmap for each gram, at least.
const BITS_PER_GRAM: usize = 32;
/// Logarithms of the fewest and the most bits: 1 KiB and 128 KiB.
const BITS_LOG: core::ops::RangeInclusive<u32> = 13..=20;

/// In [`GramEntry::probe_at`]: the literal is as short as a probe.
const NO_PROBE: u16 = u16::MAX;

/// A literal that may occur at a position found by a filter.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct GramEntry {
    /// The bytes that the filter found, folded.
    pub(super) gram: u32,
    /// Four other bytes of the literal, folded.
    probe: u32,
    pub(super) literal: u32,
    /// Bytes from the start of the literal to the byte after the position.
    pub(super) back: u16,
    /// Where the probe is in the literal; [`NO_PROBE`].
    probe_at: u16,
}

impl GramEntry {
    /// Of the gram at `at` of a literal of at least four bytes; the probe is that end of it which
    /// is farther away.
    fn of_gram(literal: u32, bytes: &[u8], at: usize) -> Self {
        let probe_at = if at * 2 >= bytes.len() - 4 { 0 } else { bytes.len() - 4 };
        Self {
            gram: word(bytes, at),
            probe: word(bytes, probe_at),
            literal,
            back: at as u16 + 1,
            probe_at: probe_at as u16,
        }
    }

    /// Whether the literal may start at `start` of `bytes`.
    #[inline]
    pub(super) fn may_start(&self, bytes: &[u8], start: usize) -> bool {
        let at = start + usize::from(self.probe_at);
        self.probe_at == NO_PROBE || word(bytes, at) == self.probe
    }
}

/// Lists of entries, by bucket.
#[derive(Clone, Debug)]
struct Buckets {
    /// Bucket `i` is `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    entries: Vec<GramEntry>,
}

impl Buckets {
    fn new(
        count: usize,
        mut entries: Vec<GramEntry>,
        bucket: impl Fn(&GramEntry) -> usize,
    ) -> Self {
        entries.sort_by_key(&bucket);
        let start = |i| entries.partition_point(|entry| bucket(entry) < i) as u32;
        Self { starts: (0..=count).map(start).collect(), entries }
    }

    #[inline]
    fn get(&self, bucket: usize) -> &[GramEntry] {
        &self.entries[self.starts[bucket] as usize..self.starts[bucket + 1] as usize]
    }

    fn memory_len(&self) -> usize {
        self.starts.len() * 4 + self.entries.len() * size_of::<GramEntry>()
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
        let bucket = |entry: &GramEntry| (hash(entry.gram) >> bucket_shift) as usize;
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
    pub(super) fn entries(&self, gram: u32) -> &[GramEntry] {
        self.buckets.get((hash(gram) >> self.bucket_shift) as usize)
    }

    pub(super) fn memory_len(&self) -> usize {
        self.bits.len() * 8 + self.buckets.memory_len()
    }
}

/// Two entries of each literal that is long enough, one byte apart, where it is least dull.
fn gram_entries(literals: &Literals) -> Vec<GramEntry> {
    let long =
        (0..literals.len() as u32).filter(|&i| literals.get(i).len() >= GRAM_LITERAL_LEN_MIN);
    long.flat_map(|literal| {
        let bytes = literals.get(literal);
        let at = anchors::rarest(bytes, GRAM_LITERAL_LEN_MIN).start;
        [at, at + 1].map(|at| GramEntry::of_gram(literal, bytes, at))
    })
    .collect()
}

/// The filter of literals of fewer than [`GRAM_LITERAL_LEN_MIN`] bytes.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    /// A bit for each pair of bytes, the first in the low half.
    bits: Box<[u64; 1 << 10]>,
    /// By the top bits of the pair's hash.
    buckets: Buckets,
    bucket_shift: u32,
}

impl Pairs {
    /// `None`: there are none so short.
    pub(super) fn new(literals: &Literals) -> Option<Self> {
        let short =
            (0..literals.len() as u32).filter(|&i| literals.get(i).len() < GRAM_LITERAL_LEN_MIN);
        let entries: Vec<_> = short.flat_map(|i| pair_entries(i, literals.get(i))).collect();
        if entries.is_empty() {
            return None;
        }
        let mut bits = Box::new([0; 1 << 10]);
        for GramEntry { gram: pair, .. } in &entries {
            bits[*pair as usize / 64] |= 1 << (pair % 64);
        }
        let bucket_shift = 32 - entries.len().next_power_of_two().ilog2().max(1);
        let bucket = |entry: &GramEntry| (hash(entry.gram) >> bucket_shift) as usize;
        let buckets = Buckets::new(1 << (32 - bucket_shift), entries, bucket);
        Some(Self { bits, buckets, bucket_shift })
    }

    /// 1 where a pair, folded, is one of a literal.
    #[inline]
    pub(super) fn has(&self, pair: u16) -> u32 {
        (self.bits[usize::from(pair) / 64] >> (pair % 64)) as u32 & 1
    }

    /// The literals that may have `pair`.
    #[inline]
    pub(super) fn entries(&self, pair: u16) -> &[GramEntry] {
        self.buckets.get((hash(u32::from(pair)) >> self.bucket_shift) as usize)
    }

    pub(super) fn memory_len(&self) -> usize {
        self.bits.len() * 8 + self.buckets.memory_len()
    }
}

/// Entries of a literal of one to four bytes: two pairs one byte apart, so that one of them is at
/// an even position. A literal too short for two pairs has entries for all bytes that may stand
/// beside its edge.
fn pair_entries(literal: u32, bytes: &[u8]) -> Vec<GramEntry> {
    let at = anchors::rarest(bytes, 3).start;
    let entry = |[first, second]: [u8; 2], back: usize| {
        let gram = word(&[first, second], 0);
        GramEntry { gram, literal, back: back as u16, probe_at: NO_PROBE, ..GramEntry::default() }
    };
    let any = || (0..=255_u8).filter(|byte| !byte.is_ascii_uppercase());
    match bytes[at..] {
        [a, b, c, ..] => vec![entry([a, b], at + 1), entry([b, c], at + 2)],
        [a, b] => any().map(|x| entry([x, a], 0)).chain([entry([a, b], 1)]).collect(),
        [a] => any().flat_map(|x| [entry([x, a], 0), entry([a, x], 1)]).collect(),
        [] => Vec::new(),
    }
}

/// The four bytes at `at`, folded; zeros after the end.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let rest = bytes.get(at..).unwrap_or_default();
    let word = rest.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 4];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        word
    });
    u32::from_le_bytes(word.map(|byte| byte.to_ascii_lowercase()))
}

/// Its top bits depend on all bits of the gram (Knuth, TAOCP 3, 6.4).
#[inline]
fn hash(gram: u32) -> u32 {
    gram.wrapping_mul(0x9e37_79b1)
}
