//! Sockets for the frames of one queue of an interface: AF_XDP.
//!
//! Frames lie in **chunks** of memory that the socket shares with the system. The receiving half
//! owns the first chunks and the sending half the others; each hands chunks over by its own rings.

use core::mem;
use core::ptr;
use core::slice;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use arrayvec::ArrayVec;
use libc::{c_int, c_void, socklen_t, xdp_desc};

use super::mapping::Mapping;
use super::xdp_ring::{Consumer, Producer};
use crate::port::BURST_MAX;

/// Chunks that wait for received frames, and entries of these rings.
const RECEIVED: u32 = 4096;
/// Memory of the system for frames on their way.
const SEND_BUFFER: c_int = 4 << 20;
/// Chunks of frames that wait to be sent.
const SENT: u32 = 2048;
/// Bytes of a chunk that the system leaves free before a received frame.
const HEADROOM: usize = 256;
/// The lengths that a chunk may have.
const CHUNK_LENS: [usize; 2] = [2048, 4096];
/// The longest frame that a chunk holds.
pub(crate) const XDP_FRAME_MAX: usize = CHUNK_LENS[1] - HEADROOM;

/// How a socket is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The interface's number.
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    /// Whether the driver uses the chunks itself, instead of copying frames.
    pub(crate) is_zero_copy: bool,
}

/// The state that both halves share.
struct Socket {
    fd: OwnedFd,
    chunks: Mapping,
    chunk_len: usize,
}

/// The half that receives.
pub(crate) struct XdpReceiver {
    received: Consumer<xdp_desc>,
    /// Chunks for frames to come.
    fill: Producer<u64>,
    /// Frames that were taken, which are ours.
    held: ArrayVec<xdp_desc, BURST_MAX>,
    socket: Arc<Socket>,
}

/// The half that sends.
pub(crate) struct XdpSender {
    sent: Producer<xdp_desc>,
    /// Chunks of frames that left.
    done: Consumer<u64>,
    /// Chunks that are ours.
    free: Vec<u64>,
    socket: Arc<Socket>,
}

/// A socket that is not bound yet.
pub(crate) struct XdpSocket {
    pub(crate) receiver: XdpReceiver,
    pub(crate) sender: XdpSender,
}

impl XdpSocket {
    /// Opens one for frames of up to `frame_len` bytes, at most [`XDP_FRAME_MAX`].
    pub(crate) fn open(frame_len: usize) -> io::Result<Self> {
        // SAFETY: a call without pointers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system just opened it, so nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let fits = |len: &usize| frame_len + HEADROOM <= *len;
        let chunk_len = CHUNK_LENS.into_iter().find(fits).ok_or(io::ErrorKind::InvalidInput)?;
        let chunks = Mapping::anonymous((RECEIVED + SENT) as usize * chunk_len)?;
        // SAFETY: it is plain numbers; all zero is a value of each.
        let mut memory: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        memory.addr = chunks.start().as_ptr() as u64;
        memory.len = chunks.len() as u64;
        memory.chunk_size = chunk_len as u32;
        set(&fd, libc::XDP_UMEM_REG, &memory)?;
        for (ring, count) in [
            (libc::XDP_RX_RING, RECEIVED),
            (libc::XDP_UMEM_FILL_RING, RECEIVED),
            (libc::XDP_TX_RING, SENT),
            (libc::XDP_UMEM_COMPLETION_RING, SENT),
        ] {
            set(&fd, ring, &count)?;
        }
        let buffer: c_int = SEND_BUFFER;
        // The system's limit holds if it refuses.
        let _ = set_at(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer);
        Self::map(Arc::new(Socket { fd, chunks, chunk_len }))
    }

    fn map(socket: Arc<Socket>) -> io::Result<Self> {
        let at: libc::xdp_mmap_offsets = get(&socket.fd, libc::XDP_MMAP_OFFSETS)?;
        let fd = socket.fd.as_raw_fd();
        let received = Consumer::map(fd, libc::XDP_PGOFF_RX_RING, &at.rx, RECEIVED)?;
        let page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let mut fill = Producer::map(fd, page, &at.fr, RECEIVED)?;
        let sent = Producer::map(fd, libc::XDP_PGOFF_TX_RING, &at.tx, SENT)?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let done = Consumer::map(fd, page, &at.cr, SENT)?;
        let chunk = |number: u32| u64::from(number) * socket.chunk_len as u64;
        for number in 0..RECEIVED {
            fill.push(chunk(number));
        }
        fill.publish();
        let free = (RECEIVED..RECEIVED + SENT).map(chunk).collect();
        let held = ArrayVec::new();
        let receiver = XdpReceiver { received, fill, held, socket: Arc::clone(&socket) };
        Ok(Self { receiver, sender: XdpSender { sent, done, free, socket } })
    }

