//! Rates and delays as they are typed.

/// By unit, Gb/s.
const RATES: [(&str, f64); 4] = [("kbps", 1e-6), ("mbps", 1e-3), ("gbps", 1.0), ("tbps", 1e3)];
/// By unit, microseconds. A unit that ends another one comes last.
const DELAYS: [(&str, f64); 4] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// `400mbps` in Gb/s.
///
/// # Errors
/// It is no rate between 1 kb/s and 10 Tb/s.
pub(super) fn rate_gbps(text: &str) -> Result<f64, String> {
    let gbps = quantity(text, &RATES).ok_or("write a number and kbps, mbps, gbps or tbps");
    in_range(gbps?, 1e-6..=1e4, "from 1kbps to 10tbps")
}

/// `50ms` in microseconds.
///
/// # Errors
/// It is no delay between 1 ns and an hour.
pub(in crate::commands) fn delay_us(text: &str) -> Result<f64, String> {
    let us = quantity(text, &DELAYS).ok_or("write a number and ns, us, ms or s");
    in_range(us?, 1e-3..=3.6e9, "from 1ns to 3600s")
}

fn in_range(
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    allowed: &str,
) -> Result<f64, String> {
    if range.contains(&value) { Ok(value) } else { Err(format!("allowed: {allowed}")) }
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.to_ascii_lowercase();
    let of_unit = |&(unit, factor): &(&str, f64)| Some((text.strip_suffix(unit)?, factor));
    let (number, factor) = units.iter().find_map(of_unit)?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| number.parse::<f64>().ok())?.map(|number| number * factor)
}

/// A rate of so many Gb/s in words.
pub(super) fn rate(gbps: f64) -> String {
    match gbps {
        _ if gbps >= 1e3 => format!("{} Tb/s", short(gbps / 1e3)),
        _ if gbps >= 1.0 => format!("{} Gb/s", short(gbps)),
        _ if gbps >= 1e-3 => format!("{} Mb/s", short(gbps * 1e3)),
        _ => format!("{} kb/s", short(gbps * 1e6)),
    }
}

/// A delay of so many microseconds in words.
pub(in crate::commands) fn delay(us: f64) -> String {
    match us {
        _ if us >= 1e6 => format!("{} s", short(us / 1e6)),
        _ if us >= 1e3 => format!("{} ms", short(us / 1e3)),
        _ if us >= 1.0 => format!("{} us", short(us)),
        _ => format!("{} ns", short(us * 1e3)),
    }
}

/// With at most three decimals, none of them a trailing zero.
fn short(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_delays_have_units() {
        for (text, gbps) in [
            ("400mbps", Some(0.4)),
            ("1.5Gbps", Some(1.5)),
            ("10tbps", Some(1e4)),
            ("11tbps", None),
            ("400", None),
            ("mbps", None),
            ("-4mbps", None),
            ("1e3mbps", None),
            ("infgbps", None),
            ("nangbps", None),
            ("1.2.3gbps", None),
            ("4 mbps", None),
            ("0gbps", None),
            ("50ms", None),
            ("", None),
        ] {
            assert_eq!(rate_gbps(text).ok(), gbps, "{text}");
        }
        for (text, us) in [
            ("50ms", Some(5e4)),
            ("2s", Some(2e6)),
            ("500ns", Some(0.5)),
            ("7us", Some(7.0)),
            ("7s7", None),
            ("1h", None),
            ("9999999999s", None),
        ] {
            assert_eq!(delay_us(text).ok(), us, "{text}");
        }
    }

    #[test]
    fn quantities_are_shown_in_the_unit_that_fits() {
        let rates = [0.4, 1.0, 1e4, 1e-6].map(rate);
        assert_eq!(rates, ["400 Mb/s", "1 Gb/s", "10 Tb/s", "1 kb/s"]);
        let delays = [0.5, 100.0, 2.5e5, 3.6e9].map(delay);
        assert_eq!(delays, ["500 ns", "100 us", "250 ms", "3600 s"]);
    }
}
