//! Answers: packets that a function sent back, at the second places of functions.

use super::Batch;
use crate::arena::VerdictOf;
use crate::{Flags, Verdict};

impl Batch {
    /// Makes answers `Forward` for the turn of a function at its second place.
    pub fn resume_answers(&mut self) {
        if !self.has_answers {
            return;
        }
        if self.way.is_some() {
            return self.resume_routed(Verdict::Return);
        }
        let (answer, forward) = (Verdict::Return as u8, Verdict::Forward as u8);
        let verdicts = self.table.column_mut(VerdictOf).iter_mut();
        verdicts.filter(|verdict| **verdict == answer).for_each(|verdict| *verdict = forward);
    }

    /// Ends what [`Self::resume_answers`] began.
    pub fn suspend_answers(&mut self) {
        if !self.has_answers {
            return;
        }
        for index in 0..self.len() {
            if self.is_forward(index) && self.flags(index).has(Flags::ANSWER) {
                self.table.column_mut(VerdictOf)[index] = Verdict::Return as u8;
            }
        }
    }

    /// Makes answers `Forward` and keeps all other packets out of sight, until [`Self::release`].
    /// Returns whether there are any; if there are none, nothing changes.
    pub fn hold_others(&mut self) -> bool {
        if self.has_answers {
            self.hold_forward();
            self.resume_answers();
        }
        self.has_answers
    }
}
