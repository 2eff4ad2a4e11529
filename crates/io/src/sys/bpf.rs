//! The XDP program of an interface: bpf(2).
//!
//! It passes the frames of a queue to the socket of that queue, and those of other queues to the
//! kernel. The system detaches it when the process ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Commands, of `linux/bpf.h`.
const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const PROGRAM_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
/// Types of maps, programs and links.
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const LINK_XDP: u32 = 37;
/// Runs the program before a driver without XDP would: `XDP_FLAGS_SKB_MODE`.
const GENERIC: u32 = 1 << 1;
const LICENSE: &core::ffi::CStr = c"Dual MIT/GPL";

/// Sockets by queue, and the program that passes frames to them.
pub(crate) struct XdpProgram {
    sockets: OwnedFd,
    program: OwnedFd,
}

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

impl XdpProgram {
    /// Loads it, for queues below `queues`.
    pub(crate) fn load(queues: u32) -> io::Result<Self> {
        let map = MapCreate {
            kind: MAP_OF_SOCKETS,
            key_len: 4,
            value_len: 4,
            entries: queues.max(1),
            ..MapCreate::default()
        };
        // SAFETY: the structure has no pointers.
        let sockets = unsafe { open(MAP_CREATE, &map) }?;
        let code = instructions(sockets.as_raw_fd());
        let load = ProgramLoad {
            kind: PROGRAM_XDP,
            len: code.len() as u32,
            instructions: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            ..ProgramLoad::default()
        };
        // SAFETY: both pointers are of values that outlive the call: `len` instructions, and a
        // string that ends with zero.
        let program = unsafe { open(PROGRAM_LOAD, &load) }?;
        Ok(Self { sockets, program })
    }

    /// Passes the frames of `queue` to `socket`.
    pub(crate) fn add(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let update = MapUpdate {
            map: number(&self.sockets),
            key: (&raw const queue) as u64,
            value: (&raw const socket) as u64,
            ..MapUpdate::default()
        };
        // SAFETY: both pointers are of numbers of four bytes, which outlive the call.
        unsafe { call(MAP_UPDATE, &update) }.map(drop)
    }

    /// Attaches it to the interface with this number: in its driver, or where the driver can't,
    /// before the kernel's protocols.
    pub(crate) fn attach(&self, interface: u32) -> io::Result<Attached> {
        let attach = |flags| {
            let program = number(&self.program);
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
}

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`
fn instructions(sockets: RawFd) -> [u64; 6] {
    // Of `linux/bpf.h`: operation, registers (source << 4 | target), offset, number.
    let one = |operation: u8, registers: u8, offset: i16, number: i32| {
        let [low, high] = offset.to_ne_bytes();
        let [a, b, c, d] = number.to_ne_bytes();
        u64::from_ne_bytes([operation, registers, low, high, a, b, c, d])
    };
    let registers = |target: u8, source: u8| {
        if cfg!(target_endian = "little") { source << 4 | target } else { target << 4 | source }
    };
    const QUEUE: i16 = 16; // the offset of `rx_queue_index` in `struct xdp_md`
    const LOAD_WORD: u8 = 0x61;
    const LOAD_DOUBLE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const MAP: u8 = 1; // the number is a map's descriptor
    const PASS: i32 = 2; // without a socket
    const REDIRECT_MAP: i32 = 51;
    [
        one(LOAD_WORD, registers(2, 1), QUEUE, 0),
        one(LOAD_DOUBLE, registers(1, MAP), 0, sockets),
        one(0, 0, 0, 0), // the high half of the number
        one(MOVE, registers(3, 0), 0, PASS),
        one(CALL, 0, 0, REDIRECT_MAP),
        one(EXIT, 0, 0, 0),
    ]
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
