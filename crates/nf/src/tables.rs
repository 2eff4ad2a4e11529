//! What functions with tables share: how large those are, and which kind of entry gives way in a full one.

use warpline_packet::SHARDS;

/// A table of a function's state, for `warpline check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// What it holds, in the plural.
    pub name: &'static str,
    /// How many it holds in all.
    pub total: usize,
    /// Whether each shard has its share of them ([`warpline_packet::Shard::share`]).
    pub is_divided: bool,
}

impl TableSize {
    /// A table that holds `total` of what is called `name`, in all shards together.
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

/// The kind of which there are most, the first of those of which there are as many; `None` where there are none.
/// Whatever floods a table is soon most of it and pushes out itself: no flood of one kind can take from another
/// more than what that has above its even share.
pub(crate) fn fullest<K: Copy>(kinds: impl IntoIterator<Item = (K, u32)>) -> Option<K> {
    let mut best = (None, 0);
    for (kind, count) in kinds {
        if count > best.1 {
            best = (Some(kind), count);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_fullest_gives_way() {
        assert_eq!(fullest([('a', 2), ('b', 3), ('c', 3)]), Some('b'));
        assert_eq!(fullest([('a', 0), ('b', 0)]), None);
    }
}
