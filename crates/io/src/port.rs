//! The two traits of a port: where frames come from and where they go.
//!
//! A [`Source`] is pulled one frame at a time and is idle when there is none yet. A [`Sink`] takes
//! frames in the order in which they leave. Middleware (`tap`, `impair`) wraps a source and is one.
//! A source that reads a network interface is [`Live`], too.

use core::time::Duration;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrayvec::ArrayVec;
use warpline_packet::{Instant, LinkType};

use crate::neighbours::NeighbourTable;

/// Frames longer than this are cut, as libpcap's largest snap length (`MAXIMUM_SNAPLEN`) does.
pub const FRAME_LEN_MAX: usize = 262_144;

/// One frame, borrowed from its source until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The captured bytes, from the link header on; at most [`FRAME_LEN_MAX`].
    pub bytes: &'a [u8],
    /// When it was captured.
    pub timestamp: Instant,
    /// Its length on the wire in bytes; more than `bytes.len()` when the capture cut it.
    pub wire_len: u32,
    /// The type of the first header.
    pub link: LinkType,
    /// The interface it came in on, numbered from 0 over the whole source.
    pub interface: u16,
}

/// The next item of a source.
#[derive(Debug)]
pub enum Next<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// None for now; ask again after at most this long.
    Idle(Duration),
    /// No more, ever.
    End,
}

/// Most frames of a [`Burst`].
pub const BURST_MAX: usize = 32;

/// Frames that a source gives together, borrowed from it until the next call.
#[derive(Clone, Debug, Default)]
pub struct Burst<'a>(ArrayVec<Frame<'a>, BURST_MAX>);

impl<'a> Burst<'a> {
    /// None yet.
    pub const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// The frames.
    pub fn frames(&self) -> &[Frame<'a>] {
        &self.0
    }

    /// Takes a frame; returns whether there was room.
    #[inline]
    pub fn push(&mut self, frame: Frame<'a>) -> bool {
        self.0.try_push(frame).is_ok()
    }

    /// Takes all of `frames`, or none if there is no room; returns whether there was room.
    #[inline]
    pub fn copy(&mut self, frames: &[Frame<'a>]) -> bool {
        self.0.try_extend_from_slice(frames).is_ok()
    }

    /// Keeps the first `count` frames.
    pub fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    /// The frames, to change their metadata.
    pub fn frames_mut(&mut self) -> &mut [Frame<'a>] {
        &mut self.0
    }
}

/// The result of [`Source::burst`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Frames, at least one.
    Frames,
    /// None for now; ask again after at most this long.
    Idle(Duration),
    /// No more, ever.
    End,
}

/// Where frames come from.
pub trait Source: Send {
    /// The next frame. After `End` or an error every further call gives `End`.
    fn next(&mut self) -> Result<Next<'_>, SourceError>;

    /// The next frames, put into `burst`, which is empty: one, or as many as lie ready, of
    /// [`FRAME_LEN_MAX`] bytes together. A source that has many at once overrides it.
    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        Ok(match self.next()? {
            Next::Frame(frame) => {
                burst.push(frame);
                Given::Frames
            }
            Next::Idle(wait) => Given::Idle(wait),
            Next::End => Given::End,
        })
    }

    /// Warnings for the operator at the end, such as a capture cut short.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The last call: the source completes the files that it writes. Returns the failures, each of
    /// which makes the run fail.
    fn finish(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the source loses frames that are not taken at once (`on_full = "drop"`); one that
    /// can wait loses nothing.
    fn drops_when_full(&self) -> bool {
        false
    }

    /// Whether it loses frames if the receiver is too slow, at once or beyond a ring.
    fn loses_when_full(&self) -> bool {
        self.drops_when_full()
    }

    /// Whether frames come in real time. A reader then waits for several of them, as it does with
    /// interfaces.
    fn is_paced(&self) -> bool {
        false
    }

    /// Reports frames lost before the source could give them, by interface, since the last call.
    /// Those of interfaces are reported by [`Live::losses`].
    fn take_lost(&mut self, _lost: &mut dyn FnMut(u16, u64)) {}

    /// Its live part, if it reads network interfaces.
    fn live(&mut self) -> Option<&mut dyn Live> {
        None
    }

    /// The progress of the source, from 0 to 1, if it is known.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// The names of its interfaces, which may still become more while frames are pulled.
    fn interfaces(&self) -> InterfaceNames {
        InterfaceNames::default()
    }

    /// If frames wait here until they are due, puts middleware around the source that they come
    /// from, so that it sees them before they wait. Says whether it did.
    fn wrap_unpaced(&mut self, _wrap: &mut Wrap<'_>) -> bool {
        false
    }
}

/// The part of a source that reads network interfaces.
///
/// No end of the input is in sight, packets may be lost before the source sees them, and time
/// passes without packets.
pub trait Live {
    /// Adds descriptors that become readable when frames arrive. They stay valid as long as the
    /// source.
    fn descriptors(&mut self, all: &mut Vec<RawFd>);

    /// The time now, by the clock that stamps its frames.
    fn now(&mut self) -> Instant;

    /// Reports frames lost before the source could give them, by interface, since the last call.
    /// It may make a system call.
    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64));

    /// Reports events since the last call: a link that went down or came up. It may make system
    /// calls.
    fn events(&mut self, report: &mut dyn FnMut(String));

    /// Of the first 64 ports those that had no frame when they were last asked while others had
    /// some, a bit each.
    fn emptied(&mut self) -> u64 {
        0
    }
}

/// Puts middleware around a source.
pub type Wrap<'a> = dyn FnMut(Box<dyn Source>) -> Box<dyn Source> + 'a;

