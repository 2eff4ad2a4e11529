//! Segments that arrived early: where each starts and ends. Their bytes are in their stream's
//! block.
//!
//! All directions of a shard share a fixed number of nodes. A direction's segments are in a list,
//! ordered by start.

const NONE: u32 = u32::MAX;

/// The nodes of a shard.
pub(super) struct Held {
    nodes: Box<[Node]>,
    free: u32,
}

#[derive(Clone, Copy)]
struct Node {
    start: u64,
    end: u64,
    before: u32,
    next: u32,
}

/// The segments of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    first: u32,
    last: u32,
    len: u16,
}

impl Line {
    /// None.
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }
}

/// Where a segment's bytes start and end in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Held {
    /// Bytes of so many nodes.
    pub(super) fn memory_len(count: usize) -> usize {
        count * size_of::<Node>()
    }

    pub(super) fn new(count: usize) -> Self {
        let count = count.min(i32::MAX as usize) as u32;
        let node = |at: u32| {
            let next = if at + 1 < count { at + 1 } else { NONE };
            Node { start: 0, end: 0, before: NONE, next }
        };
        Self { nodes: (0..count).map(node).collect(), free: if count == 0 { NONE } else { 0 } }
    }

    /// The segments, by where they start.
    pub(super) fn spans(&self, line: &Line) -> impl Iterator<Item = Span> {
        let node = |at: u32| self.nodes.get(at as usize);
        core::iter::successors(node(line.first), move |last| node(last.next))
            .map(|node| Span { start: node.start, end: node.end })
    }

    /// The one that starts first.
    pub(super) fn first(&self, line: &Line) -> Option<Span> {
        self.spans(line).next()
    }

    /// Whether a node is free.
    pub(super) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Adds a segment after those that start no later; `false` if no node is free.
    pub(super) fn insert(&mut self, line: &mut Line, span: Span) -> bool {
        let at = self.free;
        let Some(node) = self.nodes.get_mut(at as usize) else { return false };
        self.free = node.next;
        let before = self.behind(line, span.start);
        let next = match self.nodes.get(before as usize) {
            Some(node) => node.next,
            None => line.first,
        };
        self.nodes[at as usize] = Node { start: span.start, end: span.end, before, next };
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.next = at,
            None => line.first = at,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.before = at,
            None => line.last = at,
        }
        line.len += 1;
        true
    }

    /// The last that starts no later than `start`; most segments go to the end.
    fn behind(&self, line: &Line, start: u64) -> u32 {
        let mut at = line.last;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.start <= start {
                break;
            }
            at = node.before;
        }
        at
    }

    /// Takes the first out.
    pub(super) fn pop(&mut self, line: &mut Line) {
        let at = line.first;
        let Some(node) = self.nodes.get_mut(at as usize) else { return };
        let next = core::mem::replace(&mut node.next, self.free);
        self.free = at;
        line.first = next;
        line.len -= 1;
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.before = NONE,
            None => line.last = NONE,
        }
    }

    /// Takes out the one with these bounds.
    pub(super) fn remove(&mut self, line: &mut Line, span: Span) {
        let mut at = line.first;
        while let Some(&Node { start, end, before, next }) = self.nodes.get(at as usize) {
            if (Span { start, end }) != span {
                at = next;
                continue;
            }
            match self.nodes.get_mut(before as usize) {
                Some(node) => node.next = next,
                None => line.first = next,
            }
            match self.nodes.get_mut(next as usize) {
                Some(node) => node.before = before,
                None => line.last = before,
            }
            self.nodes[at as usize].next = core::mem::replace(&mut self.free, at);
            line.len -= 1;
            return;
        }
    }

    /// Moves all one place towards the start of their stream; none starts there.
    pub(super) fn move_up(&mut self, line: &Line) {
        let mut at = line.first;
        while let Some(node) = self.nodes.get_mut(at as usize) {
            (node.start, node.end) = (node.start.saturating_sub(1), node.end.saturating_sub(1));
            at = node.next;
        }
    }

    /// Takes all out.
    pub(super) fn clear(&mut self, line: &mut Line) {
        while !line.is_empty() {
            self.pop(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two lists of the same nodes, against sorted vectors.
        #[test]
        fn keeps_lists_in_order(
            steps in prop::collection::vec((0..2usize, 0..9u64, 0..4u8), 1..60)) {
            let mut held = Held::new(8);
            let mut lines = [Line::EMPTY; 2];
            let mut model: [Vec<u64>; 2] = Default::default();
            for (which, start, what) in steps {
                if what == 0 {
                    held.remove(&mut lines[which], Span { start, end: start + 1 });
                    if let Some(at) = model[which].iter().position(|own| *own == start) {
                        model[which].remove(at);
                    }
                } else if what == 1 {
                    held.pop(&mut lines[which]);
                    if !model[which].is_empty() {
                        model[which].remove(0);
                    }
                } else {
                    let is_in = held.insert(&mut lines[which], Span { start, end: start + 1 });
                    prop_assert_eq!(is_in, model[0].len() + model[1].len() < 8);
                    model[which].extend(is_in.then_some(start));
                    model[which].sort_unstable();
                }
                for at in 0..2 {
                    let starts: Vec<u64> = held.spans(&lines[at]).map(|span| span.start).collect();
                    prop_assert_eq!(&starts, &model[at]);
                    prop_assert_eq!(lines[at].len(), model[at].len());
                }
            }
        }
    }
}
