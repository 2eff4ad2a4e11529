//! How many different things there were, in fixed memory: HyperLogLog (Flajolet, Fusy, Gandouet,
//! Meunier, 2007) with linear counting where few were.

/// Registers of a sketch.
const REGISTERS: usize = 256;
/// Standard error of an estimate in percent: 1.04 / sqrt(256).
#[cfg(test)]
const ERROR: f64 = 0.065;
/// The largest value of a register. Sums are kept in units of 2^-32, so that they are exact.
const RANK_MAX: u8 = 32;
/// The constant of the estimate for 256 registers: 0.7213 / (1 + 1.079 / 256).
const ALPHA: f64 = 0.718_273;

/// A set that only knows how large it is.
#[derive(Clone)]
pub(super) struct Distinct {
    registers: [u8; REGISTERS],
    /// The sum of 2^-register, in units of 2^-32.
    sum: u64,
    /// Registers that are 0.
    zeros: u32,
}

impl Default for Distinct {
    fn default() -> Self {
        let sum = (REGISTERS as u64) << 32;
        Self { registers: [0; REGISTERS], sum, zeros: REGISTERS as u32 }
    }
}

impl Distinct {
    /// Adds an item by its hash. Returns whether the estimate may have changed.
    pub(super) fn add(&mut self, hash: u64) -> bool {
        let register = &mut self.registers[hash as usize % REGISTERS];
        let rank = ((hash >> 8).trailing_zeros() as u8 + 1).min(RANK_MAX);
        if rank <= *register {
            return false;
        }
        self.sum -= (1 << 32 >> *register) - (1 << 32 >> rank);
        self.zeros -= u32::from(*register == 0);
        *register = rank;
        true
    }

    /// How many different things were added: within 6.5 % of it, as a standard error.
    pub(super) fn estimate(&self) -> u64 {
        let count = REGISTERS as f64;
        let sum = self.sum as f64 / (1u64 << 32) as f64;
        let estimate = ALPHA * count * count / sum;
        let few = estimate <= 2.5 * count && self.zeros > 0;
        let estimate = if few { count * (count / f64::from(self.zeros)).ln() } else { estimate };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_tables::keyed::mix;

    #[test]
    fn estimates_keep_to_the_standard_error() {
        for count in [1u64, 10, 100, 600, 700, 5_000, 100_000] {
            let mut squares = 0.0;
            const SETS: u64 = 60;
            for set in 0..SETS {
                let mut distinct = Distinct::default();
                for n in 0..count {
                    let hash = mix(n + set * 1_000_003 + 1, 0x9e37_79b9_7f4a_7c15);
                    let hash = mix(hash ^ 0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b);
                    distinct.add(hash);
                    assert!(!distinct.add(hash), "nothing is counted twice");
                }
                squares += (distinct.estimate() as f64 / count as f64 - 1.0).powi(2);
            }
            let error = (squares / SETS as f64).sqrt();
            assert!(error < 1.3 * ERROR, "{error} at {count}");
        }
    }
}
