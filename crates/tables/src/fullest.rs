//! Which kind of entry gives way in a full table.

/// The most frequent kind; the first of equals, and `None` if there are no entries. Whatever floods
/// a table is soon most of it and pushes out itself: no flood of one kind can take from another
/// more than its excess over an even share.
pub fn fullest<K: Copy>(kinds: impl IntoIterator<Item = (K, u32)>) -> Option<K> {
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
