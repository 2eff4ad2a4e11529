//! The functions of OpenCL 1.2 in use, with the numbers of CL/cl.h.

use core::ffi::{c_char, c_void};

use crate::sys::library::functions;

/// Any of OpenCL's opaque handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Id(*mut c_void);

impl Id {
    pub(crate) const NULL: Self = Self(core::ptr::null_mut());
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

// SAFETY: any thread may use handles (OpenCL 1.2, A.2). The exception is setting a kernel's
// arguments, and each kernel belongs to one stream.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

type Notify = Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>;
type Built = Option<unsafe extern "C" fn(Id, *mut c_void)>;

functions! {
    /// CL/cl.h, version 1.2.
    Api in &["libOpenCL.so.1", "libOpenCL.so"];
    get_platform_ids = "clGetPlatformIDs"(u32, *mut Id, *mut u32) -> i32;
    get_platform_info = "clGetPlatformInfo"(Id, u32, usize, *mut c_void, *mut usize) -> i32;
    get_device_ids = "clGetDeviceIDs"(Id, u64, u32, *mut Id, *mut u32) -> i32;
    get_device_info = "clGetDeviceInfo"(Id, u32, usize, *mut c_void, *mut usize) -> i32;
    create_context =
        "clCreateContext"(*const isize, u32, *const Id, Notify, *mut c_void, *mut i32) -> Id;
    release_context = "clReleaseContext"(Id) -> i32;
    create_queue = "clCreateCommandQueue"(Id, Id, u64, *mut i32) -> Id;
    release_queue = "clReleaseCommandQueue"(Id) -> i32;
    flush = "clFlush"(Id) -> i32;
    create_buffer = "clCreateBuffer"(Id, u64, usize, *mut c_void, *mut i32) -> Id;
    create_sub_buffer = "clCreateSubBuffer"(Id, u64, u32, *const c_void, *mut i32) -> Id;
    release_mem = "clReleaseMemObject"(Id) -> i32;
    create_program =
        "clCreateProgramWithSource"(Id, u32, *const *const c_char, *const usize, *mut i32) -> Id;
    create_program_with_binary = "clCreateProgramWithBinary"(Id, u32, *const Id, *const usize,
        *const *const u8, *mut i32, *mut i32) -> Id;
    build_program = "clBuildProgram"(Id, u32, *const Id, *const c_char, Built, *mut c_void) -> i32;
    get_build_info = "clGetProgramBuildInfo"(Id, Id, u32, usize, *mut c_void, *mut usize) -> i32;
    get_program_info = "clGetProgramInfo"(Id, u32, usize, *mut c_void, *mut usize) -> i32;
    release_program = "clReleaseProgram"(Id) -> i32;
    create_kernel = "clCreateKernel"(Id, *const c_char, *mut i32) -> Id;
    release_kernel = "clReleaseKernel"(Id) -> i32;
    set_kernel_arg = "clSetKernelArg"(Id, u32, usize, *const c_void) -> i32;
    enqueue_write = "clEnqueueWriteBuffer"(Id, Id, u32, usize, usize, *const c_void, u32, *const Id,
        *mut Id) -> i32;
    enqueue_read = "clEnqueueReadBuffer"(Id, Id, u32, usize, usize, *mut c_void, u32, *const Id,
        *mut Id) -> i32;
    enqueue_write_rows = "clEnqueueWriteBufferRect"(Id, Id, u32, *const [usize; 3],
        *const [usize; 3], *const [usize; 3], usize, usize, usize, usize, *const c_void, u32,
        *const Id, *mut Id) -> i32;
    enqueue_read_rows = "clEnqueueReadBufferRect"(Id, Id, u32, *const [usize; 3], *const [usize; 3],
        *const [usize; 3], usize, usize, usize, usize, *mut c_void, u32, *const Id, *mut Id) -> i32;
    enqueue_kernel = "clEnqueueNDRangeKernel"(Id, Id, u32, *const usize, *const usize, *const usize,
        u32, *const Id, *mut Id) -> i32;
    enqueue_map = "clEnqueueMapBuffer"(Id, Id, u32, u64, usize, usize, u32, *const Id, *mut Id,
        *mut i32) -> *mut c_void;
    enqueue_unmap = "clEnqueueUnmapMemObject"(Id, Id, *mut c_void, u32, *const Id, *mut Id) -> i32;
    get_event_info = "clGetEventInfo"(Id, u32, usize, *mut c_void, *mut usize) -> i32;
    wait_for_events = "clWaitForEvents"(u32, *const Id) -> i32;
    retain_event = "clRetainEvent"(Id) -> i32;
    release_event = "clReleaseEvent"(Id) -> i32;
}

functions! {
    /// The functions of OpenCL 2.0 for memory that host and device share; older loaders lack them.
    SharedApi in &["libOpenCL.so.1", "libOpenCL.so"];
    alloc = "clSVMAlloc"(Id, u64, usize, u32) -> *mut c_void;
    free = "clSVMFree"(Id, *mut c_void);
    set_pointer = "clSetKernelArgSVMPointer"(Id, u32, *const c_void) -> i32;
}

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const DEVICE_TYPE_CPU: u64 = 1 << 1;
pub(crate) const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
pub(crate) const MEM_READ_WRITE: u64 = 1;
pub(crate) const MEM_COPY_HOST_PTR: u64 = 1 << 5;
pub(crate) const MEM_USE_HOST_PTR: u64 = 1 << 3;
pub(crate) const MEM_SVM_FINE_GRAIN_BUFFER: u64 = 1 << 10;
pub(crate) const SVM_FINE_GRAIN_BUFFER: u64 = 1 << 1;
pub(crate) const MAP_READ: u64 = 1;
pub(crate) const BUFFER_CREATE_TYPE_REGION: u32 = 0x1220;
pub(crate) const PROGRAM_DEVICES: u32 = 0x1163;
pub(crate) const PROGRAM_BINARY_SIZES: u32 = 0x1165;
pub(crate) const PROGRAM_BINARIES: u32 = 0x1166;
pub(crate) const PROGRAM_BUILD_LOG: u32 = 0x1183;
const EVENT_STATUS: u32 = 0x11d3;

/// Parameters of `clGetPlatformInfo`.
pub(crate) mod platform_info {
    pub(crate) const VERSION: u32 = 0x0901;
    pub(crate) const NAME: u32 = 0x0902;
}

/// Parameters of `clGetDeviceInfo`.
pub(crate) mod info {
    pub(crate) const TYPE: u32 = 0x1000;
    pub(crate) const MAX_COMPUTE_UNITS: u32 = 0x1002;
    pub(crate) const MAX_WORK_GROUP_SIZE: u32 = 0x1004;
    pub(crate) const MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
    pub(crate) const GLOBAL_MEM_SIZE: u32 = 0x101f;
    pub(crate) const LOCAL_MEM_SIZE: u32 = 0x1023;
    pub(crate) const AVAILABLE: u32 = 0x1027;
    pub(crate) const COMPILER_AVAILABLE: u32 = 0x1028;
    pub(crate) const NAME: u32 = 0x102b;
    pub(crate) const DRIVER_VERSION: u32 = 0x102d;
    pub(crate) const VERSION: u32 = 0x102f;
    pub(crate) const HOST_UNIFIED_MEMORY: u32 = 0x1035;
    pub(crate) const SVM_CAPABILITIES: u32 = 0x1053;
    /// 16 bytes, of the extension cl_khr_device_uuid.
    pub(crate) const UUID: u32 = 0x106a;
}

impl Api {
    /// A number that the device reports, of 4 or 8 bytes; 0 if it reports none.
    pub(crate) fn number(&self, device: Id, what: u32) -> u64 {
        let mut bytes = [0; 8];
        // SAFETY: writes at most 8 bytes into `bytes`. Narrower values are at the front, as the
        // machine is little-endian.
        let code = unsafe {
            (self.get_device_info)(
                device,
                what,
                8,
                bytes.as_mut_ptr().cast(),
                core::ptr::null_mut(),
            )
        };
        if code == SUCCESS { u64::from_le_bytes(bytes) } else { 0 }
    }

