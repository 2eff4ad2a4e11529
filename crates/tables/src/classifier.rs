//! First match among many rules by aggregated bit vectors.
//!
//! Every dimension of a rule (addresses, ports, kind of packet) is a set of ranges of numbers. In
//! each dimension the ends of all ranges cut the numbers into intervals; in one interval the same
//! rules match, and which ones is a row of bits, bit `i` for rule `i`. Equal rows are stored once,
//! as a class. A look-up finds the class of the packet's number in each of the five dimensions; the
//! rules that match are the AND of the five rows, and the first match is its lowest bit.
//!
//! A row of 10,000 rules has 157 words, nearly all of them zero. A summary has one bit for each
//! word of a row, set if the word is not zero; the AND of five summaries leaves a few words to look
//! at (Baboescu and Varghese, "Scalable Packet Classification", 2001).
//!
//! Addresses are found by binary search in the starts of their intervals, begun from an index by
//! leading bits; ports and kinds in a direct map. All of it is flat arrays, which devices take as
//! they are (`kernels.rs`).

use core::fmt;
use std::collections::HashMap;

/// Bit vectors of one space may take this many bytes.
pub const ROWS_LEN_MAX: usize = 1 << 30;

const DIMENSIONS: usize = 5;
/// Spaces of so few words are looked up without their summaries.
const WORDS_DIRECT: usize = 2;

/// A number of fixed width: an address.
pub trait Number: Copy + Ord {
    /// Its width.
    const BITS: u32;
    /// The number; bits beyond its width are lost.
    fn from_wide(wide: u128) -> Self;
    /// Its leading bits, all but the last `shift`; 0 where that leaves none.
    fn leading(self, shift: u32) -> usize;
}

macro_rules! number {
    ($($int:ty)*) => {$(
        impl Number for $int {
            const BITS: u32 = <$int>::BITS;
            fn from_wide(wide: u128) -> Self {
                wide as $int
            }
            #[inline(always)]
            fn leading(self, shift: u32) -> usize {
                self.checked_shr(shift).unwrap_or(0) as usize
            }
        }
    )*};
}
number!(u32 u128);

/// Numbers `first` to `last` of a dimension match rule `rule`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The rule's place among the rules of the space.
    pub rule: u32,
    /// The first number.
    pub first: u128,
    /// The last number.
    pub last: u128,
}

/// The ranges of all rules in the five dimensions. A rule without a range in one of them never
/// matches; ranges of one rule may overlap.
#[derive(Debug, Default)]
pub struct Ranges {
    /// How many rules there are.
    pub rules: usize,
    /// Of source addresses.
    pub src: Vec<Range>,
    /// Of destination addresses.
    pub dst: Vec<Range>,
    /// Of source ports, in a map of `ports` numbers.
    pub src_port: Vec<Range>,
    /// Of destination ports.
    pub dst_port: Vec<Range>,
    /// Of kinds of packet, in a map of `kinds` numbers.
    pub kind: Vec<Range>,
    /// Size of the maps of ports.
    pub ports: usize,
    /// Size of the map of kinds.
    pub kinds: usize,
}

/// The numbers of a packet in the five dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchKey<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub src_port: u32,
    /// Destination port.
    pub dst_port: u32,
    /// Kind of packet.
    pub kind: u32,
}

/// These rules would take more memory than [`ROWS_LEN_MAX`], or more classes than a map can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rules differ so much that their bit vectors would take over 1 GiB")
    }
}

impl core::error::Error for TooLarge {}

/// The search over the rules of one address family.
#[derive(Debug)]
pub struct Space<A> {
    /// Classes of source addresses.
    pub src: Intervals<A>,
    /// Classes of destination addresses.
    pub dst: Intervals<A>,
    /// Class of each source port.
    pub src_port: Vec<u16>,
    /// Class of each destination port.
    pub dst_port: Vec<u16>,
    /// Class of each kind.
    pub kind: Vec<u16>,
    /// The rows of each dimension.
    pub rows: [Rows; DIMENSIONS],
    /// Words of a row.
    pub words: usize,
}

