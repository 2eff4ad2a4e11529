//! The system's C compiler, and libraries made by it from kernel text.

use core::fmt::Write as _;
use core::time::Duration;
use std::env;
use std::path::{Path, PathBuf};

use super::scratch::Scratch;
use crate::sys::c_library::{CLibrary, run_name};
use crate::sys::limited::{self, Ended};
use crate::{Failure, KernelSpec, Missing, Parameter, Source, cache, source};

/// Names under which systems have one.
const NAMES: [&str; 3] = ["cc", "gcc", "clang"];

/// Kernels access memory as bytes, words and pieces of 16. C allows that only without its aliasing
/// rule.
const OPTIONS: [&str; 8] =
    ["-O2", "-std=gnu11", "-shared", "-fPIC", "-fno-strict-aliasing", "-fwrapv", "-w", "-xc"];

/// Time that a compiler has to print its version.
const VERSION_MAX: Duration = Duration::from_secs(10);
/// Time that a compiler has for one source. The largest takes a few seconds.
const COMPILE_MAX: Duration = Duration::from_secs(120);

/// A C compiler with its version.
#[derive(Clone, Debug)]
pub struct Compiler {
    path: PathBuf,
    version: String,
    extra: Vec<String>,
    compile_max: Duration,
}

impl Compiler {
    /// The first of cc, gcc and clang in `PATH` that prints its version.
    ///
    /// # Errors
    /// There is none. The text lists the files of these names that failed, with the reasons.
    pub fn find() -> Result<Self, Missing> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut reasons = vec![format!("no C compiler in PATH: none of {}", NAMES.join(", "))];
        for name in NAMES {
            for file in env::split_paths(&path).map(|folder| folder.join(name)) {
                match Self::at(&file) {
                    Ok(compiler) => return Ok(compiler),
                    Err(why) if file.exists() => reasons.push(why.0),
                    Err(_) => {}
                }
            }
        }
        Err(Missing(reasons.join("; ")))
    }

    /// The compiler at `path`.
    ///
    /// # Errors
    /// It does not run, or prints no version in time.
    pub fn at(path: &Path) -> Result<Self, Missing> {
        let failed = |why: String| Missing(format!("{}: {why}", path.display()));
        let scratch = Scratch::new().map_err(|e| failed(e.to_string()))?;
        let ended = scratch.run(path, &["--version"], "", VERSION_MAX);
        let ended = ended.map_err(|e| failed(e.to_string()))?;
        if !ended.is_success() {
            return Err(failed(format!("--version {}", ended.how(VERSION_MAX))));
        }
        let text = scratch.text(limited::OUTPUT);
        let version = text.lines().next().unwrap_or_default().trim().to_string();
        Ok(Self { path: path.into(), version, extra: Vec::new(), compile_max: COMPILE_MAX })
    }

    /// With more options, such as `-fsanitize=undefined`.
    #[must_use]
    pub fn with(mut self, options: &[&str]) -> Self {
        self.extra.extend(options.iter().map(|&option| option.into()));
        self
    }

    /// With another limit on the time for one source.
    #[must_use]
    pub fn with_limit(self, compile_max: Duration) -> Self {
        Self { compile_max, ..self }
    }

    /// The version that it prints.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernels of `source`, from the disk cache or compiled now.
    pub(crate) fn library(&self, source: &Source) -> Result<CLibrary, Failure> {
        let text = text_of(source)?;
        let place = self.path.to_string_lossy();
        let key = source::key_of(&[
            &text,
            &OPTIONS.join(" "),
            &self.extra.join(" "),
            &place,
            &self.version,
        ]);
        let name = format!("{key}.so");
        let kept = cache::read(&name);
        if let Some(Ok(library)) = kept.map(|bytes| load(&bytes, source.kernels())) {
            return Ok(library);
        }
        let bytes = self.compile(&text)?;
        let library = load(&bytes, source.kernels()).map_err(Failure::NoCompiler)?;
        cache::write(&name, &bytes);
        Ok(library)
    }

    /// The shared library that the compiler makes of `text`.
    fn compile(&self, text: &str) -> Result<Vec<u8>, Failure> {
        let failed = |why: String| Failure::NoCompiler(format!("{}: {why}", self.path.display()));
        let scratch = Scratch::new().map_err(|e| failed(e.to_string()))?;
        let library = scratch.path("library.so");
        let to = library.to_string_lossy();
        let extra = self.extra.iter().map(String::as_str);
        let options: Vec<&str> = OPTIONS.into_iter().chain(extra).chain(["-", "-o", &to]).collect();
        let ended = scratch.run(&self.path, &options, text, self.compile_max);
        match ended.map_err(|e| failed(e.to_string()))? {
            Ended::Exit(status) if status.success() => {
                std::fs::read(&library).map_err(|e| failed(e.to_string()))
            }
            Ended::Exit(_) => Err(Failure::Compile { log: scratch.text(limited::ERRORS) }),
            late @ Ended::Killed => Err(failed(late.how(self.compile_max))),
        }
    }
}

/// Loads a library from memory, or from a private file on a system that runs no code from memory.
fn load(bytes: &[u8], kernels: &[KernelSpec]) -> Result<CLibrary, String> {
    CLibrary::from_memory(bytes, kernels).or_else(|why| {
        let failed = |e: std::io::Error| format!("{why}; {e}");
        let scratch = Scratch::new().map_err(failed)?;
        let path = scratch.path("library.so");
        std::fs::write(&path, bytes).map_err(failed)?;
        CLibrary::load(&path, kernels).map_err(|other| format!("{why}; {other}"))
    })
}

/// The kernel text, and for each kernel the function by which it is run.
fn text_of(source: &Source) -> Result<String, Failure> {
    let mut text = source.assemble()?;
    text += "#line 1 \"host device\"\n";
    source.kernels().iter().for_each(|kernel| write_run(&mut text, kernel));
    Ok(text)
}

fn write_run(text: &mut String, kernel: &KernelSpec) {
    let arguments: Vec<String> = kernel.parameters.iter().enumerate().map(value).collect();
    let (run, name, arguments) = (run_name(kernel.name), kernel.name, arguments.join(", "));
    let _ = write!(
        text,
        "_Static_assert(wl_size_of_{name} == {}, \"group of {name}\");\n\
         void {run}(const void *const *values, u32 number)\n{{\n\
         \x20   wl_groups = number;\n\
         \x20   wl_group_size = wl_size_of_{name};\n\
         \x20   for (wl_group = 0; wl_group < number; wl_group++) {name}({arguments});\n}}\n",
        kernel.group
    );
}

fn value((index, parameter): (usize, &Parameter)) -> String {
    let kind = match parameter {
        Parameter::Reads => "const void *const",
        Parameter::Writes => "void *const",
        Parameter::U32 => "const u32",
        Parameter::U64 => "const u64",
    };
    format!("*({kind} *)values[{index}]")
}
