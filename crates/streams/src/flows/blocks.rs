//! Memory for streams: one range, lent in blocks of powers of two.
//!
//! A buddy system (Knuth, The Art of Computer Programming 1, 2.5): a returned block joins its free
//! neighbour. So many small streams and few long ones share the same memory. Nothing is allocated
//! after [`Blocks::new`].

use core::num::NonZeroU32;

use warpline_packet::in_small_pages;

/// Bytes of the smallest block.
pub(super) const UNIT: usize = 512;
/// Orders of blocks: from `UNIT` to half of 4 GiB.
const ORDERS: usize = 23;
const NONE: u32 = u32::MAX;

/// Memory that is lent.
pub(super) struct Blocks {
    bytes: Box<[u8]>,
    units: Box<[Unit]>,
    /// The first free block of each order.
    free: [u32; ORDERS],
    used: usize,
    peak: usize,
}

/// The state of a unit where a free block may start.
#[derive(Clone, Copy)]
struct Unit {
    before: u32,
    next: u32,
    /// The order of the free block; `u8::MAX` if none starts here.
    order: u8,
}

/// A block: the number of its first unit, counted from 1, and in the lower five bits its size in
/// units, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block(NonZeroU32);

const ORDER_BITS: u32 = 5;
/// Units of all blocks together.
const UNITS_MAX: usize = (1 << (u32::BITS - ORDER_BITS)) - 1;

const _: () = assert!(ORDERS <= 1 << ORDER_BITS && size_of::<Option<Block>>() == 4);

impl Block {
    fn new(at: u32, order: u8) -> Self {
        let word = (at + 1) << ORDER_BITS | u32::from(order);
        // It is not zero, as there are less units than would make it so.
        Self(NonZeroU32::new(word).unwrap_or(NonZeroU32::MIN))
    }

    fn at(self) -> u32 {
        (self.0.get() >> ORDER_BITS) - 1
    }

    fn order(self) -> u8 {
        (self.0.get() & ((1 << ORDER_BITS) - 1)) as u8
    }

    /// Bytes of it.
    pub(super) fn len(self) -> usize {
        UNIT << self.order()
    }

    /// Where it starts.
    pub(super) fn start(self) -> usize {
        self.at() as usize * UNIT
    }
}

impl Blocks {
    /// Bytes that [`Blocks::new`] takes for so many to lend.
    pub(super) fn memory_len(memory: usize) -> usize {
        memory / UNIT * (UNIT + size_of::<Unit>())
    }

    /// With `memory` bytes, rounded down to units; 64 GiB at most.
    pub(super) fn new(memory: usize) -> Self {
        let count = (memory / UNIT).min(UNITS_MAX);
        let unit = Unit { before: NONE, next: NONE, order: u8::MAX };
        let mut blocks = Self {
            bytes: in_small_pages(|| vec![0; count * UNIT].into_boxed_slice()),
            units: vec![unit; count].into_boxed_slice(),
            free: [NONE; ORDERS],
            used: 0,
            peak: 0,
        };
        let mut at = 0;
        while at < count {
            let fits = (count - at).ilog2();
            let order = fits.min((at | 1 << ORDERS).trailing_zeros()).min(ORDERS as u32 - 1);
            blocks.link(at as u32, order as u8);
            at += 1 << order;
        }
        blocks
    }

    /// All of its bytes; a block's lie from [`Block::start`] on.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// See [`Blocks::bytes`].
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The most bytes that were lent since [`Blocks::begin_peak`].
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Forgets how much was lent before now.
    pub(super) fn begin_peak(&mut self) {
        self.peak = self.used;
    }

    /// Lends a block of at least `len` bytes; `None` where there is none in one piece.
    pub(super) fn take(&mut self, len: usize) -> Option<Block> {
        let wanted = len.div_ceil(UNIT).max(1).next_power_of_two().ilog2() as usize;
        let found = (wanted..ORDERS).find(|&order| self.free[order] != NONE)?;
        let at = self.free[found];
        self.unlink(at);
        for order in (wanted..found).rev() {
            self.link(at + (1 << order), order as u8);
        }
        let block = Block::new(at, wanted as u8);
        self.used += block.len();
        self.peak = self.peak.max(self.used);
        Some(block)
    }

    /// Takes a block back.
    pub(super) fn give(&mut self, block: Block) {
        self.used -= block.len();
        let (mut at, mut order) = (block.at(), block.order());
        while usize::from(order) + 1 < ORDERS {
            let other = at ^ (1 << order);
            if self.units.get(other as usize).is_none_or(|unit| unit.order != order) {
                break;
            }
            self.unlink(other);
            at = at.min(other);
            order += 1;
        }
        self.link(at, order);
    }

    /// Adds a free block.
    fn link(&mut self, at: u32, order: u8) {
        let next = core::mem::replace(&mut self.free[usize::from(order)], at);
        if let Some(unit) = self.units.get_mut(next as usize) {
            unit.before = at;
        }
        self.units[at as usize] = Unit { before: NONE, next, order };
    }

    /// Takes out the free block that starts there.
    fn unlink(&mut self, at: u32) {
        let Unit { before, next, order } = self.units[at as usize];
        self.units[at as usize].order = u8::MAX;
        match self.units.get_mut(before as usize) {
            Some(unit) => unit.next = next,
            None => self.free[usize::from(order)] = next,
        }
        if let Some(unit) = self.units.get_mut(next as usize) {
            unit.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Blocks never overlap, and when all came back the memory is as whole as it was.
        #[test]
        fn lends_and_joins(units in 1..70usize,
            steps in prop::collection::vec((0..9000usize, 0..8usize), 1..80)) {
            let mut blocks = Blocks::new(units * UNIT + 17);
            let mut lent: Vec<Block> = Vec::new();
            for (len, which) in steps {
                if which < lent.len() {
                    blocks.give(lent.swap_remove(which));
                } else if let Some(block) = blocks.take(len) {
                    prop_assert!(block.len() >= len && block.start() + block.len() <= units * UNIT);
                    let apart = |other: &Block| {
                        other.start() + other.len() <= block.start()
                            || block.start() + block.len() <= other.start()
                    };
                    prop_assert!(lent.iter().all(apart));
                    lent.push(block);
                }
                prop_assert_eq!(blocks.used, lent.iter().map(|block| block.len()).sum::<usize>());
            }
            for block in lent.drain(..) {
                blocks.give(block);
            }
            let largest = UNIT << units.ilog2();
            prop_assert!(blocks.take(largest).is_some());
            prop_assert_eq!(blocks.take(largest), None);
        }
    }

    #[test]
    fn no_memory_lends_nothing() {
        assert_eq!(Blocks::new(UNIT - 1).take(1), None);
    }
}