/// The names of a source's interfaces, by number. The source writes them, and a sink on another
/// thread reads them. An interface is listed before its first frame.
#[derive(Clone, Debug, Default)]
pub struct InterfaceNames(Arc<Mutex<Vec<Option<String>>>>);

impl InterfaceNames {
    /// The name of `interface`, where it has one.
    pub fn name(&self, interface: u16) -> Option<String> {
        self.lock().get(usize::from(interface)).cloned().flatten()
    }

    /// How many interfaces there are so far.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an interface is called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.lock().iter().any(|own| own.as_deref() == Some(name))
    }

    /// Adds the next interface.
    pub fn push(&self, name: Option<String>) {
        self.lock().push(name);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where frames go.
pub trait Sink: Send {
    /// Takes one frame.
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError>;

    /// Takes frames in their order, as [`Sink::send`] would, until one fails. Says how many it took
    /// before that. The `interface` of a frame is the port by which it leaves.
    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        for (taken, frame) in frames.iter().enumerate() {
            if let Err(error) = self.send(frame) {
                return (taken, Err(error));
            }
        }
        (frames.len(), Ok(()))
    }

    /// Whether it takes frames at all; otherwise it gets none.
    fn wants_frames(&self) -> bool {
        true
    }

    /// Whether it may wait for something before it has taken a frame: a disk, or a reader.
    fn may_wait(&self) -> bool {
        true
    }

    /// Whether it takes frames that leave by port `port`.
    fn wants_frames_of(&self, port: u16) -> bool {
        let _ = port;
        self.wants_frames()
    }

    /// The neighbours on its ports that forward by routes. The sender takes them once.
    fn take_neighbours(&mut self) -> Option<NeighbourTable> {
        None
    }

    /// Whether it also takes packets that are not sent, with the reason.
    fn wants_dropped(&self) -> bool {
        false
    }

    /// Shows it a packet that was not sent, in its place among those that are, and why it was not:
    /// as it was when the function got it that dropped it, where the chain keeps that.
    fn dropped(&mut self, _frame: &Frame<'_>, _why: &str) -> Result<(), SinkError> {
        Ok(())
    }

    /// Frames that it took and that never got to where they go, once that failed.
    fn unwritten(&self) -> Unwritten {
        Unwritten::default()
    }

    /// Reports events since the last call: captures that fail while the run continues.
    fn events(&mut self, _tell: &mut dyn FnMut(String)) {}

    /// Hands everything taken so far to the operating system.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Nothing more will come: flushes, and completes a file that got no frame.
    fn close(&mut self) -> Result<(), SinkError> {
        self.flush()
    }
}

/// See [`Sink::unwritten`]: frames by the port by which they left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwritten(Vec<FrameCount>);

/// A number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Unwritten {
    /// Counts a frame of `len` bytes.
    pub fn add(&mut self, port: u16, len: usize) {
        let count = self.at(port);
        count.frames += 1;
        count.bytes += len as u64;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (port, count) in other.by_port() {
            let own = self.at(port);
            own.frames += count.frames;
            own.bytes += count.bytes;
        }
    }

    /// Takes the counts of `other`, a part of these, away.
    pub fn subtract(&mut self, other: &Self) {
        for (port, count) in other.by_port() {
            let own = self.at(port);
            own.frames = own.frames.saturating_sub(count.frames);
            own.bytes = own.bytes.saturating_sub(count.bytes);
        }
    }

    /// Frames of all ports.
    pub fn frames(&self) -> u64 {
        self.0.iter().map(|count| count.frames).sum()
    }

    /// The counts of each port.
    pub fn by_port(&self) -> impl Iterator<Item = (u16, FrameCount)> {
        (0..).zip(self.0.iter().copied())
    }

    fn at(&mut self, port: u16) -> &mut FrameCount {
        let at = usize::from(port);
        if self.0.len() <= at {
            self.0.resize(at + 1, FrameCount::default());
        }
        &mut self.0[at]
    }
}

/// Takes every frame and keeps none (`--output none`).
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn wants_frames(&self) -> bool {
        false
    }

    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a source ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceError {
    /// The operating system refused.
    Io(io::Error),
    /// The bytes at `offset` of the input are not what the format asks for.
    Format {
        /// Byte offset in the input.
        offset: u64,
        /// The error, in lower case.
        what: String,
    },
    /// One of several sources failed.
    Of {
        /// Its name.
        of: String,
        /// Why.
        error: Box<Self>,
    },
}

/// Why a frame could not be taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum SinkError {
    /// The reader of the pipe went away.
    Closed,
    /// The operating system refused.
    Io(io::Error),
    /// This frame can't be stored in this sink (another link type than the file's, say); the sink
    /// continues with the next.
    Unsuitable(&'static str),
    /// The interface has no room for this frame. The sink continues with the next.
    Full,
}

impl core::fmt::Display for SourceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Format { offset, what } => write!(f, "at byte {offset}: {what}"),
            Self::Of { of, error } => write!(f, "{of}: {error}"),
        }
    }
}

impl core::fmt::Display for SinkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Closed => f.write_str("the reader closed the pipe"),
            Self::Io(error) => write!(f, "{error}"),
            Self::Unsuitable(why) => f.write_str(why),
            Self::Full => f.write_str("the interface's queue is full"),
        }
    }
}

impl std::error::Error for SourceError {}
impl std::error::Error for SinkError {}

impl From<io::Error> for SourceError {
    /// Unwraps a `SourceError` that a reader beneath wrapped in an `io::Error`.
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(Self::Io)
    }
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Io(error) }
    }
}
