//! A ring of received frames that the system shares with this process: packet(7).
//!
//! The system hands over each frame at once ([`Slots`]) or several in a block ([`Blocks`]). These
//! are ours until [`Ring::release`].

mod blocks;
mod slots;

use core::slice;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::AsRawFd;

use libc::{sockaddr_ll, tpacket_hdr_v1, tpacket_req3, tpacket2_hdr, tpacket3_hdr};

use self::blocks::Blocks;
use self::slots::Slots;
use super::PacketSocket;
use super::mapping::Mapping;
use crate::af_packet::Delivery;

/// Alignment of a frame's parts (`TPACKET_ALIGNMENT`).
const ALIGNMENT: usize = 16;
/// Room before a frame for a VLAN tag.
pub(crate) const RESERVE: usize = 4;

/// The memory of a socket's frames.
pub(crate) struct Ring {
    /// `None` if the ring could not be made anew.
    memory: Option<Mapping>,
    form: Form,
    delivery: Delivery,
    /// Counts releases. Frames that were taken since the last one are ours.
    releases: u64,
}

enum Form {
    Slots(Slots),
    Blocks(Blocks),
}

/// A frame's place in the ring, and its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Where the frame starts in the memory, the room before it, and its length there.
    start: usize,
    room: usize,
    len: usize,
    /// The releases before it was taken.
    releases: u64,
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

impl Ring {
    /// Gives `socket` a ring of about `bytes` for frames of up to `frame_len` bytes.
    pub(crate) fn new(
        socket: &PacketSocket,
        delivery: Delivery,
        frame_len: usize,
        bytes: usize,
    ) -> io::Result<Self> {
        let slot_len = slot_len(frame_len);
        let (form, request) = match delivery {
            Delivery::AtOnce => {
                let (slots, request) = Slots::new(slot_len, bytes)?;
                (Form::Slots(slots), request)
            }
            Delivery::InBlocks => {
                let (blocks, request) = Blocks::new(slot_len, bytes)?;
                (Form::Blocks(blocks), request)
            }
        };
        let version = match delivery {
            Delivery::AtOnce => libc::tpacket_versions::TPACKET_V2,
            Delivery::InBlocks => libc::tpacket_versions::TPACKET_V3,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &(RESERVE as u32))?;
        // Of slots, the system reads the first fields only.
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let len = request.tp_block_size as usize * request.tp_block_nr as usize;
        let memory = Mapping::of(socket.descriptor().as_raw_fd(), len, 0)?;
        Ok(Self { memory: Some(memory), form, delivery, releases: 0 })
    }

    /// Gives `socket` a ring for longer frames instead of this one. Frames in this one, and those
    /// that arrive meanwhile, are lost. If it fails, the ring has no memory.
    pub(crate) fn remake(
        &mut self,
        socket: &PacketSocket,
        frame_len: usize,
        bytes: usize,
    ) -> io::Result<()> {
        // The system frees a ring that is not mapped.
        self.memory = None;
        let releases = self.releases + 1;
        let none = request(0, 0, (0, 0))?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &none)?;
        *self = Self { releases, ..Self::new(socket, self.delivery, frame_len, bytes)? };
        Ok(())
    }

    /// Takes the next frame if the system has handed it over. It stays ours until
    /// [`Ring::release`].
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let memory = self.memory.as_ref()?;
        let slot = match &mut self.form {
            Form::Slots(slots) => slots.take(memory),
            Form::Blocks(blocks) => blocks.take(memory),
        };
        slot.map(|slot| Slot { releases: self.releases, ..slot })
    }

    /// The seconds and nanoseconds of the frame that [`Ring::take`] gives next, if one is there.
    pub(crate) fn next_time(&mut self) -> Option<(u32, u32)> {
        let memory = self.memory.as_ref()?;
        match &mut self.form {
            Form::Slots(slots) => slots.next_time(memory),
            Form::Blocks(blocks) => blocks.next_time(memory),
        }
    }

    /// Returns all frames that were taken to the system.
    pub(crate) fn release(&mut self) {
        self.releases += 1;
        let Some(memory) = &self.memory else { return };
        match &mut self.form {
            Form::Slots(slots) => slots.release(memory),
            Form::Blocks(blocks) => blocks.release(memory),
        }
    }

    /// A frame that is ours, with the room before it; `None` for one that isn't.
    pub(crate) fn frame_mut(&mut self, slot: &Slot) -> Option<(&mut [u8], usize)> {
        let (place, len) = self.part(slot, slot.room)?;
        // SAFETY: the part is in the mapping and is ours: the system does not touch it. `&mut self`
        // excludes other references to it.
        Some((unsafe { slice::from_raw_parts_mut(place, len) }, slot.room))
    }

    /// The bytes of a frame that is ours, and `before` bytes of the room before it.
    pub(crate) fn frame(&self, slot: &Slot, before: usize) -> &[u8] {
        match self.part(slot, before.min(slot.room)) {
            // SAFETY: the part is in the mapping and is ours: the system does not touch it, and
            // `&self` excludes writes and `release`.
            Some((place, len)) => unsafe { slice::from_raw_parts(place, len) },
            None => &[],
        }
    }

    /// The place of a frame and of the `before` bytes before it, if the frame is ours.
    fn part(&self, slot: &Slot, before: usize) -> Option<(*mut u8, usize)> {
        let memory = self.memory.as_ref().filter(|_| slot.releases == self.releases)?;
        let start = slot.start.checked_sub(before)?;
        let fits = slot.start.checked_add(slot.len).is_some_and(|end| end <= memory.len());
        // SAFETY: the part ends in the mapping.
        fits.then(|| (unsafe { memory.start().as_ptr().add(start) }, before + slot.len))
    }
}

