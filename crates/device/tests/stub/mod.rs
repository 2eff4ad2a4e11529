//! CUDA on a machine without a GPU: stubs of the driver (`stub.h` and the files that it names) and
//! of NVRTC (`nvrtc.c`), built by the system's C compiler, over which a test program runs itself
//! again. The driver's does work some time after it was given, in memory of its own, and refuses
//! what a driver refuses; it doesn't show how fast a GPU is.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Set in the program that runs over the stubs.
const INSIDE: &str = "WARPLINE_CUDA_STUB";

/// The last line of a program that gave the driver nothing that it must not get, never waited for a
/// device on a lane's thread, and copied nothing back that no kernel and no copy wrote.
const CLEAN: &str = "stub: 0 misuses, 0 stalls, 0 unwritten copies";

/// A file of C with its name.
macro_rules! files {
    ($($name:literal),*) => { &[$(($name, include_str!($name))),*] };
}

type Files = &'static [(&'static str, &'static str)];

const HEADERS: Files = files![
    "stub.h",
    "memory.h",
    "ptx.h",
    "ptx_calls.h",
    "ptx_code.h",
    "ptx_operations.h",
    "ptx_races.h"
];
const LIBRARIES: [(&str, Files); 2] = [
    (
        "libcuda.so.1",
        files![
            "calls.c",
            "devices.c",
            "objects.c",
            "allocations.c",
            "pages.c",
            "modules.c",
            "streams.c",
            "graphs.c",
            "memory.c",
            "ptx_calls.c",
            "ptx_decode.c",
            "ptx_mutants.c",
            "ptx_mutation.c",
            "ptx_parse.c",
            "ptx_races.c",
            "ptx_registers.c",
            "ptx_run.c"
        ],
    ),
    ("libnvrtc.so", files!["nvrtc.c"]),
];

/// Whether this program runs over the stubs.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn is_over_stubs() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// NVRTC's library. Without it, prints that the test is skipped.
#[expect(clippy::print_stdout, reason = "a skipped test prints why")]
pub(crate) fn nvrtc() -> Option<String> {
    let named = std::env::var("WARPLINE_NVRTC").unwrap_or_default();
    let paths = [named, "/usr/local/cuda/lib64/libnvrtc.so".into()];
    let nvrtc = paths.into_iter().find(|path| Path::new(path).exists());
    if nvrtc.is_none() {
        assert!(std::env::var_os("WARPLINE_REQUIRE_NVRTC").is_none(), "no NVRTC");
        println!("skipped: no NVRTC to make PTX");
    }
    nvrtc
}

