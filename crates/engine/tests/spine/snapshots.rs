//! Counts of a running chain: they grow, never exceed what was read, and end as the report has
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpline_engine::stats::Packets;
use warpline_engine::{Control, Ports, Settings, run};
use warpline_io::{Frame, NullSink, Sink, SinkError, Unwritten};

use crate::common::frames::Traffic;
use crate::common::ports::Frames;
use crate::common::{Spec, deploy};

struct Stop<'a>(&'a Control);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn snapshots_grow_and_end_as_the_report() {
    let inputs = Traffic::new(31, 50, 5, 600).take(500);
    for lanes in [1, 3] {
        let deployment = deploy(&[Spec::ThreePhase { launch: 0 }, Spec::EmitAbsorb]);
        let control = Arc::new(Control::default());
        let source = Frames { endless: true, ..Frames::new(&inputs) };
        let settings = Settings { lanes, ..Settings::default() };
        let (report, last) = thread::scope(|scope| {
            // Also after a panic.
            let _stop = Stop(&control);
            let ports = Ports::Shared(Box::new(source), Box::new(NullSink));
            let (own, of_run) = (&deployment, Arc::clone(&control));
            let running = scope.spawn(move || run(own, &settings, ports, &of_run));
            let mut before = Packets::default();
            while control.snapshot(&deployment).report.part.packets.ended() == 0 {
                thread::yield_now();
            }
            for _ in 0..20 {
                let report = control.snapshot(&deployment).report;
                assert!(report.is_running);
                let packets = report.part.packets;
                assert!(packets.balanced(), "{packets:?}");
                assert!(packets.read >= before.read && packets.ended() >= before.ended());
                let function = &report.part.functions[0];
                assert!(
                    function.packets_in <= control.snapshot(&deployment).report.part.packets.read
                );
                before = packets;
            }
            assert!(before.ended() > 0, "{before:?}");
            control.stop();
            let report = running.join().expect("a run").expect("a chain that starts");
            (report, control.snapshot(&deployment).report)
        });
        assert_eq!(last.part.packets, report.part.packets);
        let seen = |report: &warpline_engine::Report| -> Vec<u64> {
            report.part.functions.iter().map(|function| function.packets_in).collect()
        };
        assert_eq!(seen(&last), seen(&report));
        assert!(control.has_ended());
    }
}

/// Takes all frames, and loses those that it has so far once they are 100.
#[derive(Default)]
struct Losing {
    taken: u64,
    lost: Arc<AtomicU64>,
}

impl Sink for Losing {
    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        self.taken += 1;
        if self.taken == 100 {
            self.lost.store(self.taken, Ordering::Relaxed);
        }
        Ok(())
    }

    fn unwritten(&self) -> Unwritten {
        let mut all = Unwritten::default();
        (0..self.lost.load(Ordering::Relaxed)).for_each(|_| all.add(0, 60));
        all
    }
}

#[test]
fn a_running_chain_shows_frames_that_its_output_lost_later() {
    let inputs = Traffic::new(31, 50, 5, 600).take(500);
    let (deployment, control) = (deploy(&[]), Arc::new(Control::default()));
    let source = Frames { endless: true, ..Frames::new(&inputs) };
    let report = thread::scope(|scope| {
        let _stop = Stop(&control);
        let ports = Ports::Shared(Box::new(source), Box::new(Losing::default()));
        let (own, of_run) = (&deployment, Arc::clone(&control));
        let running = scope.spawn(move || run(own, &Settings::default(), ports, &of_run));
        let packets = || control.snapshot(&deployment).report.part.packets;
        let mut sent = 0;
        while packets().unwritten < 100 {
            let now = packets();
            assert!(now.balanced() && now.sent >= sent && !running.is_finished(), "{now:?}");
            assert!(now.sent < 20_000_000, "the loss is not shown");
            sent = now.sent;
        }
        control.stop();
        running.join().expect("a run").expect("a chain that starts")
    });
    let packets = &report.part.packets;
    assert!(packets.unwritten == 100 && packets.balanced(), "{packets:?}");
}

/// Takes a while for each frame.
struct Slow;

impl Sink for Slow {
    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        thread::sleep(Duration::from_micros(100));
        Ok(())
    }
}

/// The lanes' queues are never empty before it.
#[test]
fn a_slow_output_delays_no_counts() {
    let inputs = Traffic::new(31, 50, 5, 600).take(500);
    let (deployment, control) = (deploy(&[]), Arc::new(Control::default()));
    let source = Frames { endless: true, ..Frames::new(&inputs) };
    thread::scope(|scope| {
        let _stop = Stop(&control);
        let ports = Ports::Shared(Box::new(source), Box::new(Slow));
        let (own, of_run) = (&deployment, Arc::clone(&control));
        scope.spawn(move || run(own, &Settings::default(), ports, &of_run));
        let (begun, mut sent) = (Instant::now(), 0);
        for _ in 0..3 {
            let before = sent;
            while sent == before {
                assert!(begun.elapsed() < Duration::from_secs(30), "the sender answers");
                sent = control.snapshot(&deployment).report.part.packets.sent;
            }
        }
        control.abort();
    });
}
