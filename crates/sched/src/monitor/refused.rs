//! Decisions that could not be carried out.

use super::{Former, Monitor, Reason, STAYS_MAX, is_alike};
use crate::placement::{Placement, Site};

/// Sites to which functions could not move.
#[derive(Debug)]
pub(super) struct Refused {
    sites: Vec<Vec<Site>>,
    reason: Reason,
    /// How often.
    count: u32,
    until_ns: u64,
}

impl Refused {
    fn is_of(&self, placement: &Placement) -> bool {
        is_alike(&self.sites, &placement.sites)
    }
}

impl Monitor {
    /// The last decision was refused, and the placement before it is in force. Gives the time until
    /// the same sites may be chosen again.
    pub fn handle_refusal(&mut self, now_ns: u64) -> u64 {
        let Some(Former(former)) = self.former.take() else { return 0 };
        let Some(placed) = std::mem::replace(&mut self.placed, former) else { return 0 };
        self.known_load = None;
        let before = self.refused.take().filter(|last| last.is_of(&placed.placement));
        let count = before.map_or(1, |last| last.count.saturating_add(1));
        let stays = 2u64.saturating_pow(count - 1).min(STAYS_MAX);
        let wait_ns = self.settings.stay_ns.saturating_mul(stays);
        let until_ns = now_ns.saturating_add(wait_ns);
        let (sites, reason) = (placed.placement.sites, placed.reason);
        self.refused = Some(Refused { sites, reason, count, until_ns });
        wait_ns
    }

    /// The last decision was carried out, unless it was refused meanwhile.
    pub(super) fn accept(&mut self) {
        if self.former.take().is_some() {
            self.refused = None;
        }
    }

    /// Whether functions move, and were not refused to a short time ago.
    pub(super) fn may_move(&mut self, next: &Placement, now_ns: u64) -> bool {
        let stay = self.placement().is_some_and(|old| is_alike(&old.sites, &next.sites));
        let is_waiting = |last: &&Refused| now_ns < last.until_ns;
        let waiting = self.refused.as_ref().filter(is_waiting);
        let may_move = !stay && !waiting.is_some_and(|last| last.is_of(next));
        if stay && waiting.is_none() {
            self.refused = None;
        }
        may_move
    }

    /// How often these sites were refused before.
    pub(super) fn refusals(&self, next: &Placement) -> u32 {
        self.refused.as_ref().filter(|last| last.is_of(next)).map_or(0, |last| last.count)
    }

    /// The reason of a refused decision that lasts, once the wait is over.
    pub(super) fn refused_request(&self, now_ns: u64) -> Option<Reason> {
        let lasts = |reason: &Reason| matches!(reason, Reason::Policy | Reason::Profile);
        let last = self.refused.as_ref().filter(|last| now_ns >= last.until_ns)?;
        Some(last.reason).filter(lasts)
    }

    /// Whether a wait ended since `since_ns`.
    pub(super) fn is_retry_due(&self, since_ns: u64, now_ns: u64) -> bool {
        let ended = |last: &Refused| (since_ns + 1..=now_ns).contains(&last.until_ns);
        self.refused.as_ref().is_some_and(ended)
    }
}
