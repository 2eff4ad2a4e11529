//! Findings: what a function's pure work found in packets, of which there is more than a scratch word holds.
//!
//! `run` keeps a list of numbers for a packet and leaves where it is in a scratch word; `after` reads it. The room is taken once
//! and bounded: what finds none is found again by `after`. A device fills the same array.

/// The lists of a batch, of the function whose turn it is.
#[derive(Debug, Default)]
pub struct Findings {
    /// Each list: how many numbers, then the numbers.
    numbers: Vec<u32>,
}

/// What stands in a scratch word for "nothing was found": so that the word's first value says it.
const NOTHING: u32 = 0;
/// What was kept of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// These numbers; none where nothing was found.
    Numbers(&'a [u32]),
    /// More than there was room for.
    NoRoom,
}

impl Findings {
    /// What stands in a scratch word for "there was no room": a list of more than is kept.
    pub const NO_ROOM: u32 = u32::MAX;

    /// Room for `numbers` numbers, of which each list takes one for its length.
    pub fn with_capacity(numbers: usize) -> Self {
        Self { numbers: Vec::with_capacity(numbers.min(Self::NO_ROOM as usize)) }
    }

    /// Keeps the list of a packet. Gives what the packet's scratch word has to be.
    pub fn keep(&mut self, list: &[u32]) -> u32 {
        if list.is_empty() {
            return NOTHING;
        }
        if self.numbers.capacity() - self.numbers.len() <= list.len() {
            return Self::NO_ROOM;
        }
        self.numbers.push(list.len() as u32);
        let word = self.numbers.len() as u32;
        self.numbers.extend_from_slice(list);
        word
    }

    /// What was kept under `word`.
    pub fn get(&self, word: u32) -> Found<'_> {
        if word == NOTHING {
            return Found::Numbers(&[]);
        }
        let at = word as usize;
        let list =
            self.numbers.get(at - 1).and_then(|&len| self.numbers.get(at..at + len as usize));
        list.map_or(Found::NoRoom, Found::Numbers)
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_and_no_room_is_told() {
        let mut findings = Findings::with_capacity(6);
        let (none, first) = (findings.keep(&[]), findings.keep(&[7, 8, 9]));
        let (no_room, last) = (findings.keep(&[1, 2]), findings.keep(&[5]));
        assert_eq!(findings.get(none), Found::Numbers(&[]));
        assert_eq!(findings.get(first), Found::Numbers(&[7, 8, 9]));
        assert_eq!(findings.get(no_room), Found::NoRoom);
        assert_eq!(findings.get(last), Found::Numbers(&[5]));
        assert_eq!(findings.keep(&[1]), Findings::NO_ROOM);
        findings.clear();
        assert_eq!(findings.get(first), Found::NoRoom, "a word of another batch names nothing");
    }
}
