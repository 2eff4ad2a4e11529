//! A stream: an in-order command queue, and the objects that its commands use until they are done.

use core::ptr::NonNull;
use core::{mem, ptr};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Context;
use super::api::{self, Api, Id};
use super::memory::{Content, Memory};
use super::program::{OwnKernel, Program};
use super::turns::Turns;
use crate::{
    Argument, Buffer, Done, Failure, KernelCall, Part, Piece, Refused, Rows, Slice, Step, Stream,
    Work,
};

/// An in-order queue, released when it is dropped: commands in it are done all the same.
pub(super) struct Queue {
    api: &'static Api,
    queue: Id,
    context: Arc<Context>,
}

impl Queue {
    pub(super) fn new(
        api: &'static Api,
        context: Arc<Context>,
        device: Id,
    ) -> Result<Self, Failure> {
        let mut code = 0;
        // SAFETY: the context is of this device; no properties: in order.
        let queue = unsafe { (api.create_queue)(context.context, device, 0, &mut code) };
        match code {
            api::SUCCESS => Ok(Self { api, queue, context }),
            _ => Err(Failure::Work(format!("no queue: {}", api::name_of(code)))),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by clCreateCommandQueue, released once.
        unsafe { (self.api.release_queue)(self.queue) };
    }
}

/// The stream.
pub(super) struct ClStream {
    number: u64,
    reaches_host: bool,
    queue: Queue,
    turns: Option<Arc<Turns>>,
    kernels: HashMap<(usize, usize), (Arc<dyn core::any::Any + Send + Sync>, OwnKernel)>,
    flying: VecDeque<Flying>,
}

/// Work whose commands were given to the queue.
struct Flying {
    api: &'static Api,
    work: Work,
    events: Vec<Id>,
    // Parts of buffers and pieces that calls were given; in use until the events are done.
    memories: Vec<Memory>,
    failed: Option<Failure>,
}

impl Flying {
    /// `None` while a command is not done. Queries all, even after one that failed, since the queue
    /// continues.
    fn outcome(&self) -> Option<Result<(), Failure>> {
        let mut outcome = self.failed.clone().map_or(Ok(()), Err);
        for event in &self.events {
            match self.api.status(*event) {
                Ok(1..) => return None,
                Ok(0) => {}
                Ok(failed) | Err(failed) => outcome = outcome.and(Err(failure(failed))),
            }
        }
        Some(outcome)
    }

    /// Makes the results in shared memory visible to the host. Querying an event's status is no
    /// synchronisation (OpenCL 2.0, 5.11), waiting for it is. All are complete, so this does not
    /// block.
    fn synchronise(&self) {
        if let Ok(count @ 1..) = u32::try_from(self.events.len()) {
            // SAFETY: so many events of this queue, not yet released. What failed is known.
            unsafe { (self.api.wait_for_events)(count, self.events.as_ptr()) };
        }
    }
}

impl Drop for Flying {
    fn drop(&mut self) {
        for event in &self.events {
            // SAFETY: an event that an enqueue gave, released once.
            unsafe { (self.api.release_event)(*event) };
        }
    }
}

impl ClStream {
    pub(super) fn new(
        number: u64,
        reaches_host: bool,
        queue: Queue,
        turns: Option<Arc<Turns>>,
    ) -> Self {
        let (kernels, flying) = (HashMap::new(), VecDeque::new());
        Self { number, reaches_host, queue, turns, kernels, flying }
    }

    fn api(&self) -> &'static Api {
        self.queue.api
    }

    /// Gives the queue the commands of one step. After a failure, earlier commands stay in the
    /// queue.
    fn enqueue(&mut self, flying: &mut Flying, step: usize) -> Result<(), Failure> {
        match &flying.work.steps[step] {
            // OpenCL rejects empty copies.
            Step::CopyIn { from: part, .. } | Step::CopyOut { to: part, .. }
                if part.range.is_empty() =>
            {
                Ok(())
            }
            Step::CopyIn { from, to } => {
                let (host, range) =
                    (&flying.work.pieces[from.piece][from.range.clone()], to.range.clone());
                let mut event = Id::NULL;
                // SAFETY: non-blocking; the piece and the buffer are the flying work's until the
                // event is done, and both ranges were checked.
                let code = unsafe {
                    (self.api().enqueue_write)(
                        self.queue.queue,
                        memory_of(&to.buffer)?,
                        0,
                        range.start,
                        range.len(),
                        host.as_ptr().cast(),
                        0,
                        ptr::null(),
                        &mut event,
                    )
                };
                keep(flying, code, event)
            }
            Step::CopyOut { from, to } => {
                let (memory, range) = (memory_of(&from.buffer)?, from.range.clone());
                let host = flying.work.pieces[to.piece][to.range.clone()].as_mut_ptr();
                let mut event = Id::NULL;
                // SAFETY: as above; nothing else accesses the piece.
                let code = unsafe {
                    (self.api().enqueue_read)(
                        self.queue.queue,
                        memory,
                        0,
                        range.start,
                        range.len(),
                        host.cast(),
                        0,
                        ptr::null(),
                        &mut event,
                    )
                };
                keep(flying, code, event)
            }
            Step::RowsIn { from, to, rows } => {
                let (from, to, rows) = (from.clone(), to.clone(), *rows);
                self.enqueue_rows_in(flying, &from, &to, rows)
            }
            Step::RowsOut { from, to, rows } => {
                let (from, to, rows) = (from.clone(), to.clone(), *rows);
                self.enqueue_rows_out(flying, &from, &to, rows)
            }
            Step::Call(call) => self.enqueue_call(flying, &call.clone()),
        }
    }

