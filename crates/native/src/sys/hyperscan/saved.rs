//! Databases as bytes, for a later process on the same machine.

use core::ffi::{c_char, c_uint, c_ulonglong, c_void};
use core::ptr::{NonNull, null_mut};
use core::slice;

use super::{Database, Library, SUCCESS};
use crate::hyperscan::sealed::Sealed;

/// `hs_platform_info_t`, of the same form since version 4.0.
#[repr(C)]
#[derive(Default)]
pub(super) struct PlatformInfo {
    tune: c_uint,
    cpu_features: c_ulonglong,
    reserved: [c_ulonglong; 2],
}

impl Library {
    /// Inputs of a database besides its literals: the library's version, and the processor's
    /// features it found.
    pub(crate) fn identity(&self) -> Vec<u8> {
        let mut info = PlatformInfo::default();
        // SAFETY: the library writes to a structure of the form that it expects, and keeps nothing.
        let status = unsafe { (self.populate_platform)(&mut info) };
        let known =
            if status == SUCCESS { [u64::from(info.tune), info.cpu_features] } else { [0; 2] };
        let numbers = known.into_iter().flat_map(u64::to_le_bytes);
        self.version().bytes().chain([0]).chain(numbers).collect()
    }
}

impl Database {
    /// Its bytes; `None` where there is no memory.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let (mut bytes, mut len): (*mut c_char, usize) = (null_mut(), 0);
        // SAFETY: the database is intact. The library allocates a block and writes its address and
        // length.
        let status =
            unsafe { (self.library.serialize)(self.compiled.as_ptr(), &mut bytes, &mut len) };
        let made = NonNull::new(bytes).filter(|_| status == SUCCESS)?;
        // SAFETY: the block has `len` bytes and is ours. The library has no other allocator, so it
        // is from `malloc`.
        unsafe {
            let copy = slice::from_raw_parts(made.as_ptr().cast::<u8>(), len).to_vec();
            libc::free(made.as_ptr().cast::<c_void>());
            Some(copy)
        }
    }

    /// The database of sealed bytes; `None` if the library doesn't take them or there is no memory.
    pub(crate) fn from_sealed(library: &'static Library, sealed: &Sealed) -> Option<Self> {
        let bytes = sealed.bytes();
        let mut database = null_mut();
        // SAFETY: the library compares version, processor and a checksum, but trusts what it then
        // reads. A `Sealed` has the intact output of `to_bytes`, since only this user can have
        // written it.
        let status =
            unsafe { (library.deserialize)(bytes.as_ptr().cast(), bytes.len(), &mut database) };
        let compiled = NonNull::new(database).filter(|_| status == SUCCESS)?;
        Self::fitted(library, compiled)
    }
}
