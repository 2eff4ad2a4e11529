//! The threads of a run: started one by one, and waited for together.

use std::thread;

use crate::reports::Ended;
use crate::{Control, StartError};

/// The threads of a run.
pub(crate) struct Crew<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    control: &'scope Control,
    workers: Vec<thread::ScopedJoinHandle<'scope, Ended>>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    pub(crate) fn new(
        scope: &'scope thread::Scope<'scope, 'env>,
        control: &'scope Control,
    ) -> Self {
        Self { scope, control, workers: Vec::new() }
    }

    /// Starts a thread; where there is none to be had, those that run end.
    pub(crate) fn hire(
        &mut self,
        name: String,
        work: impl FnOnce() -> Ended + Send + 'scope,
    ) -> Result<(), StartError> {
        let started = thread::Builder::new().name(name).spawn_scoped(self.scope, work);
        let worker = started.map_err(|_| {
            self.control.fail();
            StartError::Thread
        })?;
        self.workers.push(worker);
        Ok(())
    }

    /// Waits for all and adds what they left; a panic goes on here.
    pub(crate) fn join(self, ended: &mut Ended) {
        for worker in self.workers {
            match worker.join() {
                Ok(left) => ended.add(left),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }
}
