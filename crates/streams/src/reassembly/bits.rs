//! Ranges of bits in an array of words.

use core::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Words that hold `bits` bits.
pub(super) const fn words_for(bits: usize) -> usize {
    bits.div_ceil(WORD_BITS)
}

/// The set bits in `range`.
pub(super) fn count(words: &[u64], range: Range<usize>) -> usize {
    masks(range)
        .map(|(at, mask)| words.get(at).map_or(0, |word| (word & mask).count_ones() as usize))
        .sum()
}

/// Sets the bits in `range`.
pub(super) fn set(words: &mut [u64], range: Range<usize>) {
    for (at, mask) in masks(range) {
        if let Some(word) = words.get_mut(at) {
            *word |= mask;
        }
    }
}

/// Each word that `range` touches, by its place, and the bits of it that are in `range`.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = range;
    let mask = move |at: usize| {
        let first = start.max(at * WORD_BITS) - at * WORD_BITS;
        let behind = end.min((at + 1) * WORD_BITS) - at * WORD_BITS;
        (at, u64::MAX << first & u64::MAX >> (WORD_BITS - behind))
    };
    let words = if start < end { start / WORD_BITS..end.div_ceil(WORD_BITS) } else { 0..0 };
    words.map(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_bit_by_bit() {
        for start in 0..150 {
            for end in 0..200 {
                let mut words = [0; words_for(200)];
                set(&mut words, start..end);
                let bit = |at: usize| words[at / 64] >> (at % 64) & 1 == 1;
                assert!((0..200).all(|at| bit(at) == (start..end).contains(&at)), "{start} {end}");
                assert_eq!(count(&words, 100..190), (100..190).filter(|&at| bit(at)).count());
            }
        }
    }
}
