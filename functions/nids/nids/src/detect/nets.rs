//! The sets of addresses that most rules name: [`Nets`].
//!
//! Rule sets name few of them, `$HOME_NET` above all. Looking up a packet's ends in them once is
//! cheaper than doing so for every rule.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use warpline_nids_rules::{Addresses, Header, Rule};

use super::header::{has_address, is_any_address};

/// See the module. Eight sets at most, so that what is known of both ends fits into two bytes.
#[derive(Clone, Debug, Default)]
pub struct Nets(Vec<Arc<Addresses>>);

const NETS_MAX: usize = 8;
/// Rules that name such a set, at least.
const RULES_MIN: usize = 8;

impl Nets {
    /// Those of `rules`.
    pub fn of(rules: &[Rule]) -> Self {
        let mut counts: HashMap<&Arc<Addresses>, (usize, usize)> = HashMap::new();
        let named = rules.iter().flat_map(|rule| [&rule.header.src, &rule.header.dst]);
        for (place, set) in named.enumerate().filter(|(_, set)| !is_any_address(set)) {
            counts.entry(set).or_insert((0, place)).0 += 1;
        }
        let mut sets: Vec<_> = counts.into_iter().collect();
        sets.retain(|(_, (count, _))| *count >= RULES_MIN);
        sets.sort_unstable_by_key(|&(_, (count, first))| (core::cmp::Reverse(count), first));
        Self(sets.into_iter().take(NETS_MAX).map(|(set, _)| Arc::clone(set)).collect())
    }

    /// By bits, the sets that the source is in; and, eight bits further up, the destination.
    pub(super) fn around(&self, [src, dst]: [IpAddr; 2]) -> u16 {
        let mut bits = 0;
        for (at, set) in self.0.iter().enumerate() {
            bits |= u16::from(has_address(set, src)) << at;
            bits |= u16::from(has_address(set, dst)) << (NETS_MAX + at);
        }
        bits
    }

    /// The sets that a packet must be in for a header to match, as bits of [`Nets::around`].
    pub(super) fn needed_by(&self, header: &Header) -> u16 {
        if header.is_bidirectional {
            return 0;
        }
        let place = |set: &Arc<Addresses>| self.0.iter().position(|net| net == set);
        let src = place(&header.src).map_or(0, |at| 1 << at);
        src | place(&header.dst).map_or(0, |at| 1 << (NETS_MAX + at))
    }
}
