//! Whether the chains run, drain or stall.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpline_engine::{MachineChain, Thread};

/// A chain with packets in flight stalls if one of its threads has not answered for so long.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Since when each chain has had a thread that does not answer.
pub(super) struct Health {
    late_since: Mutex<Vec<Option<Instant>>>,
}

impl Health {
    pub(super) fn new(chains: usize) -> Self {
        Self { late_since: Mutex::new(vec![None; chains]) }
    }

    /// Looks at chain `number`. A thread that reads may wait for its source as long as it likes.
    pub(super) fn look(&self, number: usize, chain: &MachineChain) -> Result<(), String> {
        let snapshot = chain.control.snapshot(&chain.deployment());
        let late = snapshot.late.iter().find(|thread| **thread != Thread::Reader);
        let in_flight = snapshot.report.part.packets.in_flight;
        let stuck = late.filter(|_| in_flight > 0 && !chain.control.has_ended());
        let mut all = self.late_since.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = all.get_mut(number) else { return Ok(()) };
        let Some(thread) = stuck else {
            *since = None;
            return Ok(());
        };
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited < STALLED_AFTER {
            return Ok(());
        }
        let thread = match thread {
            Thread::Lane(number) => format!("lane {number}"),
            Thread::Sender => "the sender".into(),
            Thread::Reader => "the reader".into(),
        };
        let seconds = waited.as_secs();
        Err(format!(
            "stalled: chain {:?}: {thread} has not answered for {seconds} s, with {in_flight} \
             packets in flight",
            chain.name
        ))
    }
}
