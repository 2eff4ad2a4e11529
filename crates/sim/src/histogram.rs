//! Delays by size: buckets with a relative width below one percent, and an exact mean.

/// Buckets of an octave.
const PER_OCTAVE: u64 = 128;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Adds `value` `times` times.
    pub fn add(&mut self, value: u64, times: u64) {
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        if times > 0 {
            self.max = self.max.max(value);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value below which the share `quantile` of all values is, up to the width of a bucket.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = (quantile.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return least(bucket).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let shift = value.ilog2() - PER_OCTAVE.ilog2();
    (u64::from(shift) * PER_OCTAVE + (value >> shift)) as usize
}

/// The least value of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / PER_OCTAVE - 1;
    (bucket - shift * PER_OCTAVE) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for value in (0..200_000).chain([1 << 40, (1 << 40) + (1 << 33), u64::MAX]) {
            let bucket = bucket(value);
            assert!(bucket >= last, "{value}");
            last = bucket;
            let least = least(bucket);
            assert!(least <= value && (value - least) as f64 <= value as f64 / 128.0, "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.add(value, 2));
        assert_eq!((histogram.count(), histogram.max()), (2000, 1000));
        assert_eq!(histogram.mean(), 500.5);
        for (quantile, exact) in [(0.0, 1u64), (0.5, 500), (0.95, 950), (1.0, 1000)] {
            let found = histogram.quantile(quantile);
            assert!(found.abs_diff(exact) * 100 <= exact, "{quantile}: {found}");
        }
    }
}
