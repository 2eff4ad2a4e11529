//! The functions of the CUDA driver and of NVRTC in use, with the numbers of cuda.h and nvrtc.h.

use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use core::ptr;
use std::path::Path;
use std::sync::OnceLock;

use crate::Missing;
use crate::sys::library::{self, functions};

/// A driver's handle: context, stream, event, module, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) *mut c_void);

impl Handle {
    pub(crate) const NULL: Self = Self(ptr::null_mut());
}

// SAFETY: the driver's handles may be used by any thread on which their context is current.
unsafe impl Send for Handle {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Handle {}

functions! {
    /// cuda.h, version 11.4 and later.
    Driver in &["libcuda.so.1"];
    init = "cuInit"(c_uint) -> c_int;
    get_version = "cuDriverGetVersion"(*mut c_int) -> c_int;
    count = "cuDeviceGetCount"(*mut c_int) -> c_int;
    device = "cuDeviceGet"(*mut c_int, c_int) -> c_int;
    name = "cuDeviceGetName"(*mut c_char, c_int, c_int) -> c_int;
    bus = "cuDeviceGetPCIBusId"(*mut c_char, c_int, c_int) -> c_int;
    uuid = "cuDeviceGetUuid_v2"(*mut [u8; 16], c_int) -> c_int;
    attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int) -> c_int;
    total_memory = "cuDeviceTotalMem_v2"(*mut usize, c_int) -> c_int;
    retain_context = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int) -> c_int;
    release_context = "cuDevicePrimaryCtxRelease_v2"(c_int) -> c_int;
    set_context = "cuCtxSetCurrent"(Handle) -> c_int;
    free_memory = "cuMemGetInfo_v2"(*mut usize, *mut usize) -> c_int;
    load_module = "cuModuleLoadData"(*mut Handle, *const c_void) -> c_int;
    unload_module = "cuModuleUnload"(Handle) -> c_int;
    function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char) -> c_int;
    set_attribute = "cuFuncSetAttribute"(Handle, c_int, c_int) -> c_int;
    allocate = "cuMemAlloc_v2"(*mut u64, usize) -> c_int;
    free = "cuMemFree_v2"(u64) -> c_int;
    allocate_host = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint) -> c_int;
    free_host = "cuMemFreeHost"(*mut c_void) -> c_int;
    set_memory = "cuMemsetD8_v2"(u64, c_uchar, usize) -> c_int;
    register = "cuMemHostRegister_v2"(*mut c_void, usize, c_uint) -> c_int;
    unregister = "cuMemHostUnregister"(*mut c_void) -> c_int;
    device_pointer = "cuMemHostGetDevicePointer_v2"(*mut u64, *mut c_void, c_uint) -> c_int;
    create_stream = "cuStreamCreate"(*mut Handle, c_uint) -> c_int;
    destroy_stream = "cuStreamDestroy_v2"(Handle) -> c_int;
    create_event = "cuEventCreate"(*mut Handle, c_uint) -> c_int;
    record_event = "cuEventRecord"(Handle, Handle) -> c_int;
    query_event = "cuEventQuery"(Handle) -> c_int;
    synchronize = "cuStreamSynchronize"(Handle) -> c_int;
    query_stream = "cuStreamQuery"(Handle) -> c_int;
    destroy_event = "cuEventDestroy_v2"(Handle) -> c_int;
    copy_in = "cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Handle) -> c_int;
    copy_out = "cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Handle) -> c_int;
    copy_rows = "cuMemcpy2DAsync_v2"(*const CopyRows, Handle) -> c_int;
    launch = "cuLaunchKernel"(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint,
        Handle, *mut *mut c_void, *mut *mut c_void) -> c_int;
    error_name = "cuGetErrorName"(c_int, *mut *const c_char) -> c_int;
    error_text = "cuGetErrorString"(c_int, *mut *const c_char) -> c_int;
}