impl<A: Number> Space<A> {
    /// Builds the search.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn build(ranges: &Ranges) -> Result<Self, TooLarge> {
        let sweep = |of: &[Range], last| Sweep::over(of, last, ranges.rules);
        let address_max = u128::MAX >> (128 - A::BITS);
        let (src, dst) = (sweep(&ranges.src, address_max)?, sweep(&ranges.dst, address_max)?);
        let ports = (ranges.ports as u128).saturating_sub(1);
        let (src_port, dst_port) =
            (sweep(&ranges.src_port, ports)?, sweep(&ranges.dst_port, ports)?);
        let kind = sweep(&ranges.kind, (ranges.kinds as u128).saturating_sub(1))?;
        let rows = [&src, &dst, &src_port, &dst_port, &kind];
        if rows.iter().map(|s| s.rows.rows.len() * 8).sum::<usize>() > ROWS_LEN_MAX {
            return Err(TooLarge);
        }
        Ok(Self {
            src_port: src_port.map(ranges.ports)?,
            dst_port: dst_port.map(ranges.ports)?,
            kind: kind.map(ranges.kinds)?,
            words: ranges.rules.div_ceil(64),
            src: Intervals::new(&src),
            dst: Intervals::new(&dst),
            rows: [src.rows, dst.rows, src_port.rows, dst_port.rows, kind.rows],
        })
    }

    /// The first rule that matches.
    #[inline]
    pub fn first_match(&self, key: &SearchKey<A>) -> Option<usize> {
        if self.words == 0 {
            return None;
        }
        let class = |map: &[u16], number: u32| map.get(number as usize).copied().unwrap_or(0);
        let classes = [
            self.src.class(key.src),
            self.dst.class(key.dst),
            class(&self.src_port, key.src_port).into(),
            class(&self.dst_port, key.dst_port).into(),
            class(&self.kind, key.kind).into(),
        ];
        if self.words <= WORDS_DIRECT {
            return lowest_bit(core::array::from_fn(|d| self.rows[d].row(classes[d])));
        }
        let rows = core::array::from_fn(|d| self.rows[d].row(classes[d]));
        let summaries = core::array::from_fn(|d| self.rows[d].summary(classes[d]));
        lowest_bit_summed(rows, summaries)
    }

    /// Bytes of its arrays.
    pub fn memory_len(&self) -> usize {
        let rows: usize = self.rows.iter().map(|r| (r.rows.len() + r.summaries.len()) * 8).sum();
        let maps = (self.src_port.len() + self.dst_port.len() + self.kind.len()) * 2;
        rows + maps + self.src.memory_len() + self.dst.memory_len()
    }
}

/// The lowest bit that is set in all rows.
#[inline(always)]
fn lowest_bit([a, b, c, d, e]: [&[u64]; DIMENSIONS]) -> Option<usize> {
    for (word, &a) in a.iter().enumerate() {
        let all = a & b.get(word)? & c.get(word)? & d.get(word)? & e.get(word)?;
        if all != 0 {
            return Some(word * 64 + all.trailing_zeros() as usize);
        }
    }
    None
}

/// The same, for only the words that are nonzero by all summaries.
#[inline(always)]
fn lowest_bit_summed(
    [a, b, c, d, e]: [&[u64]; DIMENSIONS],
    summaries: [&[u64]; DIMENSIONS],
) -> Option<usize> {
    let [sa, sb, sc, sd, se] = summaries;
    for (block, &sa) in sa.iter().enumerate() {
        let mut left = sa & sb.get(block)? & sc.get(block)? & sd.get(block)? & se.get(block)?;
        while left != 0 {
            let word = block * 64 + left.trailing_zeros() as usize;
            let all = a.get(word)? & b.get(word)? & c.get(word)? & d.get(word)? & e.get(word)?;
            if all != 0 {
                return Some(word * 64 + all.trailing_zeros() as usize);
            }
            left &= left - 1;
        }
    }
    None
}

/// The rows of one dimension, by class, and a bit for each word of theirs that is not zero.
#[derive(Debug, Default)]
pub struct Rows {
    words: usize,
    /// A bit for each rule, row by row.
    pub rows: Vec<u64>,
    /// Words of a summary.
    pub summary_words: usize,
    /// A bit for each word of a row that is not 0.
    pub summaries: Vec<u64>,
}

impl Rows {
    #[inline(always)]
    fn row(&self, class: u32) -> &[u64] {
        let at = class as usize * self.words;
        self.rows.get(at..at + self.words).unwrap_or(&[])
    }

    #[inline(always)]
    fn summary(&self, class: u32) -> &[u64] {
        let at = class as usize * self.summary_words;
        self.summaries.get(at..at + self.summary_words).unwrap_or(&[])
    }

    fn push(&mut self, row: &[u64]) -> Result<u32, TooLarge> {
        if (self.rows.len() + row.len()) * 8 > ROWS_LEN_MAX {
            return Err(TooLarge);
        }
        let class = self.rows.len().checked_div(self.words).unwrap_or(0);
        self.rows.extend_from_slice(row);
        let summaries = row.chunks(64).map(|words| {
            let bits = words.iter().enumerate().map(|(i, &word)| u64::from(word != 0) << i);
            bits.fold(0, |all, bit| all | bit)
        });
        self.summaries.extend(summaries);
        Ok(class as u32)
    }
}

/// The intervals that the ranges of one dimension make, and the class of each.
struct Sweep {
    starts: Vec<u128>,
    classes: Vec<u32>,
    rows: Rows,
}

