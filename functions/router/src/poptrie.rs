//! Poptrie (Asai, Ohara 2015): longest match over IPv6 in a trie whose nodes are bit vectors.
//!
//! The upper 18 bits of an address index a flat table; below it every node decides on 6 bits. A
//! node has a bit for each of its 64 slots that has a child, and a bit for each slot where a run of
//! equal next hops begins; children and next hops lie in flat arrays, found by counting bits. 18 +
//! 5 * 6 is 48, the longest prefix that is common in the Internet.
//!
//! A bulk look-up walks 64 addresses level by level, so that their loads don't wait for each other.
//!
//! ```
//! use warpline_router::Poptrie;
//! let fib = Poptrie::new(&[(0x2001_0db8 << 96, 32, 1), (0x2001_0db8_0001 << 80, 48, 2)]);
//! assert_eq!(fib.lookup(0x2001_0db8_0001 << 80), 2);
//! assert_eq!(fib.lookup(0x2001_0db8_0002 << 80), 1);
//! assert_eq!(fib.lookup(1), 0);
//! ```
//!
//! Limits: an update builds anew; a prefix takes up to 19 nodes of 32 bytes when it shares none.

use std::collections::BTreeMap;

/// A route to IPv6 addresses: the first address, the prefix length (0 to 128), the next hop.
pub type Rule6 = (u128, u8, u16);

/// Bits of the flat table's index.
const DIRECT_BITS: u32 = 18;
/// Bits that a node decides on.
const STRIDE: u32 = 6;
/// Slots of a node.
const SLOTS: usize = 1 << STRIDE;
/// In a reference: to a leaf and not to a node.
const LEAF: u32 = 1 << 31;
/// Levels that the upper 64 bits of an address have bits for.
const UPPER_LEVELS: u32 = (64 - DIRECT_BITS) / STRIDE;
/// Addresses that are looked up together.
const WAVE: usize = 64;

/// A node: 6 bits of the address.
///
/// 32 bytes, so that none lies in two cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Node {
    /// Slots that have a child.
    pub children: u64,
    /// Slots, among those without a child, where a run of one next hop begins.
    pub runs: u64,
    /// The first child's place among the nodes; the others follow it.
    pub first_child: u32,
    /// The place among the leaves before that of the first run.
    pub before_leaves: u32,
}

/// The trie. References are places of nodes or, with the top bit set, of leaves.
pub struct Poptrie {
    direct: Box<[u32; 1 << DIRECT_BITS]>,
    nodes: Vec<Node>,
    /// Next hops; number `h` for `h` itself at first, so that the flat table can name any.
    leaves: Vec<u16>,
    len: usize,
}

impl Poptrie {
    /// The trie of `rules`. Of two rules with one prefix, the later one wins.
    pub fn new(rules: &[Rule6]) -> Self {
        let sorted: BTreeMap<(u128, u8), u16> = rules
            .iter()
            .map(|&(address, len, hop)| ((address & mask(len), len.min(128)), hop))
            .collect();
        let rules: Vec<Rule6> = sorted.into_iter().map(|((a, l), hop)| (a, l, hop)).collect();
        let widest = rules.iter().map(|rule| rule.2).max().unwrap_or(0);
        let slots = vec![LEAF; 1 << DIRECT_BITS].into_boxed_slice();
        let Ok(direct) = slots.try_into() else { unreachable!("as many slots were made") };
        let leaves = (0..=widest).collect();
        let mut trie = Self { direct, nodes: Vec::new(), leaves, len: rules.len() };
        trie.fill_direct(&rules);
        trie
    }

    fn fill_direct(&mut self, rules: &[Rule6]) {
        let mut rest = rules;
        while let Some(&(address, len, hop)) = rest.first() {
            let slot = (address >> (128 - DIRECT_BITS)) as usize;
            if u32::from(len) <= DIRECT_BITS {
                let slots = 1 << (DIRECT_BITS - u32::from(len));
                self.direct[slot..slot + slots].fill(LEAF | u32::from(hop));
                rest = &rest[1..];
                continue;
            }
            let inside = |rule: &Rule6| (rule.0 >> (128 - DIRECT_BITS)) as usize == slot;
            let (here, others) = rest.split_at(rest.partition_point(inside));
            let inherited = (self.direct[slot] & !LEAF) as u16;
            let node = self.nodes.len();
            self.nodes.push(Node::default());
            self.fill_node(node, DIRECT_BITS, here, inherited);
            self.direct[slot] = node as u32;
            rest = others;
        }
    }