    /// A cl_bool that the device reports.
    pub(crate) fn flag(&self, device: Id, what: u32) -> bool {
        self.number(device, what) != 0
    }

    /// The status of an event's command: 0 for complete, more before, less for an error. `Err` if
    /// the query fails.
    pub(crate) fn status(&self, event: Id) -> Result<i32, i32> {
        let mut status = 0_i32;
        let at = core::ptr::from_mut(&mut status).cast::<c_void>();
        // SAFETY: an event that was not released; the answer is one cl_int.
        let code = unsafe {
            (self.get_event_info)(event, EVENT_STATUS, size_of::<i32>(), at, core::ptr::null_mut())
        };
        if code == SUCCESS { Ok(status) } else { Err(code) }
    }

    /// A text that the device reports; empty if it reports none.
    pub(crate) fn text(&self, device: Id, what: u32) -> String {
        text_of(&self.bytes(device, what))
    }

    /// Bytes that the device reports; none if the query fails.
    pub(crate) fn bytes(&self, device: Id, what: u32) -> Vec<u8> {
        list_by(0, |size, at, needed| {
            // SAFETY: writes at most `size` bytes at `at`, and one number.
            unsafe { (self.get_device_info)(device, what, size, at, needed) }
        })
    }

    /// A text that the platform reports; empty if it reports none.
    pub(crate) fn platform_text(&self, platform: Id, what: u32) -> String {
        text_of(&list_by(0, |size, at, needed| {
            // SAFETY: as above.
            unsafe { (self.get_platform_info)(platform, what, size, at, needed) }
        }))
    }
}

/// A text of OpenCL's, without the zero at its end.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_matches(['\0', ' ', '\n']).into()
}

