//! Frames that leave by an interface.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant as Clock;

use super::AfXdpConfig;
use super::sockets::Sockets;
use crate::af_packet::unsuitable;
use crate::interface::{NotOpened, ethernet};
use crate::port::{Frame, Sink, SinkError};
use crate::sys::{Link, XdpSender};

/// Bytes of an Ethernet header, and of a VLAN tag.
const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// Calls for one burst. The system sends up to 32 frames in one.
const KICKS: usize = 4;
/// How often an interface that went away is looked for, and a changed MTU.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the end waits for frames on their way.
const END_WITHIN: Duration = Duration::from_secs(1);
const END_LOOK: Duration = Duration::from_millis(1);

/// Sends frames by an interface. Those that it can't take are lost: it never waits.
pub struct AfXdpSink {
    link: Link,
    sender: XdpSender,
    mtu: usize,
    /// Why the system took no frames at the last call.
    refusal: Option<&'static str>,
    looked: Clock,
    generation: u64,
    sockets: Arc<Sockets>,
}

impl AfXdpSink {
    /// Opens the interface.
    ///
    /// # Errors
    /// There is no such interface, or the process may not send by it.
    pub fn open(config: &AfXdpConfig) -> Result<Self, NotOpened> {
        let link = ethernet(&config.interface)?;
        let sockets = Sockets::of(config)?;
        let generation = sockets.generation();
        let sender = sockets.take_sender().ok_or(NotOpened::QueueTaken(0))?;
        let (mtu, refusal, looked) = (link.mtu()?, None, Clock::now());
        Ok(Self { link, sender, mtu, refusal, looked, generation, sockets })
    }

    /// Takes the sockets that were opened anew.
    #[cold]
    fn renew(&mut self) {
        self.generation = self.sockets.generation();
        if let Some(sender) = self.sockets.take_sender() {
            (self.sender, self.refusal) = (sender, None);
        }
    }

    /// Looks whether the interface was made anew, or its MTU changed.
    #[cold]
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Clock::now();
        // If it fails, the next frame fails as this one did.
        let _ = self.sockets.renew(&self.link);
        self.mtu = self.link.mtu().unwrap_or(self.mtu);
    }

    /// Why this frame can't be sent.
    #[inline]
    fn unsuitable(&mut self, frame: &Frame<'_>) -> Option<SinkError> {
        let len = frame.bytes.len();
        if len < HEADER_LEN {
            return Some(SinkError::Unsuitable("a frame has no whole link header"));
        }
        if len > self.mtu + HEADER_LEN {
            let is_tagged = matches!(frame.bytes[12..14], [0x81, 0] | [0x88, 0xa8]);
            let room = HEADER_LEN + if is_tagged { TAG_LEN } else { 0 };
            if len > self.mtu + room || len > self.sender.frame_max() {
                self.look();
                return Some(SinkError::Unsuitable("a frame is longer than the interface's MTU"));
            }
        }
        unsuitable(frame)
    }

    /// Sends queued frames. Those that find no room stay queued.
    fn transmit(&mut self) {
        for _ in 0..KICKS {
            let refused = self.sender.kick().err();
            self.refusal = refused.as_ref().and_then(refusal);
            if self.refusal.is_some() {
                self.look();
            }
            if self.refusal.is_some() || self.sender.is_drained() {
                break;
            }
        }
    }

    /// Queues a frame.
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> bool {
        if self.sender.push(bytes) {
            return true;
        }
        self.transmit();
        self.sender.reclaim();
        self.sender.push(bytes)
    }
}

/// Why no frame can be sent; `None` if the system has no room for now.
fn refusal(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => None,
        Some(libc::ENETDOWN) => Some("the interface is down"),
        Some(libc::ENXIO | libc::ENODEV) => Some("the interface was removed"),
        _ => Some("the system refused to send"),
    }
}

impl Sink for AfXdpSink {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.send_burst(core::slice::from_ref(frame)).1
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        if self.generation != self.sockets.generation() {
            self.renew();
        }
        if self.refusal.is_some() {
            self.transmit();
            if let Some(why) = self.refusal {
                return (0, Err(SinkError::Unsuitable(why)));
            }
        }
        self.sender.reclaim();
        let (mut taken, mut outcome) = (0, Ok(()));
        for frame in frames {
            if let Some(error) = self.unsuitable(frame) {
                outcome = Err(error);
                break;
            }
            if !self.push(frame.bytes) {
                outcome = Err(SinkError::Full);
                break;
            }
            taken += 1;
        }
        self.transmit();
        (taken, outcome)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if !self.sender.is_drained() {
            self.transmit();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        let end = Clock::now() + END_WITHIN;
        while !self.sender.is_idle() && self.refusal.is_none() && Clock::now() < end {
            self.transmit();
            self.sender.reclaim();
            thread::sleep(END_LOOK);
        }
        Ok(())
    }
}
