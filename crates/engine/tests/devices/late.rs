//! Launches that are given up and done all the same, later: nothing that anybody uses may change by them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use warpline_device::{
    Buffer, Description, Device, Done, Failure, HostMemory, Module, Refused, Region, Source,
    Stream, Work,
};
use warpline_engine::{LaunchOptions, Settings};

use crate::common::real::{forms, run_forms, traffic};
use crate::common::run::{assert_same, run_whole};
use crate::common::talk::Talk;
use crate::failures::loading;
use crate::placed::{chain_on, host, told};

/// A device that begins works later, by their numbers over all streams.
struct Late {
    inner: Arc<dyn Device>,
    submitted: Arc<AtomicU64>,
    delays: Arc<[(u64, Duration)]>,
}

struct LateStream {
    jobs: Sender<(Work, Duration)>,
    done: Receiver<Done>,
    in_flight: usize,
    submitted: Arc<AtomicU64>,
    delays: Arc<[(u64, Duration)]>,
}

impl Device for Late {
    fn description(&self) -> &Description {
        self.inner.description()
    }
    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        self.inner.compile(source)
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.inner.allocate(bytes)
    }
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        self.inner.register(memory)
    }
    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let mut inner = self.inner.stream()?;
        let (jobs, queue) = channel::<(Work, Duration)>();
        let (back, done) = channel();
        std::thread::spawn(move || {
            while let Ok((work, delay)) = queue.recv() {
                std::thread::sleep(delay);
                inner.submit(work).expect("a work that is taken");
                let _ = back.send(inner.wait().expect("a work that ends"));
            }
        });
        let (submitted, delays) = (Arc::clone(&self.submitted), Arc::clone(&self.delays));
        Ok(Box::new(LateStream { jobs, done, in_flight: 0, submitted, delays }))
    }
}

impl Stream for LateStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let delay = self.delays.iter().find(|(own, _)| *own == number);
        let delay = delay.map_or(Duration::ZERO, |(_, delay)| *delay);
        self.jobs.send((work, delay)).expect("a thread that waits");
        self.in_flight += 1;
        Ok(())
    }
    fn poll(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.in_flight -= 1;
        Some(done)
    }
    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// The first work of the first stage is given up. The packets go on to another stage on the same device, whose copy back
/// would be late enough to meet what the first does then.
#[test]
fn what_was_given_up_changes_nothing_when_it_is_done_later() {
    let Some(inner) = host() else { return };
    let forms = forms(&["digest-count", "monitor", "router-plain"]);
    let inputs = traffic(&forms, Talk::new(5, 4, 300).take(60), 7, 0);
    let settings = Settings { lanes: 1, ..Settings::default() };
    let reference = run_forms(&forms, settings, &inputs).summary();
    let first = loading(&forms);
    let delays = [(first, 450), (first + 2, 250)];
    let delays = delays.map(|(number, ms)| (number, Duration::from_millis(ms)));
    let device: Arc<dyn Device> =
        Arc::new(Late { inner, submitted: Arc::default(), delays: delays.into() });
    let launches =
        LaunchOptions { timeout: Duration::from_millis(300), ..LaunchOptions::default() };
    let outcome = run_whole(chain_on(&forms, &device, launches), settings, &inputs);
    assert_eq!(told(&outcome).len(), 1, "{:?}", told(&outcome));
    assert_same(&reference, &outcome.summary(), "late");
}
