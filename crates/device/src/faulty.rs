//! Any device, made to fail, to test how engines handle failures of devices that really work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{
    Buffer, Description, Device, Done, Failure, HostMemory, Loads, Module, Refused, Region, Source,
    Stream, Work,
};

/// The fault of one work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not taken.
    Refuse(Failure),
    /// It is taken, not done, and comes back failed in its turn. [`Failure::Lost`] takes the device
    /// with it.
    Fail(Failure),
    /// It is done, but comes back only after this many polls: after works of other streams that
    /// were submitted later.
    Late(u32),
    /// It is done, but comes back only so long after it was submitted.
    Slow(Duration),
    /// It never comes back, nor does what is submitted to its stream after it.
    Hang,
}

type Script = Box<dyn FnMut(u64, &Work) -> Option<Fault> + Send>;

/// A device that fails by a script.
pub struct Faulty {
    inner: Arc<dyn Device>,
    state: Arc<Mutex<FaultyState>>,
}

struct FaultyState {
    submitted: u64,
    lost: Option<Failure>,
    compile: Option<Failure>,
    allocate: Option<Failure>,
    script: Script,
}

impl Faulty {
    /// `script` is called for each work, counted from 0 over all streams in the order of
    /// submission.
    pub fn new(
        inner: Arc<dyn Device>,
        mut script: impl FnMut(u64) -> Option<Fault> + Send + 'static,
    ) -> Self {
        Self::by_work(inner, move |number, _| script(number))
    }

    /// The same, with a script that also sees the work. The numbers of works depend on timing,
    /// their steps do not.
    pub fn by_work(
        inner: Arc<dyn Device>,
        script: impl FnMut(u64, &Work) -> Option<Fault> + Send + 'static,
    ) -> Self {
        let state = FaultyState {
            submitted: 0,
            lost: None,
            compile: None,
            allocate: None,
            script: Box::new(script),
        };
        Self { inner, state: Arc::new(Mutex::new(state)) }
    }

    /// Compiling fails from now on.
    pub fn fail_compiling(&self, why: Failure) {
        with(&self.state, |state| state.compile = Some(why));
    }

    /// Allocating fails from now on.
    pub fn fail_allocating(&self, why: Failure) {
        with(&self.state, |state| state.allocate = Some(why));
    }

    fn wrap(&self, inner: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(FaultyStream { inner, state: self.state.clone(), turns: VecDeque::new() })
    }

    /// Returns the failure that was set, or that the device is lost.
    fn fails(&self, which: impl FnOnce(&FaultyState) -> Option<Failure>) -> Result<(), Failure> {
        with(&self.state, |state| state.lost.clone().or_else(|| which(state)).map_or(Ok(()), Err))
    }
}

impl Device for Faulty {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.fails(|state| state.compile.clone())?;
        self.inner.compile(source)
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.fails(|state| state.allocate.clone())?;
        self.inner.allocate(bytes)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.fails(|state| state.allocate.clone())?;
        self.inner.allocate_zeroed(bytes)
    }

    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.fails(|_| None)?;
        self.inner.register(memory)
    }

    fn shared_memory(&self, bytes: usize) -> Option<Arc<dyn HostMemory>> {
        self.inner.shared_memory(bytes)
    }

    fn loads(&self) -> Option<&Loads> {
        self.inner.loads()
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.fails(|_| None)?;
        Ok(self.wrap(self.inner.stream()?))
    }

    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.fails(|_| None)?;
        Ok(self.wrap(self.inner.graph_stream()?))
    }
}

struct FaultyStream {
    inner: Box<dyn Stream>,
    state: Arc<Mutex<FaultyState>>,
    // Works that were submitted and not returned yet, oldest first.
    turns: VecDeque<Turn>,
}

enum Turn {
    /// The inner stream has it.
    Inner,
    /// The same, but reported only after this many polls.
    Late(u32),
    /// The same, but reported only from this moment on.
    Slow(Instant),
    Fails(Work, Failure),
    // Kept, as a device that hangs may still use it.
    Hangs {
        _work: Work,
    },
}

impl Stream for FaultyStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let fault = with(&self.state, |state| {
            let number = state.submitted;
            state.submitted += 1;
            state.lost.clone().map(Fault::Refuse).or_else(|| (state.script)(number, &work))
        });
        let turn = match fault {
            None => {
                self.inner.submit(work)?;
                Turn::Inner
            }
            Some(Fault::Late(asked)) => {
                self.inner.submit(work)?;
                Turn::Late(asked)
            }
            Some(Fault::Slow(delay)) => {
                self.inner.submit(work)?;
                Turn::Slow(Instant::now() + delay)
            }
            Some(Fault::Refuse(why)) => return Err(Refused { work, why }),
            Some(Fault::Fail(why)) => Turn::Fails(work, why),
            Some(Fault::Hang) => Turn::Hangs { _work: work },
        };
        self.turns.push_back(turn);
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let mut done = match self.turns.front_mut()? {
            Turn::Late(asked) if *asked > 0 => {
                *asked -= 1;
                return None;
            }
            Turn::Slow(from) if Instant::now() < *from => return None,
            Turn::Inner | Turn::Late(_) | Turn::Slow(_) => self.inner.poll()?,
            Turn::Hangs { .. } => return None,
            Turn::Fails(..) => Done { work: Work::default(), outcome: Ok(()) },
        };
        if let Some(Turn::Fails(work, why)) = self.turns.pop_front() {
            done = Done { work, outcome: Err(why) };
        }
        done.outcome = with(&self.state, |state| {
            if let Err(why @ Failure::Lost(_)) = &done.outcome {
                state.lost.get_or_insert(why.clone());
            }
            state.lost.clone().map_or(done.outcome, Err)
        });
        Some(done)
    }

    fn in_flight(&self) -> usize {
        self.turns.len()
    }
}

fn with<T>(state: &Mutex<FaultyState>, what: impl FnOnce(&mut FaultyState) -> T) -> T {
    what(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}
