//! How long frames are: one length, a list of equally likely ones, or the simple IMIX.

use super::rng::Rng;

/// The longest frame: an Ethernet header and the largest IPv4 packet, in bytes without FCS.
pub(super) const SIZE_MAX: u32 = 14 + 65_535;

/// Seven short, four middling and one long packet: 64, 594 and 1518 bytes on the wire, here
/// without the FCS of 4 bytes that captures don't have (the customary simple IMIX, 7:4:1).
const IMIX: [(u32, usize); 3] = [(60, 7), (590, 4), (1514, 1)];

/// Equally likely frame lengths in bytes, a more likely one several times; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(Vec<u32>);

impl Sizes {
    /// The IMIX; frames shorter than `shortest` (IPv6 or TCP headers) are made as long as that.
    pub(super) fn imix(shortest: u32) -> Self {
        let copies = |(size, times): (u32, usize)| core::iter::repeat_n(size.max(shortest), times);
        Self(IMIX.into_iter().flat_map(copies).collect())
    }

    /// Lengths joined by `|`, each from `shortest` to [`SIZE_MAX`], at most 64; or `imix`.
    pub(super) fn parse(value: &str, shortest: u32) -> Option<Self> {
        if value == "imix" {
            return Some(Self::imix(shortest));
        }
        let allowed = u64::from(shortest)..=u64::from(SIZE_MAX);
        let one = |size| super::settings::whole(size, allowed.clone()).map(|size| size as u32);
        let sizes: Vec<u32> = value.split('|').map(one).collect::<Option<_>>()?;
        (sizes.len() <= LIST_MAX).then_some(Self(sizes))
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        match self.0[..] {
            [only] => only,
            ref sizes => sizes[rng.below(sizes.len() as u64) as usize],
        }
    }

    pub(super) fn longest(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The mean length in bytes.
    pub(super) fn mean(&self) -> f64 {
        self.0.iter().map(|&size| f64::from(size)).sum::<f64>() / self.0.len() as f64
    }
}

const LIST_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_table() {
        assert_eq!(Sizes::parse("64", 42), Some(Sizes(vec![64])));
        assert_eq!(Sizes::parse("42|65549", 42), Some(Sizes(vec![42, 65_549])));
        for bad in ["", "41", "65550", "64|", "64|x", "IMIX", "64,65", &"64|".repeat(65)] {
            assert_eq!(Sizes::parse(bad, 42), None, "{bad}");
        }
        assert!(Sizes::parse(&["64"; 64].join("|"), 42).is_some());
        assert!(Sizes::parse(&["64"; 65].join("|"), 42).is_none());
    }

    #[test]
    fn imix_is_seven_to_four_to_one() {
        let imix = Sizes::imix(42);
        assert!((imix.mean() - (7.0 * 60.0 + 4.0 * 590.0 + 1514.0) / 12.0).abs() < 1e-9);
        assert_eq!(Sizes::imix(74).0.iter().min(), Some(&74));
        let mut rng = Rng::stream(1, 1);
        let drawn: Vec<u32> = (0..12_000).map(|_| imix.draw(&mut rng)).collect();
        let count = |size| drawn.iter().filter(|&&drawn| drawn == size).count();
        // Standard deviations: 54, 52 and 30.
        assert!(count(60).abs_diff(7000) < 270);
        assert!(count(590).abs_diff(4000) < 260);
        assert!(count(1514).abs_diff(1000) < 150);
        assert_eq!(count(60) + count(590) + count(1514), drawn.len());
    }
}
