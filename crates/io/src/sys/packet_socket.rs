//! Sockets for whole frames of an interface: packet(7).

use core::array;
use core::mem;
use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_void, iovec, mmsghdr, socklen_t};

use crate::port::{BURST_MAX, Frame};

/// Of `linux/if_packet.h`, where `libc` lacks it.
const PACKET_IGNORE_OUTGOING: c_int = 23;

/// The first socket gets a group with a free number. Kernels before 4.12 lack it.
const FANOUT_UNIQUE: u32 = 0x2000;
/// As [`PACKET_IGNORE_OUTGOING`], for the group.
const FANOUT_IGNORE_OUTGOING: u32 = 0x4000;

/// A packet socket.
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens one that no interface feeds yet.
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a call without pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system just opened it, so nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Binds it to the interface with this number, to receive all its frames if it `receives`.
    pub(crate) fn bind(&self, index: c_int, receives: bool) -> io::Result<()> {
        let protocol = if receives { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        // SAFETY: it is plain numbers and bytes; all zero is a value of each.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        let len = size_of_val(&address) as socklen_t;
        // SAFETY: the system reads one address of this length.
        done(unsafe { libc::bind(self.descriptor(), (&raw const address).cast(), len) })
    }

    /// The number of the interface that it is bound to; -1 after that was removed.
    pub(crate) fn bound_to(&self) -> io::Result<c_int> {
        // SAFETY: it is plain numbers and bytes; all zero is a value of each.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let (mut len, to) = (size_of_val(&address) as socklen_t, (&raw mut address).cast());
        // SAFETY: the system writes at most `len` bytes of the address.
        done(unsafe { libc::getsockname(self.descriptor(), to, &raw mut len) })?;
        Ok(address.sll_ifindex)
    }

    /// Has the bound socket and others share the frames of their interface: those of a flow, in
    /// both directions, are for one of them. Founds a group, or joins that with this number.
    /// Returns the number.
    pub(crate) fn share_frames(&self, group: Option<u16>) -> io::Result<u16> {
        let founds = if group.is_none() { FANOUT_UNIQUE } else { 0 };
        let kind = libc::PACKET_FANOUT_HASH | FANOUT_IGNORE_OUTGOING | founds;
        let value = u32::from(group.unwrap_or_default()) | kind << 16;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
        let mut value = 0_u32;
        let mut len = size_of_val(&value) as socklen_t;
        let (level, to) = (libc::SOL_PACKET, (&raw mut value).cast::<c_void>());
        let (fd, option) = (self.descriptor(), libc::PACKET_FANOUT);
        // SAFETY: the system writes at most `len` bytes, one number.
        done(unsafe { libc::getsockopt(fd, level, option, to, &raw mut len) })?;
        Ok(value as u16)
    }

    /// Receives nothing, until [`Self::accept`].
    pub(crate) fn refuse(&self) -> io::Result<()> {
        let code = (libc::BPF_RET | libc::BPF_K) as u16;
        let mut none = libc::sock_filter { code, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut none };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Ends [`Self::refuse`].
    pub(crate) fn accept(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
    }

    /// Receives frames for other hosts, too, while the socket is open.
    pub(crate) fn receive_all(&self, index: c_int) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Receives no frames that this host sends. Kernels before 4.20 refuse it.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)
    }

    /// Sets the memory for frames that wait for the interface, up to the system's limit.
    pub(crate) fn set_send_buffer(&self, bytes: c_int) {
        if self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
    }

    /// Sets an option. Each is a structure of numbers, and of pointers that outlive the call.
    pub(super) fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as socklen_t;
        let value = ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the system reads `len` bytes of the value.
        done(unsafe { libc::setsockopt(self.descriptor(), level, option, value, len) })
    }

    /// Frames that found no room in the ring since the last call.
    pub(crate) fn take_losses(&self) -> u64 {
        let mut counts = [0_u32; 2];
        let mut len = size_of_val(&counts) as socklen_t;
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let to = counts.as_mut_ptr().cast::<c_void>();
        // SAFETY: the system writes at most `len` bytes: `tpacket_stats`, two counts.
        let outcome =
            unsafe { libc::getsockopt(self.descriptor(), level, option, to, &raw mut len) };
        if outcome == 0 { counts[1].into() } else { 0 }
    }

    /// The socket's pending error, which it then no longer has.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let mut error: c_int = 0;
        let mut len = size_of_val(&error) as socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ERROR);
        let to = (&raw mut error).cast::<c_void>();
        // SAFETY: the system writes at most `len` bytes, one number.
        unsafe { libc::getsockopt(self.descriptor(), level, option, to, &raw mut len) };
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// Sends up to [`BURST_MAX`] frames without waiting. Returns how many were taken, at least one,
    /// or why the first was not.
    pub(crate) fn send(&self, frames: &[Frame<'_>]) -> io::Result<usize> {
        let bytes = |at: usize| frames.get(at).map_or(&[][..], |frame| frame.bytes);
        let mut parts: [iovec; BURST_MAX] = array::from_fn(|at| iovec {
            iov_base: bytes(at).as_ptr().cast_mut().cast(),
            iov_len: bytes(at).len(),
        });
        let parts = parts.as_mut_ptr();
        let mut messages: [mmsghdr; BURST_MAX] = array::from_fn(|at| {
            // SAFETY: it is numbers and pointers; all zero is a message without parts.
            let mut message: mmsghdr = unsafe { mem::zeroed() };
            // The place stays within `parts`, which has as many entries.
            message.msg_hdr.msg_iov = parts.wrapping_add(at);
            message.msg_hdr.msg_iovlen = 1;
            message
        });
        let count = frames.len().min(BURST_MAX) as libc::c_uint;
        let (to, flags) = (messages.as_mut_ptr(), libc::MSG_DONTWAIT);
        // SAFETY: there are `count` messages of one part each. The parts are the frames' bytes,
        // which the system reads; all outlive the call.
        let sent = unsafe { libc::sendmmsg(self.descriptor(), to, count, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

fn done(outcome: c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