impl Slot {
    /// Of the frame whose header and address are at `at`. It ends before `end`.
    fn new(memory: &Mapping, at: usize, end: usize, header: &Header) -> Option<Self> {
        let address: sockaddr_ll = read(memory, at + align(header.len))?;
        let start = (at + header.mac).min(end);
        Some(Self {
            start,
            room: header.mac.min(RESERVE),
            len: header.captured.min(end - start),
            releases: 0,
            status: header.status,
            wire_len: header.wire_len,
            seconds: header.time.0,
            nanoseconds: header.time.1,
            vlan: header.vlan,
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            is_to_host: address.sll_pkttype == libc::PACKET_HOST,
        })
    }
}

/// The part that both versions of a header have.
struct Header {
    /// Its own length. The address follows at the next multiple of [`ALIGNMENT`].
    len: usize,
    /// Where the frame starts, counted from the header.
    mac: usize,
    /// Bytes of the frame that the system wanted to copy.
    captured: usize,
    status: u32,
    wire_len: u32,
    time: (u32, u32),
    vlan: (u16, u16),
}

/// A type that the system writes: numbers only, so that any bytes are a value.
///
/// # Safety
/// It is true of the type.
unsafe trait Numbers: Copy {}
// SAFETY: fields of numbers.
unsafe impl Numbers for tpacket2_hdr {}
// SAFETY: fields of numbers.
unsafe impl Numbers for tpacket3_hdr {}
// SAFETY: fields of numbers.
unsafe impl Numbers for tpacket_hdr_v1 {}
// SAFETY: fields of numbers.
unsafe impl Numbers for sockaddr_ll {}

/// The value that the system wrote at `at`, in a part that is ours; `None` beyond the end.
#[inline]
fn read<T: Numbers>(memory: &Mapping, at: usize) -> Option<T> {
    let fits = at.checked_add(size_of::<T>()).is_some_and(|end| end <= memory.len());
    // SAFETY: it lies in the mapping, and any bytes are a value of the type.
    fits.then(|| unsafe { memory.start().as_ptr().add(at).cast::<T>().read_unaligned() })
}

/// The status at `at`, which both sides access atomically: `TP_STATUS_USER` if the part is ours.
#[inline]
fn status(memory: &Mapping, at: usize) -> &AtomicU32 {
    assert!(at.is_multiple_of(align_of::<AtomicU32>()) && at + size_of::<u32>() <= memory.len());
    // SAFETY: it lies in the mapping, aligned as that is, and both sides access it atomically.
    unsafe { AtomicU32::from_ptr(memory.start().as_ptr().add(at).cast()) }
}

/// Gives the part with the status at `at` back to the system.
#[inline]
fn give_back(memory: &Mapping, at: usize) {
    status(memory, at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
}

/// The flags of the part with the status at `at`, if the system has handed it over.
#[inline]
fn handed_over(memory: &Mapping, at: usize) -> Option<u32> {
    let flags = status(memory, at).load(Ordering::Acquire);
    (flags & libc::TP_STATUS_USER != 0).then_some(flags)
}

/// Bytes for a frame of up to `frame_len` bytes with its header: a power of two.
fn slot_len(frame_len: usize) -> usize {
    let header = align(size_of::<tpacket3_hdr>()) + size_of::<sockaddr_ll>();
    // The system puts the bytes after a 14-byte header at a multiple of 16.
    let len = align(header.max(header + 16)) + RESERVE + frame_len + ALIGNMENT;
    len.next_power_of_two().max(1 << 11)
}

/// A request for `blocks` blocks of `block` bytes, with so many slots of so many bytes.
fn request(block: usize, blocks: usize, slots: (usize, usize)) -> io::Result<tpacket_req3> {
    let number = |number: usize| u32::try_from(number).map_err(io::Error::other);
    Ok(tpacket_req3 {
        tp_block_size: number(block)?,
        tp_block_nr: number(blocks)?,
        tp_frame_nr: number(slots.0)?,
        tp_frame_size: number(slots.1)?,
        tp_retire_blk_tov: 0,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    })
}

const fn align(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests;
