//! The rules that a packet makes worth asking, each once, and on what.

use super::matcher::Hits;

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
    matched: Vec<u32>,
    /// What literals were found where `run` didn't look, or found more than it could keep.
    hits: Hits,
    patterns: usize,
}

impl Asked {
    /// No memory yet.
    pub(super) fn new() -> Self {
        Self {
            how: Vec::new(),
            rules: Vec::new(),
            matched: Vec::new(),
            hits: Hits::new(0, 0),
            patterns: 0,
        }
    }

    /// Takes memory for this many rules and literals, where it has less.
    pub(super) fn fit(&mut self, rules: usize, patterns: usize) {
        if self.how.len() < rules {
            self.how.resize(rules, 0);
            self.rules.reserve(rules);
            self.matched.reserve(rules);
        }
        if self.patterns < patterns {
            self.hits = Hits::new(patterns, patterns);
            self.patterns = patterns;
        }
    }

    /// Asks `rule` on what `how` says.
    #[inline]
    pub(super) fn ask(&mut self, rule: u32, how: u8) {
        let Some(known) = self.how.get_mut(rule as usize) else { return };
        if *known == 0 {
            self.rules.push(rule);
        }
        *known |= how;
    }

    /// What a matcher writes to, empty; [`Asked::set_hits`] gives it back.
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

    /// `rule`, one of those asked, matched the packet.
    pub(super) fn set_matched(&mut self, rule: u32) {
        self.how[rule as usize] |= MATCHED;
        self.matched.push(rule);
    }

    /// Whether `rule` waited for more of the stream.
    pub(super) fn waited(&self, rule: u32) -> bool {
        self.how.get(rule as usize).is_some_and(|how| how & WAITED != 0)
    }

    /// Those that waited for more of the stream and matched.
    pub(super) fn waited_and_matched(&self) -> impl Iterator<Item = u32> {
        self.matched.iter().copied().filter(|&rule| self.waited(rule))
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
        for rule in self.matched.drain(..) {
            self.how[rule as usize] = 0;
        }
    }
}