functions! {
    /// Calls that make graphs of works: cuda.h, version 12.0 and later.
    GraphDriver in &["libcuda.so.1"];
    begin_capture = "cuStreamBeginCapture_v2"(Handle, c_int) -> c_int;
    end_capture = "cuStreamEndCapture"(Handle, *mut Handle) -> c_int;
    instantiate = "cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64) -> c_int;
    update = "cuGraphExecUpdate_v2"(Handle, Handle, *mut UpdateResult) -> c_int;
    launch = "cuGraphLaunch"(Handle, Handle) -> c_int;
    destroy_graph = "cuGraphDestroy"(Handle) -> c_int;
    destroy_executable = "cuGraphExecDestroy"(Handle) -> c_int;
}

/// `CUDA_MEMCPY2D`: rows from one memory to another.
#[repr(C)]
pub(crate) struct CopyRows {
    pub(crate) from: RowsMemory,
    pub(crate) to: RowsMemory,
    pub(crate) width: usize,
    pub(crate) count: usize,
}

/// One side of it.
#[repr(C)]
pub(crate) struct RowsMemory {
    x: usize,
    y: usize,
    kind: c_int,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

impl RowsMemory {
    pub(crate) fn host(at: *mut c_void, pitch: usize) -> Self {
        Self { x: 0, y: 0, kind: 1, host: at, device: 0, array: ptr::null_mut(), pitch }
    }

    pub(crate) fn device(at: u64, pitch: usize) -> Self {
        let none = ptr::null_mut();
        Self { x: 0, y: 0, kind: 2, host: none, device: at, array: none, pitch }
    }
}

/// `CUgraphExecUpdateResultInfo`, which is never read: a number and two nodes, each at a multiple
/// of eight bytes.
pub(crate) type UpdateResult = [u64; 3];

functions! {
    /// nvrtc.h, version 11.2 and later.
    Nvrtc in &nvrtc_names();
    version = "nvrtcVersion"(*mut c_int, *mut c_int) -> c_int;
    arch_count = "nvrtcGetNumSupportedArchs"(*mut c_int) -> c_int;
    archs = "nvrtcGetSupportedArchs"(*mut c_int) -> c_int;
    create = "nvrtcCreateProgram"(*mut Handle, *const c_char, *const c_char, c_int,
        *const *const c_char, *const *const c_char) -> c_int;
    destroy = "nvrtcDestroyProgram"(*mut Handle) -> c_int;
    compile = "nvrtcCompileProgram"(Handle, c_int, *const *const c_char) -> c_int;
    log_size = "nvrtcGetProgramLogSize"(Handle, *mut usize) -> c_int;
    log = "nvrtcGetProgramLog"(Handle, *mut c_char) -> c_int;
    cubin_size = "nvrtcGetCUBINSize"(Handle, *mut usize) -> c_int;
    cubin = "nvrtcGetCUBIN"(Handle, *mut c_char) -> c_int;
    ptx_size = "nvrtcGetPTXSize"(Handle, *mut usize) -> c_int;
    ptx = "nvrtcGetPTX"(Handle, *mut c_char) -> c_int;
}

/// Names of NVRTC in the order in which they are tried. The first is the file that the environment
/// names: the linker does not find a wheel's.
fn nvrtc_names() -> Vec<&'static str> {
    let version = Driver::get().ok().and_then(Driver::version);
    let versions = nvrtc_versions(version).into_iter().map(|major| format!("libnvrtc.so.{major}"));
    let usual = ["libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"].map(String::from);
    // Called once, and the library stays loaded too.
    nvrtc_named().into_iter().chain(versions).chain(usual).map(|name| &*name.leak()).collect()
}

/// Versions of NVRTC's library in the order in which they suit a driver of this version (12040 for
/// 12.4). A driver takes what compilers up to its own made; newer ones come last. Without a driver
/// the newest is best.
fn nvrtc_versions(driver: Option<c_int>) -> Vec<String> {
    const NEWEST: c_int = 13;
    let major = driver.map_or(NEWEST, |version| version / 1000);
    let name = |major: c_int| match major {
        11 => "11.2".into(),
        other => other.to_string(),
    };
    (11..=major).rev().chain(major.max(10) + 1..=NEWEST).map(name).collect()
}

