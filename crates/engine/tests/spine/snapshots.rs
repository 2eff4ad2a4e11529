//! Counts of a running chain: they grow, never exceed what was read, and end as the report has
//! them.

use std::sync::Arc;
use std::thread;

use warpline_engine::stats::Packets;
use warpline_engine::{Control, Ports, Settings, run};

use warpline_io::NullSink;

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
