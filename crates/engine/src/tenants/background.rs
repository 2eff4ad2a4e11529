//! Synthetic work of a tenant that has no chain: what the vGPU study's other virtual machines do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use warpline_device::{Device, Failure, Matmul, Stream, Work};

/// The shortest launch. Shorter ones would measure the cost of submitting.
const LAUNCH_MIN: Duration = Duration::from_micros(500);
const ELEMENTS_MAX: u32 = 1 << 24;
const POLL_EVERY: Duration = Duration::from_micros(20);

/// A thread that multiplies matrices on a device, one launch after the other, until it is stopped
/// or the device fails.
pub struct Background {
    stop: Arc<AtomicBool>,
    launches: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Background {
    /// Starts it on `device`.
    ///
    /// # Errors
    /// The device's, or the operating system gives no thread.
    pub fn start(device: Arc<dyn Device>) -> Result<Self, Failure> {
        let (stop, launches) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let matmul = Matmul::new(&*device)?;
        let mut work = Worker {
            stream: device.stream()?,
            matmul,
            stop: Arc::clone(&stop),
            launches: Arc::clone(&launches),
        };
        let fill = work.matmul.fill(&*device)?;
        work.finish(fill)?;
        let run = move || work.run();
        let thread = thread::Builder::new().name("background".into()).spawn(run);
        let none = |error| Failure::Work(format!("cannot spawn thread: {error}"));
        Ok(Self { stop, launches, thread: Some(thread.map_err(none)?) })
    }

    /// Launches that ended so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Stops it.
    ///
    /// # Errors
    /// The device failed before.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let panicked = || Failure::Work("the thread of background work failed".into());
        thread.join().unwrap_or_else(|_| Err(panicked()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Worker {
    stream: Box<dyn Stream>,
    matmul: Matmul,
    stop: Arc<AtomicBool>,
    launches: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self) -> Result<(), Failure> {
        let mut elements = 256;
        while !self.stop.load(Ordering::Relaxed) {
            let work =
                Work { items: 1, ..Work::new(Vec::new(), vec![self.matmul.step(elements)?]) };
            let Some(took) = self.finish(work)? else { break };
            self.launches.fetch_add(1, Ordering::Relaxed);
            if took < LAUNCH_MIN && elements < ELEMENTS_MAX {
                elements *= 2;
            }
        }
        Ok(())
    }

    /// Waits for `work` and gives the time since its turn came; `None` if it was stopped before.
    fn finish(&mut self, work: Work) -> Result<Option<Duration>, Failure> {
        self.stream.submit(work).map_err(|refused| refused.why)?;
        let mut since = Instant::now();
        loop {
            if let Some(done) = self.stream.poll() {
                return done.outcome.map(|()| Some(since.elapsed()));
            }
            if self.stream.is_waiting() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                since = Instant::now();
            }
            thread::sleep(POLL_EVERY);
        }
    }
}
