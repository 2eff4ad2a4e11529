//! Joining batches: made packets after their cause, and dropped packets of a later batch.

use super::{Batch, BatchKind};
use crate::arena::HeadersOf;
use crate::{Flags, Packet, ScratchWord};

impl Batch {
    /// Takes every packet of `made`, each placed after its cause; `order` is room to sort them in.
    /// Returns whether they fit; otherwise `made` keeps them.
    pub fn merge(&mut self, made: &mut Self, order: &mut Vec<u16>) -> bool {
        let fits = self.table.merge(&mut made.table, order);
        if fits {
            let noted = self.notes.take(&mut made.notes);
            debug_assert!(noted, "a batch has room for all that its functions may note");
            self.settled += core::mem::take(&mut made.settled);
            self.has_answers |= core::mem::take(&mut made.has_answers);
        }
        fits
    }

    /// Takes the packets of `later` after its own, if all of both were dropped and they fit.
    /// Returns whether it did; `later` is empty then.
    pub fn absorb_dropped(&mut self, later: &mut Self, order: &mut Vec<u16>) -> bool {
        let is_dropped = |batch: &Self| {
            batch.kind == BatchKind::Packets
                && batch.notes.is_empty()
                && !batch.has_answers
                && !batch.has_bypass
                && batch.forward_count() == 0
        };
        is_dropped(self) && is_dropped(later) && self.merge(later, order)
    }

    /// Gives packet `index` the values that `words` have in `cause`. It is opened if that is.
    pub fn inherit(&mut self, index: usize, cause: &Packet<'_>, words: &[ScratchWord]) {
        let opened = cause.batch.headers(cause.index).flags.0 & Flags::OPENED;
        self.table.column_mut(HeadersOf)[index].flags.set(opened);
        for word in words {
            let Some(&value) = cause.batch.table.scratch(word.0.into()).get(cause.index) else {
                continue;
            };
            if let Some(own) = self.table.scratch_mut(word.0.into()).get_mut(index) {
                *own = value;
            }
        }
    }
}
