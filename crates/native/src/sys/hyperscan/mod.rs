//! Hyperscan: the library and its versions.
//!
//! Databases and scratch belong to the library and are never inspected. The one structure that is
//! read is [`CompileErrorHead`], which has been the same since version 4.0.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::ops::RangeInclusive;
use core::ptr::NonNull;
use std::sync::OnceLock;

use super::Shared;
use crate::Missing;

mod database;
mod saved;
mod scratch;

pub use database::Database;

/// Major and minor number of the versions whose functions were checked; literals came with 5.2.
const VERSIONS: RangeInclusive<(u32, u32)> = (5, 2)..=(5, 4);

const SUCCESS: c_int = 0;
/// A callback wanted no more.
const SCAN_TERMINATED: c_int = -3;

/// `hs_compile_error_t`.
#[repr(C)]
struct CompileErrorHead {
    message: *mut c_char,
    expression: c_int,
}

/// `match_event_handler`: number, start, end, flags, context.
type OnMatch = unsafe extern "C" fn(c_uint, u64, u64, c_uint, *mut c_void) -> c_int;

type PopulatePlatform = unsafe extern "C" fn(*mut saved::PlatformInfo) -> c_int;
type Serialize = unsafe extern "C" fn(*const c_void, *mut *mut c_char, *mut usize) -> c_int;
type Deserialize = unsafe extern "C" fn(*const c_char, usize, *mut *mut c_void) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;
type ValidPlatform = unsafe extern "C" fn() -> c_int;
type CompileLitMulti = unsafe extern "C" fn(
    expressions: *const *const c_char,
    flags: *const c_uint,
    ids: *const c_uint,
    lens: *const usize,
    elements: c_uint,
    mode: c_uint,
    platform: *const c_void,
    database: *mut *mut c_void,
    error: *mut *mut CompileErrorHead,
) -> c_int;
type FreeCompileError = unsafe extern "C" fn(*mut CompileErrorHead) -> c_int;
type DatabaseSize = unsafe extern "C" fn(*const c_void, *mut usize) -> c_int;
type FreeDatabase = unsafe extern "C" fn(*mut c_void) -> c_int;
type AllocScratch = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type CloneScratch = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type FreeScratch = unsafe extern "C" fn(*mut c_void) -> c_int;
type ScratchSize = unsafe extern "C" fn(*const c_void, *mut usize) -> c_int;
type Scan = unsafe extern "C" fn(
    database: *const c_void,
    text: *const c_char,
    len: c_uint,
    flags: c_uint,
    scratch: *mut c_void,
    on_match: OnMatch,
    context: *mut c_void,
) -> c_int;

/// The library, loaded.
#[derive(Debug)]
pub struct Library {
    version: String,
    compile: CompileLitMulti,
    free_error: FreeCompileError,
    database_size: DatabaseSize,
    free_database: FreeDatabase,
    alloc_scratch: AllocScratch,
    clone_scratch: CloneScratch,
    free_scratch: FreeScratch,
    scratch_size: ScratchSize,
    scan: Scan,
    populate_platform: PopulatePlatform,
    serialize: Serialize,
    deserialize: Deserialize,
}

