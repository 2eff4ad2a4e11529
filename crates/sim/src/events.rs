//! Events in the order of their times. Events of equal times keep the order in which they were
//! added, so a run never depends on the heap's layout.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct Scheduled<E> {
    at_ns: u64,
    sequence: u64,
    event: E,
}

impl<E> Scheduled<E> {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.sequence)
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    /// The heap returns its greatest entry, so earlier is greater.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// See the module.
pub(crate) struct Events<E> {
    heap: BinaryHeap<Scheduled<E>>,
    added: u64,
}

impl<E> Events<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, at_ns: u64, event: E) {
        self.heap.push(Scheduled { at_ns, sequence: self.added, event });
        self.added += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|entry| (entry.at_ns, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_of_adding() {
        let mut events = Events::new();
        for (at_ns, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            events.add(at_ns, name);
        }
        let order: String = std::iter::from_fn(|| events.next()).map(|(_, name)| name).collect();
        assert_eq!(order, "ebdac");
    }
}
