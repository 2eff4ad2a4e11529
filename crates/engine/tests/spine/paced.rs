//! Sources in real time: a reader waits for several packets, and a ring keeps those without room.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpline_engine::{Chain, Control, Deployment, Ports, Report, Settings, run};
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{Frame, NullSink, Sink, SinkError};

use crate::common::run::in_time;

/// Takes no frame for a while at first.
struct Late(Duration);

impl Sink for Late {
    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        thread::sleep(std::mem::take(&mut self.0));
        Ok(())
    }
}

/// Half a million packets a second through a chain without functions.
fn run_paced(settings: &str, sink: impl Sink + 'static) -> Report {
    let config = format!("packets=100000,size=64,rate_gbps=0.256,{settings}");
    let source = Generator::new(GeneratorConfig::parse(&config).expect("good settings"));
    let chain = Chain::new("empty", Vec::new(), 0).expect("a chain");
    let deployment = Deployment::new(Arc::new(chain), Vec::new());
    let ports = Ports::Shared(Box::new(source), Box::new(sink));
    let work = move || run(&deployment, &Settings::default(), ports, &Control::default());
    in_time(work).expect("it runs")
}

#[test]
fn a_reader_waits_for_several_packets() {
    let part = run_paced("on_full=wait", NullSink).part;
    assert_eq!((part.packets.read, part.packets.absorbed), (100_000, 100_000));
    // A reader that looks all the time has a batch for some few packets. A busy machine only makes
    // batches larger.
    assert!(part.batches > 0 && part.batches * 12 < 100_000, "{} batches", part.batches);
}

#[test]
fn frames_beyond_the_ring_are_counted() {
    let part = run_paced("on_full=drop,ring=64", Late(Duration::from_millis(100))).part;
    let packets = &part.packets;
    assert!(packets.read == 100_000 && packets.balanced(), "{packets:?}");
    // 50,000 packets come meanwhile, and the queues hold some thousands.
    assert!(packets.overload > 20_000, "{packets:?}");
    let queues: Vec<_> = part.overload.keys().collect();
    assert_eq!(queues, [&"ring"]);
    let part = run_paced("on_full=wait,ring=64", Late(Duration::from_millis(100))).part;
    assert_eq!((part.packets.sent, part.packets.overload), (100_000, 0));
}
