//! Rules that a stream may still match: their literal was seen, and the rest not yet.
//!
//! A direction of a flow keeps a few by itself and more in memory that all flows of a shard share
//! ([`Pool`]). One is forgotten when its literal leaves the window, or to make room for another.
//! Rules that matched are kept here as well, so that the same bytes don't match again in the same
//! window.

/// Rules that a direction keeps by itself.
const OWN_MAX: usize = 5;
/// Rules that it keeps at all: as many may be asked again of each packet.
pub(super) const RULES_MAX: usize = 128;

/// See the module. Stream offsets are kept as their lower 32 bits: windows are far smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The oldest first; empty after the last.
    own: [WaitingRule; OWN_MAX],
    /// The node of the next newer, once all of `own` are in use.
    more: u32,
    /// The node of the newest.
    last: u32,
    /// Entries, with those of nodes.
    len: u32,
}

/// The state kept for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleState {
    /// That it waits, or that it matched.
    is_any: bool,
    /// How much of the window its last match had, where the window still has some of that.
    pub(super) matched_len: Option<usize>,
}

/// The entries of directions beyond their own ones: single entries, each with the next.
#[derive(Debug)]
pub(super) struct Pool {
    nodes: Box<[Node]>,
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: WaitingRule,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WaitingRule {
    /// The rule, with [`MATCHED`] if it matched in the data before `end`; otherwise it waits.
    rule: u32,
    /// Where what was seen ends in the stream.
    end: u32,
}

const MATCHED: u32 = 1 << 31;
/// No node.
const NONE: u32 = u32::MAX;

impl WaitingRule {
    const NONE: Self = Self { rule: u32::MAX, end: 0 };

    fn is_some(&self) -> bool {
        self.rule != Self::NONE.rule
    }

    /// Whether it ends before `start` or there.
    fn ends_by(&self, start: u64) -> bool {
        (self.end.wrapping_sub(start as u32) as i32) <= 0
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self { own: [WaitingRule::NONE; OWN_MAX], more: NONE, last: NONE, len: 0 }
    }
}

impl Waiting {
    /// Forgets entries that end before `start`, the stream offset at which the window begins now.
    pub(super) fn forget(&mut self, start: u64, pool: &mut Pool) {
        self.retain(pool, |entry| !entry.ends_by(start));
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        self.retain(pool, |_| false);
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        !self.own[0].is_some()
    }

    /// Whether it has memory of the pool, which [`Waiting::clear`] gives back.
    pub(super) fn has_shared(&self) -> bool {
        self.more != NONE
    }

    /// Rules to ask again.
    pub(super) fn rules(&self, pool: &Pool) -> impl Iterator<Item = u32> {
        self.entries(pool).map(|entry| entry.rule).filter(|rule| rule & MATCHED == 0)
    }

    /// The state kept for `rule`, in a window that begins at `start`.
    pub(super) fn kept(&self, rule: u32, start: u64, pool: &Pool) -> RuleState {
        let mut kept = RuleState::default();
        for entry in self.entries(pool).filter(|entry| entry.rule & !MATCHED == rule) {
            kept.is_any = true;
            if entry.rule != rule && !entry.ends_by(start) {
                kept.matched_len = Some(entry.end.wrapping_sub(start as u32) as usize);
            }
        }
        kept
    }

    /// Keeps `rule`, with `kept` as its state so far, whose literal was seen before offset `end`.
    /// Returns whether another entry was dropped for it.
    pub(super) fn wait(&mut self, rule: u32, kept: RuleState, end: u64, pool: &mut Pool) -> bool {
        if kept.is_any {
            self.retain(pool, |old| old.rule != rule);
        }
        self.put(WaitingRule { rule, end: end as u32 }, pool)
    }

    /// Notes that `rule`, with `kept` as its state so far, matched with all data before offset
    /// `end`: it no longer waits. Returns whether another entry was dropped for it.
    pub(super) fn matched(
        &mut self,
        rule: u32,
        kept: RuleState,
        end: u64,
        pool: &mut Pool,
    ) -> bool {
        let entry = WaitingRule { rule: rule | MATCHED, end: end as u32 };
        if kept.is_any {
            self.retain(pool, |old| old.rule & !MATCHED != rule);
        }
        self.put(entry, pool)
    }

