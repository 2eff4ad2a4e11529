//! How large the tables of a function are.

use warpline_packet::SHARDS;

/// A table of a function's state, for `warpline check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Its entries' name, in the plural.
    pub name: &'static str,
    /// Entries in all.
    pub total: usize,
    /// Whether each shard has its share of them ([`warpline_packet::Shard::share`]).
    pub is_divided: bool,
}

impl TableSize {
    /// A table of `total` entries named `name`, in all shards together.
    pub const fn divided(name: &'static str, total: usize) -> Self {
        Self { name, total, is_divided: true }
    }

    /// A table that is not divided by shard.
    pub const fn whole(name: &'static str, total: usize) -> Self {
        Self { name, total, is_divided: false }
    }

    /// How many tables it is in a chain whose state is divided, or isn't.
    pub const fn count(&self, chain_is_divided: bool) -> usize {
        if self.is_divided && chain_is_divided { SHARDS } else { 1 }
    }
}
