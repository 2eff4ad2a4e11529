//! Rules by a number that they name: sorted ranges that don't overlap, each with the rules that
//! name all of it.

/// Where ranges begin, and the rules of each; the next one's beginning is its end.
#[derive(Debug)]
pub(super) struct Ranges<N> {
    firsts: Vec<N>,
    /// One more than there are ranges.
    starts: Vec<u32>,
    rules: Vec<u32>,
}

impl<N> Default for Ranges<N> {
    fn default() -> Self {
        Self { firsts: Vec::new(), starts: vec![0], rules: Vec::new() }
    }
}

impl<N: Ord + Copy> Ranges<N> {
    /// From inclusive ranges, each with its rule. `next` returns the successor of a number, and
    /// `None` for the last.
    pub(super) fn new(ranges: Vec<(N, N, u32)>, next: impl Fn(N) -> Option<N>) -> Self {
        // The places where a rule's range begins or ends. Ends come first, so that no rule is named
        // twice at a border.
        let mut turns: Vec<(N, bool, u32)> = Vec::with_capacity(2 * ranges.len());
        for (first, last, rule) in ranges {
            turns.push((first, true, rule));
            turns.extend(next(last).map(|behind| (behind, false, rule)));
        }
        turns.sort_unstable();
        let mut all = Self::default();
        let mut now: Vec<u32> = Vec::new();
        for turns in turns.chunk_by(|a, b| a.0 == b.0) {
            for &(_, begins, rule) in turns {
                match (now.binary_search(&rule), begins) {
                    (Err(at), true) => now.insert(at, rule),
                    (Ok(at), false) => drop(now.remove(at)),
                    _ => {}
                }
            }
            all.firsts.push(turns[0].0);
            all.rules.extend(&now);
            all.starts.push(all.rules.len() as u32);
        }
        all
    }

    /// The rules that name `number`.
    pub(super) fn of(&self, number: N) -> &[u32] {
        let Some(at) = self.firsts.partition_point(|&first| first <= number).checked_sub(1) else {
            return &[];
        };
        let range = self.starts.get(at).zip(self.starts.get(at + 1));
        range.and_then(|(&a, &b)| self.rules.get(a as usize..b as usize)).unwrap_or(&[])
    }
}