    /// Binds it. `EBUSY`: the queue has a socket, or the system has not freed its last one yet.
    pub(crate) fn bind(&self, binding: Binding) -> io::Result<()> {
        let how = if binding.is_zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: how | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: binding.interface,
            sxdp_queue_id: binding.queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as socklen_t;
        // SAFETY: the system reads one address of this length.
        match unsafe { libc::bind(self.receiver.descriptor(), (&raw const address).cast(), len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl XdpReceiver {
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.fd.as_raw_fd()
    }

    /// Whether the socket has a pending error, which it then no longer has.
    pub(crate) fn has_error(&self) -> bool {
        get_at::<c_int>(&self.socket.fd, libc::SOL_SOCKET, libc::SO_ERROR)
            .is_ok_and(|error| error != 0)
    }

    /// Returns all frames to the system, and takes up to `most`.
    #[inline]
    pub(crate) fn take(&mut self, most: usize) -> usize {
        if !self.held.is_empty() {
            let chunk = !(self.socket.chunk_len as u64 - 1);
            // There is an entry for each chunk of this half.
            self.held.drain(..).for_each(|frame| {
                self.fill.push(frame.addr & chunk);
            });
            self.fill.publish();
        }
        while self.held.len() < most.min(BURST_MAX)
            && let Some(frame) = self.received.pop()
        {
            self.held.push(frame);
        }
        self.received.release();
        if self.held.is_empty() && self.fill.needs_wakeup() {
            self.wake();
        }
        self.held.len()
    }

    /// A frame that was taken.
    #[inline]
    pub(crate) fn frame(&self, at: usize) -> &[u8] {
        match self.place(at) {
            // SAFETY: the frame lies in a chunk that is ours until `take`, which `&self` excludes.
            Some((place, len)) => unsafe { slice::from_raw_parts(place, len) },
            None => &[],
        }
    }

    /// As [`XdpReceiver::frame`].
    #[inline]
    pub(crate) fn frame_mut(&mut self, at: usize) -> &mut [u8] {
        match self.place(at) {
            // SAFETY: as above; `&mut self` excludes other references to the chunks of this half.
            Some((place, len)) => unsafe { slice::from_raw_parts_mut(place, len) },
            None => &mut [],
        }
    }

    /// Frames that found no room since the socket was opened.
    pub(crate) fn losses(&self) -> u64 {
        let counts = get::<libc::xdp_statistics>(&self.socket.fd, libc::XDP_STATISTICS);
        counts.map_or(0, |counts| counts.rx_dropped + counts.rx_ring_full)
    }

    /// Where a taken frame lies, if it does so in a chunk of this half.
    #[inline]
    fn place(&self, at: usize) -> Option<(*mut u8, usize)> {
        let frame = self.held.get(at)?;
        let (start, len) = (usize::try_from(frame.addr).ok()?, frame.len as usize);
        let rest = self.socket.chunk_len - (start & (self.socket.chunk_len - 1));
        let fits = start < RECEIVED as usize * self.socket.chunk_len && len <= rest;
        // SAFETY: the place lies in the mapping.
        fits.then(|| (unsafe { self.socket.chunks.start().as_ptr().add(start) }, len))
    }

    /// Makes the system look at the chunks for frames to come.
    #[cold]
    fn wake(&self) {
        let (fd, flags) = (self.descriptor(), libc::MSG_DONTWAIT);
        // SAFETY: a call without memory.
        unsafe { libc::recvfrom(fd, ptr::null_mut(), 0, flags, ptr::null_mut(), ptr::null_mut()) };
    }
}

impl XdpSender {
    /// The longest frame that it sends.
    pub(crate) fn frame_max(&self) -> usize {
        self.socket.chunk_len
    }

    /// Queues a frame of at most [`XdpSender::frame_max`] bytes. Returns whether there was room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.socket.chunk_len {
            return false;
        }
        let Some(chunk) = self.free.pop() else { return false };
        let place = chunk as usize;
        // SAFETY: the chunk is ours: it is one of the sending half, and the system has no entry of
        // it. The bytes fit, and lie elsewhere, as no reference into these chunks exists.
        unsafe {
            let to = self.socket.chunks.start().as_ptr().add(place);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        // There is an entry for each chunk of this half.
        self.sent.push(xdp_desc { addr: chunk, len: bytes.len() as u32, options: 0 })
    }

    /// Takes chunks of frames that left.
    #[inline]
    pub(crate) fn reclaim(&mut self) {
        let own = RECEIVED as u64 * self.socket.chunk_len as u64..self.socket.chunks.len() as u64;
        while let Some(chunk) = self.done.pop() {
            if own.contains(&chunk) && chunk.is_multiple_of(self.socket.chunk_len as u64) {
                self.free.push(chunk);
            }
        }
        self.done.release();
    }

    /// Whether all queued frames have left.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == SENT as usize
    }

    /// Whether all queued frames are on their way.
    pub(crate) fn is_drained(&self) -> bool {
        self.sent.is_drained()
    }

    /// Sends queued frames, as many as the system takes in one call.
    #[inline]
    pub(crate) fn kick(&mut self) -> io::Result<()> {
        self.sent.publish();
        if !self.sent.needs_wakeup() {
            return Ok(());
        }
        let (fd, flags) = (self.socket.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: a call without memory.
        match unsafe { libc::sendto(fd, ptr::null(), 0, flags, ptr::null(), 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Sets an option. Each is a structure of numbers.
fn set<T: Copy>(fd: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    set_at(fd, libc::SOL_XDP, option, value)
}

fn set_at<T: Copy>(fd: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (len, value) = (size_of::<T>() as socklen_t, ptr::from_ref(value).cast::<c_void>());
    // SAFETY: the system reads `len` bytes of the value.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An option's value, a structure of numbers.
fn get<T: Copy>(fd: &OwnedFd, option: c_int) -> io::Result<T> {
    get_at(fd, libc::SOL_XDP, option)
}

fn get_at<T: Copy>(fd: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: it is plain numbers; all zero is a value of each.
    let mut value: T = unsafe { mem::zeroed() };
    let mut len = size_of::<T>() as socklen_t;
    let to = (&raw mut value).cast::<c_void>();
    // SAFETY: the system writes at most `len` bytes.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, to, &raw mut len) } {
        0 if len as usize == size_of::<T>() => Ok(value),
        0 => Err(io::Error::other("the kernel is too old for AF_XDP")),
        _ => Err(io::Error::last_os_error()),
    }
}
