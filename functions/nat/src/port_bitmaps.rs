//! Bitmaps of the taken ports of a block. A block without a taken port has none.

use core::ops::Range;

use warpline_packet::prefetch;

/// A block without a bitmap.
pub(super) const NO_BITMAP: u32 = u32::MAX;

/// Bitmaps of blocks of one size. Their memory is reserved at the start and used as ports are
/// taken.
pub(super) struct PortBitmaps {
    ports: usize,
    words: usize,
    bits: Vec<u64>,
    /// By bitmap, how many ports are taken.
    used: Vec<u16>,
    /// Bitmaps without a taken port.
    free: Vec<u32>,
}

impl PortBitmaps {
    /// For blocks of `ports` ports, of which `most` may have taken ones.
    pub(super) fn new(ports: usize, most: usize) -> Self {
        let words = ports.div_ceil(64);
        let bits = Vec::with_capacity(words * most);
        Self { ports, words, bits, used: Vec::with_capacity(most), free: Vec::with_capacity(most) }
    }

    /// The first free port among some of a block, of those whose bits are in `mask` in every word.
    pub(super) fn search(&self, bitmap: u32, among: Range<usize>, mask: u64) -> Option<usize> {
        let (first, end) = (among.start / 64, among.end.min(self.ports).div_ceil(64));
        (first..end).find_map(|word| {
            let from = among.start.saturating_sub(word * 64);
            let len = (among.end.min(self.ports) - word * 64).min(64);
            let within = u64::MAX << from & u64::MAX >> (64 - len);
            let free = !self.word(bitmap, word) & mask & within;
            (free != 0).then(|| word * 64 + free.trailing_zeros() as usize)
        })
    }

    /// Asks for a bitmap ahead.
    #[inline]
    pub(super) fn fetch(&self, bitmap: u32) {
        let words = self.bits.chunks_exact(self.words).nth(bitmap as usize);
        words.into_iter().flat_map(|words| words.iter().step_by(8)).for_each(prefetch);
    }

    fn word(&self, bitmap: u32, word: usize) -> u64 {
        match bitmap {
            NO_BITMAP => 0,
            _ => self.bits[bitmap as usize * self.words + word],
        }
    }

    /// Takes a free port of a block.
    pub(super) fn take(&mut self, bitmap: &mut u32, port: usize) {
        if *bitmap == NO_BITMAP {
            *bitmap = self.free.pop().unwrap_or_else(|| self.add());
        }
        self.used[*bitmap as usize] += 1;
        self.bits[*bitmap as usize * self.words + port / 64] |= 1 << (port % 64);
    }

    fn add(&mut self) -> u32 {
        self.used.push(0);
        self.bits.resize(self.bits.len() + self.words, 0);
        self.used.len() as u32 - 1
    }

    /// Gives back a taken port of a block.
    pub(super) fn release(&mut self, bitmap: &mut u32, port: usize) {
        let number = *bitmap as usize;
        self.bits[number * self.words + port / 64] &= !(1 << (port % 64));
        self.used[number] -= 1;
        if self.used[number] == 0 {
            self.free.push(*bitmap);
            *bitmap = NO_BITMAP;
        }
    }

    /// Words that there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bits.capacity()
    }
}
