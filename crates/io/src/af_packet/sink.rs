//! Frames that leave by an interface.

use core::time::Duration;
use std::io;
use std::time::Instant as Clock;

use warpline_packet::LinkType;

use super::AfPacketConfig;
use crate::interface::{NotOpened, ethernet};
use crate::port::{Frame, Sink, SinkError};
use crate::sys::{Link, PacketSocket};

/// Memory for frames that wait for the interface.
const BUFFER_LEN: i32 = 4 << 20;
/// How often an interface that went away is looked for.
const REBIND_EVERY: Duration = Duration::from_secs(1);

/// Sends frames by an interface. Those that it can't take are lost: it never waits.
pub struct AfPacketSink {
    link: Link,
    socket: PacketSocket,
    /// When it was last tried to bind it again.
    bound: Clock,
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
        socket.bind(link.index()?, false)?;
        Ok(Self { link, socket, bound: Clock::now() })
    }

    /// The reason that the system refused the next frame; it has no place any more.
    fn refused(&mut self, error: &io::Error) -> SinkError {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => SinkError::Full,
            Some(libc::EMSGSIZE) => {
                SinkError::Unsuitable("a frame is longer than the interface's MTU")
            }
            Some(libc::ENETDOWN) => SinkError::Unsuitable("the interface is down"),
            Some(libc::ENXIO | libc::ENODEV) => {
                self.rebind();
                SinkError::Unsuitable("the interface was removed")
            }
            Some(libc::EINVAL) => SinkError::Unsuitable("a frame has no whole link header"),
            _ => SinkError::Unsuitable("the system refused to send"),
        }
    }

    /// Binds to the interface again if it was made anew.
    fn rebind(&mut self) {
        if self.bound.elapsed() < REBIND_EVERY {
            return;
        }
        self.bound = Clock::now();
        if let Ok(index) = self.link.index() {
            // If it fails, the next frame fails as this one did.
            let _ = self.socket.bind(index, false);
        }
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
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.send_burst(core::slice::from_ref(frame)).1
    }

    fn send_burst(&mut self, frames: &[Frame<'_>]) -> (usize, Result<(), SinkError>) {
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
                Ok(sent) => taken += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (taken, Err(self.refused(&error))),
            }
        }
        (taken, Ok(()))
    }
}
