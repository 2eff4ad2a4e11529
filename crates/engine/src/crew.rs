//! The threads of a run: started one by one, joined together.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;

use warpline_io_error::plain;

use crate::reports::Ended;
use crate::sys::pin;
use crate::{Control, Deployment, Settings, StartError};

/// Tries on a thread of its own whether the lanes of `deployment` may run on the cores that
/// `settings` give them.
///
/// # Errors
/// One may not: [`StartError::Core`], which a run would end with.
pub fn try_cores(deployment: &Deployment, settings: &Settings) -> Result<(), StartError> {
    let cores = settings.fit(deployment).cores;
    let mut each = cores.numbers().iter().enumerate();
    thread::scope(|scope| {
        let try_each = move || each.try_for_each(|(lane, core)| take_core(lane, *core));
        let tried = thread::Builder::new().spawn_scoped(scope, try_each);
        tried.map_err(|_| StartError::Thread)?.join().unwrap_or(Err(StartError::Thread))
    })
}

/// The threads of a run.
pub(crate) struct Crew<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    control: &'scope Control,
    workers: Vec<thread::ScopedJoinHandle<'scope, Option<Ended>>>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    pub(crate) fn new(
        scope: &'scope thread::Scope<'scope, 'env>,
        control: &'scope Control,
    ) -> Self {
        Self { scope, control, workers: Vec::new() }
    }

    /// Starts a lane's thread, on the lane's core if it has one.
    pub(crate) fn hire_lane(
        &mut self,
        lane: usize,
        settings: &Settings,
        work: impl FnOnce() -> Ended + Send + 'scope,
    ) -> Result<(), StartError> {
        let core = settings.cores.numbers().get(lane).map(|core| (lane, *core));
        self.hire_on(core, format!("lane-{lane}"), work)
    }

    /// Starts a thread that is no lane's.
    pub(crate) fn hire(
        &mut self,
        name: String,
        work: impl FnOnce() -> Ended + Send + 'scope,
    ) -> Result<(), StartError> {
        self.hire_on(None, name, work)
    }

    /// Starts a thread, for a lane on its core; where there is none to be had, those that run end.
    fn hire_on(
        &mut self,
        core: Option<(usize, u16)>,
        name: String,
        work: impl FnOnce() -> Ended + Send + 'scope,
    ) -> Result<(), StartError> {
        let (sender, receiver) = sync_channel(1);
        let begin = move || {
            let placed = core.map_or(Ok(()), |(lane, core)| take_core(lane, core));
            let is_placed = placed.is_ok();
            // The caller waits for it.
            let _ = sender.send(placed);
            is_placed.then(work)
        };
        let started = thread::Builder::new().name(name).spawn_scoped(self.scope, begin);
        let placed = || receiver.recv().unwrap_or(Err(StartError::Thread));
        let worker = started.map_err(|_| StartError::Thread);
        match worker.and_then(|worker| placed().map(|()| worker)) {
            Ok(worker) => self.workers.push(worker),
            Err(why) => {
                self.control.fail();
                return Err(why);
            }
        }
        Ok(())
    }

    /// Joins all threads and adds up their results; a panic continues here.
    pub(crate) fn join(self, ended: &mut Ended) {
        for worker in self.workers {
            match worker.join() {
                Ok(left) => left.into_iter().for_each(|left| ended.add(left)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }
}

/// Puts the calling thread, lane `lane`'s, on `core`.
fn take_core(lane: usize, core: u16) -> Result<(), StartError> {
    let why = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            format!("there is no such core, or this process may not use it: {}", plain(&error))
        }
        _ => plain(&error),
    };
    pin(core).map_err(|error| StartError::Core(lane, core, why(error)))
}
