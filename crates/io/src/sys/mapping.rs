//! Memory that the system maps: mmap(2).

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::io;
use std::os::fd::RawFd;

/// A mapping, which ends with this value.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is the process's, not a thread's. Each use of the pointer argues for itself.
unsafe impl Send for Mapping {}
// SAFETY: as above; this type reads and writes none of the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of this process.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// The part of `fd` from `offset` on, shared with the system.
    pub(super) fn of(fd: RawFd, len: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::new(len, libc::MAP_SHARED, fd, offset)
    }

    fn new(len: usize, kind: i32, fd: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = kind | libc::MAP_POPULATE;
        // SAFETY: a new mapping at a place of the system's choice.
        let memory = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, fd, offset) };
        match NonNull::new(memory.cast::<u8>()) {
            Some(start) if memory != libc::MAP_FAILED => Ok(Self { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is the mapping of `new`; its owner has dropped all references into it.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}
