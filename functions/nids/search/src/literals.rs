//! Patterns by their folded bytes: the literals to search, each once, and the patterns of each.

use super::{Error, Hits, Pattern};

/// In [`Literals::exact_starts`]: case doesn't count.
pub(super) const NOCASE: u32 = u32::MAX;

/// Distinct folded byte strings in ascending order, in flat arrays.
#[derive(Clone, Debug)]
pub(super) struct Literals {
    /// Their bytes, concatenated.
    bytes: Vec<u8>,
    /// Literal `i` has bytes `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    /// Literal `i` stands for the patterns `ids[id_starts[i]..id_starts[i + 1]]`.
    pub(super) id_starts: Vec<u32>,
    pub(super) ids: Vec<u32>,
    /// For each of `ids`: where its bytes begin in `exact`, or [`NOCASE`].
    pub(super) exact_starts: Vec<u32>,
    /// Bytes of the patterns whose case counts.
    pub(super) exact: Vec<u8>,
}

impl Literals {
    /// Sorts and folds `patterns`.
    ///
    /// # Errors
    ///
    /// They have 2^31 bytes or more.
    pub(super) fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        if patterns.iter().map(|pattern| pattern.bytes.len()).sum::<usize>() >= 1 << 31 {
            return Err(Error::TooLong);
        }
        let mut sorted: Vec<(Vec<u8>, u32)> =
            patterns.iter().zip(0..).map(|(p, id)| (p.bytes.to_ascii_lowercase(), id)).collect();
        sorted.sort_unstable();
        let mut literals = Self {
            bytes: Vec::new(),
            starts: vec![0],
            id_starts: vec![0],
            ids: Vec::new(),
            exact_starts: Vec::new(),
            exact: Vec::new(),
        };
        for same in sorted.chunk_by(|a, b| a.0 == b.0) {
            literals.push(same, patterns);
        }
        Ok(literals)
    }

    fn push(&mut self, same: &[(Vec<u8>, u32)], patterns: &[Pattern]) {
        self.bytes.extend(&same[0].0);
        self.starts.push(self.bytes.len() as u32);
        for &(_, id) in same {
            self.ids.push(id);
            let pattern = &patterns[id as usize];
            // Without letters there is no case to compare.
            if pattern.is_nocase || !pattern.bytes.iter().any(u8::is_ascii_alphabetic) {
                self.exact_starts.push(NOCASE);
            } else {
                self.exact_starts.push(self.exact.len() as u32);
                self.exact.extend(&*pattern.bytes);
            }
        }
        self.id_starts.push(self.ids.len() as u32);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The folded bytes of one.
    #[inline]
    pub(super) fn get(&self, literal: u32) -> &[u8] {
        &self.bytes
            [self.starts[literal as usize] as usize..self.starts[literal as usize + 1] as usize]
    }

    /// Adds the patterns that `literal` stands for to `hits`, those whose case counts where it is
    /// that of `found`. The folded bytes of `found` are the literal's.
    #[inline]
    pub(super) fn report(&self, literal: u32, found: &[u8], hits: &mut Hits) {
        let range = self.id_starts[literal as usize]..self.id_starts[literal as usize + 1];
        for place in range {
            let (id, exact) = (self.ids[place as usize], self.exact_starts[place as usize]);
            if !hits.is_settled(id) && (exact == NOCASE || self.has(exact, found)) {
                hits.insert(id);
            }
        }
    }

    fn has(&self, exact: u32, found: &[u8]) -> bool {
        self.exact.get(exact as usize..exact as usize + found.len()) == Some(found)
    }

    pub(super) fn memory_len(&self) -> usize {
        let words = [&self.starts, &self.id_starts, &self.ids, &self.exact_starts];
        self.bytes.len() + self.exact.len() + words.iter().map(|w| w.len() * 4).sum::<usize>()
    }
}