    fn enqueue_rows_in(
        &self,
        flying: &mut Flying,
        from: &Part,
        to: &Slice,
        rows: Rows,
    ) -> Result<(), Failure> {
        let host = &flying.work.pieces[from.piece][from.range.clone()];
        let (at, size) = ([to.range.start, 0, 0], [rows.width, rows.count(to.len()), 1]);
        let mut event = Id::NULL;
        // SAFETY: as for a copy; the rows lie in both ranges, as they were checked.
        let code = unsafe {
            (self.api().enqueue_write_rows)(
                self.queue.queue,
                memory_of(&to.buffer)?,
                0,
                &at,
                &[0; 3],
                &size,
                rows.pitch,
                0,
                rows.pitch,
                0,
                host.as_ptr().cast(),
                0,
                ptr::null(),
                &mut event,
            )
        };
        keep(flying, code, event)
    }

    fn enqueue_rows_out(
        &self,
        flying: &mut Flying,
        from: &Slice,
        to: &Part,
        rows: Rows,
    ) -> Result<(), Failure> {
        let (at, size) = ([from.range.start, 0, 0], [rows.width, rows.count(from.len()), 1]);
        let host = flying.work.pieces[to.piece][to.range.clone()].as_mut_ptr();
        let mut event = Id::NULL;
        // SAFETY: as above; nothing else touches the piece.
        let code = unsafe {
            (self.api().enqueue_read_rows)(
                self.queue.queue,
                memory_of(&from.buffer)?,
                0,
                &at,
                &[0; 3],
                &size,
                rows.pitch,
                0,
                rows.pitch,
                0,
                host.cast(),
                0,
                ptr::null(),
                &mut event,
            )
        };
        keep(flying, code, event)
    }

    fn enqueue_call(&mut self, flying: &mut Flying, call: &KernelCall) -> Result<(), Failure> {
        let kernel = self.kernel(call)?;
        let mut hosts = Vec::new();
        for (index, argument) in call.arguments.iter().enumerate() {
            let index = index as u32;
            match argument {
                Argument::Reads(slice) | Argument::Writes(slice) => {
                    let id = slice_memory(flying, slice)?;
                    self.set(kernel, index, &id)?;
                }
                // Mapped regions work in place: a buffer over a whole region would be in use while
                // the host writes parts of it.
                Argument::InPlace(region) | Argument::Mapped(region) => {
                    self.set_pointer(kernel, index, region.base())?;
                }
                Argument::HostReads(part) | Argument::HostWrites(part)
                    if flying.work.pieces[part.piece].region().is_in_place_for(self.number) =>
                {
                    let base = &flying.work.pieces[part.piece][part.range.clone()];
                    self.set_pointer(kernel, index, NonNull::from_ref(base).cast())?;
                }
                Argument::HostReads(part) | Argument::HostWrites(part) => {
                    let memory = self.host_memory(&flying.work.pieces, part)?;
                    hosts.push((memory.id, part.range.len()));
                    self.set(kernel, index, &memory.id)?;
                    flying.memories.push(memory);
                }
                Argument::U32(value) => self.set(kernel, index, value)?,
                Argument::U64(value) => self.set(kernel, index, value)?,
            }
        }
        let group = call.kernel.spec().group as usize;
        let all = group * call.groups as usize;
        let mut event = Id::NULL;
        // SAFETY: one dimension. Every argument was set, and its memory stays until the event is
        // done. The awaited event is of this context. The caller vouches for the
        // kernel's accesses.
        let enqueue = |before: Option<&Id>, event: &mut Id| unsafe {
            (self.api().enqueue_kernel)(
                self.queue.queue,
                kernel,
                1,
                ptr::null(),
                &all,
                &group,
                u32::from(before.is_some()),
                before.map_or(ptr::null(), ptr::from_ref),
                event,
            )
        };
        let code = match &self.turns {
            Some(turns) => turns.take(&mut event, enqueue),
            None => enqueue(None, &mut event),
        };
        keep(flying, code, event)?;
        hosts.into_iter().try_for_each(|(id, len)| self.enqueue_back_to_host(flying, id, len))
    }

    /// A buffer over a part of a piece. Making it takes over the piece's contents (OpenCL 1.2,
    /// 5.2.1).
    fn host_memory(&self, pieces: &[Piece], part: &Part) -> Result<Memory, Failure> {
        let base = pieces[part.piece].base().as_ptr().wrapping_add(part.range.start);
        Memory::new(self.api(), &self.queue.context, part.range.len(), Content::Host(base.cast()))
    }

