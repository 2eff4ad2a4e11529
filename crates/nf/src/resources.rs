//! Resources that a chain hands out to its functions.

use warpline_config::{Diagnostic, Diagnostics};
use warpline_packet::Seed;

/// Scratch words, the seed, and room for notices.
#[derive(Debug, Default)]
pub struct Resources {
    seed: Seed,
    scratch_words: usize,
    notices: Diagnostics,
    remarks: Diagnostics,
}

impl Resources {
    /// Of a chain with this seed.
    pub fn with_seed(seed: Seed) -> Self {
        Self { seed, ..Self::default() }
    }

    /// What hashes are keyed by that a result depends on: which entry makes room, which port is
    /// taken.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Hands out `N` scratch words; `None` when the chain has no more.
    pub fn scratch<const N: usize>(&mut self) -> Option<[warpline_packet::ScratchWord; N]> {
        let first = self.scratch_words;
        if first + N > warpline_packet::SCRATCH_WORDS {
            return None;
        }
        self.scratch_words += N;
        let mut words = (first..first + N).filter_map(warpline_packet::ScratchWord::new);
        let words: [Option<_>; N] = std::array::from_fn(|_| words.next());
        let words: Vec<_> = words.into_iter().flatten().collect();
        words.try_into().ok()
    }

    /// Tells what a function was asked to leave out, and left out, of a file that it read.
    pub fn notice(&mut self, left_out: Diagnostic) {
        self.notices.push(left_out);
    }

    /// The same with all of a list, of which some may only be counted.
    pub fn notices_of(&mut self, left_out: &Diagnostics) {
        self.notices.extend(left_out);
    }

    /// Rules and lines left out so far.
    pub fn notices(&self) -> &Diagnostics {
        &self.notices
    }

    /// Tells what is worth knowing of files of which nothing was left out for it.
    pub fn remarks_of(&mut self, remarks: &Diagnostics) {
        self.remarks.extend(remarks);
    }

    /// Remarks so far.
    pub fn remarks(&self) -> &Diagnostics {
        &self.remarks
    }

    /// Scratch words handed out so far.
    pub fn scratch_words(&self) -> usize {
        self.scratch_words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_words_run_out() {
        let mut resources = Resources::default();
        assert!(resources.scratch::<26>().is_some());
        assert!(resources.scratch::<7>().is_none());
        assert_eq!(resources.scratch::<6>().unwrap()[5].field().name(), "scratch-31");
    }
}