    /// Makes node `at`, which decides on the bits from `depth` on, of the longer `rules` that reach
    /// it. Recursion ends with the address: 19 levels.
    fn fill_node(&mut self, at: usize, depth: u32, rules: &[Rule6], inherited: u16) {
        let mut hops = [inherited; SLOTS];
        let mut below: [&[Rule6]; SLOTS] = [&[]; SLOTS];
        let mut node = Node::default();
        let mut rest = rules;
        while let Some(&(address, len, hop)) = rest.first() {
            let slot = slot_of(address, depth);
            let taken = if u32::from(len) <= depth + STRIDE {
                hops[slot..slot + (1 << (depth + STRIDE - u32::from(len)))].fill(hop);
                1
            } else {
                node.children |= 1 << slot;
                rest.partition_point(|rule| slot_of(rule.0, depth) == slot)
            };
            let (here, others) = rest.split_at(taken);
            if node.children >> slot & 1 == 1 {
                below[slot] = here;
            }
            rest = others;
        }
        self.place_leaves(&mut node, &hops);
        node.first_child = self.nodes.len() as u32;
        let children = self.nodes.len() + node.children.count_ones() as usize;
        self.nodes.resize(children, Node::default());
        self.nodes[at] = node;
        let with_rules = (0..SLOTS).filter(|slot| node.children >> slot & 1 == 1);
        for (child, slot) in with_rules.enumerate() {
            let child = node.first_child as usize + child;
            self.fill_node(child, depth + STRIDE, below[slot], hops[slot]);
        }
    }

    fn place_leaves(&mut self, node: &mut Node, hops: &[u16; SLOTS]) {
        // There is always a leaf before these: that of next hop 0.
        node.before_leaves = self.leaves.len() as u32 - 1;
        let mut last = None;
        for (slot, &hop) in hops.iter().enumerate() {
            if node.children >> slot & 1 == 0 && last != Some(hop) {
                node.runs |= 1 << slot;
                self.leaves.push(hop);
                last = Some(hop);
            }
        }
    }

    /// The next hop of `address`, 0 for none.
    pub fn lookup(&self, address: u128) -> u16 {
        let reference = self.direct[(address >> (128 - DIRECT_BITS)) as usize];
        self.leaf(self.descend(reference, address << DIRECT_BITS))
    }

    /// The next hops of `addresses`, as many as both slices have.
    pub fn lookup_bulk(&self, addresses: &[u128], hops: &mut [u16]) {
        for (addresses, hops) in addresses.chunks(WAVE).zip(hops.chunks_mut(WAVE)) {
            self.lookup_wave(addresses, hops);
        }
    }

    #[inline(always)]
    fn lookup_wave(&self, addresses: &[u128], hops: &mut [u16]) {
        let (mut at, mut bits) = ([LEAF; WAVE], [0u64; WAVE]);
        let (mut walking, mut count) = ([0u8; WAVE], 0);
        for (lane, &address) in addresses.iter().enumerate().take(WAVE) {
            let upper = (address >> 64) as u64;
            at[lane] = self.direct[(upper >> (64 - DIRECT_BITS)) as usize];
            bits[lane] = upper << DIRECT_BITS;
            walking[count] = lane as u8;
            count += usize::from(at[lane] & LEAF == 0);
        }
        for _ in 0..UPPER_LEVELS {
            let lanes = count;
            count = 0;
            for i in 0..lanes {
                let lane = usize::from(walking[i]) % WAVE;
                at[lane] = self.step(at[lane], (bits[lane] >> (64 - STRIDE)) as u32);
                bits[lane] <<= STRIDE;
                walking[count] = lane as u8;
                count += usize::from(at[lane] & LEAF == 0);
            }
            if count == 0 {
                break;
            }
        }
        for &lane in &walking[..count] {
            let lane = usize::from(lane) % WAVE;
            let rest = addresses[lane] << (DIRECT_BITS + UPPER_LEVELS * STRIDE);
            at[lane] = self.descend(at[lane], rest);
        }
        for (hop, &at) in hops.iter_mut().zip(&at) {
            *hop = self.leaf(at);
        }
    }

    #[inline(always)]
    fn descend(&self, mut reference: u32, mut bits: u128) -> u32 {
        while reference & LEAF == 0 {
            reference = self.step(reference, (bits >> (128 - STRIDE)) as u32);
            bits <<= STRIDE;
        }
        reference
    }

    /// The target of slot `slot` of a node; written so that it takes no branch.
    #[inline(always)]
    fn step(&self, node: u32, slot: u32) -> u32 {
        let node = &self.nodes[node as usize];
        let before = (1u64 << slot) - 1;
        let is_child = node.children >> slot & 1 == 1;
        // Runs are counted with the slot's own bit, children without.
        let (vector, base) = if is_child {
            (node.children & before, node.first_child)
        } else {
            (node.runs & (before << 1 | 1), node.before_leaves | LEAF)
        };
        base + vector.count_ones()
    }

    #[inline(always)]
    fn leaf(&self, reference: u32) -> u16 {
        self.leaves[(reference & !LEAF) as usize]
    }

    /// The flat table, as a device takes it.
    pub fn direct(&self) -> &[u32] {
        &self.direct[..]
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The next hops that nodes refer to.
    pub fn leaves(&self) -> &[u16] {
        &self.leaves
    }

    /// Routes it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that look-ups touch.
    pub fn memory_len(&self) -> usize {
        size_of_val(self.direct()) + size_of_val(self.nodes()) + size_of_val(self.leaves())
    }
}

/// The slot of a node at `depth`. Zeros follow the last bit of an address.
fn slot_of(address: u128, depth: u32) -> usize {
    (address << depth >> (128 - STRIDE)) as usize
}

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}
