//! Programs and kernels. A program is made from the binary cached on disk, or from its text, whose
//! binary is then cached.

use core::ffi::CStr;
use core::ptr;
use std::ffi::CString;
use std::sync::Arc;

use super::Context;
use super::api::{self, Api, Id};
use super::maker::Maker;
use crate::{Failure, KernelSpec, cache};

const OPTIONS: &CStr = c"-cl-std=CL1.2";

/// A built program, for one device.
pub(crate) struct Program {
    api: &'static Api,
    program: Id,
    device: Id,
    _context: Arc<Context>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by clCreateProgramWithSource or clCreateProgramWithBinary, released once.
        unsafe { (self.api.release_program)(self.program) };
    }
}

/// `text` for `device`, with all its `kernels`. Without a maker nothing is kept.
pub(crate) fn build(
    context: &Arc<Context>,
    device: Id,
    maker: Option<&Maker>,
    (text, kernels): (&str, &[KernelSpec]),
) -> Result<Program, Failure> {
    let name = maker.map(|maker| maker.name_of(text, &OPTIONS.to_string_lossy()));
    let kept = name.as_ref().and_then(|name| cache::read(name));
    if let Some(Ok(program)) = kept.map(|binary| from_binary(context, device, &binary, kernels)) {
        return Ok(program);
    }
    let program = from_text(context, device, text, kernels)?;
    if let Some(name) = name
        && let Some(binary) = program.binary()
    {
        cache::write(&name, &binary);
    }
    Ok(program)
}

/// A binary that this device made. If it was damaged since, the driver or a missing kernel shows
/// it.
fn from_binary(
    context: &Arc<Context>,
    device: Id,
    binary: &[u8],
    kernels: &[KernelSpec],
) -> Result<Program, Failure> {
    let (mut status, mut code) = (0, 0);
    let (start, length) = (binary.as_ptr(), binary.len());
    // SAFETY: one device of the context and its binary with its length, copied by the call.
    let program = unsafe {
        (context.api.create_program_with_binary)(
            context.context,
            1,
            &device,
            &length,
            &start,
            &mut status,
            &mut code,
        )
    };
    Program::built(context, device, program, code, kernels)
}

fn from_text(
    context: &Arc<Context>,
    device: Id,
    text: &str,
    kernels: &[KernelSpec],
) -> Result<Program, Failure> {
    let mut code = 0;
    let (start, length) = (text.as_ptr().cast(), text.len());
    // SAFETY: one text with its length, copied by the call.
    let program =
        unsafe { (context.api.create_program)(context.context, 1, &start, &length, &mut code) };
    Program::built(context, device, program, code, kernels)
}

impl Program {
    /// Builds `program`, which was made with the outcome `code`.
    fn built(
        context: &Arc<Context>,
        device: Id,
        program: Id,
        code: i32,
        kernels: &[KernelSpec],
    ) -> Result<Self, Failure> {
        if code != api::SUCCESS {
            return Err(Failure::NoCompiler(api::name_of(code)));
        }
        let program = Self { api: context.api, program, device, _context: context.clone() };
        let (options, nothing) = (OPTIONS.as_ptr(), ptr::null_mut());
        // SAFETY: the program and its one device; options end with a zero; without a callback the
        // call waits.
        let code = unsafe {
            (program.api.build_program)(program.program, 1, &device, options, None, nothing)
        };
        match code {
            api::SUCCESS => {}
            -11 => return Err(Failure::Compile { log: program.log() }),
            _ => return Err(Failure::NoCompiler(api::name_of(code))),
        }
        for kernel in kernels {
            program.kernel(kernel.name)?;
        }
        Ok(program)
    }

    fn log(&self) -> String {
        let what = api::PROGRAM_BUILD_LOG;
        api::text_of(&api::list_by(0, |size, at, needed| {
            // SAFETY: writes at most `size` bytes at `at`, and one number.
            unsafe { (self.api.get_build_info)(self.program, self.device, what, size, at, needed) }
        }))
    }

    /// The driver's binary for the device, if it returns one.
    fn binary(&self) -> Option<Vec<u8>> {
        // The context may have more devices, for which nothing was made.
        let mut devices = self.list(api::PROGRAM_DEVICES, Id::NULL).into_iter();
        let place = devices.position(|device| device == self.device)?;
        let sizes = self.list(api::PROGRAM_BINARY_SIZES, 0_usize);
        let size = sizes.get(place).copied().filter(|&size| size > 0)?;
        let mut binary = vec![0_u8; size];
        let mut starts = vec![ptr::null_mut::<u8>(); sizes.len()];
        starts[place] = binary.as_mut_ptr();
        let (len, at) = (size_of_val(&*starts), starts.as_mut_ptr().cast());
        // SAFETY: a pointer for each device. All but one are null and skipped; that one has the
        // stated bytes.
        let code = unsafe {
            (self.api.get_program_info)(
                self.program,
                api::PROGRAM_BINARIES,
                len,
                at,
                ptr::null_mut(),
            )
        };
        (code == api::SUCCESS).then_some(binary)
    }

    /// The program's values for each of its context's devices; `none` is any value.
    fn list<T: Clone>(&self, what: u32, none: T) -> Vec<T> {
        api::list_by(none, |size, at, needed| {
            // SAFETY: writes at most `size` bytes at `at`, and one number.
            unsafe { (self.api.get_program_info)(self.program, what, size, at, needed) }
        })
    }

    /// A kernel object of the caller's own, whose arguments only the caller sets.
    pub(crate) fn kernel(&self, name: &str) -> Result<OwnKernel, Failure> {
        let name =
            CString::new(name).map_err(|_| Failure::Refused(format!("the name {name:?}")))?;
        let mut code = 0;
        // SAFETY: the program is built; the name ends with a zero.
        let kernel = unsafe { (self.api.create_kernel)(self.program, name.as_ptr(), &mut code) };
        match code {
            api::SUCCESS => Ok(OwnKernel { api: self.api, kernel }),
            _ => Err(Failure::Compile { log: format!("kernel {name:?}: {}", api::name_of(code)) }),
        }
    }
}

/// A kernel object.
pub(crate) struct OwnKernel {
    api: &'static Api,
    pub(crate) kernel: Id,
}

impl Drop for OwnKernel {
    fn drop(&mut self) {
        // SAFETY: made by clCreateKernel, released once; commands that use it keep it.
        unsafe { (self.api.release_kernel)(self.kernel) };
    }
}
