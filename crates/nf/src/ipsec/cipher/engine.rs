//! Who does the cipher work: intel-ipsec-mb where it is installed, or the crates that are always there. Both give
//! the same bytes.

use super::{Job, KeyTable, software};

/// See the module.
#[derive(Debug)]
pub enum Engine {
    /// The crates.
    Software,
}

impl Engine {
    /// Ready for these keys.
    pub fn prepared(self, keys: &KeyTable) -> Self {
        let _ = keys;
        self
    }

    /// Seals packets: writes their IVs, ciphers their texts, and writes their ICVs.
    pub fn seal(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        match self {
            Self::Software => software::seal(keys, jobs),
        }
    }

    /// Opens those packets whose ICV is right, and says which; changes nothing of the others.
    pub fn open(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        match self {
            Self::Software => software::open(keys, jobs),
        }
    }
}
