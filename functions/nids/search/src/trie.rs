//! The trie of literals over byte classes with its failure links (Aho and Corasick, 1975), from
//! which the automata are made. Nodes are numbered breadth first, so a node's children are
//! consecutive and after all nodes before it.

use super::literals::Literals;
use super::{Hits, PATTERN_LEN_MAX};

/// No node, no literal.
pub(super) const NONE: u32 = u32::MAX;

// Depths are in 16 bits.
const _: () = assert!(PATTERN_LEN_MAX <= u16::MAX as usize);

/// Classes of bytes that all literals treat alike.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Of each byte; 0 is that of bytes that no literal has.
    pub(super) of: [u8; 256],
    /// How many there are.
    pub(super) count: usize,
}

impl Classes {
    /// Of folded literals, so that a letter has one class whichever case it is in.
    fn new(literals: &Literals) -> Self {
        let mut is_used = [false; 256];
        for literal in 0..literals.len() as u32 {
            literals.get(literal).iter().for_each(|&byte| is_used[usize::from(byte)] = true);
        }
        let mut classes = Self { of: [0; 256], count: 1 };
        for byte in (0..=255_u8).filter(|&byte| is_used[usize::from(byte)]) {
            // At most 230 of them, as there are no upper-case letters.
            classes.of[usize::from(byte)] = classes.count as u8;
            classes.of[usize::from(byte.to_ascii_uppercase())] = classes.count as u8;
            classes.count += 1;
        }
        classes
    }
}

/// Nodes; the root is node 0.
pub(super) struct Trie {
    pub(super) classes: Classes,
    /// Node `i` has the children `children[i]..children[i + 1]`.
    children: Vec<u32>,
    /// The class that leads to a node from its parent.
    pub(super) labels: Vec<u8>,
    /// The node of the longest proper suffix that is in the trie.
    pub(super) fails: Vec<u32>,
    /// How many bytes lead to a node.
    pub(super) depths: Vec<u16>,
    /// The literal that ends in a node, or [`NONE`].
    literals: Vec<u32>,
    /// The nearest node along the failure links in which a literal ends, or [`NONE`].
    suffixes: Vec<u32>,
}

impl Trie {
    /// Of fewer than 2^31 bytes, so that nodes count in 32 bits.
    pub(super) fn new(literals: &Literals) -> Self {
        let mut trie = Self {
            classes: Classes::new(literals),
            children: Vec::new(),
            labels: vec![0],
            fails: Vec::new(),
            depths: vec![0],
            literals: Vec::new(),
            suffixes: Vec::new(),
        };
        trie.grow(literals);
        trie.link();
        trie
    }

    /// Makes the nodes, level by level. The literals below a node stand together, one that ends
    /// there first.
    fn grow(&mut self, literals: &Literals) {
        let mut below: Vec<_> = core::iter::once(0..literals.len() as u32).collect();
        let mut node = 0;
        while node < below.len() {
            let depth = usize::from(self.depths[node]);
            let mut range = below[node].clone();
            let ends = !range.is_empty() && literals.get(range.start).len() == depth;
            self.literals.push(if ends { range.start } else { NONE });
            range.start += u32::from(ends);
            self.children.push(below.len() as u32);
            while let Some(first) = range.next() {
                let byte = literals.get(first)[depth];
                let same = range.clone().take_while(|&other| literals.get(other)[depth] == byte);
                let end = first + 1 + same.count() as u32;
                below.push(first..end);
                self.labels.push(self.classes.of[usize::from(byte)]);
                self.depths.push(depth as u16 + 1);
                range.start = end;
            }
            node += 1;
        }
        self.children.push(below.len() as u32);
    }

    fn link(&mut self) {
        self.fails = vec![0; self.len()];
        self.suffixes = vec![NONE; self.len()];
        for node in 0..self.len() as u32 {
            for child in self.children(node) {
                let fail = self.fail_of(node, self.labels[child as usize]);
                self.fails[child as usize] = fail;
                self.suffixes[child as usize] = match self.literals[fail as usize] {
                    NONE => self.suffixes[fail as usize],
                    _ => fail,
                };
            }
        }
    }

    /// The failure link of the child of `parent` that `label` leads to.
    fn fail_of(&self, parent: u32, label: u8) -> u32 {
        let mut node = parent;
        while node != 0 {
            node = self.fails[node as usize];
            if let Some(child) = self.child(node, label) {
                return child;
            }
        }
        0
    }

    fn child(&self, node: u32, label: u8) -> Option<u32> {
        let range = self.children(node);
        let labels = &self.labels[range.start as usize..range.end as usize];
        labels.binary_search(&label).ok().map(|place| range.start + place as u32)
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn children(&self, node: u32) -> core::ops::Range<u32> {
        self.children[node as usize]..self.children[node as usize + 1]
    }

    /// Whether a literal ends in a node, or in one of its suffixes.
    pub(super) fn is_accepting(&self, node: u32) -> bool {
        self.literals[node as usize] != NONE || self.suffixes[node as usize] != NONE
    }

    /// The accepting nodes in their order.
    pub(super) fn accepting(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(|&node| self.is_accepting(node))
    }
}

/// Outputs of the accepting nodes, by their place among these.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    /// The literal that ends here, or [`NONE`].
    pub(super) literals: Vec<u32>,
    /// The place of the next shorter suffix in which a literal ends, or [`NONE`].
    pub(super) nexts: Vec<u32>,
}

impl Outputs {
    pub(super) fn new(trie: &Trie) -> Self {
        let mut places = vec![NONE; trie.len()];
        trie.accepting().zip(0..).for_each(|(node, place)| places[node as usize] = place);
        let next = |node: u32| match trie.suffixes[node as usize] {
            NONE => NONE,
            suffix => places[suffix as usize],
        };
        Self {
            literals: trie.accepting().map(|node| trie.literals[node as usize]).collect(),
            nexts: trie.accepting().map(next).collect(),
        }
    }

    /// Adds the patterns that end in an accepting node and at the end of `found`.
    pub(super) fn report(&self, place: u32, found: &[u8], literals: &Literals, hits: &mut Hits) {
        let mut at = place;
        while at != NONE {
            let literal = self.literals[at as usize];
            if literal != NONE {
                let start = found.len() - literals.get(literal).len();
                literals.report(literal, &found[start..], hits);
            }
            at = self.nexts[at as usize];
        }
    }

    pub(super) fn memory_len(&self) -> usize {
        (self.literals.len() + self.nexts.len()) * 4
    }
}
