//! Lists through the entries of a slab, from the one that came first.

/// In the place of a number: none.
pub const NONE: u32 = u32::MAX;

/// The neighbours of an entry in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    older: u32,
    newer: u32,
}

impl Links {
    /// Of an entry in no list.
    pub const UNUSED: Self = Self { older: NONE, newer: NONE };

    /// The next newer entry; of a free entry the next free one.
    #[inline]
    pub fn newer(self) -> u32 {
        self.newer
    }

    /// Both neighbours, of which either may be [`NONE`].
    pub fn both(self) -> [u32; 2] {
        [self.older, self.newer]
    }

    /// Makes the entry the first of those that are free, of which `next` was the first.
    pub fn free(&mut self, next: u32) {
        *self = Self { older: NONE, newer: next };
    }
}

/// A list. `links` returns the place where the entries of its slab have their neighbours.
#[derive(Clone, Copy, Debug)]
pub struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl List {
    /// Without entries.
    pub const EMPTY: Self = Self { oldest: NONE, newest: NONE, len: 0 };

    /// The entry that came first; [`NONE`] if there is none.
    #[inline]
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an entry that is in no such list at the end.
    #[inline]
    pub fn append<T>(&mut self, slab: &mut [T], links: impl Fn(&mut T) -> &mut Links, number: u32) {
        let older = core::mem::replace(&mut self.newest, number);
        self.len += 1;
        match older {
            NONE => self.oldest = number,
            _ => links(&mut slab[older as usize]).newer = number,
        }
        *links(&mut slab[number as usize]) = Links { older, newer: NONE };
    }

    /// Takes out one of its entries.
    #[inline]
    pub fn remove<T>(&mut self, slab: &mut [T], links: impl Fn(&mut T) -> &mut Links, number: u32) {
        let Links { older, newer } = *links(&mut slab[number as usize]);
        self.len -= 1;
        match older {
            NONE => self.oldest = newer,
            _ => links(&mut slab[older as usize]).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => links(&mut slab[newer as usize]).older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn keeps_the_order_of_a_queue(steps in prop::collection::vec(0..8_u32, 1..200)) {
            let mut slab = [Links::UNUSED; 8];
            let (mut list, mut queue) = (List::EMPTY, VecDeque::new());
            for number in steps {
                if let Some(at) = queue.iter().position(|&own| own == number) {
                    queue.remove(at);
                    list.remove(&mut slab, |links| links, number);
                } else {
                    queue.push_back(number);
                    list.append(&mut slab, |links| links, number);
                }
                let (mut listed, mut at) = (Vec::new(), list.oldest());
                while at != NONE {
                    listed.push(at);
                    at = slab[at as usize].newer();
                }
                prop_assert_eq!(listed, Vec::from(queue.clone()));
                prop_assert_eq!(list.len() as usize, queue.len());
            }
        }
    }
}
