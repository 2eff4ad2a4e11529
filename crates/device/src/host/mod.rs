//! The reference device: the portable kernel text compiled by the system's C compiler and run on
//! the CPU.
//!
//! One thread does the work of all streams in the order of submission, group after group and,
//! within a block of ITEMS, item after item. Its purpose is to be right, not fast. A kernel that
//! does not end blocks the thread permanently, but not the program.

mod compiler;
mod scratch;

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

pub use compiler::Compiler;

use crate::device::next_number;
use crate::sys::c_library::CLibrary;
use crate::sys::host_memory;
use crate::{
    Buffer, Description, Device, Done, Failure, HostMemory, Missing, Module, Refused, Region,
    Source, Step, Stream, Work,
};

/// The reference device.
pub struct Host {
    number: u64,
    description: Description,
    compiler: Compiler,
    jobs: Mutex<Sender<Job>>,
}

/// Work on its way to the thread, and where it goes afterwards.
struct Job {
    work: Work,
    back: Sender<Done>,
}

impl Host {
    /// Looks for a compiler and starts the thread.
    ///
    /// # Errors
    /// There is no compiler, or the system gives no thread.
    pub fn open() -> Result<Self, Missing> {
        Self::with(Compiler::find()?)
    }

    /// Starts the thread; kernels are compiled by `compiler`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn with(compiler: Compiler) -> Result<Self, Missing> {
        let (jobs, queue) = channel();
        thread::Builder::new()
            .name("warpline-host".into())
            .spawn(move || work_off(&queue))
            .map_err(|error| Missing(format!("no thread for the host device: {error}")))?;
        let description = describe(&compiler);
        Ok(Self { number: next_number(), description, compiler, jobs: Mutex::new(jobs) })
    }
}

impl Device for Host {
    fn description(&self) -> &Description {
        &self.description
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        let library = self.compiler.library(source)?;
        Ok(Module {
            device: self.number,
            kernels: Arc::clone(source.kernels()),
            loaded: Arc::new(library),
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        let memory = host_memory::heap_buffer(bytes)?;
        Ok(Buffer::new(self.number, bytes, memory))
    }

    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        Ok(Region::new(memory, None).in_place_for(self.number))
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let (back, done) = channel();
        let jobs = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Ok(Box::new(HostStream { number: self.number, jobs, back, done, in_flight: 0 }))
    }
}

struct HostStream {
    number: u64,
    jobs: Sender<Job>,
    back: Sender<Done>,
    done: Receiver<Done>,
    in_flight: usize,
}

impl Stream for HostStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        if let Err(why) = work.check(self.number, true) {
            return Err(Refused { work, why });
        }
        match self.jobs.send(Job { work, back: self.back.clone() }) {
            Ok(()) => self.in_flight += 1,
            Err(failed) => {
                let why = Failure::Lost("its thread has ended".into());
                return Err(Refused { work: failed.0.work, why });
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Done> {
        match self.done.try_recv() {
            Ok(done) => {
                self.in_flight -= 1;
                Some(done)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// The thread. It ends when the device and all its streams are gone.
fn work_off(queue: &Receiver<Job>) {
    while let Ok(Job { mut work, back }) = queue.recv() {
        let outcome = do_all(&mut work);
        // A stream that was dropped needs no result.
        let _ = back.send(Done { work, outcome });
    }
}

fn do_all(work: &mut Work) -> Result<(), Failure> {
    let Work { pieces, steps, .. } = work;
    for step in steps {
        match step {
            Step::CopyIn { from, to } => {
                host_memory::copy_in(&pieces[from.piece][from.range.clone()], to)
            }
            Step::CopyOut { from, to } => {
                host_memory::copy_out(from, &mut pieces[to.piece][to.range.clone()])
            }
            Step::RowsIn { from, to, rows } => {
                let piece = &pieces[from.piece][from.range.clone()];
                rows.each(to.len())
                    .for_each(|row| host_memory::copy_in(&piece[row.clone()], &to.part(row)));
            }
            Step::RowsOut { from, to, rows } => {
                let piece = &mut pieces[to.piece][to.range.clone()];
                rows.each(from.len()).for_each(|row| {
                    host_memory::copy_out(&from.part(row.clone()), &mut piece[row])
                });
            }
            Step::Call(call) => match call.kernel.module.loaded.downcast_ref::<CLibrary>() {
                Some(library) => library.run(call, pieces),
                None => return Err(Failure::Work("the module is none of the host's".into())),
            },
        }
    }
    Ok(())
}

fn describe(compiler: &Compiler) -> Description {
    let memory = memory_bytes();
    Description {
        id: "host".into(),
        name: "reference device on the CPU".into(),
        driver: compiler.version().into(),
        memory,
        buffer_max: memory,
        units: 1,
        group_max: 4096,
        shared: 1 << 20,
        shares_host_memory: true,
        reaches_host_memory: true,
        runs_on_cpu: true,
        has_graphs: false,
        bus: None,
        uuid: None,
    }
}

/// The machine's memory; 0 if the system does not report it.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
