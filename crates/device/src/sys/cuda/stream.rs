//! A stream of the driver, with an event after every work.

use core::mem;
use std::collections::VecDeque;
use std::sync::Arc;

use super::api::{self, Driver, Handle};
use super::context::Context;
use super::graph::{self, Graphs};
use super::queue::Queue;
use super::retired::Item;
use super::staging::{Staged, Staging};
use crate::{Done, Failure, Refused, Stream, Work};

pub(super) struct CudaStream {
    number: u64,
    reaches_host: bool,
    line: Option<Line>,
}

/// A stream of the driver with the works that it was given. When it is dropped nothing may be in
/// flight.
pub(super) struct Line {
    queue: Queue,
    /// Where works are given as graphs.
    graphs: Option<Graphs>,
    staging: Staging,
    flying: VecDeque<Flying>,
    // Events of work that was given back.
    idle: Vec<Handle>,
}

/// Work that was given to the driver.
struct Flying {
    work: Work,
    staged: Option<Staged>,
    event: Handle,
    failed: Option<Failure>,
}

impl CudaStream {
    pub(super) fn new(
        number: u64,
        reaches_host: bool,
        context: &Arc<Context>,
        graphs: Option<Graphs>,
    ) -> Result<Self, Failure> {
        let (staging, flying, idle) = (Staging::default(), VecDeque::new(), Vec::new());
        let line = Some(Line { queue: Queue::new(context)?, graphs, staging, flying, idle });
        Ok(Self { number, reaches_host, line })
    }
}

impl Line {
    fn event(&mut self) -> Result<Handle, Failure> {
        if let Some(event) = self.idle.pop() {
            return Ok(event);
        }
        let mut event = Handle::NULL;
        // SAFETY: one handle is written.
        self.queue.context.call(|driver| unsafe {
            (driver.create_event)(&mut event, api::EVENT_DISABLE_TIMING)
        })?;
        Ok(event)
    }

    fn give(&mut self, work: &Work, staged: Option<&Staged>) -> Result<(), Failure> {
        match &mut self.graphs {
            Some(graphs) if graph::suits(work) => graphs.launch(work, &self.queue),
            _ => work.steps.iter().enumerate().try_for_each(|(number, step)| {
                let host = staged.and_then(|staged| staged.host(number));
                self.queue.enqueue(step, work, host)
            }),
        }
    }

    /// Whether the driver is done with the oldest work. `None`: not yet.
    fn outcome(&self, flying: &Flying) -> Option<Result<(), Failure>> {
        let mut code = api::SUCCESS;
        // SAFETY: the event was recorded, or could not be: then it counts as done, and the stream
        // is queried.
        let asked = self.queue.context.call(|driver| unsafe {
            code = match flying.event {
                Handle::NULL => (driver.query_stream)(self.queue.stream),
                event => (driver.query_event)(event),
            };
            api::SUCCESS
        });
        if code == api::NOT_READY {
            return None;
        }
        let outcome = asked.and_then(|()| self.queue.context.outcome(code));
        Some(flying.failed.clone().map_or(outcome, Err))
    }

    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let event = match self.event() {
            Ok(event) => event,
            Err(why) => return Err(Refused { work, why }),
        };
        self.queue.context.took_off();
        let staged = self.staging.stage(&work, &self.queue.context);
        let given = self.give(&work, staged.as_ref());
        // SAFETY: the event and the stream are this value's own.
        let recorded = self
            .queue
            .context
            .call(|driver| unsafe { (driver.record_event)(event, self.queue.stream) });
        let mut flying = Flying { work, staged, event, failed: given.err() };
        if let Err(why) = recorded {
            self.idle.push(mem::replace(&mut flying.event, Handle::NULL));
            flying.failed.get_or_insert(why);
        }
        self.flying.push_back(flying);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let outcome = self.outcome(self.flying.front()?)?;
        let mut flying = self.flying.pop_front()?;
        self.queue.context.landed(1);
        if flying.event != Handle::NULL {
            self.idle.push(flying.event);
        }
        if let Some(staged) = flying.staged.take() {
            self.staging.finish(staged, &mut flying.work, outcome.is_ok());
        }
        Some(Done { work: flying.work, outcome })
    }

    /// Drops works that are done.
    pub(super) fn drop_done(&mut self) {
        while self.poll().is_some() {}
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.flying.is_empty()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let context = &self.queue.context;
        context.landed(self.flying.len());
        self.staging.retire(context);
        if context.is_lost() {
            // The device may still use this memory.
            mem::forget(mem::take(&mut self.flying));
            return;
        }
        let destroy = |driver: &Driver| {
            // SAFETY: each was created once and is destroyed once; neither waits for the device.
            unsafe {
                for event in &self.idle {
                    (driver.destroy_event)(*event);
                }
                (driver.destroy_stream)(self.queue.stream)
            }
        };
        let _ = context.call(destroy);
    }
}

impl Stream for CudaStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let Some(line) = &mut self.line else {
            return Err(Refused { work, why: Failure::Lost("its stream is gone".into()) });
        };
        match work.check(self.number, self.reaches_host) {
            Ok(()) => line.submit(work),
            Err(why) => Err(Refused { work, why }),
        }
    }

    fn poll(&mut self) -> Option<Done> {
        self.line.as_mut()?.poll()
    }

    fn in_flight(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.flying.len())
    }
}

impl Drop for CudaStream {
    /// A stream with work in flight is kept until the work is done, which may be never. No thread
    /// of the caller waits for it.
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        line.drop_done();
        if line.is_busy() {
            let context = Arc::clone(&line.queue.context);
            context.retired.push(&context, Item::Stream(line));
        }
    }
}
