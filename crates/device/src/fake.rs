//! A scripted device for tests. The test sets the time, kernels are Rust closures, and the script
//! decides how long each work takes and how it ends.
//!
//! ```
//! use warpline_device::fake::{Fake, Fate};
//! use warpline_device::{Device, Work};
//!
//! let fake = Fake::new(|number| Fate::done_after(if number == 0 { 50 } else { 10 }));
//! let (mut first, mut second) = (fake.stream()?, fake.stream()?);
//! first.submit(Work::default()).map_err(|refused| refused.why)?;
//! second.submit(Work::default()).map_err(|refused| refused.why)?;
//! fake.advance(20);
//! assert!(first.poll().is_none() && second.poll().is_some());
//! # Ok::<(), warpline_device::Failure>(())
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::next_number;
use crate::{
    Argument, Buffer, Description, Device, Done, Failure, HostMemory, KernelCall, Loads, Module,
    Part, Piece, Refused, Region, Slice, Source, Step, Stream, Work,
};

/// The outcome of one work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Nanoseconds from its start until it is done; it starts when the previous work of the stream
    /// is done. `None`: it hangs.
    pub takes_ns: Option<u64>,
    /// Nothing of failing work is done. [`Failure::Lost`] takes the device with it, at that moment.
    pub outcome: Result<(), Failure>,
}

impl Fate {
    /// It is done.
    pub fn done_after(takes_ns: u64) -> Self {
        Self { takes_ns: Some(takes_ns), outcome: Ok(()) }
    }

    /// It fails.
    pub fn fails_after(takes_ns: u64, why: Failure) -> Self {
        Self { takes_ns: Some(takes_ns), outcome: Err(why) }
    }

    /// It never ends.
    pub fn hangs() -> Self {
        Self { takes_ns: None, outcome: Ok(()) }
    }
}

/// An argument of a fake's kernel. The final contents of `Writes` are written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The bytes of a slice or a part that is read.
    Reads(Vec<u8>),
    /// The bytes of a slice or a part that is written.
    Writes(Vec<u8>),
    /// A `u32` or a `u64`.
    Number(u64),
}

/// The scripted device. Copies are the same device.
#[derive(Clone)]
pub struct Fake {
    number: u64,
    description: Arc<Description>,
    state: Arc<Mutex<FakeState>>,
    loads: Arc<Loads>,
}

type Script = Box<dyn FnMut(u64) -> Fate + Send>;
type Run = Arc<dyn Fn(u32, &mut [Value]) + Send + Sync>;

struct FakeState {
    now_ns: u64,
    submitted: u64,
    memory_free: usize,
    compile: Result<(), Failure>,
    lost: Option<String>,
    script: Script,
    kernels: HashMap<&'static str, Run>,
}

impl Fake {
    /// A device whose works have these fates. Works are counted from 0 over all streams in the
    /// order of submission.
    pub fn new(script: impl FnMut(u64) -> Fate + Send + 'static) -> Self {
        let state = FakeState {
            now_ns: 0,
            submitted: 0,
            memory_free: 1 << 30,
            compile: Ok(()),
            lost: None,
            script: Box::new(script),
            kernels: HashMap::new(),
        };
        let description = Arc::new(describe());
        let (state, loads) = (Arc::new(Mutex::new(state)), Arc::default());
        Self { number: next_number(), description, state, loads }
    }

    /// The effect of the kernel called `name`, given the number of groups. A kernel without one
    /// does nothing.
    #[must_use]
    pub fn with_kernel(
        self,
        name: &'static str,
        run: impl Fn(u32, &mut [Value]) + Send + Sync + 'static,
    ) -> Self {
        self.state().kernels.insert(name, Arc::new(run));
        self
    }

