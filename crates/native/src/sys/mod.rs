//! The foreign side: calls of the dynamic linker and of the libraries.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;

use crate::Missing;

pub(crate) mod hyperscan;
pub(crate) mod ipsec_mb;
pub(crate) mod pcap;
pub(crate) mod pcre2;

/// A library that stays in the process permanently: it is never unloaded, so its functions can be
/// called as long as the process lives.
pub(crate) struct Shared {
    handle: NonNull<c_void>,
    name: &'static CStr,
}

impl Shared {
    /// Looks where the dynamic linker looks.
    pub(crate) fn open(name: &'static CStr) -> Result<Self, Missing> {
        // SAFETY: `name` ends with a zero. A library may run code when it is loaded; the libraries
        // that we name don't.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { handle, name }),
            None => Err(Missing(format!("can't load {}: {}", name.to_string_lossy(), error()))),
        }
    }

    /// The address of a function.
    pub(crate) fn symbol(&self, symbol: &CStr) -> Result<NonNull<c_void>, Missing> {
        // SAFETY: the handle is open, as it is never closed; the name ends with a zero.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), symbol.as_ptr()) };
        NonNull::new(address).ok_or_else(|| {
            let (name, symbol) = (self.name.to_string_lossy(), symbol.to_string_lossy());
            Missing(format!("{name} has no function {symbol}"))
        })
    }
}

/// The dynamic linker's message about this thread's last failure.
fn error() -> String {
    // SAFETY: the text is this thread's and stays until the next call of the family; it is copied
    // at once.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "no reason given".into(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// The user that this process acts for.
pub(crate) fn user() -> u32 {
    // SAFETY: it reads a number and can't fail.
    unsafe { libc::geteuid() }
}
