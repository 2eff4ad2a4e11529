//! How far apart batches come.

/// Distances that are kept: of batches that come in groups of two and more, one of two is short.
const GAPS: usize = 2;

/// The distances of the last batches, by the arrival times of their oldest packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last_ns: u64,
    gaps_ns: [u64; GAPS],
    /// Batches so far, up to one more than there are distances.
    count: usize,
}

impl Pace {
    /// A batch came whose oldest packet arrived at `oldest_ns`.
    pub(super) fn handle_batch(&mut self, oldest_ns: u64) {
        self.gaps_ns.rotate_right(1);
        self.gaps_ns[0] = oldest_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(oldest_ns);
        self.count = (self.count + 1).min(GAPS + 1);
    }

    /// Whether the next batch comes later than `by_ns`, if it is no sooner after the last one than
    /// those before were.
    pub(super) fn is_next_after(&self, by_ns: u64) -> bool {
        let least_ns = self.gaps_ns.into_iter().min().unwrap_or(0);
        self.count > GAPS && self.last_ns.saturating_add(least_ns) > by_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_batch_is_expected_after_the_shorter_of_two_distances() {
        let of = |times: &[u64], by_ns| {
            let mut pace = Pace::default();
            times.iter().for_each(|&at_ns| pace.handle_batch(at_ns));
            pace.is_next_after(by_ns)
        };
        for (times, last_before) in [
            (&[100, 230, 360][..], 489),
            // In pairs, after the first of one and after the second.
            (&[100, 120, 230], 249),
            (&[120, 230, 250], 269),
            // Three at once.
            (&[100, 230, 230, 230], 229),
        ] {
            assert!(of(times, last_before) && !of(times, last_before + 1), "{times:?}");
        }
        // Too few, and times that run backwards.
        assert!(!of(&[], 0) && !of(&[100, 1_000], 0));
        assert!(!of(&[300, 200, 100], 300));
    }
}
