//! Limits the matches of a packet that are noted for the report, which reports [`ALERTS_MAX`] of
//! them at most.
//!
//! Matches that `noalert`, a suppression or a threshold withholds must not take the place of an
//! alert. Only the report knows which ones a threshold withholds. So each kind of match has notes
//! of its own.

use super::super::report::{ALERTS_MAX, Decision, Policy};
use super::At;

/// Matches that thresholds count and may withhold.
const COUNTED_MAX: usize = 32;
/// Matches that raise no alert; they are counted by rule.
const SILENT_MAX: usize = 17;
/// Notes about a packet.
pub(in super::super) const NOTES_MAX: usize = ALERTS_MAX + COUNTED_MAX + SILENT_MAX;

/// The expected treatment of a match by the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is reported.
    Certain,
    /// The report counts it, and may withhold it.
    Counted,
    /// It is withheld.
    Silent,
}

impl Treatment {
    /// Of a match of a rule with this policy, and what was decided of it if that was the shard's to
    /// do.
    pub(super) fn of(
        policy: &Policy,
        decision: Option<Decision>,
        is_pass: bool,
        at: &At<'_>,
    ) -> Self {
        match decision {
            Some(Decision::Reported) => Self::Certain,
            Some(_) => Self::Silent,
            None if policy.is_silent || is_pass => Self::Silent,
            None if at.ends().is_some_and(|ends| policy.suppresses(ends)) => Self::Silent,
            None if policy.filter.is_some() => Self::Counted,
            None => Self::Certain,
        }
    }
}

/// Numbers of matches noted for the packet at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    certain: usize,
    counted: usize,
    silent: usize,
}

impl Notes {
    /// Whether nothing was noted yet.
    pub(super) fn is_empty(&self) -> bool {
        self.certain + self.counted + self.silent == 0
    }

    /// Whether one more is noted. After [`ALERTS_MAX`] certain alerts, no further alert can be
    /// reported.
    pub(super) fn take(&mut self, treatment: Treatment) -> bool {
        let may_be_reported = self.certain < ALERTS_MAX;
        let (count, has_room) = match treatment {
            Treatment::Certain => (&mut self.certain, may_be_reported),
            Treatment::Counted => {
                let has_room = may_be_reported && self.counted < COUNTED_MAX;
                (&mut self.counted, has_room)
            }
            Treatment::Silent => {
                let has_room = self.silent < SILENT_MAX;
                (&mut self.silent, has_room)
            }
        };
        *count += usize::from(has_room);
        has_room
    }
}
