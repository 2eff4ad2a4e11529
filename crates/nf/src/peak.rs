//! Peaks of values that are divided among shards.
//!
//! All shards get the same ticks, so the time between two ticks is the same part of the input for
//! each. Within it each shard has a highest value of its own. Their sum bounds the total from
//! above, and the highest sum is the peak: no shard adds a value that it had at another time.

use std::borrow::Cow;

use warpline_packet::Instant;

/// Spans that a history has at most.
const SPANS_MAX: usize = 256;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The highest values of a shard's gauge, by spans of time up to its last tick.
///
/// A span is a second of packet time. When there are more than 256, each two become one,
/// so a span is never longer than a 128th of the time that the history covers, or a second.
#[derive(Clone, Debug, Default)]
pub struct PeakHistory {
    /// The binary logarithm of a span's seconds.
    shift: u32,
    /// The number of the first span: its time over its length.
    first: u64,
    values: Vec<u64>,
}

impl PeakHistory {
    /// An empty one. It never allocates later.
    pub fn new() -> Self {
        Self { values: Vec::with_capacity(SPANS_MAX), ..Self::default() }
    }

    /// Ends a part of the input at the tick of `now`, in which the gauge reached `highest`.
    pub fn end_part(&mut self, now: Instant, highest: u64) {
        let second = now.as_nanos() / NANOS_PER_SECOND;
        if self.values.is_empty() {
            self.first = second >> self.shift;
        }
        while second >> self.shift >= self.first + SPANS_MAX as u64 {
            self.widen();
        }
        let span = (second >> self.shift).saturating_sub(self.first) as usize;
        if span >= self.values.len() {
            self.values.resize(span + 1, highest);
        } else if let Some(last) = self.values.last_mut() {
            *last = highest.max(*last);
        }
    }

    /// Makes spans twice as long.
    fn widen(&mut self) {
        let mut len = 0;
        for at in 0..self.values.len() {
            let value = self.values[at];
            let to = ((self.first + at as u64) / 2 - self.first / 2) as usize;
            if to == len {
                self.values[to] = value;
                len += 1;
            } else {
                self.values[to] = value.max(self.values[to]);
            }
        }
        self.values.truncate(len);
        self.first /= 2;
        self.shift += 1;
    }

    /// The value in a span; `newest` is that since the last tick.
    fn in_span(&self, span: u64, newest: u64) -> u64 {
        let at = span.saturating_sub(self.first) as usize;
        self.values.get(at).copied().unwrap_or(newest)
    }

    /// The first span and the end of the last one.
    fn spans(&self) -> (u64, u64) {
        let end = self.first + self.values.len() as u64;
        if self.values.is_empty() { (u64::MAX, 0) } else { (self.first, end) }
    }
}

/// The sum of histories, span by span.
#[derive(Clone, Debug, Default)]
pub struct PeakSum {
    sums: PeakHistory,
    /// Since the last tick.
    newest: u64,
}

impl PeakSum {
    /// Adds a shard's history, and the highest value since its last tick.
    pub fn add(&mut self, history: &PeakHistory, newest: u64) {
        let mut other = Cow::Borrowed(history);
        while self.sums.shift < other.shift {
            self.sums.widen();
        }
        while other.shift < self.sums.shift {
            other.to_mut().widen();
        }
        let (mut first, mut end) = bounds(&self.sums, &other);
        while end.saturating_sub(first) > SPANS_MAX as u64 {
            self.sums.widen();
            other.to_mut().widen();
            (first, end) = bounds(&self.sums, &other);
        }
        if self.sums.spans() == other.spans() {
            self.sums.values.iter_mut().zip(&other.values).for_each(|(sum, own)| *sum += own);
        } else {
            let sum = |span| self.sums.in_span(span, self.newest) + other.in_span(span, newest);
            self.sums.values = (first..end).map(sum).collect();
            self.sums.first = first;
        }
        self.newest += newest;
    }

    /// Adds another sum.
    pub fn join(&mut self, other: &Self) {
        self.add(&other.sums, other.newest);
    }

    /// The highest sum.
    pub fn highest(&self) -> u64 {
        self.sums.values.iter().copied().fold(self.newest, u64::max)
    }
}

