//! The cores of lanes, in Linux's list format: `2-5,8`.

use std::fmt;
use std::mem::replace;
use std::str::FromStr;

use crate::LANES_MAX;

/// The highest number of a core. Systems with more cores are not asked for them.
pub const CORE_MAX: u16 = 1023;

/// The cores of a chain's lanes, in the order of the lanes; empty if the system chooses.
///
/// It parses a list of numbers and ascending ranges, no core twice, and keeps the order: with `4,2`
/// lane 0 runs on core 4. Of a longer list the first [`LANES_MAX`] are kept, because there are no
/// more lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    count: usize,
    numbers: [u16; LANES_MAX],
}

/// Why a text is no list of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoresError {
    /// There is nothing in it.
    Empty,
    /// This part is neither a number nor a range of two.
    NotACore(String),
    /// This number is beyond [`CORE_MAX`].
    Beyond(String),
    /// This range goes down.
    Backwards(u16, u16),
    /// This core is listed twice.
    Twice(u16),
}

impl Cores {
    /// None: lanes run wherever the system puts them.
    pub const ANY: Self = Self { count: 0, numbers: [0; LANES_MAX] };

    /// The numbers of the cores, in the order of the lanes.
    pub fn numbers(&self) -> &[u16] {
        &self.numbers[..self.count]
    }

    /// Those of the first `lanes` lanes.
    #[must_use]
    pub fn first(&self, lanes: usize) -> Self {
        let mut first = Self::ANY;
        self.numbers().iter().take(lanes).for_each(|core| first.push(*core));
        first
    }

    fn push(&mut self, core: u16) {
        if let Some(place) = self.numbers.get_mut(self.count) {
            *place = core;
            self.count += 1;
        }
    }
}

impl FromStr for Cores {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, CoresError> {
        if text.trim().is_empty() {
            return Err(CoresError::Empty);
        }
        let mut cores = Self::ANY;
        let mut is_there = [false; CORE_MAX as usize + 1];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (core(first, part)?, core(last, part)?);
            if first > last {
                return Err(CoresError::Backwards(first, last));
            }
            for core in first..=last {
                if replace(&mut is_there[usize::from(core)], true) {
                    return Err(CoresError::Twice(core));
                }
                cores.push(core);
            }
        }
        Ok(cores)
    }
}

/// The number `text`, which stands in `part` of a list.
fn core(text: &str, part: &str) -> Result<u16, CoresError> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CoresError::NotACore(part.trim().into()));
    }
    let number = digits.parse().ok().filter(|number| *number <= CORE_MAX);
    number.ok_or_else(|| CoresError::Beyond(digits.into()))
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers().fmt(f)
    }
}

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no core is listed"),
            Self::NotACore(part) => write!(f, "{part:?} is neither a core nor a range of cores"),
            Self::Beyond(number) => write!(f, "{number} is beyond {CORE_MAX}, the highest core"),
            Self::Backwards(first, last) => {
                write!(f, "{first}-{last} runs backwards; a range goes up")
            }
            Self::Twice(core) => write!(f, "core {core} is there twice"),
        }
    }
}

impl std::error::Error for CoresError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let sixty_four: Vec<u16> = (0..64).collect();
        for (text, numbers) in [
            ("0", &[0][..]),
            ("2-5,8", &[2, 3, 4, 5, 8]),
            ("4,2", &[4, 2]),
            ("8,2-3,0", &[8, 2, 3, 0]),
            ("7-7", &[7]),
            (" 1 , 3 - 4 ", &[1, 3, 4]),
            ("007,1023", &[7, 1023]),
            // There are no more lanes.
            ("0-63", &sixty_four),
            ("0-1023", &sixty_four),
        ] {
            let cores: Cores = text.parse().unwrap_or_else(|why| panic!("{text:?}: {why}"));
            assert_eq!(cores.numbers(), numbers, "{text:?}");
        }
        let cores: Cores = "4,2,9".parse().expect("a list");
        assert_eq!(cores.first(2).numbers(), [4, 2]);
        assert_eq!((cores.first(7), cores.first(0)), (cores, Cores::ANY));
    }

    #[test]
    fn lists_that_are_none_say_why() {
        for (text, why) in [
            ("", "no core is listed"),
            (" ", "no core is listed"),
            (",", "\"\" is neither a core nor a range of cores"),
            ("1,,2", "\"\" is neither"),
            ("1,", "\"\" is neither"),
            ("5-2", "5-2 runs backwards; a range goes up"),
            ("two", "\"two\" is neither"),
            ("1, 2x", "\"2x\" is neither"),
            ("-3", "\"-3\" is neither"),
            ("3-", "\"3-\" is neither"),
            ("1-2-3", "\"1-2-3\" is neither"),
            ("0-7:2", "\"0-7:2\" is neither"),
            ("+1", "\"+1\" is neither"),
            ("1 2", "\"1 2\" is neither"),
            ("0x1", "\"0x1\" is neither"),
            ("\u{661}", "\"\u{661}\" is neither"),
            ("1,1", "core 1 is there twice"),
            ("0-4,2", "core 2 is there twice"),
            ("0-70,69", "core 69 is there twice"),
            ("1024", "1024 is beyond 1023, the highest core"),
            ("0-65536", "65536 is beyond 1023"),
            ("99999999999999999999", "99999999999999999999 is beyond 1023"),
        ] {
            let error = text.parse::<Cores>().expect_err(text);
            assert!(error.to_string().starts_with(why), "{text:?}: {error}");
        }
    }
}
