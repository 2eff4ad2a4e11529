//! Slopes of logarithm and exponential.
//!
//! The standard library calls the platform's functions, and their last bit differs between systems.
//! `libm` has one text for all, so packets and timestamps are the same everywhere.

/// (e^t - 1) / t, continued to 1 at 0.
#[inline]
pub(super) fn exp_slope(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { libm::expm1(t) / t }
}

/// ln(1 + t) / t, continued to 1 at 0.
#[inline]
pub(super) fn ln_slope(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { libm::log1p(t) / t }
}

#[cfg(test)]
mod tests {
    use super::*;

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
