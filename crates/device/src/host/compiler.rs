//! The system's C compiler, and libraries made by it from kernel text.

use core::fmt::Write as _;
use std::env;
use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sys::c_library::{CLibrary, run_name};
use crate::{Failure, KernelSpec, Missing, Parameter, Source, cache, source};

/// Names under which systems have one.
const NAMES: [&str; 3] = ["cc", "gcc", "clang"];

/// Kernels look at memory as bytes, words and pieces of 16, which C allows without its aliasing rule only.
const OPTIONS: [&str; 8] =
    ["-O2", "-std=gnu11", "-shared", "-fPIC", "-fno-strict-aliasing", "-fwrapv", "-w", "-xc"];

/// A C compiler with its version.
#[derive(Clone, Debug)]
pub struct Compiler {
    path: PathBuf,
    version: String,
    extra: Vec<String>,
}

impl Compiler {
    /// The first of cc, gcc and clang in `PATH` that says its version.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Self, Missing> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = NAMES.iter().find_map(|name| {
            env::split_paths(&path).find_map(|folder| Self::at(&folder.join(name)))
        });
        found.ok_or_else(|| Missing(format!("no C compiler in PATH: none of {}", NAMES.join(", "))))
    }

    /// The compiler at `path`, if it is one.
    pub fn at(path: &Path) -> Option<Self> {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().filter(|_| output.status.success())?.trim().to_string();
        Some(Self { path: path.into(), version, extra: Vec::new() })
    }

    /// With more options, such as `-fsanitize=undefined`.
    #[must_use]
    pub fn with(mut self, options: &[&str]) -> Self {
        self.extra.extend(options.iter().map(|&option| option.into()));
        self
    }

    /// What it says of itself.
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
        match cache::folder() {
            Some(folder) => self.library_in(&folder, &name, &text, source),
            None => self.library_elsewhere(&name, &text, source),
        }
    }

    fn library_in(
        &self,
        folder: &Path,
        name: &str,
        text: &str,
        source: &Source,
    ) -> Result<CLibrary, Failure> {
        let path = folder.join(name);
        if let Ok(library) = CLibrary::load(&path, source.kernels()) {
            return Ok(library);
        }
        let part = folder.join(cache::own_name(name));
        let made = self.compile(text, &part).and_then(|()| {
            fs::rename(&part, &path)
                .map_err(|e| Failure::NoCompiler(format!("{}: {e}", path.display())))
        });
        if made.is_err() {
            let _ = fs::remove_file(&part);
        }
        made?;
        CLibrary::load(&path, source.kernels()).map_err(Failure::NoCompiler)
    }

    /// Without a cache: a folder of our own for as long as it takes to load.
    fn library_elsewhere(
        &self,
        name: &str,
        text: &str,
        source: &Source,
    ) -> Result<CLibrary, Failure> {
        let folder = env::temp_dir().join(cache::own_name(&format!("warpline-{name}")));
        let failed = |e: std::io::Error| Failure::NoCompiler(format!("{}: {e}", folder.display()));
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let library = self.library_in(&folder, name, text, source);
        let _ = fs::remove_dir_all(&folder);
        library
    }

    fn compile(&self, text: &str, to: &Path) -> Result<(), Failure> {
        let failed =
            |e: std::io::Error| Failure::NoCompiler(format!("{}: {e}", self.path.display()));
        let mut child = Command::new(&self.path)
            .args(OPTIONS)
            .args(&self.extra)
            .args(["-".as_ref(), "-o".as_ref(), to.as_os_str()])
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // A compiler that stops reading says why on its standard error.
        let _ = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
        let output = child.wait_with_output().map_err(failed)?;
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(Failure::Compile { log: String::from_utf8_lossy(&output.stderr).into_owned() })
            }
        }
    }
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