fn nvrtc_named() -> Option<String> {
    std::env::var("WARPLINE_NVRTC").ok().filter(|path| !path.is_empty())
}

/// Loads the part of NVRTC that it needs to compile, from the folder of the library in the
/// environment. If it is missing there, the linker finds it or NVRTC reports that it didn't.
pub(crate) fn load_builtins((major, minor): (c_int, c_int)) {
    let name = format!("libnvrtc-builtins.so.{major}.{minor}");
    if let Some(path) = nvrtc_named().map(|library| Path::new(&library).with_file_name(name)) {
        let _ = path.to_str().map(|path| library::open(&[path]));
    }
}

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NOT_READY: c_int = 600;
pub(crate) const CAPTURE_RELAXED: c_int = 2;
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
pub(crate) const REGISTER_PORTABLE_MAPPED: c_uint = 1 | 2;
pub(crate) const FUNCTION_MAX_DYNAMIC_SHARED: c_int = 8;
pub(crate) const NVRTC_ERROR_COMPILATION: c_int = 6;

/// Attributes for `cuDeviceGetAttribute`.
pub(crate) mod attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(crate) const MULTIPROCESSORS: i32 = 16;
    pub(crate) const INTEGRATED: i32 = 18;
    pub(crate) const CAN_MAP_HOST_MEMORY: i32 = 19;
    pub(crate) const HOST_REGISTER_SUPPORTED: i32 = 99;
    pub(crate) const CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const CAPABILITY_MINOR: i32 = 76;
    pub(crate) const MAX_SHARED_OPTIN: i32 = 97;
}

impl Driver {
    /// The driver, loaded once.
    pub(crate) fn get() -> Result<&'static Self, Missing> {
        static DRIVER: OnceLock<Result<Driver, Missing>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    /// The version of CUDA that it has: 12040 for 12.4.
    pub(crate) fn version(&self) -> Option<c_int> {
        let mut version = 0;
        // SAFETY: one number is written; it may be asked before anything else.
        let code = unsafe { (self.get_version)(&mut version) };
        (code == SUCCESS && version > 0).then_some(version)
    }

    /// An error as the driver calls it.
    pub(crate) fn name_of(&self, code: c_int) -> String {
        let (mut name, mut text) = (ptr::null(), ptr::null());
        // SAFETY: the driver gives pointers to texts of its own that end with a zero, or null.
        unsafe {
            (self.error_name)(code, &mut name);
            (self.error_text)(code, &mut text);
            if name.is_null() || text.is_null() {
                return format!("CUDA's error {code}");
            }
            let (name, text) = (CStr::from_ptr(name), CStr::from_ptr(text));
            format!("{}: {}", name.to_string_lossy(), text.to_string_lossy())
        }
    }

    /// Whether nothing on the context succeeds after this error ("the process must be terminated
    /// and relaunched", in cuda.h of 13.0), or the device is gone.
    pub(crate) fn is_loss(code: c_int) -> bool {
        // 219 and 221 to 225, 701, 703 to 708, 711 to 713 and 720 are a single call's.
        matches!(
            code,
            4 | 46 | 201 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714
                ..=719 | 721 | 806 | 807 | 810 | 911 | 999
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_suits_its_driver() {
        for (driver, order) in [
            (None, "13 12 11.2"),
            (Some(13_000), "13 12 11.2"),
            (Some(12_040), "12 11.2 13"),
            (Some(11_080), "11.2 12 13"),
            (Some(14_010), "14 13 12 11.2"),
            (Some(10_020), "11.2 12 13"),
        ] {
            assert_eq!(nvrtc_versions(driver).join(" "), order, "{driver:?}");
        }
    }
}
