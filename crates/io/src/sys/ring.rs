//! A ring of received frames that the system shares with this process: `TPACKET_V2`.
//!
//! The ring is an array of slots. The system fills the next one and sets `TP_STATUS_USER` in its
//! status. From then on the slot is ours until we write `TP_STATUS_KERNEL`.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::AsRawFd;

use libc::{sockaddr_ll, tpacket_req, tpacket2_hdr};

use super::PacketSocket;

/// Alignment of a slot's parts (`TPACKET_ALIGNMENT`).
const ALIGNMENT: usize = 16;
/// Bytes of a block of slots, which is contiguous memory of the system.
const BLOCK: usize = 1 << 16;
/// Room before a frame for a VLAN tag.
pub(crate) const RESERVE: usize = 4;

/// The slots of a socket. Those from `start` on, `held` many, are ours.
pub(crate) struct Ring {
    memory: NonNull<u8>,
    len: usize,
    slot_len: usize,
    slots: usize,
    start: usize,
    held: usize,
}

/// A slot's header, and the position of its frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The slot's number.
    at: usize,
    /// Where its frame starts in the slot, and its length there.
    start: usize,
    len: usize,
    /// `TP_STATUS` flags.
    pub(crate) status: u32,
    /// The frame's length on the wire.
    pub(crate) wire_len: u32,
    pub(crate) seconds: u32,
    pub(crate) nanoseconds: u32,
    /// The tag control information and protocol of a VLAN tag that the system removed.
    pub(crate) vlan: (u16, u16),
    /// Whether this host sent it.
    pub(crate) is_outgoing: bool,
    /// Whether it is to the interface's own address.
    pub(crate) is_to_host: bool,
}

// SAFETY: the memory is the process's, not a thread's, and the ring has it alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives `socket` a ring of about `bytes` for frames of up to `frame_len` bytes.
    pub(crate) fn new(socket: &PacketSocket, frame_len: usize, bytes: usize) -> io::Result<Self> {
        let header = align(size_of::<tpacket2_hdr>()) + size_of::<sockaddr_ll>();
        // The system puts the bytes after a 14-byte header at a multiple of 16.
        let slot_len = (align(header.max(header + 16)) + RESERVE + frame_len + ALIGNMENT)
            .next_power_of_two()
            .max(1 << 11);
        let block = BLOCK.max(slot_len);
        let blocks = (bytes / block).max(2);
        let (len, slots) = (block * blocks, block / slot_len * blocks);
        let number = |number: usize| u32::try_from(number).map_err(io::Error::other);
        socket.set(
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2),
        )?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &(RESERVE as u32))?;
        let request = tpacket_req {
            tp_block_size: number(block)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(slot_len)?,
            tp_frame_nr: number(slots)?,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = socket.descriptor().as_raw_fd();
        // SAFETY: a new mapping at a place of the system's choice.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, fd, 0) };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { memory, len, slot_len, slots, start: 0, held: 0 })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives `socket` a ring for longer frames instead of this one. Frames in this one, and those
    /// that arrive meanwhile, are lost. If it fails, the ring has no slots.
    pub(crate) fn remake(
        &mut self,
        socket: &PacketSocket,
        frame_len: usize,
        bytes: usize,
    ) -> io::Result<()> {
        // The system frees a ring that is not mapped.
        *self = Self::without_slots();
        let none =
            tpacket_req { tp_block_size: 0, tp_block_nr: 0, tp_frame_size: 0, tp_frame_nr: 0 };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &none)?;
        *self = Self::new(socket, frame_len, bytes)?;
        Ok(())
    }

    const fn without_slots() -> Self {
        Self { memory: NonNull::dangling(), len: 0, slot_len: 0, slots: 0, start: 0, held: 0 }
    }

    /// Takes the next slot if the system has filled it. It stays ours until [`Ring::release`].
    pub(crate) fn take(&mut self) -> Option<Slot> {
        if self.held == self.slots {
            return None;
        }
        let at = (self.start + self.held) % self.slots;
        let status = self.status(at).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let place = self.place(at);
        // SAFETY: the slot starts with this header, which the system wrote before the status. Slots
        // are aligned to their length, a power of two from 2048 on.
        let header = unsafe { place.cast::<tpacket2_hdr>().read() };
        let address = align(size_of::<tpacket2_hdr>());
        // SAFETY: the address follows the header at this multiple of 16, in the slot.
        let address = unsafe { place.add(address).cast::<sockaddr_ll>().read() };
        self.held += 1;
        let start = usize::from(header.tp_mac).min(self.slot_len);
        let len = (header.tp_snaplen as usize).min(self.slot_len - start);
        Some(Slot {
            at,
            start,
            len,
            status,
            wire_len: header.tp_len,
            seconds: header.tp_sec,
            nanoseconds: header.tp_nsec,
            vlan: (header.tp_vlan_tci, header.tp_vlan_tpid),
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            is_to_host: address.sll_pkttype == libc::PACKET_HOST,
        })
    }

    /// The frame of a slot that is ours, with the room before it; `None` for one that isn't.
    pub(crate) fn frame_mut(&mut self, slot: &Slot) -> Option<(&mut [u8], usize)> {
        let room = slot.start.min(RESERVE);
        let (place, len) = self.part(slot, slot.start - room, slot.len + room)?;
        // SAFETY: the part lies in the slot, which is ours: the system does not touch it. `&mut
        // self` excludes other references to it.
        Some((unsafe { slice::from_raw_parts_mut(place, len) }, room))
    }

    /// The bytes of a slot that is ours: its frame, `before` bytes earlier.
    pub(crate) fn frame(&self, slot: &Slot, before: usize) -> &[u8] {
        let before = before.min(slot.start);
        match self.part(slot, slot.start - before, slot.len + before) {
            // SAFETY: the part lies in the slot, which is ours: the system does not touch it, and
            // `&self` excludes writes and `release`.
            Some((place, len)) => unsafe { slice::from_raw_parts(place, len) },
            None => &[],
        }
    }

    /// Returns all slots to the system.
    pub(crate) fn release(&mut self) {
        for _ in 0..self.held {
            self.status(self.start).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.start = (self.start + 1) % self.slots;
        }
        self.held = 0;
    }

    /// A part of a slot, if the slot is ours and has it.
    fn part(&self, slot: &Slot, start: usize, len: usize) -> Option<(*mut u8, usize)> {
        if slot.at >= self.slots {
            return None;
        }
        let ahead = (slot.at + self.slots - self.start) % self.slots;
        let is_ours = ahead < self.held;
        let fits = start.checked_add(len).is_some_and(|end| end <= self.slot_len);
        // SAFETY: the part ends in the slot.
        (is_ours && fits).then(|| (unsafe { self.place(slot.at).add(start) }, len))
    }

    fn status(&self, at: usize) -> &AtomicU32 {
        // SAFETY: a slot starts with its status, which both sides access atomically.
        unsafe { AtomicU32::from_ptr(self.place(at).cast()) }
    }

    /// The start of slot `at`. Blocks are whole slots, so slots lie one after another.
    fn place(&self, at: usize) -> *mut u8 {
        debug_assert!(at < self.slots);
        // SAFETY: all slots are in the mapping.
        unsafe { self.memory.as_ptr().add(at * self.slot_len) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: it is the mapping of `new`; all references into it have ended.
        unsafe { libc::munmap(self.memory.as_ptr().cast::<c_void>(), self.len) };
    }
}

const fn align(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}
