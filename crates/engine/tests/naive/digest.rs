//! The digest, from its manual: it remembers payloads themselves, not their MD5 hashes.

use std::collections::BTreeSet;

use crate::function::{Counters, Fate, Function};
use crate::sums::mend;
use crate::wire::{Frame, View, view};

/// The action for a packet whose payload was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDuplicate {
    Count,
    Tag(u8),
    Drop,
}

/// The function. It gets no more payloads than it has room for.
pub(crate) struct Digest {
    on_duplicate: OnDuplicate,
    min_len: usize,
    seen: BTreeSet<Vec<u8>>,
    not_digested: u64,
    duplicates: u64,
    duplicate_bytes: u64,
}

impl Digest {
    pub(crate) fn new(on_duplicate: OnDuplicate, min_len: usize) -> Self {
        let seen = BTreeSet::new();
        Self { on_duplicate, min_len, seen, not_digested: 0, duplicates: 0, duplicate_bytes: 0 }
    }

    fn look(&mut self, frame: &mut Frame, view: &View) -> Fate {
        let payload = frame.bytes.get(view.payload..view.end).unwrap_or_default().to_vec();
        if view.version == 0 || view.snapped || payload.len() < self.min_len {
            self.not_digested += 1;
            return Fate::Forward;
        }
        let len = payload.len() as u64;
        if self.seen.insert(payload) {
            return Fate::Forward;
        }
        self.duplicates += 1;
        self.duplicate_bytes += len;
        match self.on_duplicate {
            OnDuplicate::Count => Fate::Forward,
            OnDuplicate::Drop => Fate::Drop("duplicate"),
            OnDuplicate::Tag(dscp) => {
                tag(frame, view, dscp);
                Fate::Forward
            }
        }
    }
}

/// Writes the DSCP; ECN, the two bits after it, stays (RFC 2474, RFC 3168).
fn tag(frame: &mut Frame, view: &View, dscp: u8) {
    let at = view.l3;
    let old: [u8; 2] = [frame.bytes[at], frame.bytes[at + 1]];
    let new = if view.version == 4 {
        [old[0], dscp << 2 | old[1] & 3]
    } else {
        [old[0] & 0xf0 | dscp >> 2, (dscp & 3) << 6 | old[1] & 0x3f]
    };
    frame.bytes[at..at + 2].copy_from_slice(&new);
    if view.version == 4 {
        mend(&mut frame.bytes, at + 10, &old, &new);
    }
}

impl Function for Digest {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        match view.lie {
            Some(what) => Fate::Malformed(what),
            None => self.look(frame, &view),
        }
    }

    fn counters(&self, _: u64) -> Counters {
        let unique = self.seen.len() as u64;
        let all = [
            ("digested", unique + self.duplicates),
            ("not-digested", self.not_digested),
            ("unique", unique),
            ("duplicates", self.duplicates),
            ("duplicate-bytes", self.duplicate_bytes),
            ("evicted", 0),
        ];
        all.map(|(name, count)| (name, (count, count))).into()
    }
}
