//! Notes: what functions have to say of packets to whoever looks over all of them behind the lanes.
//!
//! A note is a few bytes in a form that its function knows, with the number of the packet that it is about.
//! Notes travel with the batch of that packet, in memory that is taken once.

/// Most bytes of a note.
pub const NOTE_LEN_MAX: usize = 4096;

/// The notes of a batch, of all its functions.
#[derive(Debug, Default)]
pub struct Notes {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    ingress: u64,
    function: u8,
    shard: u8,
    start: u32,
    len: u16,
}

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The number in the input of the packet, tick or end that it is about.
    pub ingress: u64,
    /// Whose it is: the function's place in the chain.
    pub function: u8,
    /// The shard that made it.
    pub shard: u8,
    /// What it says.
    pub bytes: &'a [u8],
}

impl Notes {
    /// Room for `notes` notes of `bytes` bytes together, and no more.
    pub fn with_capacity(notes: usize, bytes: usize) -> Self {
        Self { heads: Vec::with_capacity(notes), bytes: Vec::with_capacity(bytes) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Keeps a note; says whether there was room.
    pub fn push(&mut self, note: Note<'_>) -> bool {
        let Note { ingress, function, shard, bytes } = note;
        let room = self.bytes.capacity() - self.bytes.len();
        if self.heads.len() == self.heads.capacity() || bytes.len() > room.min(NOTE_LEN_MAX) {
            return false;
        }
        let (start, len) = (self.bytes.len() as u32, bytes.len() as u16);
        self.heads.push(Head { ingress, function, shard, start, len });
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Takes all notes of `other`; says whether there was room, and leaves `other` empty.
    pub fn take(&mut self, other: &mut Self) -> bool {
        let all = other.iter().all(|note| self.push(note));
        other.clear();
        all
    }

    /// Puts them in the order of the input; those about one packet or tick function by function and shard by
    /// shard, each shard's as it made them.
    pub fn sort(&mut self) {
        self.heads.sort_unstable();
    }

    /// Note `at`, where there is one.
    pub fn get(&self, at: usize) -> Option<Note<'_>> {
        let Head { ingress, function, shard, start, len } = *self.heads.get(at)?;
        let bytes = self.bytes.get(start as usize..start as usize + usize::from(len))?;
        Some(Note { ingress, function, shard, bytes })
    }

    /// Every note.
    pub fn iter(&self) -> impl Iterator<Item = Note<'_>> {
        (0..self.heads.len()).filter_map(|at| self.get(at))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_in_input_order_and_never_take_more_room() {
        let mut notes = Notes::with_capacity(3, 10);
        let note = |function, ingress, bytes| Note { ingress, function, shard: 0, bytes };
        for (function, ingress, bytes) in [(1, 7, &b"abc"[..]), (0, 7, b"de"), (1, 3, b"fghi")] {
            assert!(notes.push(note(function, ingress, bytes)));
        }
        assert!(!notes.push(note(1, 8, b"")), "no head is left");
        notes.sort();
        let told: Vec<_> = notes.iter().map(|n| (n.ingress, n.function, n.bytes)).collect();
        assert_eq!(told, [(3, 1, &b"fghi"[..]), (7, 0, b"de"), (7, 1, b"abc")]);
        let mut small = Notes::with_capacity(2, 10);
        assert!(!small.take(&mut notes) && notes.is_empty());
        assert_eq!(small.iter().count(), 2);
    }
}