    /// Moves the end of the stream back to `next`. Entries of later data are kept only if `waited`
    /// holds for their rule, as these had something before.
    pub(super) fn take_back(&mut self, next: u64, pool: &mut Pool, waited: impl Fn(u32) -> bool) {
        self.retain(pool, |entry| {
            if entry.ends_by(next) {
                return true;
            }
            entry.end = next as u32;
            waited(entry.rule)
        });
    }

    fn entries(&self, pool: &Pool) -> impl Iterator<Item = WaitingRule> {
        let own = self.own.iter().copied().take_while(WaitingRule::is_some);
        own.chain(pool.from(self.more).map(|node| node.entry))
    }

    /// Adds a new entry as the newest. If there is no room, drops the oldest and returns `true`.
    fn put(&mut self, entry: WaitingRule, pool: &mut Pool) -> bool {
        if self.push(entry, pool) {
            return false;
        }
        let mut is_oldest = true;
        self.retain(pool, |_| !core::mem::take(&mut is_oldest));
        self.push(entry, pool);
        true
    }

    /// `false` where there is no room.
    fn push(&mut self, entry: WaitingRule, pool: &mut Pool) -> bool {
        if let Some(place) = self.own.get_mut(self.len as usize) {
            *place = entry;
        } else {
            if self.len as usize == RULES_MAX {
                return false;
            }
            let Some(new) = pool.take(entry) else { return false };
            self.link(new, pool);
        }
        self.len += 1;
        true
    }

    /// Keeps only entries that satisfy `keeps`, in their order.
    fn retain(&mut self, pool: &mut Pool, mut keeps: impl FnMut(&mut WaitingRule) -> bool) {
        let mut kept = 0;
        for at in 0..OWN_MAX {
            let mut entry = self.own[at];
            if !entry.is_some() {
                break;
            }
            self.own[at] = WaitingRule::NONE;
            if keeps(&mut entry) {
                self.own[kept] = entry;
                kept += 1;
            }
        }
        let mut next = core::mem::replace(&mut self.more, NONE);
        self.last = NONE;
        self.len = 0;
        while let Some(node) = pool.nodes.get_mut(next as usize) {
            let at = core::mem::replace(&mut next, node.next);
            let is_kept = keeps(&mut node.entry);
            let entry = node.entry;
            if is_kept && kept == OWN_MAX {
                self.link(at, pool);
                self.len += 1;
                continue;
            }
            pool.give(at);
            if is_kept {
                self.own[kept] = entry;
                kept += 1;
            }
        }
        self.len += kept as u32;
    }

    /// Makes node `at` the newest.
    fn link(&mut self, at: u32, pool: &mut Pool) {
        let last = core::mem::replace(&mut self.last, at);
        match pool.nodes.get_mut(last as usize) {
            Some(node) => node.next = at,
            None => self.more = at,
        }
        pool.nodes[at as usize].next = NONE;
    }
}

impl Pool {
    /// Bytes of room for `count` rules.
    pub(super) fn memory_len(count: usize) -> usize {
        count * size_of::<Node>()
    }

    /// With room for `count` rules.
    pub(super) fn new(count: usize) -> Self {
        let count = count.min(i32::MAX as usize) as u32;
        let next = |at: u32| if at + 1 < count { at + 1 } else { NONE };
        let node = |at| Node { entry: WaitingRule::NONE, next: next(at) };
        Self { nodes: (0..count).map(node).collect(), free: if count == 0 { NONE } else { 0 } }
    }

    /// Node `at` and its successors.
    fn from(&self, at: u32) -> impl Iterator<Item = &Node> {
        let node = |at: u32| self.nodes.get(at as usize);
        core::iter::successors(node(at), move |last| node(last.next))
    }

    fn take(&mut self, entry: WaitingRule) -> Option<u32> {
        let at = self.free;
        let node = self.nodes.get_mut(at as usize)?;
        self.free = node.next;
        *node = Node { entry, next: NONE };
        Some(at)
    }

