//! Logarithm and exponential from the four basic operations alone.
//!
//! The standard library's call the platform's, whose last bit differs between systems. IEEE 754
//! fixes the result of `+ - * /`, so what is built from these is the same everywhere, and so are
//! the packets and timestamps drawn with it.

use core::f64::consts::{LN_2, SQRT_2};

/// The natural logarithm of a positive, normal number; about 15 digits are right.
///
/// With x = m * 2^e and m in [1/sqrt 2, sqrt 2), ln m = 2 artanh s for s = (m - 1) / (m + 1), whose
/// series falls by s^2 <= 0.03 from term to term.
#[inline]
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = INVERSE_ODDS.iter().rev().fold(0.0, |series, term| series * square + term);
    f64::from(exponent) * LN_2 + 2.0 * s * series
}

/// 1/n for odd n.
const INVERSE_ODDS: [f64; 11] = [
    1.0,
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

/// e to the power of `x`; 0 below about e^-708 and infinite above e^709.
///
/// With x = k ln 2 + r and |r| <= ln 2 / 2, the Taylor series of e^r to r^13.
#[inline]
pub(super) fn exp(x: f64) -> f64 {
    if x > 709.0 {
        return f64::INFINITY;
    }
    if x < -708.0 || x.is_nan() {
        return 0.0;
    }
    let k = (x / LN_2 + if x < 0.0 { -0.5 } else { 0.5 }) as i64;
    // ln 2 in two parts: the first has so few bits that k times it is exact.
    let r = (x - k as f64 * LN_2_HIGH) - k as f64 * LN_2_LOW;
    let series = INVERSE_FACTORIALS.iter().rev().fold(0.0, |series, term| series * r + term);
    series * f64::from_bits(((k + 1023) as u64) << 52)
}

/// 1/n! for n from 0 to 13: multiplying is many times as fast as dividing by n.
const INVERSE_FACTORIALS: [f64; 14] = {
    let mut terms = [1.0; 14];
    let (mut n, mut factorial) = (1, 1.0);
    while n < terms.len() {
        factorial *= n as f64;
        terms[n] = 1.0 / factorial;
        n += 1;
    }
    terms
};

const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// (e^t - 1) / t, continued to 1 at 0.
#[inline]
pub(super) fn exp_slope(t: f64) -> f64 {
    if t.abs() < 1e-5 { 1.0 + t / 2.0 * (1.0 + t / 3.0) } else { (exp(t) - 1.0) / t }
}

/// ln(1 + t) / t, continued to 1 at 0.
#[inline]
pub(super) fn ln_slope(t: f64) -> f64 {
    if t.abs() < 1e-5 { 1.0 - t / 2.0 + t * t / 3.0 } else { ln(1.0 + t) / t }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_the_platform() {
        for step in 1..20_000 {
            let x = f64::from(step) * 0.037;
            for value in [x, 1.0 / x, x * 1e100] {
                let error = (ln(value) - value.ln()).abs();
                assert!(error <= 4e-15 * value.ln().abs().max(1.0), "ln {value}: {error}");
            }
            let power = (x - 370.0) * 1.9;
            let error = (exp(power) / power.exp() - 1.0).abs();
            assert!(!(-700.0..=700.0).contains(&power) || error < 4e-15, "exp {power}: {error}");
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
        assert_eq!((exp(1e9), exp(-1e9)), (f64::INFINITY, 0.0));
    }

    #[test]
    fn slopes_are_continuous() {
        for t in [0.0, 1e-12, -1e-9, 0.9e-5, 1.1e-5, -1.1e-5, 0.3, -0.4] {
            let (up, log) =
                if t == 0.0 { (1.0, 1.0) } else { (f64::exp_m1(t) / t, f64::ln_1p(t) / t) };
            assert!((exp_slope(t) - up).abs() < 1e-10, "{t}");
            assert!((ln_slope(t) - log).abs() < 1e-10, "{t}");
        }
    }
}
