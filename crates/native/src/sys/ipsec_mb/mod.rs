//! intel-ipsec-mb: the library and its versions.
//!
//! Only pointers to structures that the library made itself are followed, and only into their
//! heads, which are the same in all of [`VERSIONS`]. The lengths of the structures don't matter,
//! except for [`GcmKey`]'s data, which has room for the longest.

use core::ffi::{c_uint, c_void};
use core::mem::transmute;
use core::ops::RangeInclusive;
use std::sync::OnceLock;

use super::Shared;
use crate::Missing;

mod gcm_key;
mod layout;
#[cfg(test)]
mod layout_tests;
mod manager;

pub use gcm_key::GcmKey;
use layout::ManagerHead;
pub use manager::Manager;

/// Major and minor number of the versions whose heads were checked, in the library's own form.
const VERSIONS: RangeInclusive<c_uint> = 0x01_02..=0x01_05;

type GetVersion = unsafe extern "C" fn() -> c_uint;
type AllocManager = unsafe extern "C" fn(u64) -> *mut ManagerHead;
type InitManager = unsafe extern "C" fn(*mut ManagerHead, *mut c_uint);
type FreeManager = unsafe extern "C" fn(*mut ManagerHead);

/// The library, loaded.
#[derive(Debug)]
pub struct Library {
    version: c_uint,
    alloc: AllocManager,
    init: InitManager,
    free: FreeManager,
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
        let loaded = LIBRARY.get_or_init(|| Self::open(Shared::open(c"libIPSec_MB.so.1")?));
        let library = loaded.as_ref().map_err(Missing::clone)?;
        Manager::new(library).map(|_| library)
    }

    fn open(shared: Shared) -> Result<Self, Missing> {
        let get_version = shared.symbol(c"imb_get_version")?;
        // SAFETY: the function has had this form since its first version, 0.50.
        let version = unsafe { transmute::<*mut c_void, GetVersion>(get_version.as_ptr())() };
        check_version(version)?;
        let alloc = shared.symbol(c"alloc_mb_mgr")?.as_ptr();
        let init = shared.symbol(c"init_mb_mgr_auto")?.as_ptr();
        let free = shared.symbol(c"free_mb_mgr")?.as_ptr();
        // SAFETY: the functions have these forms in all of `VERSIONS`.
        unsafe {
            Ok(Self {
                version,
                alloc: transmute::<*mut c_void, AllocManager>(alloc),
                init: transmute::<*mut c_void, InitManager>(init),
                free: transmute::<*mut c_void, FreeManager>(free),
            })
        }
    }

    /// Major, minor and patch number.
    pub fn version(&self) -> [u8; 3] {
        numbers(self.version)
    }
}

fn check_version(version: c_uint) -> Result<(), Missing> {
    if VERSIONS.contains(&(version >> 8)) {
        return Ok(());
    }
    let [major, minor, patch] = numbers(version);
    Err(Missing(format!(
        "intel-ipsec-mb is of version {major}.{minor}.{patch}; 1.2 to 1.5 are known"
    )))
}

fn numbers(version: c_uint) -> [u8; 3] {
    [(version >> 16) as u8, (version >> 8) as u8, version as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_libraries_and_functions_are_a_reason() {
        let missing = Shared::open(c"libwarpline_absent.so.1").err().unwrap();
        assert!(missing.to_string().starts_with("can't load libwarpline_absent.so.1: "));
        let other = Library::open(Shared::open(c"libc.so.6").unwrap()).err().unwrap();
        assert_eq!(other.to_string(), "libc.so.6 has no function imb_get_version");
    }

    #[test]
    fn versions_that_were_not_checked_are_refused_by_name() {
        for (version, is_known) in [
            (0x01_01_00, false),
            (0x01_02_00, true),
            (0x01_02_01, true),
            (0x01_03_00, true),
            (0x01_05_00, true),
            (0x01_06_00, false),
            (0x02_00_01, false),
        ] {
            assert_eq!(check_version(version).is_ok(), is_known, "{version:x}");
        }
        let missing = check_version(0x02_00_01).unwrap_err();
        assert_eq!(missing.to_string(), "intel-ipsec-mb is of version 2.0.1; 1.2 to 1.5 are known");
    }
}