/// Variables of a program whose kernels NVRTC compiles. These programs share a cache of PTX, which
/// saves a minute. Kernels of NVRTC's stub have none: they name files of a folder that is removed.
fn by_ptx(nvrtc: &str) -> [(&'static str, &str); 3] {
    let kept = concat!(env!("CARGO_TARGET_TMPDIR"), "/ptx");
    [("WARPLINE_NVRTC", nvrtc), ("STUB_CAPABILITY", "80"), ("XDG_CACHE_HOME", kept)]
}

/// A folder with both stubs and what they make, removed in the end.
pub(crate) struct Stubs {
    folder: PathBuf,
}

impl Stubs {
    /// Builds them. `None`, said why, where there is no C compiler, and in a program that runs over
    /// them.
    pub(crate) fn build() -> Option<Self> {
        Self::build_with("-DWITH_GRAPHS")
    }

    /// The same, with a flag for the compiler.
    #[expect(clippy::print_stdout, reason = "a skipped test prints its reason")]
    pub(crate) fn build_with(flag: &str) -> Option<Self> {
        if is_over_stubs() {
            return None;
        }
        static BUILT: AtomicUsize = AtomicUsize::new(0);
        let number = BUILT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("warpline-cuda-stub-{}-{number}", std::process::id());
        let stubs = Self { folder: std::env::temp_dir().join(folder) };
        std::fs::create_dir_all(&stubs.folder).expect("a folder for the stubs");
        for (name, text) in HEADERS {
            std::fs::write(stubs.folder.join(name), text).expect("a file for the stubs");
        }
        for (library, sources) in LIBRARIES {
            if let Err(why) = stubs.write(library, sources, flag) {
                println!("skipped: no C compiler: {why}");
                return None;
            }
        }
        Some(stubs)
    }

    /// Compiles a library, once for all tests of this program.
    fn write(&self, library: &'static str, sources: Files, flag: &str) -> std::io::Result<()> {
        static COMPILED: Mutex<BTreeMap<(&str, String), Vec<u8>>> = Mutex::new(BTreeMap::new());
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder.join(library);
        match compiled.entry((library, flag.into())) {
            Entry::Occupied(entry) => std::fs::write(path, entry.get()),
            Entry::Vacant(entry) => {
                self.compile(library, sources, flag)?;
                entry.insert(std::fs::read(path)?);
                Ok(())
            }
        }
    }

    fn compile(&self, library: &str, sources: Files, flag: &str) -> std::io::Result<()> {
        let mut command = Command::new("cc");
        command.args([
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-O2",
            "-fwrapv",
            "-w",
            "-shared",
            "-fPIC",
            "-pthread",
        ]);
        command.args([flag, "-o"]).arg(self.folder.join(library));
        for (name, text) in sources {
            std::fs::write(self.folder.join(name), text)?;
            command.arg(self.folder.join(name));
        }
        let made = command.arg("-ldl").status()?;
        assert!(made.success(), "{library} was not made");
        Ok(())
    }

    /// Runs those tests of this program that `arguments` pick, with `extra` in their environment,
    /// where `cuda:0` is the stub's and there is no OpenCL.
    ///
    /// # Panics One failed, or none was run, or the driver's stub saw something that a driver must
    /// not be given.
    pub(crate) fn again(&self, arguments: &[&str], extra: &[(&str, &str)]) {
        self.run(arguments, extra);
    }

    /// The same with NVRTC itself in place of its stub: the driver's interprets the PTX that NVRTC
    /// makes. Returns what the program printed as errors. Without NVRTC it prints that the test is
    /// skipped, and returns nothing.
    ///
    /// # Panics
    /// As above; and there is no NVRTC although `WARPLINE_REQUIRE_NVRTC` is set.
    pub(crate) fn again_by_ptx(
        &self,
        arguments: &[&str],
        extra: &[(&str, &str)],
    ) -> Option<String> {
        let nvrtc = nvrtc()?;
        Some(self.run(arguments, &[extra, &by_ptx(&nvrtc)].concat()))
    }

    /// Wants the same to fail if a load and a store take the place of each atomic addition: items
    /// then race.
    ///
    /// # Panics
    /// No race was reported; or there is no NVRTC although `WARPLINE_REQUIRE_NVRTC` is set.
    #[allow(dead_code, reason = "not every test program has kernels that add")]
    pub(crate) fn races_are_seen(&self, arguments: &[&str], extra: &[(&str, &str)]) {
        let Some(nvrtc) = nvrtc() else { return };
        let extra = [extra, &by_ptx(&nvrtc), &[("STUB_NO_ATOMICS", "1")]].concat();
        let ended = self.start(arguments, &extra);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let is_seen = !ended.status.success() && stderr.contains("races with another item");
        assert!(is_seen, "{arguments:?} {extra:?}: {stderr}");
    }

    /// The same with damaged copies of each kernel beside it: a changed opcode, register, number or
    /// guard, or an instruction less. Wants three of four to fault or to leave other memory than
    /// the kernel, and prints the others. `STUB_MUTANT_SEED` draws the damage.
    ///
    /// # Panics
    /// As above; and too few showed.
    #[allow(dead_code, reason = "not every test program has kernels to damage")]
    #[expect(clippy::print_stdout, reason = "the survivors show what no case covers")]
    pub(crate) fn mutants_are_seen(&self, arguments: &[&str], extra: &[(&str, &str)]) {
        let seed = std::env::var("STUB_MUTANT_SEED").unwrap_or_else(|_| "1".into());
        let damage = [("STUB_MUTANTS", "3"), ("STUB_MUTANT_SEED", seed.as_str())];
        // A mutant may write into any buffer, so no other test has one at that time.
        let alone = [arguments, &["--test-threads=1"]].concat();
        let Some(stderr) = self.again_by_ptx(&alone, &[extra, &damage].concat()) else { return };
        let reported: Vec<&str> =
            stderr.lines().filter(|line| line.starts_with("mutants: ")).collect();
        reported.iter().for_each(|line| println!("STUB_MUTANT_SEED={seed} {line}"));
        let numbers =
            reported.last().expect("a line for all").split(' ').filter_map(|w| w.parse().ok());
        let [seen, all]: [usize; 2] =
            numbers.collect::<Vec<_>>().try_into().expect("how many of how many");
        assert!(all > 0 && 4 * seen >= 3 * all, "STUB_MUTANT_SEED={seed}: {reported:#?}");
    }

    fn start(&self, arguments: &[&str], extra: &[(&str, &str)]) -> Output {
        let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        Command::new(std::env::current_exe().expect("this program"))
            .args(arguments)
            .arg("--nocapture")
            .env(INSIDE, "1")
            .env("STUB_FOLDER", &self.folder)
            .env("LD_LIBRARY_PATH", format!("{}:{before}", self.folder.display()))
            .env("WARPLINE_NVRTC", self.folder.join("libnvrtc.so"))
            .env("OCL_ICD_VENDORS", &self.folder)
            .env("XDG_CACHE_HOME", &self.folder)
            .env("WARPLINE_REQUIRE_DEVICES", "cuda,host")
            // The stub knows no GPU's instructions.
            .env_remove("WARPLINE_REQUIRE_NVRTC")
            .envs(extra.iter().copied())
            .output()
            .expect("this program again")
    }

    fn run(&self, arguments: &[&str], extra: &[(&str, &str)]) -> String {
        let ended = self.start(arguments, extra);
        let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|s| String::from_utf8_lossy(s));
        let is_run = ended.status.success() && !stdout.contains(" 0 passed");
        assert!(is_run, "over the stubs, {arguments:?} {extra:?}: {stderr}{stdout}");
        let is_clean = stderr.lines().any(|line| line == CLEAN);
        assert!(is_clean, "over the stubs, {arguments:?} {extra:?}: {stderr}");
        stderr.into_owned()
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
