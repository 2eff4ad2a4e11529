//! Several sinks as one: each frame goes to the sink of the port by which it leaves.

use crate::neighbours::NeighbourTable;
use crate::port::{Frame, NullSink, Sink, SinkError, Unwritten};

/// Sinks of ports. Ports without one of their own share a sink.
///
/// A packet that was dropped is shown to the sink of the port that it came by. If one sink fails or
/// closes, all count as failed or closed.
pub struct PortSinks {
    /// The shared one, then those of single ports.
    sinks: Vec<Box<dyn Sink>>,
    /// By port, the place of its sink.
    of_port: Vec<usize>,
    neighbours: Option<NeighbourTable>,
}

impl PortSinks {
    /// By port its own sink if it has one; `shared` gets the frames of the others.
    pub fn new(
        shared: Box<dyn Sink>,
        own: impl IntoIterator<Item = Option<Box<dyn Sink>>>,
    ) -> Self {
        let (mut sinks, mut of_port) = (vec![shared], Vec::new());
        for sink in own {
            of_port.push(if sink.is_some() { sinks.len() } else { 0 });
            sinks.extend(sink);
        }
        // No port's frames go there.
        if !of_port.contains(&0) {
            sinks[0] = Box::new(NullSink);
        }
        Self { sinks, of_port, neighbours: None }
    }

    /// The same, with neighbours on ports that forward by routes.
    #[must_use]
    pub fn with_neighbours(self, neighbours: Option<NeighbourTable>) -> Self {
        Self { neighbours, ..self }
    }

    fn at(&self, port: u16) -> usize {
        self.of_port.get(usize::from(port)).copied().unwrap_or(0)
    }

    fn each(
        &mut self,
        work: impl Fn(&mut dyn Sink) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        let done: Vec<_> = self.sinks.iter_mut().map(|sink| work(&mut **sink)).collect();
        done.into_iter().collect()
    }
}

impl Sink for PortSinks {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        let at = self.at(frame.interface);
        self.sinks[at].send(frame)
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        let mut taken = 0;
        while let Some(first) = frames.get(taken) {
            let at = self.at(first.interface);
            let same = frames[taken..].iter().take_while(|frame| self.at(frame.interface) == at);
            let run = taken..taken + same.count();
            let (count, outcome) = self.sinks[at].send_burst(&frames[run]);
            taken += count;
            if outcome.is_err() {
                return (taken, outcome);
            }
        }
        (taken, Ok(()))
    }

    fn wants_frames(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_frames())
    }

    fn may_wait(&self) -> bool {
        self.sinks.iter().any(|sink| sink.may_wait())
    }

    fn wants_frames_of(&self, port: u16) -> bool {
        self.sinks[self.at(port)].wants_frames()
    }

    fn take_neighbours(&mut self) -> Option<NeighbourTable> {
        self.neighbours.take()
    }

    fn wants_dropped(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_dropped())
    }

    fn dropped(&mut self, frame: &Frame<'_>, why: &str) -> Result<(), SinkError> {
        let at = self.at(frame.interface);
        self.sinks[at].dropped(frame, why)
    }

    fn unwritten(&self) -> Unwritten {
        let mut all = Unwritten::default();
        self.sinks.iter().for_each(|sink| all.merge(&sink.unwritten()));
        all
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        self.sinks.iter_mut().for_each(|sink| sink.events(report));
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.each(|sink| sink.flush())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.each(|sink| sink.close())
    }
}
