//! Aho and Corasick's automaton as a double array (Aoe, 1989): four words a state, whatever the
//! number of classes.
//!
//! The child of state `s` by class `c` is slot `base ^ c`, if that slot's parent is `s`. A child
//! and its siblings are in one block of 256 slots, as classes are less than 256.

use super::Hits;
use super::literals::Literals;
use super::trie::{NONE, Outputs, Trie};

/// Blocks with free slots that are looked at.
const OPEN_BLOCKS_MAX: usize = 16;

/// The words of a slot; a free one has no parent.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Slot {
    base: u32,
    parent: u32,
    /// The slot of the failure link.
    fail: u32,
    /// The place among the outputs, or [`NONE`].
    output: u32,
}

const FREE: Slot = Slot { base: 0, parent: NONE, fail: 0, output: NONE };

/// An automaton; the root is slot 0.
#[derive(Clone, Debug)]
pub(super) struct DoubleArray {
    classes: [u8; 256],
    slots: Vec<Slot>,
    outputs: Outputs,
}

impl DoubleArray {
    pub(super) fn new(literals: &Literals) -> Self {
        let trie = Trie::new(literals);
        let mut array =
            Self { classes: trie.classes.of, slots: Vec::new(), outputs: Outputs::new(&trie) };
        let places = array.place(&trie);
        for (&place, &fail) in places.iter().zip(&trie.fails) {
            array.slots[place as usize].fail = places[fail as usize];
        }
        for (node, output) in trie.accepting().zip(0..) {
            array.slots[places[node as usize] as usize].output = output;
        }
        array
    }

    /// Gives every node its slot.
    fn place(&mut self, trie: &Trie) -> Vec<u32> {
        let mut places = vec![0; trie.len()];
        let mut room = Room::default();
        room.open(&mut self.slots);
        room.take(0);
        for node in 0..trie.len() as u32 {
            let children = trie.children(node);
            let labels = &trie.labels[children.start as usize..children.end as usize];
            if labels.is_empty() {
                continue;
            }
            let (base, parent) = (room.base_for(labels, &mut self.slots), places[node as usize]);
            self.slots[parent as usize].base = base;
            for (child, &label) in children.zip(labels) {
                let place = base ^ u32::from(label);
                room.take(place);
                self.slots[place as usize].parent = parent;
                places[child as usize] = place;
            }
        }
        places
    }

    /// Adds all that occurs in `bytes` to `hits`. Gives the links followed, failure links among
    /// them: at most two for each byte, as every failure link shortens what a byte made longer by
    /// one.
    pub(super) fn scan(&self, bytes: &[u8], literals: &Literals, hits: &mut Hits) -> usize {
        let (mut state, mut steps) = (0, 0);
        for (at, &byte) in bytes.iter().enumerate() {
            let class = u32::from(self.classes[usize::from(byte)]);
            loop {
                steps += 1;
                let child = self.slots[state as usize].base ^ class;
                if self.slots[child as usize].parent == state {
                    state = child;
                    break;
                }
                if state == 0 {
                    break;
                }
                state = self.slots[state as usize].fail;
            }
            let output = self.slots[state as usize].output;
            if output != NONE {
                self.outputs.report(output, &bytes[..=at], literals, hits);
            }
        }
        steps
    }

    pub(super) fn memory_len(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + self.outputs.memory_len() + self.classes.len()
    }
}

/// Free slots, by block.
#[derive(Default)]
struct Room {
    /// A bit for each slot of a block, set where it is taken.
    taken: Vec<[u64; 4]>,
    /// Blocks with free slots.
    open: Vec<u32>,
}

impl Room {
    fn take(&mut self, place: u32) {
        self.taken[place as usize / 256][place as usize % 256 / 64] |= 1 << (place % 64);
    }

    fn is_free(&self, place: u32) -> bool {
        self.taken[place as usize / 256][place as usize % 256 / 64] >> (place % 64) & 1 == 0
    }

    /// A base whose slots for all `labels` are free.
    fn base_for(&mut self, labels: &[u8], slots: &mut Vec<Slot>) -> u32 {
        self.open.retain(|&block| self.taken[block as usize] != [u64::MAX; 4]);
        let found = self.open.iter().rev().find_map(|&block| self.base_in(block, labels));
        found.unwrap_or_else(|| self.open(slots))
    }

    /// A base in `block`.
    fn base_in(&self, block: u32, labels: &[u8]) -> Option<u32> {
        let first = u32::from(labels[0]);
        (block * 256..(block + 1) * 256)
            .filter(|&place| self.is_free(place))
            .map(|p| p ^ first)
            .find(|base| labels.iter().all(|&label| self.is_free(base ^ u32::from(label))))
    }

    /// Adds a block; gives its first slot, which is a base for any labels.
    fn open(&mut self, slots: &mut Vec<Slot>) -> u32 {
        if self.open.len() >= OPEN_BLOCKS_MAX {
            self.open.remove(0);
        }
        let block = self.taken.len() as u32;
        self.taken.push([0; 4]);
        self.open.push(block);
        slots.resize(slots.len() + 256, FREE);
        block * 256
    }
}
