//! libpcap: compiled filters. The manual pages `pcap_compile(3pcap)` and
//! `pcap_offline_filter(3pcap)` state what callers must do.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Shared;
use crate::Missing;

/// `PCAP_NETMASK_UNKNOWN`.
const NETMASK_UNKNOWN: c_uint = 0xffff_ffff;
/// `LINKTYPE_RAW` of captures and `DLT_RAW` of Linux. The other link types whose headers are known
/// have one number.
const RAW: [u16; 2] = [101, 12];
/// Bytes of a frame that a filter may look at.
const SNAP_LEN: c_int = 262_144;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut c_void,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
struct PacketHeader {
    time: libc::timeval,
    captured_len: u32,
    len: u32,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut Program, *const c_char, c_int, c_uint) -> c_int;
type ErrorText = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type Matches = unsafe extern "C" fn(*const Program, *const PacketHeader, *const u8) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut c_void);

struct Functions {
    open_dead: OpenDead,
    compile: Compile,
    error_text: ErrorText,
    matches: Matches,
    free_code: FreeCode,
    close: Close,
}

fn functions() -> Result<&'static Functions, Missing> {
    static FUNCTIONS: OnceLock<Result<Functions, Missing>> = OnceLock::new();
    FUNCTIONS.get_or_init(Functions::load).as_ref().map_err(Clone::clone)
}

impl Functions {
    fn load() -> Result<Self, Missing> {
        // Debian numbers it apart from its authors.
        let library = Shared::open(c"libpcap.so.1").or_else(|_| Shared::open(c"libpcap.so.0.8"))?;
        let find = |name: &CStr| library.symbol(name).map(NonNull::as_ptr);
        // SAFETY: these are the signatures of `pcap/pcap.h`, the same since version 1.0.
        unsafe {
            Ok(Self {
                open_dead: transmute::<*mut c_void, OpenDead>(find(c"pcap_open_dead")?),
                compile: transmute::<*mut c_void, Compile>(find(c"pcap_compile")?),
                error_text: transmute::<*mut c_void, ErrorText>(find(c"pcap_geterr")?),
                matches: transmute::<*mut c_void, Matches>(find(c"pcap_offline_filter")?),
                free_code: transmute::<*mut c_void, FreeCode>(find(c"pcap_freecode")?),
                close: transmute::<*mut c_void, Close>(find(c"pcap_close")?),
            })
        }
    }
}

/// Whether the library is there.
pub(crate) fn present() -> Result<(), Missing> {
    functions().map(drop)
}

/// A compiled filter.
pub(crate) struct Code {
    functions: &'static Functions,
    program: Program,
}

// SAFETY: the instructions are on the heap, owned by this value alone, and freed once; any thread
// may do so.
unsafe impl Send for Code {}
// SAFETY: matching only reads the instructions.
unsafe impl Sync for Code {}

impl Code {
    /// Of `text` for frames of a link type. The inner error is the library's message about `text`.
    pub(crate) fn compile(text: &CStr, link: u16) -> Result<Result<Self, String>, Missing> {
        // Before version 1.8 two threads could not compile at once.
        static ONE: Mutex<()> = Mutex::new(());
        let functions = functions()?;
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let link = if link == RAW[0] { RAW[1] } else { link };
        // SAFETY: it takes two numbers.
        let handle = unsafe { (functions.open_dead)(link.into(), SNAP_LEN) };
        if handle.is_null() {
            return Ok(Err("no memory".into()));
        }
        let mut program = Program { len: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is open; `text` ends with a zero; `program` is written to.
        let code =
            unsafe { (functions.compile)(handle, &mut program, text.as_ptr(), 1, NETMASK_UNKNOWN) };
        let compiled = match code {
            0 => Ok(Self { functions, program }),
            // SAFETY: the text is the handle's, ends with a zero, and is copied before it closes.
            _ => Err(unsafe { CStr::from_ptr((functions.error_text)(handle)) }
                .to_string_lossy()
                .into_owned()),
        };
        // SAFETY: it is open, and closed once. The program does not depend on it.
        unsafe { (functions.close)(handle) };
        Ok(compiled)
    }

    /// Whether it matches a frame that had `wire_len` bytes.
    pub(crate) fn matches(&self, frame: &[u8], wire_len: u32) -> bool {
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let captured_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let header = PacketHeader { time, captured_len, len: wire_len.max(captured_len) };
        // SAFETY: the program was compiled; the header has the number of bytes.
        unsafe { (self.functions.matches)(&self.program, &header, frame.as_ptr()) != 0 }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: it was compiled, and is freed once.
        unsafe { (self.functions.free_code)(&mut self.program) };
    }
}
