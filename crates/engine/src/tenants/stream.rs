//! A stream of a tenant: kernels wait at the gate, copies before and after them do not. Work
//! without items does not wait at all: it loads functions or carries packets back.

use std::collections::VecDeque;
use std::mem::take;

use warpline_device::{Done, Failure, Piece, Refused, Step, Stream, Work};
use warpline_sched::GrantId;

use super::gate::Seat;

/// See the module.
pub(super) struct SeatStream {
    inner: Box<dyn Stream>,
    seat: Seat,
    current: Option<Current>,
    /// Works after the current one.
    later: VecDeque<Work>,
    /// Works that the device refused when their turn came.
    refused: VecDeque<Done>,
}

/// The oldest work.
struct Current {
    phase: Phase,
    /// Steps that the device has done or has now, by the phases before.
    done: Vec<Step>,
    /// Steps that it got none of so far.
    rest: Vec<Step>,
    /// How many of `rest` are up to the last kernel.
    kernels: usize,
    /// The work's memory while it waits.
    pieces: Vec<Piece>,
    items: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Copies before the first kernel are under way.
    Before,
    /// The kernels wait for their grant.
    Waiting,
    Kernels(GrantId),
    /// Copies after the last kernel are under way.
    After,
}

impl SeatStream {
    pub(super) fn open(inner: Box<dyn Stream>, seat: Seat) -> Self {
        seat.enter();
        Self { inner, seat, current: None, later: VecDeque::new(), refused: VecDeque::new() }
    }

    /// Starts a work; there is no current one.
    fn begin(&mut self, mut work: Work) -> Result<(), Refused> {
        let is_gated = |step: &Step| step.is_call() && work.items > 0;
        let first = work.steps.iter().position(is_gated);
        let end = work.steps.iter().rposition(Step::is_call).map_or(0, |last| last + 1);
        let rest = first.map_or(Vec::new(), |first| work.steps.split_off(first));
        let mut current = Current {
            phase: if first.is_some() { Phase::Before } else { Phase::After },
            done: Vec::new(),
            kernels: end - first.unwrap_or(0),
            rest,
            pieces: Vec::new(),
            items: work.items,
        };
        if first == Some(0) {
            self.seat.request();
            (current.phase, current.pieces) = (Phase::Waiting, work.pieces);
        } else if let Err(Refused { mut work, why }) = self.inner.submit(work) {
            work.steps.append(&mut current.rest);
            return Err(Refused { work, why });
        }
        self.current = Some(current);
        Ok(())
    }

    /// Ends the current work and starts the next.
    fn end(&mut self, (pieces, outcome): Over) -> Option<Done> {
        let Current { mut done, mut rest, items, .. } = self.current.take()?;
        done.append(&mut rest);
        while self.current.is_none()
            && let Some(work) = self.later.pop_front()
        {
            if let Err(Refused { work, why }) = self.begin(work) {
                self.refused.push_back(Done { work, outcome: Err(why) });
            }
        }
        Some(Done { work: Work { pieces, steps: done, items }, outcome })
    }

    /// Submits the next `count` of the steps that are left.
    fn submit_next(&mut self, pieces: Vec<Piece>, count: usize) -> Option<Over> {
        let current = self.current.as_mut()?;
        let steps = current.rest.drain(..count).collect();
        let work = Work { pieces, steps, items: current.items };
        let Err(Refused { mut work, why }) = self.inner.submit(work) else { return None };
        current.done.append(&mut work.steps);
        Some((work.pieces, Err(why)))
    }

    /// The phase of the current work ended well: starts the next one.
    fn proceed(&mut self, pieces: Vec<Piece>) -> Option<Over> {
        let current = self.current.as_mut()?;
        match current.phase {
            Phase::Before => {
                (current.phase, current.pieces) = (Phase::Waiting, pieces);
                self.seat.request();
                None
            }
            _ if current.rest.is_empty() => Some((pieces, Ok(()))),
            _ => {
                current.phase = Phase::After;
                let count = current.rest.len();
                self.submit_next(pieces, count)
            }
        }
    }

    /// Starts the kernels of the current work, which waited.
    fn run(&mut self, grant: GrantId) -> Option<Over> {
        let current = self.current.as_mut()?;
        current.phase = Phase::Kernels(grant);
        let (pieces, kernels) = (take(&mut current.pieces), current.kernels);
        let over = self.submit_next(pieces, kernels);
        over.inspect(|_| self.seat.done(grant, 0))
    }
}

/// The memory of a work that is over, and how it ended.
type Over = (Vec<Piece>, Result<(), Failure>);

impl Stream for SeatStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        if self.current.is_some() {
            self.later.push_back(work);
            return Ok(());
        }
        self.begin(work)
    }

    fn poll(&mut self) -> Option<Done> {
        loop {
            if let Some(done) = self.refused.pop_front() {
                return Some(done);
            }
            let current = self.current.as_mut()?;
            if let Phase::Waiting = current.phase {
                let grant = self.seat.poll_grant()?;
                if let Some(over) = self.run(grant) {
                    return self.end(over);
                }
                continue;
            }
            let Done { mut work, outcome } = self.inner.poll()?;
            current.done.append(&mut work.steps);
            if let Phase::Kernels(grant) = current.phase {
                self.seat.done(grant, current.items);
            }
            if outcome.is_err() {
                return self.end((work.pieces, outcome));
            }
            if let Some(over) = self.proceed(work.pieces) {
                return self.end(over);
            }
        }
    }

    fn in_flight(&self) -> usize {
        usize::from(self.current.is_some()) + self.later.len() + self.refused.len()
    }

    fn is_waiting(&self) -> bool {
        self.current.as_ref().is_some_and(|current| matches!(current.phase, Phase::Waiting))
    }
}

impl Drop for SeatStream {
    fn drop(&mut self) {
        match self.current.as_ref().map(|current| current.phase) {
            Some(Phase::Waiting) => self.seat.withdraw(),
            Some(Phase::Kernels(grant)) => self.seat.lost(grant),
            _ => {}
        }
        self.seat.leave();
    }
}