impl Library {
    /// Loads it once for the process, and returns the same result from then on.
    ///
    /// # Errors
    ///
    /// It is not installed, its version was not tested, or it doesn't know this machine's
    /// processor.
    pub fn load() -> Result<&'static Self, Missing> {
        static LIBRARY: OnceLock<Result<Library, Missing>> = OnceLock::new();
        let loaded = LIBRARY.get_or_init(|| Self::open(&Shared::open(c"libhs.so.5")?));
        loaded.as_ref().map_err(Missing::clone)
    }

    fn open(shared: &Shared) -> Result<Self, Missing> {
        let version = version(shared.symbol(c"hs_version")?);
        check_version(&version)?;
        check_platform(shared.symbol(c"hs_valid_platform")?)?;
        let address = |name: &CStr| shared.symbol(name).map(NonNull::as_ptr);
        let (compile, free_error) =
            (address(c"hs_compile_lit_multi")?, address(c"hs_free_compile_error")?);
        let (size, free_database) = (address(c"hs_database_size")?, address(c"hs_free_database")?);
        let (alloc, clone) = (address(c"hs_alloc_scratch")?, address(c"hs_clone_scratch")?);
        let (free_scratch, scratch_size) =
            (address(c"hs_free_scratch")?, address(c"hs_scratch_size")?);
        let scan = address(c"hs_scan")?;
        let platform = address(c"hs_populate_platform")?;
        let (serialize, deserialize) =
            (address(c"hs_serialize_database")?, address(c"hs_deserialize_database")?);
        // SAFETY: the functions have these forms in all of `VERSIONS`.
        unsafe {
            Ok(Self {
                version,
                compile: transmute::<*mut c_void, CompileLitMulti>(compile),
                free_error: transmute::<*mut c_void, FreeCompileError>(free_error),
                database_size: transmute::<*mut c_void, DatabaseSize>(size),
                free_database: transmute::<*mut c_void, FreeDatabase>(free_database),
                alloc_scratch: transmute::<*mut c_void, AllocScratch>(alloc),
                clone_scratch: transmute::<*mut c_void, CloneScratch>(clone),
                free_scratch: transmute::<*mut c_void, FreeScratch>(free_scratch),
                scratch_size: transmute::<*mut c_void, ScratchSize>(scratch_size),
                scan: transmute::<*mut c_void, Scan>(scan),
                populate_platform: transmute::<*mut c_void, PopulatePlatform>(platform),
                serialize: transmute::<*mut c_void, Serialize>(serialize),
                deserialize: transmute::<*mut c_void, Deserialize>(deserialize),
            })
        }
    }

    /// The library's own version and the date of its build.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Bytes of scratch memory that a scanning thread needs for the present databases, and bytes
    /// that the calling thread has; 0 before its first scan.
    pub fn scratch_lens(&self) -> [usize; 2] {
        scratch::lens()
    }
}

fn version(function: NonNull<c_void>) -> String {
    // SAFETY: the function has had this form since version 4.0; it returns a text that is never
    // freed.
    unsafe {
        let text = transmute::<*mut c_void, Version>(function.as_ptr())();
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

fn check_version(version: &str) -> Result<(), Missing> {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if VERSIONS.contains(&(major, minor)) => Ok(()),
        _ => Err(Missing(format!("Hyperscan is of version {version}; 5.2 to 5.4 are known"))),
    }
}

fn check_platform(function: NonNull<c_void>) -> Result<(), Missing> {
    // SAFETY: the function has had this form since version 4.3.
    let status = unsafe { transmute::<*mut c_void, ValidPlatform>(function.as_ptr())() };
    match status {
        SUCCESS => Ok(()),
        _ => Err(Missing(format!("Hyperscan can't work on this processor (error {status})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_a_reason() {
        let missing = Library::open(&Shared::open(c"libc.so.6").unwrap()).err().unwrap();
        assert_eq!(missing.to_string(), "libc.so.6 has no function hs_version");
    }

    #[test]
    fn versions_that_were_not_checked_are_refused_by_name() {
        for (version, is_known) in [
            ("5.1.1 2019-04-03", false),
            ("5.2.0 2019-07-09", true),
            ("5.4.0 2021-01-26", true),
            ("5.4.11 2023-11-12", true),
            ("5.5.0 2030-01-01", false),
            ("6.0", false),
            ("", false),
        ] {
            assert_eq!(check_version(version).is_ok(), is_known, "{version}");
        }
        let missing = check_version("6.0").unwrap_err();
        assert_eq!(missing.to_string(), "Hyperscan is of version 6.0; 5.2 to 5.4 are known");
    }
}
