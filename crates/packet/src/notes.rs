//! Notes: messages of functions about packets, for a report over all lanes.
//!
//! A note is a few bytes in a format of its function, with the number of its packet. Notes travel
//! with the batch of that packet, in memory that is taken once.

/// Most bytes of a note.
pub const NOTE_LEN_MAX: usize = 4096;

/// The notes of a batch, of all its functions.
#[derive(Debug, Default)]
pub struct Notes {
    heads: Vec<Head>,
    bytes: Vec<u8>,
    /// Room to sort in: the heads in order, and how many there are of each number.
    sorted: Vec<Head>,
    counts: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    ingress: u64,
    start: u32,
    len: u16,
    function: u8,
    shard: u8,
}

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The number in the input of the packet, tick or end that it is about.
    pub ingress: u64,
    /// Whose it is: the function's position in the chain.
    pub function: u8,
    /// The shard that made it.
    pub shard: u8,
    /// Its content.
    pub bytes: &'a [u8],
}

impl Notes {
    /// Room for `notes` notes of `bytes` bytes together, and no more.
    pub fn with_capacity(notes: usize, bytes: usize) -> Self {
        Self {
            heads: Vec::with_capacity(notes),
            bytes: Vec::with_capacity(bytes),
            sorted: Vec::with_capacity(notes),
            counts: Vec::with_capacity(notes),
        }
    }

    /// Bytes of memory that room for `notes` notes of `bytes` bytes together takes.
    pub fn room_len(notes: usize, bytes: usize) -> usize {
        notes.saturating_mul(2 * size_of::<Head>() + size_of::<u32>()).saturating_add(bytes)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Stores a note; returns whether there was room.
    pub fn push(&mut self, note: Note<'_>) -> bool {
        let Note { ingress, function, shard, bytes } = note;
        let room = self.bytes.capacity() - self.bytes.len();
        if self.heads.len() == self.heads.capacity() || bytes.len() > room.min(NOTE_LEN_MAX) {
            return false;
        }
        let (start, len) = (self.bytes.len() as u32, bytes.len() as u16);
        self.heads.push(Head { ingress, start, len, function, shard });
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Takes all notes of `other` and leaves it empty; returns whether there was room.
    pub fn take(&mut self, other: &mut Self) -> bool {
        let all = other.iter().all(|note| self.push(note));
        other.clear();
        all
    }

    /// Sorts them in the order of the input. Notes about one packet or tick come function by
    /// function and shard by shard, each shard's in the order it made them.
    pub fn sort(&mut self) {
        let numbers = self.heads.iter().map(|head| head.ingress);
        let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else { return };
        // A batch's numbers lie close together, and each shard's notes are in order.
        match usize::try_from(last - first) {
            Ok(span) if span < self.counts.capacity() && self.comes_by_shard() => {
                self.count_out(first, span + 1);
            }
            _ => self.heads.sort_unstable_by_key(|h| (h.ingress, h.function, h.shard, h.start)),
        }
    }

    /// Whether notes come function by function and shard by shard already.
    fn comes_by_shard(&self) -> bool {
        self.heads.is_sorted_by_key(|head| (head.function, head.shard))
    }

    /// Sorts stably by the numbers from `first` on, `span` of them.
    fn count_out(&mut self, first: u64, span: usize) {
        self.counts.clear();
        self.counts.resize(span, 0);
        let place = |head: &Head| (head.ingress - first) as usize;
        self.heads.iter().for_each(|head| self.counts[place(head)] += 1);
        let mut next = 0;
        for count in &mut self.counts {
            (*count, next) = (next, next + *count);
        }
        self.sorted.clone_from(&self.heads);
        for head in &self.heads {
            let to = &mut self.counts[place(head)];
            self.sorted[*to as usize] = *head;
            *to += 1;
        }
        core::mem::swap(&mut self.heads, &mut self.sorted);
    }

    /// Note `at`, where there is one.
    pub fn get(&self, at: usize) -> Option<Note<'_>> {
        let Head { ingress, start, len, function, shard } = *self.heads.get(at)?;
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
        let reported: Vec<_> = notes.iter().map(|n| (n.ingress, n.function, n.bytes)).collect();
        assert_eq!(reported, [(3, 1, &b"fghi"[..]), (7, 0, b"de"), (7, 1, b"abc")]);
        // As shards make them: counted out, and the same as sorted.
        let mut counted = Notes::with_capacity(100, 1000);
        let mut compared = Notes::with_capacity(100, 1000);
        for (shard, ingress) in
            (0..8).flat_map(|s| (0..5).map(move |n| (s, n * 3 + u64::from(s) % 4)))
        {
            for notes in [&mut counted, &mut compared] {
                let bytes = [shard, ingress as u8];
                assert!(notes.push(Note { ingress, function: 0, shard, bytes: &bytes }));
            }
        }
        counted.sort();
        compared.heads.sort_unstable_by_key(|h| (h.ingress, h.function, h.shard, h.start));
        assert!(counted.iter().eq(compared.iter()));
        let mut small = Notes::with_capacity(2, 10);
        assert!(!small.take(&mut notes) && notes.is_empty());
        assert_eq!(small.iter().count(), 2);
    }
}
