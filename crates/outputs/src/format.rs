//! Where records end.

use std::sync::Arc;

/// How the records of an output follow each other.
#[derive(Clone)]
pub struct Format {
    record_len: fn(&[u8]) -> Option<usize>,
    /// Whether all bytes are one record.
    is_whole: bool,
    preamble: Arc<Preamble>,
}

/// The bytes that a file starts with, if the given record follows.
type Preamble = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

impl Format {
    /// Records whose length their first bytes give; none as long as these are too few.
    pub fn new(record_len: fn(&[u8]) -> Option<usize>) -> Self {
        Self { record_len, is_whole: false, preamble: Arc::new(|_| Vec::new()) }
    }

    /// Lines of text.
    pub fn lines() -> Self {
        Self::new(|bytes| memchr::memchr(b'\n', bytes).map(|at| at + 1))
    }

    /// One record that is written as a whole, at the end.
    pub fn whole() -> Self {
        Self { is_whole: true, ..Self::new(|bytes| Some(bytes.len())) }
    }

    /// Begins every file but the first, and every connection but the first, with `preamble` of the
    /// record that follows.
    #[must_use]
    pub fn beginning(
        mut self,
        preamble: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        self.preamble = Arc::new(preamble);
        self
    }

    /// Whether records are added to those of an earlier run.
    pub(crate) fn can_continue(&self) -> bool {
        !self.is_whole
    }

    pub(crate) fn preamble(&self, record: &[u8]) -> Vec<u8> {
        (self.preamble)(record)
    }

    /// How many of the first `len` bytes are whole records, and how many records these are.
    pub(crate) fn whole_in(&self, bytes: &[u8], len: usize) -> (usize, u64) {
        if self.is_whole && len < bytes.len() {
            return (0, 0);
        }
        let bytes = &bytes[..len.min(bytes.len())];
        let (mut end, mut records) = (0, 0);
        while let Some(len) = (self.record_len)(&bytes[end..]) {
            if len == 0 || end + len > bytes.len() {
                break;
            }
            end += len;
            records += 1;
        }
        (end, records)
    }

    /// How many records `bytes` are. A rest that is none counts as one.
    pub(crate) fn count(&self, bytes: &[u8]) -> u64 {
        let (end, records) = self.whole_in(bytes, bytes.len());
        records + u64::from(end < bytes.len())
    }

    /// The length of a first part of `bytes` that has whole records and about `len` bytes.
    pub(crate) fn piece(&self, bytes: &[u8], len: usize) -> usize {
        let (end, _) = self.whole_in(bytes, len);
        let first = || (self.record_len)(bytes).filter(|len| (1..=bytes.len()).contains(len));
        if end > 0 { end } else { first().unwrap_or(bytes.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_lines_or_have_a_length() {
        let lines = Format::lines();
        assert_eq!(lines.whole_in(b"a\nbc\nd", 6), (5, 2));
        assert_eq!(lines.whole_in(b"a\nbc\nd", 4), (2, 1));
        assert_eq!(lines.count(b"a\nbc\nd"), 3);
        assert_eq!(lines.piece(b"a\nbc\nd", 4), 2);
        assert_eq!(lines.piece(b"abcdef\ng\n", 4), 7, "a long record goes whole");
        assert_eq!(lines.piece(b"abcdef", 4), 6);
        let counted = Format::new(|bytes| bytes.first().map(|len| usize::from(*len)));
        assert_eq!(counted.whole_in(&[1, 2, 9, 3, 9], 5), (3, 2));
        assert_eq!(counted.whole_in(&[0, 1], 2), (0, 0), "no record is empty");
        let whole = Format::whole();
        assert_eq!(whole.piece(b"a\nb\n", 2), 4);
        assert_eq!((whole.whole_in(b"a\nb\n", 2), whole.count(b"a\nb\n")), ((0, 0), 1));
    }
}
