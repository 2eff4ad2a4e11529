//! In debug builds, checks of accessors against the declared access of a phase.

use super::Batch;
use crate::{Allowed, Field};

impl Batch {
    /// In a debug build, checks every accessor from here on against what a phase may touch.
    pub fn set_phase(&mut self, allowed: Allowed) {
        #[cfg(debug_assertions)]
        {
            self.phase = Some(allowed);
        }
        #[cfg(not(debug_assertions))]
        let _ = allowed;
    }

    /// Ends the checks of [`Batch::set_phase`].
    pub fn leave_phase(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.phase = None;
        }
    }

    /// Checks that `field` of any packet may be read.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_read(&self, field: Field) {
        #[cfg(debug_assertions)]
        if let Some(allowed) = &self.phase {
            allowed.check_read(field, false);
        }
        let _ = field;
    }

    /// Checks that `field` of any packet may be written.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_write(&self, field: Field) {
        #[cfg(debug_assertions)]
        if let Some(allowed) = &self.phase {
            allowed.check_write(field, false);
        }
        let _ = field;
    }

    /// The same of packet `index`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_read_of(&self, index: usize, field: Field) {
        #[cfg(debug_assertions)]
        if let Some(allowed) = &self.phase {
            allowed.check_read(field, self.table.column(crate::arena::Flagged)[index] != 0);
        }
        let _ = (index, field);
    }

    /// The same of packet `index`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_write_of(&self, index: usize, field: Field) {
        #[cfg(debug_assertions)]
        if let Some(allowed) = &self.phase {
            allowed.check_write(field, self.table.column(crate::arena::Flagged)[index] != 0);
        }
        let _ = (index, field);
    }
}
