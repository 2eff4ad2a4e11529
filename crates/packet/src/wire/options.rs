//! The options of IPv4 (RFC 791, 3.1) and TCP (RFC 9293, 3.1). They share one form: a kind byte, a
//! length byte that counts both, then data. [`END`] and [`NO_OPERATION`] are a kind byte alone.

/// Ends the list; padding follows.
pub const END: u8 = 0;
/// One byte of nothing, to align what follows.
pub const NO_OPERATION: u8 = 1;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// Its kind, in TCP; its type with the copied flag and class, in IPv4.
    pub kind: u8,
    /// Where its kind byte is, in bytes from the start of the options.
    pub offset: usize,
    /// The bytes after kind and length.
    pub data: &'a [u8],
}

/// The options of a header in their order, without no-operations. It ends at [`END`], and at the
/// first option with an impossible length, for which [`is_intact`](Self::is_intact) is then false.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    options: &'a [u8],
    next: usize,
    intact: bool,
}

impl<'a> Options<'a> {
    /// The options in `options`, the bytes between a fixed header and its data.
    #[inline]
    pub const fn new(options: &'a [u8]) -> Self {
        Self { options, next: 0, intact: true }
    }

    /// Whether every option so far has a possible length.
    #[inline]
    pub const fn is_intact(&self) -> bool {
        self.intact
    }

    fn sized(&self, kind: u8) -> Option<HeaderOption<'a>> {
        let rest = self.options.get(self.next..)?;
        let len = usize::from(*rest.get(1)?);
        let data = rest.get(2..len)?;
        Some(HeaderOption { kind, offset: self.next, data })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = HeaderOption<'a>;

    fn next(&mut self) -> Option<HeaderOption<'a>> {
        while let Some(&kind) = self.options.get(self.next) {
            if kind == END {
                break;
            }
            if kind == NO_OPERATION {
                self.next += 1;
                continue;
            }
            let option = self.sized(kind);
            self.intact = option.is_some();
            self.next = option.map_or(self.options.len(), |o| o.offset + 2 + o.data.len());
            return option;
        }
        self.next = self.options.len();
        None
    }
}

impl core::iter::FusedIterator for Options<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_sized_options_and_skips_padding() {
        let bytes = [2, 4, 5, 0xb4, 1, 1, 4, 2, 8, 3, 9, 0, 77, 77];
        let mut options = Options::new(&bytes);
        let found = [(2, 0, &[5, 0xb4][..]), (4, 6, &[]), (8, 8, &[9])];
        for (kind, offset, data) in found {
            assert_eq!(options.next(), Some(HeaderOption { kind, offset, data }));
        }
        assert_eq!(options.next(), None);
        assert!(options.is_intact());
    }

    #[test]
    fn stops_at_a_lie() {
        for lie in [&[2, 0, 0, 0][..], &[2, 1, 0, 0], &[2, 5, 0, 0], &[1, 1, 1, 2], &[2]] {
            let mut options = Options::new(lie);
            assert_eq!(options.next(), None, "{lie:?}");
            assert!(!options.is_intact(), "{lie:?}");
            assert_eq!(options.next(), None);
            assert!(!options.is_intact(), "{lie:?}");
        }
    }
}
