//! Rules that a stream may still match: their literal was seen and the rest was not, yet.
//!
//! A direction of a flow keeps a few. One is forgotten when its literal leaves the window, or to make room for another. Rules
//! without a literal that matched are kept here as well, so that what they found is not found again in the same window.

/// Rules that a direction keeps.
const RULES_MAX: usize = 6;

/// See the module. Stream offsets are kept as their lower 32 bits: windows are far smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    rules: [Entry; RULES_MAX],
    len: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// The rule, and in [`MATCHED`] whether it matched and is not asked again until the window has left `end` behind.
    rule: u32,
    /// Where what was seen ends in the stream.
    end: u32,
}

const MATCHED: u32 = 1 << 31;

impl Waiting {
    /// Forgets what ended before `start`, the stream offset at which the window begins now.
    pub(super) fn forget(&mut self, start: u64) {
        let is_left = |entry: &Entry| (entry.end.wrapping_sub(start as u32) as i32) <= 0;
        let mut kept = 0;
        for at in 0..usize::from(self.len) {
            if !is_left(&self.rules[at]) {
                self.rules[kept] = self.rules[at];
                kept += 1;
            }
        }
        self.len = kept as u8;
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rules to ask again.
    pub(super) fn rules(&self) -> impl Iterator<Item = u32> {
        self.entries().iter().map(|entry| entry.rule).filter(|rule| rule & MATCHED == 0)
    }

    /// Whether `rule` matched in what the window still holds.
    pub(super) fn has_matched(&self, rule: u32) -> bool {
        self.entries().iter().any(|entry| entry.rule == rule | MATCHED)
    }

    /// Keeps `rule`, whose literal was seen before offset `end`; says whether another had to make room.
    pub(super) fn wait(&mut self, rule: u32, end: u64) -> bool {
        self.put(Entry { rule, end: end as u32 })
    }

    /// `rule` matched, with all before offset `end`: it no longer waits. Where `is_kept`, it is not asked again in this
    /// window. Says whether another had to make room.
    pub(super) fn matched(&mut self, rule: u32, end: u64, is_kept: bool) -> bool {
        if is_kept {
            return self.put(Entry { rule: rule | MATCHED, end: end as u32 });
        }
        if let Some(at) = self.entries().iter().position(|own| own.rule & !MATCHED == rule) {
            self.remove(at);
        }
        false
    }

    fn entries(&self) -> &[Entry] {
        &self.rules[..usize::from(self.len)]
    }

    fn remove(&mut self, at: usize) {
        self.rules.copy_within(at + 1..usize::from(self.len), at);
        self.len -= 1;
    }

    /// The newest is last; the oldest makes room.
    fn put(&mut self, entry: Entry) -> bool {
        if let Some(at) =
            self.entries().iter().position(|own| (own.rule ^ entry.rule) & !MATCHED == 0)
        {
            self.remove(at);
        }
        let is_full = usize::from(self.len) == RULES_MAX;
        if is_full {
            self.remove(0);
        }
        self.rules[usize::from(self.len)] = entry;
        self.len += 1;
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_wait_until_their_literal_leaves_the_window() {
        let mut waiting = Waiting::default();
        assert!(!waiting.wait(7, 100) && !waiting.wait(8, 200) && !waiting.wait(7, 150));
        assert_eq!(waiting.rules().collect::<Vec<_>>(), [8, 7]);
        waiting.forget(149);
        assert_eq!(waiting.rules().count(), 2);
        waiting.forget(150);
        assert_eq!(waiting.rules().collect::<Vec<_>>(), [8]);
        waiting.matched(8, 300, true);
        assert!(waiting.has_matched(8) && waiting.rules().next().is_none());
        waiting.forget(299);
        assert!(waiting.has_matched(8));
        waiting.matched(8, 300, false);
        assert!(!waiting.has_matched(8));
        // Offsets go on behind 2^32.
        waiting.wait(9, (1 << 32) + 5);
        waiting.forget((1 << 32) - 10);
        assert_eq!(waiting.rules().collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut waiting = Waiting::default();
        let full: Vec<bool> =
            (0..RULES_MAX as u32 + 2).map(|rule| waiting.wait(rule, 10)).collect();
        assert_eq!(full.iter().filter(|&&full| full).count(), 2);
        assert_eq!(waiting.rules().next(), Some(2));
    }
}