    fn give(&mut self, at: u32) {
        self.nodes[at as usize].next = core::mem::replace(&mut self.free, at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(waiting: &Waiting, pool: &Pool) -> Vec<u32> {
        waiting.rules(pool).collect()
    }

    impl Waiting {
        fn waits(&mut self, rule: u32, end: u64, pool: &mut Pool) -> bool {
            self.wait(rule, self.kept(rule, 0, pool), end, pool)
        }

        fn matches(&mut self, rule: u32, end: u64, pool: &mut Pool) -> bool {
            self.matched(rule, self.kept(rule, 0, pool), end, pool)
        }

        fn matched_len(&self, rule: u32, start: u64, pool: &Pool) -> Option<usize> {
            self.kept(rule, start, pool).matched_len
        }
    }

    #[test]
    fn rules_wait_until_their_literal_leaves_the_window() {
        let (mut waiting, pool) = (Waiting::default(), &mut Pool::new(0));
        for (rule, end) in [(7, 100), (8, 200), (7, 150)] {
            assert!(!waiting.waits(rule, end, pool));
        }
        assert_eq!(listed(&waiting, pool), [8, 7]);
        waiting.forget(149, pool);
        assert_eq!(listed(&waiting, pool).len(), 2);
        waiting.forget(150, pool);
        assert_eq!(listed(&waiting, pool), [8]);
        waiting.matches(8, 300, pool);
        assert!(listed(&waiting, pool).is_empty());
        assert_eq!(waiting.matched_len(8, 290, pool), Some(10));
        // It waits for its next match, and what it found stays known.
        waiting.waits(8, 310, pool);
        waiting.forget(299, pool);
        assert_eq!(waiting.matched_len(8, 299, pool), Some(1));
        assert_eq!(listed(&waiting, pool), [8]);
        waiting.matches(8, 320, pool);
        assert!(listed(&waiting, pool).is_empty());
        assert_eq!(waiting.matched_len(8, 320, pool), None);
        waiting.forget(320, pool);
        assert!(waiting.is_empty());
        // Offsets continue past 2^32.
        waiting.waits(9, (1 << 32) + 5, pool);
        waiting.forget((1 << 32) - 10, pool);
        assert_eq!(listed(&waiting, pool), [9]);
    }

    #[test]
    fn no_direction_takes_all() {
        let (mut waiting, pool) = (Waiting::default(), &mut Pool::new(2 * RULES_MAX));
        let mut over = |rule: u32| waiting.waits(rule, 10, pool);
        assert_eq!((0..RULES_MAX as u32 + 3).filter(|&rule| over(rule)).count(), 3);
        assert_eq!(waiting.rules(pool).next(), Some(3));
        waiting.clear(pool);
        assert!(waiting.is_empty() && !waiting.has_shared());
    }

    proptest! {
        /// Two directions that share a pool, against lists.
        #[test]
        fn the_oldest_makes_room(
            steps in prop::collection::vec((0..2usize, 0..16u32, 0..5u64), 1..150)) {
            const ROOM: usize = 5;
            let mut pool = Pool::new(ROOM);
            let mut waiting = [Waiting::default(); 2];
            let mut model: [Vec<(u32, u64)>; 2] = Default::default();
            for (which, rule, end) in steps {
                let own = &mut model[which];
                if rule == 15 {
                    waiting[which].forget(end, &mut pool);
                    own.retain(|&(_, old)| old > end);
                } else {
                    let made_room = waiting[which].waits(rule, end, &mut pool);
                    own.retain(|&(old, _)| old != rule);
                    own.push((rule, end));
                    let shared: usize =
                        model.iter().map(|list| list.len().saturating_sub(OWN_MAX)).sum();
                    prop_assert_eq!(made_room, shared > ROOM);
                    if made_room {
                        model[which].remove(0);
                    }
                }
                for (waiting, list) in waiting.iter().zip(&model) {
                    let rules: Vec<u32> = list.iter().map(|&(rule, _)| rule).collect();
                    prop_assert_eq!(listed(waiting, &pool), rules);
                    prop_assert_eq!(waiting.has_shared(), list.len() > OWN_MAX);
                }
            }
        }
    }
}
