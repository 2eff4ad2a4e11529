//! A function and a device whose costs are stated: so many nanoseconds a packet. They stand in for
//! functions and GPUs of papers, whose costs per packet are known and whose hardware is not here.
//!
//! [`Busy`] does nothing to packets. [`BusyDevice`] completes works when a device with its costs
//! would. It has one engine for kernels, and copies beside it. Kernels of one context run in order.
//! Contexts take turns in slices, and a kernel that is longer than a slice is preempted: so a GPU
//! shares its time between processes and virtual machines.

mod slices;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warpline_device::fake::{Fake, Fate};
use warpline_device::{Device, Done, Refused, Step, Stream, Work, Wrapped};
use warpline_nf::kernels::{KernelStep, Kernels};
use warpline_nf::{Definition, Function};
use warpline_packet::{Access, Batch, ReadWrite};

use slices::{JobId, Slices};

/// A function that does nothing, on the CPU or on a device.
pub struct Busy;

/// The definition of [`Busy`], for chains.
pub static BUSY: Definition = Definition {
    name: "busy",
    summary: "takes the time that its device is given for a packet",
    manual: "",
    has_kernels: true,
    keys: &[],
    drops: &[],
    counters: &[],
    access: Access::run_only(ReadWrite::NONE),
    build: |_, _| Some(Box::new(Busy)),
    build_pair: None,
};

impl Function for Busy {
    fn access(&self) -> &Access {
        const NONE: Access = Access::run_only(ReadWrite::NONE);
        &NONE
    }

    fn run(&self, _: &mut Batch) {}

    fn kernels(&self) -> Option<Kernels> {
        const STEPS: &[KernelStep] =
            &[KernelStep { name: "busy", group: 64, shared_big: 0, items_per_packet: 1 }];
        let kernels = Kernels::builder("busy.cl", include_str!("busy.cl"), STEPS).build();
        Some(kernels.declaring(self.kernel_access()))
    }
}

/// Costs of a function on a device, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Of kernels, for each item of a work.
    pub kernel_ns: f64,
    /// Of copies to the device, for each item. Streams copy at the same time.
    pub there_ns: f64,
    /// Of copies back.
    pub back_ns: f64,
}

/// A device with stated costs; see the module.
pub struct BusyDevice {
    inner: Arc<dyn Device>,
    engine: Arc<Engine>,
}

/// The engine that runs kernels, by the host's clock.
struct Engine {
    started: Instant,
    slices: Mutex<Slices>,
}

impl Engine {
    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn slices(&self) -> MutexGuard<'_, Slices> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BusyDevice {
    /// Nanoseconds of a slice.
    pub const SLICE_NS: u64 = 2_000_000;

    /// A device that copies, runs no kernel, and takes the time of its costs. It needs no thread.
    #[allow(clippy::new_without_default, reason = "each is another device")]
    pub fn new() -> Self {
        let slices = Mutex::new(Slices::new(Self::SLICE_NS));
        let engine = Arc::new(Engine { started: Instant::now(), slices });
        Self { inner: Arc::new(Fake::new(|_| Fate::done_after(0))), engine }
    }

    /// The device as another context, with these costs.
    pub fn context(&self, costs: Costs) -> Arc<dyn Device> {
        let engine = Arc::clone(&self.engine);
        let context = engine.slices().add_context();
        let stream = move |inner| -> Box<dyn Stream> {
            let (engine, works) = (Arc::clone(&engine), VecDeque::new());
            Box::new(BusyStream { inner, engine, costs, context, works })
        };
        Wrapped::new(&self.inner).called("busy").with_streams(stream).into_device()
    }

    /// Nanoseconds of kernels so far, by context in the order of [`BusyDevice::context`].
    pub fn busy_ns(&self) -> Vec<u64> {
        let now = self.engine.now();
        let mut slices = self.engine.slices();
        slices.advance(now);
        slices.busy_ns()
    }
}

struct BusyStream {
    inner: Box<dyn Stream>,
    engine: Arc<Engine>,
    costs: Costs,
    context: usize,
    works: VecDeque<Timed>,
}

/// A work in flight.
struct Timed {
    /// Its kernels, if it has any.
    job: Option<JobId>,
    /// When the copies before its kernels end, or all of it without kernels.
    ready_ns: u64,
    /// How long the copies after them take.
    back_ns: u64,
}

impl BusyStream {
    /// When a work in flight ends, as far as known by `now_ns`.
    fn end_of(&self, work: &Timed, now_ns: u64) -> Option<u64> {
        let Some(job) = work.job else { return Some(work.ready_ns + work.back_ns) };
        let mut slices = self.engine.slices();
        slices.advance(now_ns);
        slices.end_of(job).map(|end_ns| end_ns + work.back_ns)
    }
}

impl Stream for BusyStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let now_ns = self.engine.now();
        let of_items = |each_ns: f64| (each_ns * work.items as f64) as u64;
        let copies = |is_there: bool| {
            work.steps.iter().any(|step| match step {
                Step::CopyIn { .. } | Step::RowsIn { .. } => is_there,
                Step::CopyOut { .. } | Step::RowsOut { .. } => !is_there,
                Step::Call(_) => false,
            })
        };
        let there_ns = if copies(true) { of_items(self.costs.there_ns) } else { 0 };
        let back_ns = if copies(false) { of_items(self.costs.back_ns) } else { 0 };
        let has_kernels = work.items > 0 && work.steps.iter().any(Step::is_call);
        let kernel_ns = has_kernels.then(|| of_items(self.costs.kernel_ns));
        let ready_ns = now_ns + there_ns;
        self.inner.submit(work)?;
        let add = |takes_ns| self.engine.slices().add(self.context, now_ns, ready_ns, takes_ns);
        self.works.push_back(Timed { job: kernel_ns.map(add), ready_ns, back_ns });
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        let now_ns = self.engine.now();
        let oldest = self.works.front()?;
        self.end_of(oldest, now_ns).filter(|&end_ns| end_ns <= now_ns)?;
        let done = self.inner.poll()?;
        if let Some(Timed { job: Some(job), .. }) = self.works.pop_front() {
            self.engine.slices().forget(job);
        }
        Some(done)
    }

    fn in_flight(&self) -> usize {
        self.works.len()
    }
}
