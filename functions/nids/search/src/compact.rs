//! Filters first: a bitmap passes over most of a payload, and literals are compared at its hits.
//! Memory is about a hundred bytes a literal, whatever the number of literals.
//!
//! A payload made to pass the filters would compare literals at every byte. So the work is counted.
//! A payload that needs more than its share is walked once by an automaton ([`DoubleArray`]), which
//! takes at most two steps a byte for any payload. Both find the same.

use super::double_array::DoubleArray;
use super::grams::{GramEntry, Grams, Pairs, word};
use super::literals::Literals;
use super::{Error, Hits, Matcher, Pattern};

/// Positions that are filtered at a time.
const STEP: usize = 16;
/// A step's positions and the word that the last gram ends in.
const WINDOW: usize = STEP + 8;
/// Work for every [`STEP`] bytes of a payload before the automaton takes over: entries examined,
/// and literals compared, in units of 16 bytes.
const WORK_PER_STEP: usize = STEP;
/// Work allowed for the shortest payload.
const WORK_MIN: usize = 32;

/// Grams in a bitmap before a double array.
#[derive(Clone, Debug)]
pub struct Compact {
    grams: Grams,
    pairs: Option<Pairs>,
    automaton: DoubleArray,
    literals: Literals,
}

/// The remaining work of a scan.
struct Work(usize);

impl Compact {
    /// Makes the filters and the automaton of `patterns`.
    ///
    /// # Errors
    ///
    /// They have 2^31 bytes or more.
    pub fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        let literals = Literals::new(patterns)?;
        Ok(Self {
            grams: Grams::new(&literals),
            pairs: Pairs::new(&literals),
            automaton: DoubleArray::new(&literals),
            literals,
        })
    }

    /// Scans; gives the work done, in entries, compared stretches of 16 bytes and steps of the
    /// automaton.
    pub(super) fn scan_counted(&self, bytes: &[u8], hits: &mut Hits) -> usize {
        let granted = WORK_MIN + bytes.len() / STEP * WORK_PER_STEP;
        let mut work = Work(granted);
        let filtered = match self.pairs {
            Some(_) => self.filter::<true>(bytes, &mut work, hits),
            None => self.filter::<false>(bytes, &mut work, hits),
        };
        let steps = match filtered {
            Some(()) => 0,
            None => self.automaton.scan(bytes, &self.literals, hits),
        };
        hits.sort();
        granted - work.0 + steps
    }

    /// Looks at every step; `None` where that was too much work. `PAIRED`: there are pairs.
    fn filter<const PAIRED: bool>(
        &self,
        bytes: &[u8],
        work: &mut Work,
        hits: &mut Hits,
    ) -> Option<()> {
        let mut at = 0;
        while let Some(window) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            self.look::<PAIRED>(bytes, at, window, work, hits)?;
            at += STEP;
        }
        while at < bytes.len() {
            let mut window = [0; WINDOW];
            window.iter_mut().zip(&bytes[at..]).for_each(|(to, from)| *to = *from);
            self.look::<PAIRED>(bytes, at, &window, work, hits)?;
            at += STEP;
        }
        Some(())
    }

    /// Looks at the positions from `at` on, which is even; `window` are the bytes there, padded
    /// with zeros.
    #[inline(always)]
    fn look<const PAIRED: bool>(
        &self,
        bytes: &[u8],
        at: usize,
        window: &[u8; WINDOW],
        work: &mut Work,
        hits: &mut Hits,
    ) -> Option<()> {
        let (mut grams, mut pairs) = (0, 0);
        for (i, gram) in grams_of(window).into_iter().enumerate() {
            grams |= self.grams.has(gram) << i;
            if PAIRED && let Some(filter) = &self.pairs {
                pairs |= filter.has(gram as u16) << i;
            }
        }
        if grams | pairs == 0 {
            return Some(());
        }
        for place in places(grams).map(|i| at + 2 * i) {
            let gram = word(bytes, place);
            self.settle(self.grams.entries(gram), gram, bytes, place, work, hits)?;
        }
        if PAIRED && let Some(filter) = &self.pairs {
            for place in places(pairs).map(|i| at + 2 * i) {
                let pair = word(bytes, place) as u16;
                self.settle(filter.entries(pair), u32::from(pair), bytes, place, work, hits)?;
            }
        }
        Some(())
    }

    /// Compares the literals of `entries` that have `gram`, which is at `place`.
    fn settle(
        &self,
        entries: &[GramEntry],
        gram: u32,
        bytes: &[u8],
        place: usize,
        work: &mut Work,
        hits: &mut Hits,
    ) -> Option<()> {
        work.take(entries.len())?;
        for entry in entries {
            if entry.gram != gram {
                continue;
            }
            let Some(start) = (place + 1).checked_sub(usize::from(entry.back)) else { continue };
            if !entry.may_start(bytes, start) {
                continue;
            }
            let literal = self.literals.get(entry.literal);
            let Some(found) = bytes.get(start..start + literal.len()) else { continue };
            work.take(literal.len() / 16)?;
            if found.eq_ignore_ascii_case(literal) {
                self.literals.report(entry.literal, found, hits);
            }
        }
        Some(())
    }
}

/// The folded grams at the even ones of a step's positions.
#[inline(always)]
fn grams_of(window: &[u8; WINDOW]) -> [u32; STEP / 2] {
    let folded = window.map(|byte| byte.to_ascii_lowercase());
    let mut words = [0; WINDOW / 8];
    for (word, bytes) in words.iter_mut().zip(folded.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    core::array::from_fn(|i| {
        let pair = u128::from(words[i / 4]) | u128::from(words[i / 4 + 1]) << 64;
        (pair >> (i % 4 * 16)) as u32
    })
}

impl Work {
    #[inline]
    fn take(&mut self, work: usize) -> Option<()> {
        self.0 = self.0.checked_sub(work)?;
        Some(())
    }
}

/// The places of the bits that are set.
#[inline]
fn places(mut bits: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

impl Matcher for Compact {
    fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        self.scan_counted(bytes, hits);
    }

    fn memory_len(&self) -> usize {
        let pairs = self.pairs.as_ref().map_or(0, Pairs::memory_len);
        let filters = self.grams.memory_len() + pairs;
        filters + self.automaton.memory_len() + self.literals.memory_len()
    }

    fn name(&self) -> &'static str {
        "compact"
    }
}
