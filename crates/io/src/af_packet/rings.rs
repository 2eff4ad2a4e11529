//! The sockets by which an interface is read, each with a ring.

use std::io;
use std::os::fd::RawFd;

use super::{AfPacketConfig, Delivery};
use crate::interface::HEADERS_LEN;
use crate::sys::{PacketSocket, PollSet, Ring, Slot};

/// One socket, or several that share the frames of an interface.
///
/// The processors that receive frames would wait for each other to fill one ring. The frames of a
/// flow are all in one ring, in their order.
pub(super) struct Rings {
    /// At least one.
    all: Vec<SocketRing>,
    /// The bytes of one.
    ring_len: usize,
    /// Of several.
    readable: Option<PollSet>,
    /// Whether they refuse frames.
    have_left: bool,
}

struct SocketRing {
    // Before the socket: the mapping ends first.
    ring: Ring,
    socket: PacketSocket,
    /// When its next frame arrived, if one is known to be there.
    next: Option<(u32, u32)>,
}

/// A frame that was taken: the number of its ring, and its place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    ring: usize,
    pub(super) slot: Slot,
}

impl Rings {
    /// Opens them for the interface with this number and MTU.
    pub(super) fn open(
        config: &AfPacketConfig,
        delivery: Delivery,
        index: i32,
        mtu: usize,
    ) -> io::Result<Self> {
        let ring_len = (usize::from(config.queue_mib) << 20) / usize::from(config.queues);
        let readable = (config.queues > 1).then(PollSet::new).transpose()?;
        let mut own = Self { all: Vec::new(), ring_len, readable, have_left: false };
        own.reopen(config, delivery, index, mtu)?;
        Ok(own)
    }

    /// Opens others instead of these.
    pub(super) fn reopen(
        &mut self,
        config: &AfPacketConfig,
        delivery: Delivery,
        index: i32,
        mtu: usize,
    ) -> io::Result<()> {
        let open = |_| {
            let socket = PacketSocket::open()?;
            let ring = Ring::new(&socket, delivery, mtu + HEADERS_LEN, self.ring_len)?;
            // Older kernels: such frames are skipped by the reader.
            let _ = socket.ignore_outgoing();
            Ok(SocketRing { ring, socket, next: None })
        };
        let all = (0..config.queues).map(open).collect::<io::Result<Vec<_>>>()?;
        match &self.readable {
            Some(readable) => share(&all, index, readable)?,
            None => all[0].socket.bind(index, true)?,
        }
        (self.all, self.have_left) = (all, false);
        if config.promiscuous {
            self.receive_all(index)?;
        }
        Ok(())
    }

    /// Whether several sockets share the frames. Such sockets can't be bound again.
    pub(super) fn are_shared(&self) -> bool {
        self.readable.is_some()
    }

    /// Binds the only socket to another interface.
    pub(super) fn bind(&mut self, index: i32) -> io::Result<()> {
        self.all[0].socket.bind(index, true)?;
        self.come_back()
    }

    /// Receives frames to other hosts, too.
    pub(super) fn receive_all(&self, index: i32) -> io::Result<()> {
        self.all[0].socket.receive_all(index)
    }

    /// Leaves the interface. Frames that arrived stay. A socket cannot be unbound: without an
    /// interface it receives from all.
    pub(super) fn leave(&mut self) {
        if !std::mem::replace(&mut self.have_left, true) {
            self.all.iter().for_each(|one| _ = one.socket.refuse());
        }
    }

    /// The interface that they are bound to has its name again.
    pub(super) fn come_back(&mut self) -> io::Result<()> {
        if self.have_left {
            self.all.iter().try_for_each(|one| one.socket.accept())?;
        }
        self.have_left = false;
        Ok(())
    }

    /// Whether frames wait.
    pub(super) fn have_frames(&mut self) -> bool {
        self.all.iter_mut().any(|one| one.ring.next_time().is_some())
    }

    /// Whether the sockets are those of the interface with this number.
    pub(super) fn are_bound_to(&self, index: i32) -> bool {
        self.all[0].socket.bound_to().is_ok_and(|own| own == index)
    }

    /// A descriptor that is readable while a ring has frames.
    pub(super) fn descriptor(&self) -> RawFd {
        match &self.readable {
            Some(readable) => readable.descriptor(),
            None => self.all[0].socket.descriptor(),
        }
    }

    /// Returns all frames that were taken to the system.
    pub(super) fn release(&mut self) {
        for one in &mut self.all {
            one.ring.release();
            one.next = one.next.or_else(|| one.ring.next_time());
        }
    }

    /// Takes the earliest of the frames that are there. It stays ours until [`Self::release`].
    #[inline]
    pub(super) fn take(&mut self) -> Option<Taken> {
        if let [only] = &mut self.all[..] {
            return only.ring.take().map(|slot| Taken { ring: 0, slot });
        }
        let times = self.all.iter().enumerate().filter_map(|(ring, one)| Some((one.next?, ring)));
        let (_, ring) = times.min()?;
        let one = &mut self.all[ring];
        let slot = one.ring.take();
        one.next = one.ring.next_time();
        slot.map(|slot| Taken { ring, slot })
    }

    /// See [`Ring::frame_mut`].
    #[inline]
    pub(super) fn frame_mut(&mut self, taken: &Taken) -> Option<(&mut [u8], usize)> {
        self.all.get_mut(taken.ring)?.ring.frame_mut(&taken.slot)
    }

    /// See [`Ring::frame`].
    #[inline]
    pub(super) fn frame(&self, taken: &Taken, before: usize) -> &[u8] {
        self.all.get(taken.ring).map_or(&[], |one| one.ring.frame(&taken.slot, before))
    }

    /// Gives the sockets rings for a larger MTU, see [`Ring::remake`].
    pub(super) fn remake(&mut self, mtu: usize) -> io::Result<()> {
        let ring_len = self.ring_len;
        self.all.iter_mut().try_for_each(|one| {
            one.next = None;
            one.ring.remake(&one.socket, mtu + HEADERS_LEN, ring_len)
        })
    }

    /// Frames that found no room since the last call.
    pub(super) fn take_losses(&self) -> u64 {
        self.all.iter().map(|one| one.socket.take_losses()).sum()
    }

    /// Takes the pending errors of the sockets. Returns whether there were any.
    pub(super) fn take_errors(&self) -> bool {
        self.all.iter().fold(false, |any, one| any | one.socket.take_error().is_some())
    }
}

/// Has the sockets share the frames of an interface.
fn share(all: &[SocketRing], index: i32, readable: &PollSet) -> io::Result<()> {
    let mut group = None;
    for SocketRing { socket, .. } in all {
        // It would get all frames before it shares them.
        socket.refuse()?;
        socket.bind(index, true)?;
        group = Some(socket.share_frames(group)?);
        readable.add(socket.descriptor())?;
    }
    all.iter().try_for_each(|one| one.socket.accept())
}
