//! Frames that leave by an interface.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant as Clock;

use super::AfXdpConfig;
use super::sockets::Sockets;
use crate::af_packet::{NO_CARRIER, unsuitable};
use crate::interface::{NotOpened, ethernet};
use crate::port::{Frame, Sink, SinkError};
use crate::sys::{Link, XdpSender};

/// Bytes of an Ethernet header, and of a VLAN tag.
const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// Calls for one burst. The system sends up to 32 frames in one.
const KICKS: usize = 4;
/// How often the interface is looked for by its name, which may be another one's now, and its MTU.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const REMOVED: &str = "the interface was removed";
/// How long the end waits for frames on their way.
const END_WITHIN: Duration = Duration::from_secs(1);
const END_LOOK: Duration = Duration::from_millis(1);

/// Sends frames by an interface. Those that it can't take are lost: it never waits.
pub struct AfXdpSink {
    link: Link,
    looked: Clock,
    /// Whether it had no carrier when that was last looked for.
    lacks_carrier: bool,
    generation: u64,
    sending: Sending,
    sockets: Arc<Sockets>,
}

/// Its part that has to do with frames.
struct Sending {
    mtu: usize,
    /// Why the system took no frames at the last call.
    refusal: Option<&'static str>,
}

impl AfXdpSink {
    /// Opens the interface.
    ///
    /// # Errors
    /// There is no such interface, or the process may not send by it.
    pub fn open(config: &AfXdpConfig) -> Result<Self, NotOpened> {
        let link = ethernet(&config.interface)?;
        let sockets = Sockets::of(config)?;
        if !sockets.take_sink() {
            return Err(NotOpened::QueueTaken(0));
        }
        let generation = sockets.generation();
        let sending = Sending { mtu: link.mtu()?, refusal: None };
        let (looked, lacks_carrier) = (Clock::now(), link.lacks_carrier());
        Ok(Self { link, looked, lacks_carrier, generation, sending, sockets })
    }

    /// Does something with the sending half, if there is an interface.
    fn with_sender<T>(
        &mut self,
        work: impl FnOnce(&mut Sending, &mut XdpSender) -> T,
    ) -> Option<T> {
        let generation = self.sockets.generation();
        if generation != self.generation {
            (self.generation, self.sending.refusal) = (generation, None);
        }
        let sending = &mut self.sending;
        self.sockets.sender().as_mut().map(|sender| work(sending, sender))
    }

    /// Opens the sockets anew if another interface has the name now, and reads the MTU.
    #[cold]
    fn look(&mut self) {
        self.looked = Clock::now();
        if self.sending.refusal == Some(REMOVED) {
            self.sockets.forget();
        }
        // If it fails, the next frame fails as this one did.
        let _ = self.sockets.renew(&self.link);
        self.sending.mtu = self.link.mtu().unwrap_or(self.sending.mtu);
        self.lacks_carrier = self.link.lacks_carrier();
    }
}

impl Sending {
    /// Why this frame can't be sent.
    #[inline]
    fn unsuitable(&self, frame: &Frame<'_>, frame_max: usize) -> Option<SinkError> {
        let len = frame.bytes.len();
        if len < HEADER_LEN {
            return Some(SinkError::Unsuitable("a frame has no whole link header"));
        }
        if len > self.mtu + HEADER_LEN {
            let is_tagged = matches!(frame.bytes[12..14], [0x81, 0] | [0x88, 0xa8]);
            let room = HEADER_LEN + if is_tagged { TAG_LEN } else { 0 };
            if len > self.mtu + room || len > frame_max {
                return Some(SinkError::Unsuitable("a frame is longer than the interface's MTU"));
            }
        }
        unsuitable(frame)
    }

    /// Sends queued frames. Those that find no room stay queued.
    fn transmit(&mut self, sender: &mut XdpSender) {
        for _ in 0..KICKS {
            let refused = sender.kick().err();
            self.refusal = refused.as_ref().and_then(refusal);
            if self.refusal.is_some() || sender.is_drained() {
                break;
            }
        }
    }

    /// Queues a frame.
    #[inline]
    fn push(&mut self, sender: &mut XdpSender, bytes: &[u8]) -> bool {
        if sender.push(bytes) {
            return true;
        }
        self.transmit(sender);
        sender.reclaim();
        sender.push(bytes)
    }

    fn send(
        &mut self,
        sender: &mut XdpSender,
        frames: &[Frame<'_>],
    ) -> (usize, Result<(), SinkError>) {
        if self.refusal.is_some() {
            self.transmit(sender);
            if let Some(why) = self.refusal {
                return (0, Err(SinkError::Unsuitable(why)));
            }
        }
        sender.reclaim();
        let (mut taken, mut outcome) = (0, Ok(()));
        for frame in frames {
            if let Some(error) = self.unsuitable(frame, sender.frame_max()) {
                outcome = Err(error);
                break;
            }
            if !self.push(sender, frame.bytes) {
                outcome = Err(SinkError::Full);
                break;
            }
            taken += 1;
        }
        self.transmit(sender);
        (taken, outcome)
    }
}

/// Why no frame can be sent; `None` if the system has no room for now.
fn refusal(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => None,
        Some(libc::ENETDOWN) => Some("the interface is down"),
        Some(libc::ENXIO | libc::ENODEV) => Some(REMOVED),
        _ => Some("the system refused to send"),
    }
}

impl Sink for AfXdpSink {
    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.send_burst(core::slice::from_ref(frame)).1
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.look();
        }
        self.lacks_carrier = self.lacks_carrier && self.link.lacks_carrier();
        if self.lacks_carrier {
            return (0, Err(SinkError::Unsuitable(NO_CARRIER)));
        }
        let sent = self.with_sender(|sending, sender| sending.send(sender, frames));
        sent.unwrap_or((0, Err(SinkError::Unsuitable(REMOVED))))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.with_sender(|sending, sender| {
            if !sender.is_drained() {
                sending.transmit(sender);
            }
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), SinkError> {
        let end = Clock::now() + END_WITHIN;
        let send = |sending: &mut Sending, sender: &mut XdpSender| {
            let waits = !sender.is_idle() && sending.refusal.is_none();
            if waits {
                sending.transmit(sender);
                sender.reclaim();
            }
            waits
        };
        while Clock::now() < end && self.with_sender(send) == Some(true) {
            thread::sleep(END_LOOK);
        }
        Ok(())
    }
}
