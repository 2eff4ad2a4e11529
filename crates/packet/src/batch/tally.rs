//! How the packets of a batch left its functions.

use super::Batch;
use crate::Verdict;
use crate::arena::VerdictOf;

const VERDICTS: usize = 8;

/// How many packets of a batch left the functions in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    packets: [u32; VERDICTS],
}

impl Tally {
    /// Packets with this verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        u64::from(self.packets[verdict as usize])
    }
}

impl Batch {
    /// The outcome of its packets so far.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        if self.forward_count() == self.len() {
            tally.packets[Verdict::Forward as usize] = self.len() as u32;
            return tally;
        }
        for &verdict in self.table.column(VerdictOf) {
            tally.packets[usize::from(verdict) % VERDICTS] += 1;
        }
        tally
    }
}