fn bounds(one: &PeakHistory, other: &PeakHistory) -> (u64, u64) {
    let ((first, end), (other_first, other_end)) = (one.spans(), other.spans());
    (first.min(other_first), end.max(other_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of shards that have these highest values, each with the second of its tick; the last
    /// value is that since the last tick.
    fn sum(shards: &[(&[(u64, u64)], u64)]) -> PeakSum {
        let mut sum = PeakSum::default();
        for (ended, newest) in shards {
            let mut history = PeakHistory::new();
            ended.iter().for_each(|&(second, n)| history.end_part(Instant::from_secs(second), n));
            sum.add(&history, *newest);
        }
        sum
    }

    #[test]
    fn shards_add_up_where_their_times_meet() {
        type Shards = [(&'static [(u64, u64)], u64)];
        let cases: [(&str, u64, &Shards); 11] = [
            ("none", 0, &[]),
            ("no tick yet", 12, &[(&[], 5), (&[], 7)]),
            ("at other times", 7, &[(&[(1, 5), (2, 0)], 0), (&[(1, 0), (2, 7)], 0)]),
            ("at one time", 12, &[(&[(1, 0), (2, 5)], 0), (&[(1, 0), (2, 7)], 0)]),
            ("since the last tick", 12, &[(&[(1, 1)], 5), (&[(1, 2)], 7)]),
            ("in one second", 12, &[(&[(1, 5), (1, 0)], 0), (&[(1, 0), (1, 7)], 0)]),
            ("a tick that was late", 9, &[(&[(1, 9), (4, 3)], 0), (&[(1, 0), (4, 5)], 0)]),
            ("one had no tick yet", 8, &[(&[(1, 1), (2, 5)], 2), (&[], 3)]),
            ("one had ticks between", 8, &[(&[(1, 0), (4, 3)], 0), (&[(1, 0), (2, 5), (4, 0)], 0)]),
            (
                "one has longer spans",
                16,
                &[
                    (&[(1, 0), (200, 0), (201, 9), (400, 0)], 0),
                    (&[(1, 0), (200, 0), (201, 7), (210, 0)], 0),
                ],
            ),
            ("one had fewer ticks", 11, &[(&[(5, 1), (6, 4)], 0), (&[(5, 2)], 7)]),
        ];
        for (name, expected, shards) in cases {
            assert_eq!(sum(shards).highest(), expected, "{name}");
        }
    }

    /// Against a list of all shards' values by part, with ticks of any times. The sum is never
    /// below the highest total, and equal to it while spans are seconds.
    #[test]
    fn long_runs_bound_the_total() {
        for (parts, step, busiest) in [
            (10, 1, 9),
            (256, 1, 0),
            (257, 1, 100),
            (257, 1, 101),
            (5_000, 1, 1_234),
            (3_000, 7, 1_999),
            (40, 1 << 40, 3),
        ] {
            let value = |shard: u64, part: u64| {
                let more = if part == busiest { 10 } else { 0 };
                ((part * (7 + shard) * 2_654_435_761) >> 7) % 1_000 + 1_000 * more
            };
            let total = |part| (0..64).map(|shard| value(shard, part)).sum::<u64>();
            let apart: u64 =
                (0..64).map(|shard| (0..parts).map(|n| value(shard, n)).max().unwrap_or(0)).sum();
            let highest = (0..parts).map(total).max().unwrap_or(0);
            let mut lanes = [PeakSum::default(), PeakSum::default(), PeakSum::default()];
            for shard in 0..64 {
                let mut history = PeakHistory::new();
                let room = history.values.capacity();
                for part in 0..parts {
                    let now = Instant::from_secs((9 + part * step).min(18_000_000_000));
                    history.end_part(now, value(shard, part));
                }
                assert!(history.values.len() <= SPANS_MAX && history.values.capacity() == room);
                lanes[shard as usize % 3].add(&history, 0);
            }
            let mut sum = PeakSum::default();
            lanes.iter().for_each(|lane| sum.join(lane));
            let found = sum.highest();
            assert!((highest..=apart).contains(&found), "{highest} {found} {apart}");
            assert!(parts > 256 || step > 1 || found == highest, "{parts}: {highest} {found}");
        }
    }

    /// Clocks that have nothing in common take no more memory.
    #[test]
    fn sums_of_any_times_are_bounded() {
        let far = sum(&[(&[(0, 3)], 1), (&[(18_000_000_000, 4)], 2), (&[(77, 0), (900, 5)], 0)]);
        assert!(far.sums.values.len() <= SPANS_MAX);
        assert!((5..=12).contains(&far.highest()), "{}", far.highest());
    }
}
