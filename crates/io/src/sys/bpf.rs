//! Programs of an interface and their maps: bpf(2).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Commands, of `linux/bpf.h`.
const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const PROGRAM_LOAD: u32 = 5;
#[cfg(test)]
const PROGRAM_TEST: u32 = 10;
const LINK_CREATE: u32 = 28;
/// Types of programs and links.
const PROGRAM_XDP: u32 = 6;
const LINK_XDP: u32 = 37;
/// Runs the program before a driver without XDP would: `XDP_FLAGS_SKB_MODE`.
const GENERIC: u32 = 1 << 1;
const LICENSE: &core::ffi::CStr = c"Dual MIT/GPL";

/// The types of maps that programs use, with the flags that they are made with.
#[derive(Clone, Copy)]
pub(super) enum MapKind {
    /// Memory is taken for entries that there are.
    Hash = 1,
    Array = 2,
    Sockets = 17,
}

/// A table that a program reads.
pub(super) struct Map {
    fd: OwnedFd,
    key_len: usize,
    value_len: usize,
}

/// A program for interfaces.
pub(super) struct Program(OwnedFd);

/// A program that is attached as long as this value lives.
pub(crate) struct Attached {
    _link: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    len: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

#[cfg(test)]
#[repr(C)]
#[derive(Default)]
struct ProgramTest {
    program: u32,
    result: u32,
    len: u32,
    out_len: u32,
    data: u64,
    out: u64,
    repeat: u32,
    duration: u32,
    context: [u64; 3],
}

impl Map {
    /// A map of up to `entries` keys of `key_len` bytes.
    pub(super) fn new(kind: MapKind, lens: (usize, usize), entries: u32) -> io::Result<Self> {
        const NO_PREALLOCATION: u32 = 1;
        let flags = if matches!(kind, MapKind::Hash) { NO_PREALLOCATION } else { 0 };
        let (key_len, value_len) = lens;
        let (kind, entries) = (kind as u32, entries.max(1));
        let map = MapCreate {
            kind,
            key_len: key_len as u32,
            value_len: value_len as u32,
            entries,
            flags,
        };
        // SAFETY: the structure has no pointers.
        let fd = unsafe { open(MAP_CREATE, &map) }?;
        Ok(Self { fd, key_len, value_len })
    }

    /// Sets the value of a key.
    pub(super) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key_len, self.value_len));
        let value = value.as_ptr() as u64;
        // SAFETY: the system reads a key and a value of the map's lengths.
        unsafe { call(MAP_UPDATE, &MapUpdate { value, ..self.entry(key) }) }.map(drop)
    }

    /// Removes a key.
    pub(super) fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key_len);
        // SAFETY: the system reads a key of the map's length.
        unsafe { call(MAP_DELETE, &self.entry(key)) }.map(drop)
    }

    fn entry(&self, key: &[u8]) -> MapUpdate {
        MapUpdate { map: number(&self.fd), key: key.as_ptr() as u64, ..MapUpdate::default() }
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Program {
    /// Loads these instructions.
    pub(super) fn load(code: &[u64]) -> io::Result<Self> {
        let load = ProgramLoad {
            kind: PROGRAM_XDP,
            len: code.len() as u32,
            instructions: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            ..ProgramLoad::default()
        };
        // SAFETY: both pointers are of values that outlive the call: `len` instructions, and a
        // string that ends with zero.
        unsafe { open(PROGRAM_LOAD, &load) }.map(Self)
    }

    /// Attaches it to the interface with this number: in its driver, or where the driver can't,
    /// before the kernel's protocols.
    pub(super) fn attach(&self, interface: u32) -> io::Result<Attached> {
        let attach = |flags| {
            let program = number(&self.0);
            let link = LinkCreate { program, interface, kind: LINK_XDP, flags };
            // SAFETY: the structure has no pointers.
            unsafe { open(LINK_CREATE, &link) }
        };
        let link = attach(0).or_else(|error| match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES) => Err(error),
            _ => attach(GENERIC),
        })?;
        Ok(Attached { _link: link })
    }

    /// Its answer to a frame.
    #[cfg(test)]
    pub(super) fn answer(&self, frame: &[u8]) -> io::Result<u32> {
        let (program, len) = (number(&self.0), frame.len() as u32);
        let data = frame.as_ptr() as u64;
        let mut test = ProgramTest { program, len, data, repeat: 1, ..ProgramTest::default() };
        let (at, size) = (&raw mut test, size_of::<ProgramTest>());
        // SAFETY: the system reads `len` bytes of the frame, and writes its results into `test`.
        let result = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_TEST, at, size) };
        if result == 0 { Ok(test.result) } else { Err(io::Error::last_os_error()) }
    }
}

fn number(fd: &OwnedFd) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX)
}

/// Makes a call that opens a descriptor.
///
/// # Safety
/// As for [`call`].
unsafe fn open<T>(command: u32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: by the caller.
    let fd = unsafe { call(command, attributes) }?;
    // SAFETY: the system just opened it, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `attributes` are those of `command`, and their pointers are valid during the call.
unsafe fn call<T>(command: u32, attributes: &T) -> io::Result<RawFd> {
    let (at, len) = (core::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the system reads `len` bytes of the attributes, and what their pointers name.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, len) };
    RawFd::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)
}
