//! The result of a scan: ids of patterns, each once.

/// Ids of patterns, in ascending order after a scan. If there are more than fit, all are dropped
/// and [`Hits::is_full`] returns true: then any pattern may have occurred.
#[derive(Clone, Debug)]
pub struct Hits {
    ids: Vec<u32>,
    len_max: usize,
    /// A bit for each pattern: whether it is among `ids`.
    seen: Vec<u64>,
    is_full: bool,
}

impl Hits {
    /// Room for `len_max` ids of `patterns` patterns. All memory is allocated here.
    pub fn new(len_max: usize, patterns: usize) -> Self {
        let len_max = len_max.min(patterns);
        Self {
            ids: Vec::with_capacity(len_max),
            len_max,
            seen: vec![0; patterns.div_ceil(64)],
            is_full: false,
        }
    }

    /// The ids; none where it is full.
    #[inline]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// More patterns occurred than fit, or the scan could not be done: all are to be looked at.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Forgets what was found.
    #[inline]
    pub fn clear(&mut self) {
        self.forget();
        self.is_full = false;
    }

    /// Whether `id` needn't be looked for: it is known, or nothing is any longer noted.
    #[inline]
    pub(super) fn is_settled(&self, id: u32) -> bool {
        self.is_full
            || self.seen.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// Adds `id`, unless it is known.
    #[inline]
    pub(super) fn insert(&mut self, id: u32) {
        if self.is_settled(id) {
            return;
        }
        match self.seen.get_mut(id as usize / 64) {
            Some(word) if self.ids.len() < self.len_max => {
                *word |= 1 << (id % 64);
                self.ids.push(id);
            }
            _ => self.fill(),
        }
    }

    /// Whatever was found, it is no longer known.
    #[cold]
    pub(super) fn fill(&mut self) {
        self.forget();
        self.is_full = true;
    }

    /// Puts the ids in order.
    #[inline]
    pub(super) fn sort(&mut self) {
        self.ids.sort_unstable();
    }

    #[inline]
    fn forget(&mut self) {
        for id in self.ids.drain(..) {
            if let Some(word) = self.seen.get_mut(id as usize / 64) {
                *word = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_once_and_in_order() {
        let mut hits = Hits::new(3, 200);
        for id in [130, 5, 130, 5, 64] {
            hits.insert(id);
        }
        hits.sort();
        assert_eq!((hits.ids(), hits.is_full()), (&[5, 64, 130][..], false));
        hits.insert(5);
        assert!(!hits.is_full());
        hits.insert(6);
        assert_eq!((hits.ids(), hits.is_full()), (&[][..], true));
        hits.insert(5);
        assert!(hits.ids().is_empty());
        hits.clear();
        hits.insert(5);
        assert_eq!((hits.ids(), hits.is_full()), (&[5][..], false));
    }

    #[test]
    fn ids_of_other_lists_fill_it() {
        let mut hits = Hits::new(100, 64);
        hits.insert(64);
        assert!(hits.is_full());
    }
}
