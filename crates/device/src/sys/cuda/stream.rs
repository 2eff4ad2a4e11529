//! A stream of the driver, with an event behind each work.

use core::ffi::c_void;
use core::{mem, ptr};
use std::collections::VecDeque;
use std::sync::Arc;

use super::api::{self, Driver, Handle};
use super::context::{Allocation, Context, Kernels};
use crate::{Argument, Done, Failure, Launch, Part, Piece, Refused, Slice, Step, Stream, Work};

pub(super) struct CudaStream {
    number: u64,
    reaches_host: bool,
    context: Arc<Context>,
    stream: Handle,
    flying: VecDeque<Flying>,
    // Events of work that was given back.
    idle: Vec<Handle>,
}

/// Work that was given to the driver.
struct Flying {
    work: Work,
    event: Handle,
    failed: Option<Failure>,
}

impl CudaStream {
    pub(super) fn new(
        number: u64,
        reaches_host: bool,
        context: &Arc<Context>,
    ) -> Result<Self, Failure> {
        let mut stream = Handle::NULL;
        // SAFETY: one handle is written.
        context.call(|driver| unsafe {
            (driver.create_stream)(&mut stream, api::STREAM_NON_BLOCKING)
        })?;
        let (context, flying, idle) = (context.clone(), VecDeque::new(), Vec::new());
        Ok(Self { number, reaches_host, context, stream, flying, idle })
    }

    fn event(&mut self) -> Result<Handle, Failure> {
        if let Some(event) = self.idle.pop() {
            return Ok(event);
        }
        let mut event = Handle::NULL;
        // SAFETY: one handle is written.
        self.context.call(|driver| unsafe {
            (driver.create_event)(&mut event, api::EVENT_DISABLE_TIMING)
        })?;
        Ok(event)
    }

    fn enqueue(&self, step: &Step, work: &Work) -> Result<(), Failure> {
        let stream = self.stream;
        match step {
            Step::CopyIn { from, to } => {
                let (host, there) = (part_base(&work.pieces, from), address(to)?);
                // SAFETY: both ranges were checked; the piece and the buffer are the flying work's until the event
                // behind it is done.
                self.context.call(|driver| unsafe {
                    (driver.copy_in)(there, host.cast(), to.len(), stream)
                })
            }
            Step::CopyOut { from, to } => {
                let (host, there) = (part_base(&work.pieces, to), address(from)?);
                // SAFETY: as above; nobody else touches the piece.
                self.context.call(|driver| unsafe {
                    (driver.copy_out)(host.cast(), there, from.len(), stream)
                })
            }
            Step::Launch(launch) => self.launch(launch, &work.pieces),
        }
    }

    fn launch(&self, launch: &Launch, pieces: &[Piece]) -> Result<(), Failure> {
        let loaded = launch.kernel.module.loaded.downcast_ref::<Kernels>();
        let kernels =
            loaded.ok_or_else(|| Failure::Refused("the module is none of CUDA's".into()))?;
        let function = kernels.functions[launch.kernel.index];
        let values = launch.arguments.iter().map(|one| self.value(one, pieces));
        let mut values: Vec<u64> = values.collect::<Result<_, _>>()?;
        // A u32 lies in the low half of its word, at its address.
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|one| ptr::from_mut(one).cast()).collect();
        let (spec, groups) = (launch.kernel.spec(), launch.groups);
        // SAFETY: number and kinds of the values are the kernel's, and are copied by the call; their memory stays
        // until the event is done. Whoever made the launch vouches for what the kernel does with it.
        self.context.call(|driver| unsafe {
            (driver.launch)(
                function,
                groups,
                1,
                1,
                spec.group,
                1,
                1,
                spec.shared_big,
                self.stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        })
    }

    fn value(&self, argument: &Argument, pieces: &[Piece]) -> Result<u64, Failure> {
        match argument {
            Argument::Reads(slice) | Argument::Writes(slice) => address(slice),
            Argument::HostReads(part) | Argument::HostWrites(part) => {
                let (region, start) = pieces[part.piece].place();
                let mut there = 0;
                // SAFETY: one address is written; an error for memory that this device has not registered.
                self.context.call(|driver| unsafe {
                    (driver.device_pointer)(&mut there, region.as_ptr().cast(), 0)
                })?;
                Ok(there + (start + part.range.start) as u64)
            }
            Argument::InPlace(_) => {
                Err(Failure::Refused("CUDA works in no region in place".into()))
            }
            Argument::U32(value) => Ok(u64::from(*value)),
            Argument::U64(value) => Ok(*value),
        }
    }

    /// Whether the driver is done with the oldest work. `None`: not yet.
    fn outcome(&self, flying: &Flying) -> Option<Result<(), Failure>> {
        let mut code = api::SUCCESS;
        // SAFETY: the event was recorded, or could not be: then it counts as done, and the stream is asked.
        let asked = self.context.call(|driver| unsafe {
            code = match flying.event {
                Handle::NULL => (driver.query_stream)(self.stream),
                event => (driver.query_event)(event),
            };
            api::SUCCESS
        });
        if code == api::NOT_READY {
            return None;
        }
        let outcome = asked.and_then(|()| self.context.outcome(code));
        Some(flying.failed.clone().map_or(outcome, Err))
    }
}

impl Stream for CudaStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        if let Err(why) = work.check(self.number, self.reaches_host) {
            return Err(Refused { work, why });
        }
        let event = match self.event() {
            Ok(event) => event,
            Err(why) => return Err(Refused { work, why }),
        };
        let given: Result<(), Failure> =
            work.steps.iter().try_for_each(|step| self.enqueue(step, &work));
        // SAFETY: the event and the stream are this value's own.
        let recorded =
            self.context.call(|driver| unsafe { (driver.record_event)(event, self.stream) });
        let mut flying = Flying { work, event, failed: given.err() };
        if let Err(why) = recorded {
            self.idle.push(mem::replace(&mut flying.event, Handle::NULL));
            flying.failed.get_or_insert(why);
        }
        self.flying.push_back(flying);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let outcome = self.outcome(self.flying.front()?)?;
        let flying = self.flying.pop_front()?;
        if flying.event != Handle::NULL {
            self.idle.push(flying.event);
        }
        Some(Done { work: flying.work, outcome })
    }

    fn in_flight(&self) -> usize {
        self.flying.len()
    }
}

impl Drop for CudaStream {
    /// What the device may still use is left for good, and with it the stream.
    fn drop(&mut self) {
        while self.poll().is_some() {}
        if !self.flying.is_empty() {
            // It may never end, and what waits for the device would not either.
            self.context.give_up();
            mem::forget(mem::take(&mut self.flying));
            return;
        }
        let destroy = |driver: &Driver| {
            // SAFETY: each was created once and is destroyed once; nothing is in flight.
            unsafe {
                for event in &self.idle {
                    (driver.destroy_event)(*event);
                }
                (driver.destroy_stream)(self.stream)
            }
        };
        let _ = self.context.call(destroy);
    }
}

fn address(slice: &Slice) -> Result<u64, Failure> {
    let memory = slice.buffer.memory.downcast_ref::<Allocation>();
    let memory = memory.ok_or_else(|| Failure::Refused("the buffer is none of CUDA's".into()))?;
    Ok(memory.address + slice.range.start as u64)
}

fn part_base(pieces: &[Piece], part: &Part) -> *mut u8 {
    pieces[part.piece].base().as_ptr().wrapping_add(part.range.start)
}
