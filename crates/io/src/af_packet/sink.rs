//! Frames that leave by an interface.

use core::mem;
use core::time::Duration;
use std::io;
use std::time::Instant as Clock;

use libc::c_int;
use warpline_packet::LinkType;

use super::AfPacketConfig;
use crate::interface::{NotOpened, ethernet};
use crate::port::{Frame, Sink, SinkError};
use crate::sys::{Link, PacketSocket};

/// Memory for frames that wait for the interface.
const BUFFER_LEN: i32 = 4 << 20;
/// How often the interface is looked for by its name, which may be another one's now.
const LOOK_EVERY: Duration = Duration::from_millis(100);
pub(crate) const NO_CARRIER: &str = "the interface has no carrier";
const REMOVED: SinkError = SinkError::Unsuitable("the interface was removed");

/// Sends frames by an interface. Those that it can't take are lost: it never waits.
pub struct AfPacketSink {
    link: Link,
    socket: PacketSocket,
    /// The interface that it is bound to; none while no interface has the name.
    index: Option<c_int>,
    /// When the name was last looked for.
    looked: Clock,
    /// Whether the interface was down at the last try.
    is_down: bool,
    /// Whether it had no carrier when that was last looked for.
    lacks_carrier: bool,
}

impl AfPacketSink {
    /// Opens the interface.
    ///
    /// # Errors
    /// There is no such interface, or the process may not send by it.
    pub fn open(config: &AfPacketConfig) -> Result<Self, NotOpened> {
        let link = ethernet(&config.interface)?;
        let socket = PacketSocket::open()?;
        socket.set_send_buffer(BUFFER_LEN);
        let index = link.index()?;
        socket.bind(index, false)?;
        let (looked, lacks_carrier) = (Clock::now(), link.lacks_carrier());
        Ok(Self { link, socket, index: Some(index), looked, is_down: false, lacks_carrier })
    }

    /// Whether the frame that the system refused can be sent again at once.
    fn recovers(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EINTR) => true,
            // The first such error may be of an interface that is back.
            Some(libc::ENETDOWN) => !mem::replace(&mut self.is_down, true),
            Some(libc::ENXIO | libc::ENODEV) => {
                self.index = None;
                self.look()
            }
            _ => false,
        }
    }

    /// Binds to the interface that has the name now, if it is another one. Returns whether it did.
    fn look(&mut self) -> bool {
        if self.looked.elapsed() < LOOK_EVERY {
            return false;
        }
        self.looked = Clock::now();
        self.lacks_carrier = self.link.lacks_carrier();
        let index = self.link.index().ok();
        if index == self.index {
            return false;
        }
        self.index = index.filter(|&index| self.socket.bind(index, false).is_ok());
        self.is_down = false;
        self.index.is_some()
    }
}

/// The reason that the system refused a frame.
fn refusal(error: &io::Error) -> SinkError {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => SinkError::Full,
        Some(libc::EMSGSIZE) => SinkError::Unsuitable("a frame is longer than the interface's MTU"),
        Some(libc::ENETDOWN) => SinkError::Unsuitable("the interface is down"),
        Some(libc::ENXIO | libc::ENODEV) => REMOVED,
        Some(libc::EINVAL) => SinkError::Unsuitable("a frame has no whole link header"),
        _ => SinkError::Unsuitable("the system refused to send"),
    }
}

/// Why a frame can't be sent whatever the interface is.
pub(crate) fn unsuitable(frame: &Frame<'_>) -> Option<SinkError> {
    if frame.link != LinkType::ETHERNET {
        return Some(SinkError::Unsuitable("a frame is not Ethernet"));
    }
    let is_cut = frame.wire_len as usize > frame.bytes.len();
    is_cut.then_some(SinkError::Unsuitable("a frame was cut before it was read"))
}

impl Sink for AfPacketSink {
    fn may_wait(&self) -> bool {
        false
    }

    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.send_burst(core::slice::from_ref(frame)).1
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
        self.look();
        if self.index.is_none() {
            return (0, Err(REMOVED));
        }
        self.lacks_carrier = self.lacks_carrier && self.link.lacks_carrier();
        if self.lacks_carrier {
            return (0, Err(SinkError::Unsuitable(NO_CARRIER)));
        }
        let mut taken = 0;
        while taken < frames.len() {
            let rest = &frames[taken..];
            let count = rest.iter().position(|frame| unsuitable(frame).is_some());
            let count = count.unwrap_or(rest.len());
            if count == 0 {
                let error = unsuitable(&rest[0]);
                return (taken, error.map_or(Ok(()), Err));
            }
            match self.socket.send(&rest[..count]) {
                Ok(0) => return (taken, Err(SinkError::Full)),
                Ok(sent) => (taken, self.is_down) = (taken + sent, false),
                Err(error) if self.recovers(&error) => {}
                Err(error) => return (taken, Err(refusal(&error))),
            }
        }
        (taken, Ok(()))
    }
}