impl Sweep {
    /// Over numbers from 0 to `last`.
    fn over(ranges: &[Range], last: u128, rules: usize) -> Result<Self, TooLarge> {
        let mut ends: Vec<(u128, u32, bool)> = Vec::with_capacity(ranges.len() * 2);
        for range in ranges.iter().filter(|range| range.first <= last) {
            ends.push((range.first, range.rule, true));
            if range.last < last {
                ends.push((range.last + 1, range.rule, false));
            }
        }
        ends.sort_unstable_by_key(|&(at, ..)| at);
        let mut active = Active::new(rules);
        let mut sweep = Self { starts: Vec::new(), classes: Vec::new(), rows: active.no_rows() };
        sweep.interval(0, &mut active, ends.first().is_none_or(|&(at, ..)| at > 0))?;
        for same in ends.chunk_by(|a, b| a.0 == b.0) {
            for &(_, rule, opens) in same {
                active.change(rule as usize, opens);
            }
            sweep.interval(same[0].0, &mut active, true)?;
        }
        Ok(sweep)
    }

    /// Begins an interval, unless it has the class of the one before it.
    fn interval(&mut self, start: u128, active: &mut Active, begins: bool) -> Result<(), TooLarge> {
        if !begins {
            return Ok(());
        }
        let class = active.class(&mut self.rows)?;
        if self.classes.last() != Some(&class) {
            self.starts.push(start);
            self.classes.push(class);
        }
        Ok(())
    }

    /// The class of each number from 0 to `len`.
    fn map(&self, len: usize) -> Result<Vec<u16>, TooLarge> {
        let mut map = vec![0; len];
        for (i, &start) in self.starts.iter().enumerate() {
            let end = self.starts.get(i + 1).map_or(len, |&end| end as usize);
            let class = u16::try_from(self.classes[i]).map_err(|_| TooLarge)?;
            if let Some(numbers) = map.get_mut(start as usize..end) {
                numbers.fill(class);
            }
        }
        Ok(map)
    }
}

/// The rules that match in the interval that a sweep is in.
struct Active {
    row: Vec<u64>,
    /// How many ranges of each rule are open.
    open: Vec<u32>,
    /// The XOR of a number for each rule in the row, by which equal rows are found.
    hash: u64,
    classes: HashMap<u64, Vec<u32>>,
}

impl Active {
    fn new(rules: usize) -> Self {
        let row = vec![0; rules.div_ceil(64)];
        Self { row, open: vec![0; rules], hash: 0, classes: HashMap::new() }
    }

    fn no_rows(&self) -> Rows {
        let words = self.row.len();
        Rows { words, summary_words: words.div_ceil(64), ..Rows::default() }
    }

    fn change(&mut self, rule: usize, opens: bool) {
        let was = self.open[rule];
        let is = if opens { was.wrapping_add(1) } else { was.wrapping_sub(1) };
        self.open[rule] = is;
        if (was == 0) != (is == 0) {
            self.row[rule / 64] ^= 1 << (rule % 64);
            self.hash ^= mix64(rule as u64 + 1);
        }
    }

    /// The class of the row as it is now.
    fn class(&mut self, rows: &mut Rows) -> Result<u32, TooLarge> {
        let same_hash = self.classes.entry(self.hash).or_default();
        if let Some(&class) = same_hash.iter().find(|&&class| rows.row(class) == self.row) {
            return Ok(class);
        }
        let class = rows.push(&self.row)?;
        same_hash.push(class);
        Ok(class)
    }
}

/// The finaliser of SplitMix64.
const fn mix64(mut x: u64) -> u64 {
    x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Intervals of addresses: the class of each, and an index by leading bits.
#[derive(Debug)]
pub struct Intervals<A> {
    /// The first address of each interval.
    pub starts: Vec<A>,
    /// The class of each interval.
    pub classes: Vec<u32>,
    /// Bits of an address that are not in the index.
    pub shift: u32,
    /// For each value of the leading bits, the interval that its first address is in; then the
    /// last.
    pub index: Vec<u32>,
}

impl<A: Number> Intervals<A> {
    fn new(sweep: &Sweep) -> Self {
        let starts: Vec<A> = sweep.starts.iter().map(|&s| A::from_wide(s)).collect();
        // A few index entries for each interval keep the searches short; 2^16 of them fit the
        // second-level cache.
        let bits = (starts.len().ilog2() + 3).min(16);
        let shift = A::BITS - bits;
        let first_of = |leading: u128| sweep.starts.partition_point(|&s| s <= leading << shift) - 1;
        let mut index: Vec<u32> = (0..1u128 << bits).map(|l| first_of(l) as u32).collect();
        index.push(starts.len() as u32 - 1);
        Self { starts, classes: sweep.classes.clone(), shift, index }
    }

    #[inline(always)]
    fn class(&self, address: A) -> u32 {
        let leading = address.leading(self.shift);
        let (Some(&low), Some(&high)) = (self.index.get(leading), self.index.get(leading + 1))
        else {
            return 0;
        };
        let (mut low, mut len) = (low as usize, (high - low) as usize + 1);
        while len > 1 {
            let half = len / 2;
            if self.starts.get(low + half).is_some_and(|&start| start <= address) {
                low += half;
            }
            len -= half;
        }
        self.classes.get(low).copied().unwrap_or(0)
    }

    fn memory_len(&self) -> usize {
        size_of_val(&*self.starts) + (self.classes.len() + self.index.len()) * 4
    }
}