    /// Mapping is what makes a device's writes seen by the host (5.4.2).
    fn enqueue_back_to_host(&self, flying: &mut Flying, id: Id, len: usize) -> Result<(), Failure> {
        let (mut event, mut code) = (Id::NULL, 0);
        // SAFETY: non-blocking, all of a buffer that the flying work keeps.
        let at = unsafe {
            (self.api().enqueue_map)(
                self.queue.queue,
                id,
                0,
                api::MAP_READ,
                0,
                len,
                0,
                ptr::null(),
                &mut event,
                &mut code,
            )
        };
        keep(flying, code, event)?;
        let mut event = Id::NULL;
        // SAFETY: the pointer of the map call. It is not read through, as the piece names the same
        // memory.
        let code = unsafe {
            (self.api().enqueue_unmap)(self.queue.queue, id, at, 0, ptr::null(), &mut event)
        };
        keep(flying, code, event)
    }

    fn set<T>(&self, kernel: Id, index: u32, value: &T) -> Result<(), Failure> {
        // SAFETY: the kernel is this stream's own; the value is copied by the call.
        let code = unsafe {
            (self.api().set_kernel_arg)(kernel, index, size_of::<T>(), ptr::from_ref(value).cast())
        };
        done(code)
    }

    /// Gives the kernel an address in memory that host and device share, which the work keeps.
    fn set_pointer(&self, kernel: Id, index: u32, at: NonNull<u8>) -> Result<(), Failure> {
        let none = || Failure::Refused("the device shares no memory".into());
        let sharing = self.queue.context.sharing.as_ref().ok_or_else(none)?;
        // SAFETY: the kernel is this stream's own; the address is within memory of the context's
        // `SharedMemory`.
        done(unsafe { (sharing.api.set_pointer)(kernel, index, at.as_ptr().cast()) })
    }

    /// This stream's own object for the kernel: it stores the arguments, and two threads must not
    /// set them at once.
    fn kernel(&mut self, call: &KernelCall) -> Result<Id, Failure> {
        let (loaded, index) = (&call.kernel.module.loaded, call.kernel.index);
        let key = (Arc::as_ptr(loaded).cast::<()>() as usize, index);
        if let Some((_, own)) = self.kernels.get(&key) {
            return Ok(own.kernel);
        }
        let program = loaded.downcast_ref::<Program>();
        let program =
            program.ok_or_else(|| Failure::Refused("the module is none of OpenCL's".into()))?;
        let own = program.kernel(call.kernel.spec().name)?;
        let id = own.kernel;
        self.kernels.insert(key, (loaded.clone(), own));
        Ok(id)
    }
}

impl Stream for ClStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        if let Err(why) = work.check(self.number, self.reaches_host) {
            return Err(Refused { work, why });
        }
        let mut flying = Flying {
            api: self.api(),
            work,
            events: Vec::new(),
            memories: Vec::new(),
            failed: None,
        };
        for step in 0..flying.work.steps.len() {
            if let Err(why) = self.enqueue(&mut flying, step) {
                flying.failed = Some(why);
                break;
            }
        }
        // SAFETY: the queue is valid. A failing flush shows in the events.
        unsafe { (self.api().flush)(self.queue.queue) };
        self.flying.push_back(flying);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let outcome = self.flying.front()?.outcome()?;
        let mut flying = self.flying.pop_front()?;
        flying.synchronise();
        Some(Done { work: mem::take(&mut flying.work), outcome })
    }

    fn in_flight(&self) -> usize {
        self.flying.len()
    }
}

impl Drop for ClStream {
    /// Memory that the device may still use is leaked.
    fn drop(&mut self) {
        for flying in self.flying.drain(..) {
            if flying.outcome().is_none() {
                mem::forget(flying);
            }
        }
    }
}

fn memory_of(buffer: &Buffer) -> Result<Id, Failure> {
    let memory = buffer.memory.downcast_ref::<Memory>();
    memory
        .map(|memory| memory.id)
        .ok_or_else(|| Failure::Refused("the buffer is none of OpenCL's".into()))
}

/// The buffer itself, or a part that the flying work keeps.
fn slice_memory(flying: &mut Flying, slice: &Slice) -> Result<Id, Failure> {
    if slice.range == (0..slice.buffer.len) {
        return memory_of(&slice.buffer);
    }
    let memory = slice.buffer.memory.downcast_ref::<Memory>();
    let memory = memory.ok_or_else(|| Failure::Refused("the buffer is none of OpenCL's".into()))?;
    let part = memory.part(slice.range.start, slice.len())?;
    let id = part.id;
    flying.memories.push(part);
    Ok(id)
}

/// Keeps the event of a command that was given to the queue.
fn keep(flying: &mut Flying, code: i32, event: Id) -> Result<(), Failure> {
    if !event.is_null() {
        flying.events.push(event);
    }
    done(code)
}

fn done(code: i32) -> Result<(), Failure> {
    if code == api::SUCCESS { Ok(()) } else { Err(failure(code)) }
}

fn failure(code: i32) -> Failure {
    match code {
        -2 => Failure::Lost(api::name_of(code)),
        _ => Failure::Work(api::name_of(code)),
    }
}
