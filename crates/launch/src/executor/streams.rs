//! The streams of an executor: idle ones, works in flight, and what a finished work returns.

use warpline_device::{Failure, Refused, Step, Stream, Work};

use super::Executor;
use crate::OnDevice;

/// A stream of the device, and what it has to do.
pub(super) struct LaunchStream {
    /// Gone when it was given up.
    stream: Option<Box<dyn Stream>>,
    /// The slot whose work it does, and what of that slot's is in the work.
    busy_with: Option<(usize, Has)>,
    /// Used again for the next work.
    pub(super) spare: Work,
}

impl LaunchStream {
    /// An idle one.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn open(on: &OnDevice) -> Result<Self, Failure> {
        Ok(Self { stream: Some(on.stream()?), busy_with: None, spare: Work::default() })
    }
}

/// The pieces of a slot that a work takes, as its first pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Has {
    /// The table, and findings where there are some.
    All,
    /// Findings.
    Findings,
    Nothing,
}

/// The bytes that kernels of a work carry in each direction, if they carry no rooms.
pub(super) const NONE_CARRIED: [u64; 2] = [0; 2];

impl Executor {
    /// The number of a stream that has nothing to do.
    pub(super) fn idle(&self) -> Result<usize, Failure> {
        let is_idle = |own: &LaunchStream| own.busy_with.is_none() && own.stream.is_some();
        let idle = self.streams.iter().position(is_idle);
        idle.ok_or_else(|| Failure::Refused("no stream is idle".into()))
    }

    /// Gives the bytes that it copies, there and back, with those that its kernels carry.
    pub(super) fn submit(
        &mut self,
        on: usize,
        busy_with: (usize, Has),
        work: Work,
        [mut there, mut here]: [u64; 2],
    ) -> Result<[u64; 2], Failure> {
        for step in &work.steps {
            match step {
                Step::CopyIn { to, .. } => there += to.len() as u64,
                Step::CopyOut { from, .. } => here += from.len() as u64,
                Step::RowsIn { to, rows, .. } => there += rows.bytes(to.len()) as u64,
                Step::RowsOut { from, rows, .. } => here += rows.bytes(from.len()) as u64,
                Step::Call(_) => {}
            }
        }
        self.follow(busy_with.0, &work.steps);
        let own = &mut self.streams[on];
        let Some(stream) = &mut own.stream else {
            return Err(Failure::Lost("its stream was given up".into()));
        };
        own.busy_with = Some(busy_with);
        if let Err(Refused { work, why }) = stream.submit(work) {
            self.take_back(on, work);
            return Err(why);
        }
        self.transfers.to_device_bytes += there;
        self.transfers.to_host_bytes += here;
        Ok([there, here])
    }

    /// A work that is over, the slot that it was done with, and what came of it.
    pub(crate) fn poll(&mut self) -> Option<(usize, Result<(), Failure>)> {
        for on in 0..self.streams.len() {
            let own = &mut self.streams[on];
            if let Some((slot, _)) = own.busy_with
                && let Some(done) = own.stream.as_mut().and_then(|stream| stream.poll())
            {
                self.take_back(on, done.work);
                return Some((slot, done.outcome));
            }
        }
        None
    }

    /// Takes back the launch's own pieces of a finished work, drops the lent ones, and keeps the
    /// rest for the next work.
    fn take_back(&mut self, on: usize, mut work: Work) {
        let own = &mut self.streams[on];
        work.steps.clear();
        work.items = 0;
        let mut pieces = work.pieces.drain(..);
        if let Some((slot, has)) = own.busy_with.take() {
            let slot = &mut self.slots[slot];
            if has == Has::All {
                slot.table = pieces.next();
            }
            if has != Has::Nothing && self.by.has_findings() {
                slot.findings = pieces.next();
            }
        }
        drop(pieces);
        own.spare = work;
    }

    /// Launches whose kernels wait for their turn on a shared device.
    pub(crate) fn waiting_slots(&self) -> impl Iterator<Item = usize> {
        let waits = |own: &&LaunchStream| own.stream.as_ref().is_some_and(|one| one.is_waiting());
        self.streams.iter().filter(waits).filter_map(|own| own.busy_with.map(|(slot, _)| slot))
    }

    /// Gives up the stream with the work of `slot`, and everything it holds: the work may never be
    /// done.
    pub(crate) fn give_up(&mut self, slot: usize) {
        for own in &mut self.streams {
            if own.busy_with.is_some_and(|(own, _)| own == slot) {
                (own.stream, own.busy_with) = (None, None);
            }
        }
    }
}
