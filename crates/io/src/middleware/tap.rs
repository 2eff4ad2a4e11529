//! A tap: every frame that passes is also written to a sink.

use core::time::Duration;
use std::os::fd::RawFd;
use std::time::Instant as Clock;

use warpline_packet::Instant;

use crate::port::{
    Burst, Frame, Given, InterfaceNames, Live, Next, Sink, SinkError, Source, SourceError, Wrap,
};

/// How often frames of interfaces are handed on.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// A source whose frames are copied to a sink on their way.
///
/// Traffic matters more than its copy: when the sink fails, the tap ends, frames continue to pass,
/// and [`Source::finish`] reports the failure. [`Source::warnings`] report a reader that went away,
/// and frames that don't suit the sink. The sink is flushed when the source ends, and when the tap
/// is dropped before that.
pub struct Tap<S: Source> {
    source: S,
    copy: Copy,
}

struct Copy {
    /// Gone once it failed.
    sink: Option<Box<dyn Sink>>,
    written: u64,
    unsuitable: u64,
    /// Why the first unsuitable frame was that.
    why_unsuitable: &'static str,
    failure: Option<String>,
    /// Whether it is a failure of the run.
    is_error: bool,
    /// When frames of interfaces were handed on last.
    flushed: Clock,
}

impl<S: Source> Tap<S> {
    /// Copies what `source` gives to `sink`.
    pub fn new(source: S, sink: Box<dyn Sink>) -> Self {
        let sink = Some(sink);
        let copy = Copy {
            sink,
            written: 0,
            unsuitable: 0,
            why_unsuitable: "",
            failure: None,
            is_error: false,
            flushed: Clock::now(),
        };
        Self { source, copy }
    }

    /// Frames written to the sink so far.
    pub fn written(&self) -> u64 {
        self.copy.written
    }
}

impl<S: Source> Source for Tap<S> {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let next = self.source.next();
        match &next {
            Ok(Next::Frame(frame)) => self.copy.write(frame),
            Ok(Next::Idle(_)) => {}
            Ok(Next::End) | Err(_) => self.copy.flush(),
        }
        next
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let given = self.source.burst(burst);
        match given {
            Ok(Given::Frames) => burst.frames().iter().for_each(|frame| self.copy.write(frame)),
            Ok(Given::Idle(_)) => {}
            Ok(Given::End) | Err(_) => self.copy.flush(),
        }
        given
    }

    fn warnings(&self) -> Vec<String> {
        let Copy { sink, unsuitable, why_unsuitable, failure, .. } = &self.copy;
        let mut warnings = self.source.warnings();
        let lost = sink.as_ref().map_or(0, |sink| sink.unwritten().frames());
        let left_out = unsuitable + lost;
        if left_out > 0 {
            let why = if *unsuitable > 0 { why_unsuitable } else { "writing failed" };
            warnings.push(format!("tap: {left_out} frames were left out: {why}"));
        }
        warnings.extend(failure.clone().filter(|_| !self.copy.is_error));
        warnings
    }

    fn finish(&mut self) -> Vec<String> {
        let mut errors = self.source.finish();
        self.copy.close();
        errors.extend(self.copy.failure.clone().filter(|_| self.copy.is_error));
        errors
    }

    fn drops_when_full(&self) -> bool {
        self.source.drops_when_full()
    }

    fn loses_when_full(&self) -> bool {
        self.source.loses_when_full()
    }

    fn is_paced(&self) -> bool {
        self.source.is_paced()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.source.take_lost(lost);
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        if self.source.live().is_some() { Some(self) } else { None }
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn interfaces(&self) -> InterfaceNames {
        self.source.interfaces()
    }

    fn wrap_unpaced(&mut self, wrap: &mut Wrap<'_>) -> bool {
        self.source.wrap_unpaced(wrap)
    }
}

impl<S: Source> Live for Tap<S> {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        self.source.live().into_iter().for_each(|live| live.descriptors(all));
    }

    fn now(&mut self) -> Instant {
        self.source.live().map_or(Instant::ZERO, |live| live.now())
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.source.live().into_iter().for_each(|live| live.losses(lost));
    }

    fn emptied(&mut self) -> u64 {
        self.source.live().map_or(0, |live| live.emptied())
    }

    /// Frames of interfaces also go on now: no later ones may come.
    fn events(&mut self, report: &mut dyn FnMut(String)) {
        self.source.live().into_iter().for_each(|live| live.events(report));
        if self.copy.flushed.elapsed() >= FLUSH_EVERY {
            self.copy.flushed = Clock::now();
            self.copy.flush();
            self.copy.sink.iter_mut().for_each(|sink| sink.events(report));
        }
    }
}

impl Copy {
    fn write(&mut self, frame: &Frame<'_>) {
        let Some(sink) = &mut self.sink else { return };
        match sink.send(frame) {
            Ok(()) => self.written += 1,
            Err(SinkError::Unsuitable(why)) => {
                if self.unsuitable == 0 {
                    self.why_unsuitable = why;
                }
                self.unsuitable += 1;
            }
            Err(error) => self.fail(&error),
        }
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.flush()) {
            self.fail(&error);
        }
    }

    fn close(&mut self) {
        if let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.close()) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &SinkError) {
        let Some(sink) = self.sink.take() else { return };
        self.is_error = !matches!(error, SinkError::Closed);
        self.written -= sink.unwritten().frames();
        self.failure = Some(format!("tap: ended after {} frames: {error}", self.written));
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.flush();
    }
}
