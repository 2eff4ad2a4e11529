//! Kernels as a C library inside this process, and calls of them.

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::sys::host_memory::Piece;
use crate::sys::library::reason_of;
use crate::sys::sealed::sealed;
use crate::{Argument, KernelCall, KernelSpec};

/// The form of each kernel on the host device: runs groups `0..groups` with the values that the
/// pointers name.
type Run = unsafe extern "C" fn(values: *const *const c_void, groups: u32);

/// Loaded kernels, in the order of their descriptions. The library stays as long as this does.
pub(crate) struct CLibrary {
    runs: Vec<Run>,
    library: ManuallyDrop<Library>,
    /// The file in memory that the library was loaded from, if it was, and its path.
    memory: Option<(ManuallyDrop<File>, PathBuf)>,
}

impl CLibrary {
    /// Loads the library from a copy of these bytes that no process can change.
    pub(crate) fn from_memory(bytes: &[u8], kernels: &[KernelSpec]) -> Result<Self, String> {
        let file = sealed(bytes).map_err(|why| format!("no file in memory: {why}"))?;
        // The number of the process and not `self`: debuggers and sanitizers read the file, too.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut library = Self::load(path.as_ref(), kernels)?;
        library.memory = Some((ManuallyDrop::new(file), path.into()));
        Ok(library)
    }

    /// Loads the library at `path`.
    pub(crate) fn load(path: &Path, kernels: &[KernelSpec]) -> Result<Self, String> {
        // SAFETY: the compiler made the file from vouched text, which does nothing when it is
        // loaded. Its digest was checked, and it is in sealed memory or in a folder that only this
        // process uses.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| reason_of(&error))?;
        let find = |kernel: &KernelSpec| {
            let name = run_name(kernel.name);
            // SAFETY: `host::compiler` writes a function of this name and type for each kernel.
            unsafe { library.get::<Run>(name.as_bytes()) }
                .map(|run| *run)
                .map_err(|e| reason_of(&e))
        };
        let runs = kernels.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self { runs, library: ManuallyDrop::new(library), memory: None })
    }

    /// Runs a call of this library's kernels on this thread.
    pub(crate) fn run(&self, call: &KernelCall, pieces: &[Piece]) {
        let values: Vec<Value> = call.arguments.iter().map(|one| value_of(one, pieces)).collect();
        let pointers: Vec<*const c_void> =
            values.iter().map(|value| ptr::from_ref(value).cast()).collect();
        // SAFETY: the call was checked, so kinds and number of the values are the kernel's. Its
        // caller vouches that the kernel stays within its arguments. The work keeps their memory,
        // and nothing else accesses it: pieces are the work's own, and only this device's one
        // thread accesses buffers.
        unsafe { self.runs[call.kernel.index](pointers.as_ptr(), call.groups) }
    }
}

impl Drop for CLibrary {
    fn drop(&mut self) {
        // SAFETY: this is the only place that takes the library, and `self` is not used afterwards.
        drop(unsafe { ManuallyDrop::take(&mut self.library) });
        let Some((file, path)) = &mut self.memory else { return };
        // The linker identifies a library by its path, so the path of a loaded one must not be
        // reused.
        if !is_loaded(path) {
            // SAFETY: as above.
            drop(unsafe { ManuallyDrop::take(file) });
        }
    }
}

fn is_loaded(path: &Path) -> bool {
    // SAFETY: with this flag the linker loads nothing.
    unsafe { Library::open(Some(path), RTLD_NOW | libc::RTLD_NOLOAD) }.is_ok()
}

/// A value as the kernel takes it.
#[repr(C)]
union Value {
    pointer: *mut u8,
    narrow: u32,
    wide: u64,
}

fn value_of(argument: &Argument, pieces: &[Piece]) -> Value {
    match argument {
        Argument::Reads(slice) | Argument::Writes(slice) => {
            // The range lies within the buffer: it was checked.
            let base = super::host_memory::heap_of(&slice.buffer).as_ptr();
            Value { pointer: base.wrapping_add(slice.range.start) }
        }
        Argument::HostReads(part) | Argument::HostWrites(part) => {
            Value { pointer: pieces[part.piece].base().as_ptr().wrapping_add(part.range.start) }
        }
        Argument::InPlace(region) | Argument::Mapped(region) => {
            Value { pointer: region.base().as_ptr() }
        }
        Argument::U32(value) => Value { narrow: *value },
        Argument::U64(value) => Value { wide: *value },
    }
}

/// The name of the function that runs a kernel.
pub(crate) fn run_name(kernel: &str) -> String {
    format!("wl_run_{kernel}")
}
