//! Findings: lists that a function's `run` found in packets, too long for a scratch word.
//!
//! `run` stores a list of numbers for a packet and its position in a scratch word, and `after`
//! reads it. The room is taken once and bounded: if a list does not fit, `after` searches again.
//! Kernels store lists in room of the launch ([`FoundLists`]), and each batch copies those of its
//! packets.

use crate::Field;

/// The lists that kernels stored for the packets of a launch (`kernels/findings.h` of
/// `warpline-nf`), and the word in which each packet has the position of its own.
#[derive(Clone, Copy, Debug)]
pub struct FoundLists<'a> {
    bytes: &'a [u8],
    /// The word.
    pub word: Field,
}

impl<'a> FoundLists<'a> {
    /// Bytes before the numbers: how many numbers were taken, including those without room, and
    /// whether any list had no room. Zeroes while there are none.
    pub const HEAD_LEN: usize = 8;

    /// Lists as a device left them.
    pub fn new(bytes: &'a [u8], word: Field) -> Self {
        Self { bytes, word }
    }

    /// Bytes in which all lists lie, with their head; there may have been no room for so many.
    pub fn kept_len(&self) -> usize {
        let taken = self.bytes.first_chunk().map_or(0, |taken| u32::from_ne_bytes(*taken));
        Self::HEAD_LEN + 4 * taken as usize
    }

    /// The list under `word`, with numbers in the machine's byte order; `None` if it is not within
    /// the numbers taken.
    pub fn list(&self, word: u32) -> Option<&'a [[u8; 4]]> {
        let (head, numbers) = self.bytes.split_at_checked(Self::HEAD_LEN)?;
        let (numbers, _) = numbers.as_chunks::<4>();
        let taken = u32::from_ne_bytes(*head.first_chunk()?) as usize;
        let numbers = &numbers[..numbers.len().min(taken)];
        let len = numbers.get((word as usize).checked_sub(1)?)?;
        let len = u32::from_ne_bytes(*len) as usize;
        numbers.get(word as usize..(word as usize).checked_add(len)?)
    }

    /// Whether `word` is a possible value of a packet's scratch word.
    pub(crate) fn makes_sense(&self, word: u32) -> bool {
        matches!(word, NOTHING | Findings::NO_ROOM) || self.list(word).is_some()
    }
}

/// The lists of a batch, of the function whose turn it is.
#[derive(Debug, Default)]
pub struct Findings {
    /// Each list: how many numbers, then the numbers.
    numbers: Vec<u32>,
}

/// The scratch word of a packet without findings. It equals the word's initial value.
const NOTHING: u32 = 0;
/// The stored findings of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// These numbers; empty if nothing was found.
    Numbers(&'a [u32]),
    /// More than there was room for.
    NoRoom,
}

impl Findings {
    /// The value of a scratch word for a list that had no room.
    pub const NO_ROOM: u32 = u32::MAX;

    /// Room for `numbers` numbers; each list takes one more for its length.
    pub fn with_capacity(numbers: usize) -> Self {
        Self { numbers: Vec::with_capacity(numbers.min(Self::NO_ROOM as usize)) }
    }

    /// Keeps the list of a packet. Gives what the packet's scratch word has to be.
    pub fn keep(&mut self, list: &[u32]) -> u32 {
        self.keep_all(list.iter().copied())
    }

    #[inline]
    fn keep_all(&mut self, list: impl ExactSizeIterator<Item = u32>) -> u32 {
        if list.len() == 0 {
            return NOTHING;
        }
        if self.numbers.capacity() - self.numbers.len() <= list.len() {
            return Self::NO_ROOM;
        }
        self.numbers.push(list.len() as u32);
        let word = self.numbers.len() as u32;
        self.numbers.extend(list);
        word
    }

    /// Copies the list that a device stored under the checked `word`. Returns the packet's new
    /// word.
    pub(crate) fn keep_of(&mut self, found: &FoundLists<'_>, word: u32) -> u32 {
        match found.list(word) {
            Some(list) => self.keep_all(list.iter().map(|number| u32::from_ne_bytes(*number))),
            None if word == NOTHING => NOTHING,
            None => Self::NO_ROOM,
        }
    }

    /// The list stored under `word`.
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

    /// Lists as kernels leave them: `taken` numbers and what lies there.
    fn left(taken: u32, numbers: &[u32]) -> Vec<u8> {
        let head = [taken, 0];
        head.iter().chain(numbers).flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn lists_of_kernels_lie_in_what_was_taken() {
        let bytes = left(5, &[2, 70, 80, 1, 90, 1, 99]);
        let lists = FoundLists::new(&bytes, Field::Scratch0);
        for word in [0, 1, 4, Findings::NO_ROOM] {
            assert!(lists.makes_sense(word), "{word}");
        }
        // Inside a list, beyond the numbers taken, and beyond the end.
        for word in [2, 5, 6, 8, 9, u32::MAX - 1] {
            assert!(!lists.makes_sense(word), "{word}");
        }
        let full = left(900, &[2, 70, 80, 9, 90]);
        let lists = FoundLists::new(&full, Field::Scratch0);
        assert!(lists.makes_sense(1) && !lists.makes_sense(4));
        assert!(!FoundLists::new(&full[..7], Field::Scratch0).makes_sense(1));
    }

    #[test]
    fn lists_of_kernels_are_kept_like_others() {
        let bytes = left(6, &[2, 70, 80, 0, 1, 90]);
        let lists = FoundLists::new(&bytes, Field::Scratch0);
        let mut findings = Findings::with_capacity(4);
        let words = [5, 1, 4, 0, Findings::NO_ROOM].map(|word| findings.keep_of(&lists, word));
        assert_eq!(words, [1, Findings::NO_ROOM, 0, 0, Findings::NO_ROOM]);
        assert_eq!(findings.get(words[0]), Found::Numbers(&[90]));
    }

    #[test]
    fn stored_values_are_found_and_a_full_table_is_reported() {
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