    /// How much memory is left to allocate. Freed memory does not come back.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        self.state().memory_free = bytes;
        self
    }

    /// Compiling fails from now on.
    pub fn fail_compiling(&self, why: Failure) {
        self.state().compile = Err(why);
    }

    /// The device is lost now, with all work in flight.
    pub fn lose(&self, why: &str) {
        self.state().lost.get_or_insert(why.into());
    }

    /// Lets time pass.
    pub fn advance(&self, ns: u64) {
        self.state().now_ns += ns;
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeState {
    fn here(&self) -> Result<(), Failure> {
        self.lost.clone().map_or(Ok(()), |why| Err(Failure::Lost(why)))
    }
}

impl Device for Fake {
    fn description(&self) -> &Description {
        &self.description
    }

    fn loads(&self) -> Option<&Loads> {
        Some(&self.loads)
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.state().here()?;
        self.state().compile.clone()?;
        Ok(Module {
            device: self.number,
            kernels: Arc::clone(source.kernels()),
            loaded: Arc::new(()),
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        let mut state = self.state();
        state.here()?;
        let none = Failure::OutOfMemory { wanted: bytes, free: Some(state.memory_free) };
        state.memory_free = state.memory_free.checked_sub(bytes).ok_or(none)?;
        let memory = Arc::new(Mutex::new(vec![0_u8; bytes]));
        Ok(Buffer::new(self.number, bytes, memory))
    }

    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.state().here()?;
        Ok(Region::new(memory, None))
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.state().here()?;
        Ok(Box::new(FakeStream {
            fake: self.clone(),
            flying: VecDeque::new(),
            busy_until_ns: Some(0),
        }))
    }
}

struct FakeStream {
    fake: Fake,
    flying: VecDeque<Flying>,
    // `None` after work that hangs.
    busy_until_ns: Option<u64>,
}

struct Flying {
    work: Work,
    done_ns: Option<u64>,
    outcome: Result<(), Failure>,
}

impl Stream for FakeStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let mut state = self.fake.state();
        if let Err(why) = state.here().and_then(|()| work.check(self.fake.number, true)) {
            return Err(Refused { work, why });
        }
        let number = state.submitted;
        state.submitted += 1;
        let fate = (state.script)(number);
        let start = self.busy_until_ns.map(|busy| busy.max(state.now_ns));
        self.busy_until_ns =
            start.zip(fate.takes_ns).map(|(start, takes)| start.saturating_add(takes));
        self.flying.push_back(Flying { work, done_ns: self.busy_until_ns, outcome: fate.outcome });
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let oldest = self.flying.front()?;
        let (now, here, kernels) = {
            let state = self.fake.state();
            (state.now_ns, state.here(), state.kernels.clone())
        };
        let is_done = oldest.done_ns.is_some_and(|done| done <= now);
        if here.is_ok() && !is_done {
            return None;
        }
        let Flying { mut work, outcome, .. } = self.flying.pop_front()?;
        let outcome = here.and(outcome);
        if let Err(Failure::Lost(why)) = &outcome {
            self.fake.lose(why);
        }
        if outcome.is_ok() {
            do_all(&mut work, &kernels);
        }
        Some(Done { work, outcome })
    }

    fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Moves time on to the end of the oldest work; `None` also where that hangs.
    fn wait(&mut self) -> Option<Done> {
        let done = self.flying.front()?.done_ns;
        if let Some(done) = done {
            let mut state = self.fake.state();
            state.now_ns = state.now_ns.max(done);
        }
        self.poll()
    }
}

fn do_all(work: &mut Work, kernels: &HashMap<&'static str, Run>) {
    let Work { pieces, steps, .. } = work;
    for step in steps {
        match step {
            Step::CopyIn { from, to } => write(to, &pieces[from.piece][from.range.clone()]),
            Step::CopyOut { from, to } => {
                pieces[to.piece][to.range.clone()].copy_from_slice(&read(from))
            }
            Step::RowsIn { from, to, rows } => {
                let piece = &pieces[from.piece][from.range.clone()];
                rows.each(to.len()).for_each(|row| write(&to.part(row.clone()), &piece[row]));
            }
            Step::RowsOut { from, to, rows } => {
                let piece = &mut pieces[to.piece][to.range.clone()];
                rows.each(from.len())
                    .for_each(|row| piece[row.clone()].copy_from_slice(&read(&from.part(row))));
            }
            Step::Call(call) => {
                if let Some(run) = kernels.get(call.kernel.spec().name) {
                    do_call(call, pieces, run);
                }
            }
        }
    }
}

fn do_call(call: &KernelCall, pieces: &mut [Piece], run: &Run) {
    let part = |pieces: &[Piece], part: &Part| pieces[part.piece][part.range.clone()].to_vec();
    let value = |argument: &Argument| match argument {
        Argument::Reads(slice) => Value::Reads(read(slice)),
        Argument::Writes(slice) => Value::Writes(read(slice)),
        Argument::HostReads(named) => Value::Reads(part(pieces, named)),
        Argument::HostWrites(named) => Value::Writes(part(pieces, named)),
        // No region is one that its kernels reach.
        Argument::InPlace(_) | Argument::Mapped(_) => Value::Writes(Vec::new()),
        Argument::U32(value) => Value::Number((*value).into()),
        Argument::U64(value) => Value::Number(*value),
    };
    let mut values: Vec<Value> = call.arguments.iter().map(value).collect();
    run(call.groups, &mut values);
    for (argument, value) in call.arguments.iter().zip(&values) {
        match (argument, value) {
            (Argument::Writes(slice), Value::Writes(bytes)) => write(slice, bytes),
            (Argument::HostWrites(part), Value::Writes(bytes)) => {
                pieces[part.piece][part.range.clone()].copy_from_slice(bytes);
            }
            _ => {}
        }
    }
}

fn read(slice: &Slice) -> Vec<u8> {
    memory(slice, |bytes| bytes.to_vec()).unwrap_or_default()
}

fn write(slice: &Slice, from: &[u8]) {
    memory(slice, |bytes| bytes.copy_from_slice(from));
}

fn memory<T>(slice: &Slice, with: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let memory = slice.buffer.memory.downcast_ref::<Mutex<Vec<u8>>>()?;
    let mut bytes = memory.lock().unwrap_or_else(PoisonError::into_inner);
    Some(with(&mut bytes[slice.range.clone()]))
}

fn describe() -> Description {
    Description {
        id: "fake".into(),
        name: "scripted device".into(),
        driver: "none".into(),
        memory: 1 << 30,
        buffer_max: 1 << 30,
        units: 1,
        group_max: 1024,
        shared: 48 << 10,
        shares_host_memory: false,
        reaches_host_memory: true,
        runs_on_cpu: false,
        has_graphs: false,
        bus: None,
        uuid: None,
    }
}
