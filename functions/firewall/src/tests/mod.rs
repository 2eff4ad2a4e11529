//! The firewall against a linear search and a model of tracking, both written from the manual.

mod chain_model;
mod conntrack;
mod files;
mod iptables;
mod matching;
mod model;
mod nft;
mod nft_maps;
mod reload;
mod tracking;
mod traffic;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_verify::{Harness, Outcome};

/// SplitMix64: numbers that are the same in every run.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// A folder of its own for a test's files, removed at its end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpline-firewall-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.join(name), content).unwrap();
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A firewall with these rules and further keys.
pub(super) fn firewall(rules: &str, keys: &str) -> Harness {
    let folder = Folder::new().with("rules", rules);
    let table = format!("rules = \"rules\"\n{keys}");
    let (function, words) = warpline_verify::build(&super::DEFINITION, &table, folder.path());
    Harness::new(function, words)
}

/// How a packet left, in a word.
pub(super) fn reported(outcome: &Outcome) -> &'static str {
    use warpline_packet::Verdict;
    match outcome.verdict {
        Verdict::Forward => "accept",
        Verdict::Malformed => "malformed",
        Verdict::Dropped => super::DEFINITION.drops[usize::from(outcome.reason)],
        other => panic!("{other:?}"),
    }
}
