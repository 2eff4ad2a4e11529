//! NVRTC: compiles kernel text to a cubin for one architecture, or to PTX, which a driver compiles
//! itself.

use core::ffi::{c_char, c_int};
use std::ffi::CString;
use std::ptr;
use std::sync::OnceLock;

use super::api::{self, Handle, Nvrtc};
use crate::{Failure, Missing, Source, cache, source};

/// The library with its version, loaded once.
struct Compiler {
    api: Nvrtc,
    version: (c_int, c_int),
    archs: Vec<c_int>,
}

fn compiler() -> &'static Result<Compiler, Missing> {
    static COMPILER: OnceLock<Result<Compiler, Missing>> = OnceLock::new();
    COMPILER.get_or_init(load)
}

fn load() -> Result<Compiler, Missing> {
    let api = Nvrtc::load()?;
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: each call writes one number, the last as many as the one before said.
    let archs = unsafe {
        (api.version)(&mut major, &mut minor);
        (api.arch_count)(&mut count);
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        (api.archs)(archs.as_mut_ptr());
        archs
    };
    api::load_builtins((major, minor));
    Ok(Compiler { api, version: (major, minor), archs })
}

/// The compiler's version, in words.
pub(super) fn version() -> Result<String, Missing> {
    let (major, minor) = compiler().as_ref().map_err(Clone::clone)?.version;
    Ok(format!("NVRTC {major}.{minor}"))
}

/// Compiles `source` to a cubin for compute capability `arch` (90 for 9.0), without a GPU. The
/// result is cached on disk.
///
/// # Errors
/// NVRTC is missing or doesn't know the architecture, or [`Failure::Compile`] with its log.
pub fn compile_for(source: &Source, arch: u32) -> Result<Vec<u8>, Failure> {
    let compiler = compiler().as_ref().map_err(|why| Failure::NoCompiler(why.to_string()))?;
    let (major, minor) = compiler.version;
    if !compiler.archs.contains(&(arch as c_int)) {
        return Err(Failure::NoCompiler(format!("NVRTC {major}.{minor} does not know sm_{arch}")));
    }
    compiler.make(source, Image::Cubin, arch as c_int)
}

/// Compiles `source` to PTX, with a zero at its end: for `arch`, or for the newest older
/// architecture that NVRTC knows. The result is cached on disk.
///
/// # Errors
/// NVRTC is missing or knows only newer architectures, or [`Failure::Compile`] with its log.
pub fn compile_ptx_for(source: &Source, arch: u32) -> Result<Vec<u8>, Failure> {
    let compiler = compiler().as_ref().map_err(|why| Failure::NoCompiler(why.to_string()))?;
    let (major, minor) = compiler.version;
    let known = compiler.archs.iter().filter(|known| **known <= arch as c_int);
    let Some(newest) = known.max() else {
        let why = format!("NVRTC {major}.{minor} knows no architecture up to compute_{arch}");
        return Err(Failure::NoCompiler(why));
    };
    compiler.make(source, Image::Ptx, *newest)
}

/// A compiled text.
#[derive(Clone, Copy)]
enum Image {
    Cubin,
    Ptx,
}

impl Image {
    /// NVRTC's word for an architecture, and how the cache's files end.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Cubin => ("sm", "cubin"),
            Self::Ptx => ("compute", "ptx"),
        }
    }
}

impl Compiler {
    fn make(&self, source: &Source, image: Image, arch: c_int) -> Result<Vec<u8>, Failure> {
        let (major, minor) = self.version;
        let (word, ending) = image.names();
        let text = source.assemble()?;
        let arch = format!("--gpu-architecture={word}_{arch}");
        let options = [arch, "-default-device".into(), "--std=c++17".into()];
        let version = format!("nvrtc {major}.{minor}");
        let name = format!("{}.{ending}", source::key_of(&[&text, &options.join(" "), &version]));
        if let Some(kept) = cache::read(&name) {
            return Ok(kept);
        }
        let made = compile(&self.api, &text, &options, image)?;
        cache::write(&name, &made);
        Ok(made)
    }
}

/// A program, destroyed when it is dropped.
struct Program<'a> {
    api: &'a Nvrtc,
    program: Handle,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: made by nvrtcCreateProgram, destroyed once.
        unsafe { (self.api.destroy)(&mut self.program) };
    }
}

fn compile(api: &Nvrtc, text: &str, options: &[String], image: Image) -> Result<Vec<u8>, Failure> {
    let refused = |_| Failure::Refused("the kernel text has a zero in it".into());
    let text = CString::new(text).map_err(refused)?;
    let options: Vec<CString> = options
        .iter()
        .map(|one| CString::new(one.as_str()).map_err(refused))
        .collect::<Result<_, _>>()?;
    let mut program = Program { api, program: Handle::NULL };
    // SAFETY: the text and its name end with a zero and are copied; there are no headers.
    let code = unsafe {
        (api.create)(
            &mut program.program,
            text.as_ptr(),
            c"kernels".as_ptr(),
            0,
            ptr::null(),
            ptr::null(),
        )
    };
    if code != api::SUCCESS {
        return Err(Failure::NoCompiler(format!("NVRTC's error {code}")));
    }
    let pointers: Vec<*const c_char> = options.iter().map(|one| one.as_ptr()).collect();
    // SAFETY: the program is valid; as many options as are said, each ending with a zero.
    let code =
        unsafe { (api.compile)(program.program, pointers.len() as c_int, pointers.as_ptr()) };
    match (code, image) {
        (api::SUCCESS, Image::Cubin) => program.read(api.cubin_size, api.cubin),
        (api::SUCCESS, Image::Ptx) => program.read(api.ptx_size, api.ptx),
        (api::NVRTC_ERROR_COMPILATION, _) => {
            let log = program.read(api.log_size, api.log)?;
            Err(Failure::Compile {
                log: String::from_utf8_lossy(&log).trim_end_matches('\0').into(),
            })
        }
        _ => Err(Failure::NoCompiler(format!("NVRTC's error {code}"))),
    }
}

type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

impl Program<'_> {
    /// The bytes that `get` writes; `size` gives their number.
    fn read(&self, size: Size, get: Get) -> Result<Vec<u8>, Failure> {
        let mut len = 0;
        // SAFETY: writes one number.
        let asked = unsafe { size(self.program, &mut len) };
        let mut bytes = vec![0_u8; len];
        // SAFETY: writes `len` bytes.
        let got = unsafe { get(self.program, bytes.as_mut_ptr().cast()) };
        match (asked, got) {
            (api::SUCCESS, api::SUCCESS) => Ok(bytes),
            _ => Err(Failure::NoCompiler(format!("NVRTC's errors {asked} and {got}"))),
        }
    }
}
