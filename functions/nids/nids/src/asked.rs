//! The candidate rules of a packet, each once, and what to test them on.

use super::fit::Fit;
use warpline_search::Hits;

/// On the packet's payload.
pub(super) const PACKET: u8 = 1;
/// On the stream.
pub(super) const STREAM: u8 = 2;
/// Its literal was just seen in the stream.
pub(super) const FRESH: u8 = 4;
/// It matched the packet, and is not asked again.
const MATCHED: u8 = 8;
/// It waited for more of the stream.
pub(super) const WAITED: u8 = 16;

/// See the module. Memory that is used again for every packet; each thread has its own.
pub(super) struct Asked {
    /// By rule; 0 for those that are not asked.
    how: Vec<u8>,
    rules: Vec<u32>,
    /// Rules that matched, each with where what it matched in before ends in the stream, if it did.
    matched: Vec<(u32, Option<u64>)>,
    /// Literals found by another scan than that of `run`: of other data, or after `run` found too
    /// many to keep.
    hits: Hits,
    rules_len: Fit,
    patterns_len: Fit,
}

/// Packets after which memory that none of them needed is given back.
const ROUND: u32 = 1 << 16;

impl Asked {
    /// No memory yet.
    pub(super) fn new() -> Self {
        Self {
            how: Vec::new(),
            rules: Vec::new(),
            matched: Vec::new(),
            hits: Hits::new(0, 0),
            rules_len: Fit::new(ROUND),
            patterns_len: Fit::new(ROUND),
        }
    }

    /// Has memory for this many rules and literals, while no rule is asked. See [`Fit`].
    pub(super) fn fit(&mut self, rules: usize, patterns: usize) {
        if let Some(len) = self.rules_len.again(rules) {
            self.how = vec![0; len];
            self.rules = Vec::with_capacity(len);
            self.matched = Vec::with_capacity(len);
        }
        if let Some(len) = self.patterns_len.again(patterns) {
            self.hits = Hits::new(len, len);
        }
    }

    /// Asks `rule` on the data that `how` selects.
    #[inline]
    pub(super) fn ask(&mut self, rule: u32, how: u8) {
        let Some(known) = self.how.get_mut(rule as usize) else { return };
        if *known == 0 {
            self.rules.push(rule);
        }
        *known |= how;
    }

    /// Takes the empty hits that a matcher writes to; [`Asked::set_hits`] returns them.
    pub(super) fn take_hits(&mut self) -> Hits {
        let mut hits = core::mem::replace(&mut self.hits, Hits::new(0, 0));
        hits.clear();
        hits
    }

    /// See [`Asked::take_hits`].
    pub(super) fn set_hits(&mut self, hits: Hits) {
        self.hits = hits;
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Puts the rules in their order.
    pub(super) fn sort(&mut self) {
        self.rules.sort_unstable();
    }

    /// Rule `at` of those asked, and how.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<(u32, u8)> {
        self.rules.get(at).map(|&rule| (rule, self.how[rule as usize]))
    }

    /// `rule`, one of those asked, matched the packet, and `before` in what ends there in the
    /// stream.
    pub(super) fn set_matched(&mut self, rule: u32, before: Option<u64>) {
        self.how[rule as usize] |= MATCHED;
        self.matched.push((rule, before));
    }

    /// Whether `rule` waited for more of the stream.
    pub(super) fn waited(&self, rule: u32) -> bool {
        self.how.get(rule as usize).is_some_and(|how| how & WAITED != 0)
    }

    /// Those that waited for more of the stream and matched.
    pub(super) fn waited_and_matched(&self) -> impl Iterator<Item = u32> {
        self.matched.iter().map(|&(rule, _)| rule).filter(|&rule| self.waited(rule))
    }

    /// Those that matched and had matched before, each with the place in the stream where that
    /// ends.
    pub(super) fn matched_before(&self) -> impl Iterator<Item = (u32, u64)> {
        self.matched.iter().filter_map(|&(rule, before)| Some((rule, before?)))
    }

    /// Forgets them, but not which matched: these are not asked again.
    pub(super) fn clear_unmatched(&mut self) {
        for rule in self.rules.drain(..) {
            self.how[rule as usize] &= MATCHED;
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.clear_unmatched();
        for (rule, _) in self.matched.drain(..) {
            self.how[rule as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the largest rule set that there ever was, and of many packets of a smaller.
    #[test]
    fn memory_follows_the_rule_set() {
        let mut asked = Asked::new();
        asked.fit(50_000, 9000);
        (0..2 * ROUND).for_each(|_| asked.fit(10, 10));
        let lens = [asked.how.capacity(), asked.rules.capacity(), asked.matched.capacity()];
        assert_eq!(lens, [10; 3]);
        asked.fit(11, 10);
        asked.ask(10, PACKET);
        assert_eq!(asked.get(0), Some((10, PACKET)));
    }
}
