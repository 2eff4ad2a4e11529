//! Which flow the next packet belongs to: all alike, or by Zipf's law.
//!
//! Under Zipf's law with exponent s, flow k of n (from 1) has a share proportional to k^-s. It is
//! drawn by rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", 1996): constant time and memory for any n,
//! where a table of shares would need 8 to 16 bytes a flow.

use libm::{exp, log};

use super::math::{exp_slope, ln_slope};
use super::rng::Rng;

/// A choice among `flows` numbers from 0.
#[derive(Clone, Debug)]
pub(super) enum Popularity {
    /// Each is as likely as the other.
    Uniform { flows: u64 },
    /// Number k - 1 has a share proportional to k^-s.
    Zipf(Zipf),
}

impl Popularity {
    pub(super) fn new(flows: u64, exponent: Option<f64>) -> Self {
        match exponent {
            Some(exponent) if exponent > 0.0 => Self::Zipf(Zipf::new(flows, exponent)),
            _ => Self::Uniform { flows },
        }
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform { flows } => rng.below(*flows),
            Self::Zipf(zipf) => zipf.draw(rng) - 1,
        }
    }
}

/// Zipf's law over 1..=n. With h(x) = x^-s and H its integral from 1, the area under h between
/// k - 1/2 and k + 1/2 covers the column of k (h is convex), so a point drawn by inverting H is in
/// column k, and is taken if it lies within the column's own area h(k).
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    n: f64,
    exponent: f64,
    /// Where the first column begins and the last one ends, on the axis of H.
    first: f64,
    last: f64,
    /// A point this little left of its column's number is inside the column for any k.
    sure: f64,
    /// Where the first columns' own areas begin on the axis of H, for k from 1: the popular flows
    /// are most of the draws, and computing this would be half the work of one.
    begins: Vec<f64>,
}

impl Zipf {
    fn new(flows: u64, exponent: f64) -> Self {
        let n = flows.max(1) as f64;
        let mut zipf = Self { n, exponent, first: 0.0, last: 0.0, sure: 0.0, begins: Vec::new() };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(n + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.share(2.0));
        zipf.begins = (1..=flows.min(KNOWN)).map(|k| zipf.begin(k as f64)).collect();
        zipf
    }

    #[inline(never)]
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.last + rng.unit() * (self.first - self.last);
            let x = self.inverse(area);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            let begin =
                || self.begins.get(k as usize - 1).copied().unwrap_or_else(|| self.begin(k));
            if k - x <= self.sure || area >= begin() {
                return k as u64;
            }
        }
    }

    /// Where the area h(k) that ends with column k begins.
    fn begin(&self, k: f64) -> f64 {
        self.integral(k + 0.5) - self.share(k)
    }

    /// h(x) = x^-s.
    fn share(&self, x: f64) -> f64 {
        exp(-self.exponent * log(x))
    }

    /// H(x) = (x^(1-s) - 1) / (1 - s), ln x where s is 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = log(x);
        ln * exp_slope((1.0 - self.exponent) * ln)
    }

    /// The x at which H is `area`.
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may put the argument of the logarithm just below 0, where x is infinite.
        let t = (area * (1.0 - self.exponent)).max(-1.0 + f64::EPSILON);
        exp(area * ln_slope(t))
    }
}

/// Columns whose beginnings are kept: 8 KiB.
const KNOWN: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of 200 000 draws against the law itself: every flow with enough expected draws is
    /// within five standard deviations, and so is the tail as a whole.
    #[test]
    fn frequencies_follow_the_law() {
        const DRAWS: u32 = 200_000;
        for (flows, exponent) in [
            (1u32, 1.0),
            (2, 0.5),
            (10, 1.0),
            (100, 0.8),
            (1000, 1.2),
            (50, 0.01),
            (20, 3.0),
            (9, 9.9),
        ] {
            let total: f64 = (1..=flows).map(|k| f64::from(k).powf(-exponent)).sum();
            let popularity = Popularity::new(u64::from(flows), Some(exponent));
            let mut rng = Rng::stream(u64::from(flows), 3);
            let mut counts = vec![0u32; flows as usize];
            for _ in 0..DRAWS {
                counts[popularity.draw(&mut rng) as usize] += 1;
            }
            let (mut tail, mut tail_expected) = (0.0, 0.0);
            for (k, &count) in (1..=flows).zip(&counts) {
                let share = f64::from(k).powf(-exponent) / total;
                let expected = share * f64::from(DRAWS);
                let deviation = (expected * (1.0 - share)).sqrt();
                if expected > 50.0 {
                    let off = (f64::from(count) - expected).abs();
                    assert!(off <= 5.0 * deviation + 1e-6, "{flows} {exponent}: {k} {count}");
                } else {
                    tail += f64::from(count);
                    tail_expected += expected;
                }
            }
            assert!((tail - tail_expected).abs() <= 5.0 * tail_expected.sqrt() + 1.0);
        }
    }

    #[test]
    fn every_draw_is_a_flow_even_at_the_limits() {
        for exponent in [0.0, 1e-9, 0.999_999_999, 1.0, 1.000_001, 2.5, 10.0] {
            for flows in [1, 2, 3, 1 << 24] {
                let popularity = Popularity::new(flows, Some(exponent));
                let mut rng = Rng::stream(11, 0);
                assert!((0..2000).all(|_| popularity.draw(&mut rng) < flows));
            }
        }
    }

    #[test]
    fn uniform_reaches_every_flow() {
        let popularity = Popularity::new(64, None);
        let mut rng = Rng::stream(5, 0);
        let seen = (0..2000).fold(0u64, |seen, _| seen | 1 << popularity.draw(&mut rng));
        assert_eq!(seen, u64::MAX);
    }
}
