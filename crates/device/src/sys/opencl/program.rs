//! Programs and kernels. The ICD keeps what it compiled on disk itself (PoCL in `~/.cache/pocl`).

use std::ffi::CString;
use std::sync::Arc;

use super::Context;
use super::api::{self, Api, Id};
use crate::Failure;

/// A built program.
pub(crate) struct Program {
    api: &'static Api,
    program: Id,
    _context: Arc<Context>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by clCreateProgramWithSource, released once.
        unsafe { (self.api.release_program)(self.program) };
    }
}

/// Compiles `text` for `device`.
pub(crate) fn build(
    api: &'static Api,
    context: &Arc<Context>,
    device: Id,
    text: &str,
) -> Result<Program, Failure> {
    let mut code = 0;
    let (start, length) = (text.as_ptr().cast(), text.len());
    // SAFETY: one text with its length, copied by the call.
    let program = unsafe { (api.create_program)(context.context, 1, &start, &length, &mut code) };
    if code != api::SUCCESS {
        return Err(Failure::NoCompiler(api::name_of(code)));
    }
    let program = Program { api, program, _context: context.clone() };
    // SAFETY: the program and its one device; options end with a zero; without a callback the call waits.
    let code = unsafe {
        (api.build_program)(
            program.program,
            1,
            &device,
            c"-cl-std=CL1.2".as_ptr(),
            None,
            core::ptr::null_mut(),
        )
    };
    match code {
        api::SUCCESS => Ok(program),
        -11 => Err(Failure::Compile { log: program.log(device) }),
        _ => Err(Failure::NoCompiler(api::name_of(code))),
    }
}

impl Program {
    fn log(&self, device: Id) -> String {
        api::text_by(|size, at, needed| {
            // SAFETY: writes at most `size` bytes at `at`, and one number.
            unsafe {
                (self.api.get_build_info)(
                    self.program,
                    device,
                    api::PROGRAM_BUILD_LOG,
                    size,
                    at,
                    needed,
                )
            }
        })
    }

    /// A kernel of its own for the caller, whose arguments nobody else sets.
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
