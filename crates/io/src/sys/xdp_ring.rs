//! Rings of entries that an AF_XDP socket shares with the system.
//!
//! Each has one producer and one consumer, this process or the system. Both count without end; the
//! place of an entry is the count modulo the size, a power of two. A side owns the entries between
//! its own count and the other's.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::RawFd;

use super::mapping::Mapping;

/// Plain numbers for which all bits are valid.
///
/// # Safety
/// Any bytes are a value of it.
pub(super) unsafe trait RingEntry: Copy {}
// SAFETY: a number.
unsafe impl RingEntry for u64 {}
// SAFETY: numbers.
unsafe impl RingEntry for libc::xdp_desc {}

/// The memory of a ring.
struct Shared<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    count: u32,
    entry: core::marker::PhantomData<T>,
}

/// This process's side of a ring that it fills.
pub(super) struct Producer<T> {
    ring: Shared<T>,
    /// Entries written, and those that the system had read when we last looked.
    written: u32,
    read: u32,
}

/// This process's side of a ring that the system fills.
pub(super) struct Consumer<T> {
    ring: Shared<T>,
    read: u32,
    written: u32,
}

impl<T: RingEntry> Shared<T> {
    /// Maps the ring of `fd` with `count` entries, a power of two.
    fn map(
        fd: RawFd,
        page: libc::off_t,
        at: &libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        assert!(count.is_power_of_two());
        let bytes = count as usize * size_of::<T>();
        let place = |at: u64| usize::try_from(at).map_err(io::Error::other);
        let (producer, consumer) = (place(at.producer)?, place(at.consumer)?);
        let (flags, entries) = (place(at.flags)?, place(at.desc)?);
        let memory = Mapping::of(fd, entries + bytes, page)?;
        let fits = |at: usize| at.is_multiple_of(4) && at + 4 <= memory.len();
        if ![producer, consumer, flags].into_iter().all(fits)
            || !entries.is_multiple_of(align_of::<T>())
        {
            return Err(io::Error::other("the system's ring has no valid layout"));
        }
        let entry = core::marker::PhantomData;
        Ok(Self { memory, producer, consumer, flags, entries, count, entry })
    }

    fn number(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` checked that four aligned bytes lie there. Both sides access them
        // atomically.
        unsafe { AtomicU32::from_ptr(self.memory.start().as_ptr().add(at).cast()) }
    }

    fn entry(&self, count: u32) -> NonNull<T> {
        let at = (count & (self.count - 1)) as usize;
        // SAFETY: the mapping has `count` entries from `entries` on.
        unsafe { self.memory.start().add(self.entries).cast::<T>().add(at) }
    }
}

impl<T: RingEntry> Producer<T> {
    pub(super) fn map(
        fd: RawFd,
        page: libc::off_t,
        at: &libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Shared::map(fd, page, at, count)?, written: 0, read: 0 })
    }

    /// Writes an entry, which the system sees at [`Producer::publish`]. Returns whether there was
    /// room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.written.wrapping_sub(self.read) >= self.ring.count {
            self.read = self.ring.number(self.ring.consumer).load(Ordering::Acquire);
            if self.written.wrapping_sub(self.read) >= self.ring.count {
                return false;
            }
        }
        // SAFETY: the system has read the entry's previous value, so it is ours.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.number(self.ring.producer).store(self.written, Ordering::Release);
    }

    /// Whether the system requires a call to continue.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.number(self.ring.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the system has read all published entries.
    pub(super) fn is_drained(&self) -> bool {
        self.ring.number(self.ring.consumer).load(Ordering::Acquire) == self.written
    }
}

impl<T: RingEntry> Consumer<T> {
    pub(super) fn map(
        fd: RawFd,
        page: libc::off_t,
        at: &libc::xdp_ring_offset,
        count: u32,
    ) -> io::Result<Self> {
        Ok(Self { ring: Shared::map(fd, page, at, count)?, read: 0, written: 0 })
    }

    /// Reads the next entry, which is the system's again after [`Consumer::release`].
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.read == self.written {
            self.written = self.ring.number(self.ring.producer).load(Ordering::Acquire);
            if self.read == self.written {
                return None;
            }
        }
        // SAFETY: the system has written the entry, and it is ours until `release`.
        let entry = unsafe { self.ring.entry(self.read).read() };
        self.read = self.read.wrapping_add(1);
        Some(entry)
    }

    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.number(self.ring.consumer).store(self.read, Ordering::Release);
    }
}