/// Calls twice, as OpenCL requires: for the length, then for the values. Empty if that fails;
/// `none` is any value, which is overwritten.
pub(crate) fn list_by<T: Clone>(
    none: T,
    ask: impl Fn(usize, *mut c_void, *mut usize) -> i32,
) -> Vec<T> {
    let mut size = 0;
    if ask(0, core::ptr::null_mut(), &mut size) != SUCCESS {
        return Vec::new();
    }
    let mut list = vec![none; size / size_of::<T>()];
    match ask(size_of_val(&*list), list.as_mut_ptr().cast(), core::ptr::null_mut()) {
        SUCCESS => list,
        _ => Vec::new(),
    }
}

/// An error by the name that the standard has for it.
pub(crate) fn name_of(code: i32) -> String {
    let name = match code {
        -1 => "CL_DEVICE_NOT_FOUND",
        -2 => "CL_DEVICE_NOT_AVAILABLE",
        -4 => "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        -5 => "CL_OUT_OF_RESOURCES",
        -6 => "CL_OUT_OF_HOST_MEMORY",
        -11 => "CL_BUILD_PROGRAM_FAILURE",
        -13 => "CL_MISALIGNED_SUB_BUFFER_OFFSET",
        -38 => "CL_INVALID_MEM_OBJECT",
        -46 => "CL_INVALID_KERNEL_NAME",
        -51 => "CL_INVALID_ARG_SIZE",
        -52 => "CL_INVALID_KERNEL_ARGS",
        -54 => "CL_INVALID_WORK_GROUP_SIZE",
        -61 => "CL_INVALID_BUFFER_SIZE",
        _ => return format!("OpenCL's error {code}"),
    };
    name.into()
}
