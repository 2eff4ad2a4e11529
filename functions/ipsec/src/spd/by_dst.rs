//! Policies by destination network, if that is nearly enough to decide.
//!
//! Most policies of a gateway name one network each, at another gateway, and these networks have
//! few different lengths. So there is a hash table for each length, longest first. A network's
//! entry names the policies that may apply to a packet for it, in order, including those of wider
//! networks around it. The first entry found is thus complete. Other policies have no such table;
//! see [`ByDst::build`].

use core::hash::Hash;
use core::ops::{BitAnd, Shl};
use std::collections::HashMap;

use warpline_packet::prefetch;

use warpline_tables::classifier::Number;

/// Policies that an entry names at most.
const FEW: usize = 3;
/// Different lengths of networks at most.
const LENGTHS_MAX: usize = 4;
/// Bytes of entries that stay in a near cache.
const NEAR_LEN: usize = 32 << 10;
/// In the place of a policy's number: no more of them.
const NONE: u32 = u32::MAX;

/// An address of either family.
pub(super) trait Address:
    Number + Hash + BitAnd<Output = Self> + Shl<u32, Output = Self> + Default
{
}
impl<A: Number + Hash + BitAnd<Output = A> + Shl<u32, Output = A> + Default> Address for A {}

/// See the module.
#[derive(Debug)]
pub(super) struct ByDst<A> {
    /// By length, the longest first.
    lengths: Vec<Networks<A>>,
}

/// The networks of one length, in an open table that is at most half full.
#[derive(Debug)]
struct Networks<A> {
    mask: A,
    entries: Vec<NetworkEntry<A>>,
}

/// Empty where it names no policy.
#[derive(Clone, Copy, Debug)]
struct NetworkEntry<A> {
    network: A,
    policies: [u32; FEW],
}

impl<A: Address> ByDst<A> {
    /// From the networks of all policies, in order, each with its length. `None` if more than a few
    /// policies share a network, or networks have many lengths.
    pub(super) fn build(networks: &[(A, u32)]) -> Option<Self> {
        let mut own: HashMap<(A, u32), Vec<u32>> = HashMap::new();
        for (policy, network) in networks.iter().enumerate() {
            let same = own.entry(*network).or_default();
            same.push(policy as u32);
            if same.len() > FEW {
                return None;
            }
        }
        let mut lens: Vec<u32> = own.keys().map(|&(_, len)| len).collect();
        lens.sort_unstable_by(|a, b| b.cmp(a));
        lens.dedup();
        if lens.len() > LENGTHS_MAX {
            return None;
        }
        let mut lengths: Vec<Networks<A>> = lens
            .iter()
            .map(|&len| Networks::new(len, own.keys().filter(|key| key.1 == len).count()))
            .collect();
        for &(network, len) in own.keys() {
            let around = lens.iter().filter(|&&wider| wider <= len);
            let around = around.filter_map(|&wider| own.get(&(network & mask(wider), wider)));
            let mut policies: Vec<u32> = around.flatten().copied().collect();
            policies.sort_unstable();
            policies.resize(FEW.max(policies.len()), NONE);
            let entry = NetworkEntry { network, policies: policies.try_into().ok()? };
            lengths[lens.iter().position(|&own| own == len)?].insert(entry);
        }
        Some(Self { lengths })
    }

    /// Asks for what a search for `dst` will read.
    #[inline]
    pub(super) fn fetch(&self, dst: A) {
        self.lengths.iter().for_each(|networks| networks.fetch(dst));
    }

    /// The numbers of the policies that may match a packet to `dst`, in order, followed by unused
    /// numbers.
    #[inline(always)]
    pub(super) fn find(&self, dst: A) -> Option<&[u32; FEW]> {
        self.lengths.iter().find_map(|networks| networks.find(dst))
    }
}

impl<A: Address> Networks<A> {
    /// Prefetches the entry that a search begins with, if the table is large.
    #[inline(always)]
    fn fetch(&self, dst: A) {
        if size_of_val(&*self.entries) > NEAR_LEN {
            prefetch(&self.entries[self.start(dst & self.mask)]);
        }
    }

    fn new(len: u32, count: usize) -> Self {
        let empty = NetworkEntry { network: A::default(), policies: [NONE; FEW] };
        Self { mask: mask(len), entries: vec![empty; (2 * count).next_power_of_two().max(2)] }
    }

    fn insert(&mut self, entry: NetworkEntry<A>) {
        let mut at = self.start(entry.network);
        while !self.entries[at].is_empty() {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = entry;
    }

    #[inline(always)]
    fn find(&self, dst: A) -> Option<&[u32; FEW]> {
        let network = dst & self.mask;
        let mut at = self.start(network);
        loop {
            let entry = &self.entries[at];
            if entry.is_empty() {
                return None;
            }
            if entry.network == network {
                return Some(&entry.policies);
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Multiplicative hashing (Knuth, volume 3, 6.4): the upper half of a product depends on all of
    /// its factor.
    #[inline(always)]
    fn start(&self, network: A) -> usize {
        let halves = network.leading(0) as u64 ^ (network.leading(64) as u64).rotate_left(31);
        let product = halves.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> 32) as usize & (self.entries.len() - 1)
    }
}

impl<A> NetworkEntry<A> {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.policies[0] == NONE
    }
}

/// As many leading ones as a network of this length has bits.
fn mask<A: Address>(len: u32) -> A {
    match len {
        0 => A::default(),
        _ => A::from_wide(u128::MAX) << A::BITS.saturating_sub(len),
    }
}
