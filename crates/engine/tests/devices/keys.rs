//! Tables on a device may hold keys: nothing of them is left when a chain is gone.

use std::sync::{Arc, Mutex};

use warpline_device::{Device, Done, Part, Refused, Slice, Step, Stream, Work, Wrapped};
use warpline_engine::{LaunchOptions, Settings};

use crate::common::real::{forms, traffic};
use crate::common::run::run_whole;
use crate::common::talk::Talk;
use crate::failures::loading;
use crate::placed::{deploy_on, devices};

#[derive(Default)]
struct WorkLog {
    works: u64,
    copied: Vec<(Slice, Vec<u8>)>,
}

/// A stream that keeps what was copied by its device's first works: the memory outlives its owners.
struct KeepingStream {
    inner: Box<dyn Stream>,
    /// How many works are kept.
    first: u64,
    kept: Arc<Mutex<WorkLog>>,
}

impl Stream for KeepingStream {
    fn submit(&mut self, work: Work) -> Result<(), Refused> {
        let mut kept = self.kept.lock().expect("kept");
        let is_launch = work.steps.iter().any(|step| matches!(step, Step::Call(_)));
        if kept.works < self.first && !is_launch {
            for step in &work.steps {
                if let Step::CopyIn { from, to } = step {
                    let bytes = work.pieces[from.piece][from.range.clone()].to_vec();
                    kept.copied.push((to.clone(), bytes));
                }
            }
        }
        kept.works += 1;
        self.inner.submit(work)
    }
    fn poll(&mut self) -> Option<Done> {
        self.inner.poll()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

fn read(device: &dyn Device, from: Slice) -> Vec<u8> {
    let len = from.len();
    let pieces = vec![device.host_memory(len).expect("memory")];
    let to = Part { piece: 0, range: 0..len };
    let mut stream = device.stream().expect("a stream");
    let work = Work::new(pieces, vec![Step::CopyOut { from, to }]);
    assert!(stream.submit(work).is_ok());
    let done = stream.wait().expect("a work that ends");
    assert_eq!(done.outcome, Ok(()));
    done.work.pieces[0].to_vec()
}

#[test]
fn tables_are_zeroed_before_their_memory_is_given_back() {
    for inner in devices() {
        let forms = forms(&["seal", "router-plain"]);
        let kept: Arc<Mutex<WorkLog>> = Arc::default();
        let (first, keeper) = (loading(&forms), Arc::clone(&kept));
        let device = Wrapped::new(&inner).with_streams(move |inner| {
            Box::new(KeepingStream { inner, first, kept: Arc::clone(&keeper) })
        });
        let device = device.into_device();
        let inputs = traffic(&forms, Talk::new(5, 4, 300).take(60), 7, 0);
        run_whole(
            deploy_on(&forms, &device, LaunchOptions::default()),
            Settings::default(),
            &inputs,
        );
        let copied = std::mem::take(&mut kept.lock().expect("kept").copied);
        assert!(copied.len() > 4, "tables of both: {}", copied.len());
        assert!(copied.iter().any(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)));
        for (slice, bytes) in copied {
            let left = read(&*inner, slice);
            assert!(left.iter().all(|&byte| byte == 0), "of {} bytes", bytes.len());
        }
    }
}
