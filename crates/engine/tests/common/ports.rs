//! Sources and sinks in memory, patient, hurried, slow and broken.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpline_io::{Frame, Next, Sink, SinkError, Source, SourceError};
use warpline_packet::{Instant, LinkType};

use super::frames::Input;

/// The final message of sources of tests.
pub(crate) const LAST_WORDS: &str = "the source's last words";

/// Gives frames that it has.
#[derive(Clone, Default)]
pub(crate) struct Frames {
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) next: usize,
    /// Returns `Idle` before every frame whose place this divides.
    pub(crate) idle_every: usize,
    pub(crate) said_idle: bool,
    pub(crate) drops_when_full: bool,
    /// Fails in the place of this frame.
    pub(crate) fails_at: Option<usize>,
    /// Panics in the place of this frame.
    pub(crate) panics_at: Option<usize>,
    /// Begins anew instead of ending.
    pub(crate) endless: bool,
}

impl Frames {
    pub(crate) fn new(inputs: &[Input]) -> Self {
        Self { inputs: Arc::new(inputs.to_vec()), ..Self::default() }
    }
}

impl Source for Frames {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.idle_every > 0 && self.next.is_multiple_of(self.idle_every) && !self.said_idle {
            self.said_idle = true;
            return Ok(Next::Idle(Duration::from_micros(50)));
        }
        self.said_idle = false;
        if self.endless && self.next == self.inputs.len() {
            self.next = 0;
        }
        if self.fails_at == Some(self.next) {
            (self.fails_at, self.next) = (None, self.inputs.len());
            return Err(SourceError::Io(io::Error::other("the disk is gone")));
        }
        assert!(self.panics_at != Some(self.next), "the source panics");
        let Some(input) = self.inputs.get(self.next) else { return Ok(Next::End) };
        self.next += 1;
        Ok(Next::Frame(Frame {
            bytes: &input.bytes,
            timestamp: Instant::from_nanos(input.nanos),
            wire_len: input.wire_len,
            link: input.link,
            interface: input.interface,
        }))
    }

    fn warnings(&self) -> Vec<String> {
        vec![LAST_WORDS.into()]
    }

    fn drops_when_full(&self) -> bool {
        self.drops_when_full
    }
}

/// A frame as a sink got it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) nanos: u64,
    pub(crate) wire_len: u32,
    pub(crate) link: LinkType,
    pub(crate) interface: u16,
}

impl From<&Frame<'_>> for Sent {
    fn from(frame: &Frame<'_>) -> Self {
        Self {
            bytes: frame.bytes.to_vec(),
            nanos: frame.timestamp.as_nanos(),
            wire_len: frame.wire_len,
            link: frame.link,
            interface: frame.interface,
        }
    }
}

impl From<Sent> for Input {
    fn from(sent: Sent) -> Self {
        let Sent { bytes, nanos, wire_len, link, interface } = sent;
        Self { bytes, nanos, wire_len, link, interface }
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flow = super::frames::flow_of(&self.bytes);
        write!(f, "({} bytes, {} ns, {flow:?})", self.bytes.len(), self.nanos)
    }
}

/// How a sink fails from some frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Closed,
    Io,
    /// With every second frame.
    Unsuitable,
    Panic,
}

/// Packets that were dropped, each with its cause.
pub(crate) type Dropped = Arc<Mutex<Vec<(Sent, String)>>>;

/// Keeps frames where a test can see them.
#[derive(Clone, Default)]
pub(crate) struct SentFrames {
    pub(crate) sent: Arc<Mutex<Vec<Sent>>>,
    /// Packets that were not sent, and why, if it asks for those.
    pub(crate) dropped: Option<Dropped>,
    pub(crate) closed: Arc<Mutex<u32>>,
    pub(crate) fails: Option<(usize, Failure)>,
    pub(crate) close_fails: bool,
    /// Frames that were handed on.
    pub(crate) flushed: Arc<AtomicUsize>,
    pub(crate) taken: usize,
    /// Sleeps this long at every 64th frame.
    pub(crate) slow: Duration,
}

impl Sink for SentFrames {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.taken += 1;
        if !self.slow.is_zero() && self.taken.is_multiple_of(64) {
            std::thread::sleep(self.slow);
        }
        match self.fails {
            Some((at, Failure::Closed)) if self.taken > at => return Err(SinkError::Closed),
            Some((at, Failure::Io)) if self.taken > at => {
                return Err(SinkError::Io(io::Error::other("no space left")));
            }
            Some((at, Failure::Unsuitable)) if self.taken > at && self.taken.is_multiple_of(2) => {
                return Err(SinkError::Unsuitable("another link type"));
            }
            Some((at, Failure::Panic)) if self.taken > at => panic!("the sink panics"),
            _ => {}
        }
        self.sent.lock().expect("sent").push(Sent::from(frame));
        Ok(())
    }

    fn wants_dropped(&self) -> bool {
        self.dropped.is_some()
    }

    fn dropped(&mut self, frame: &Frame<'_>, why: &str) -> Result<(), SinkError> {
        let all = self.dropped.iter();
        all.for_each(|all| all.lock().expect("dropped").push((Sent::from(frame), why.into())));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.flushed.store(self.taken, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        *self.closed.lock().expect("closed") += 1;
        if self.close_fails {
            return Err(SinkError::Io(io::Error::other("no space left")));
        }
        Ok(())
    }
}
