//! CUDA on a machine without a GPU: stubs of the driver (`stub.h` and the files that it names) and
//! of NVRTC (`nvrtc.c`), built by the system's C compiler, over which a test program runs itself
//! again. The driver's does work some time after it was given, in memory of its own, and refuses
//! what a driver refuses; it doesn't show how fast a GPU is.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

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

const HEADERS: Files = files!["stub.h", "memory.h"];
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
            "memory.c"
        ],
    ),
    ("libnvrtc.so", files!["nvrtc.c"]),
];

/// A folder with both stubs and what they make, removed in the end.
pub(crate) struct Stubs {
    folder: PathBuf,
}

impl Stubs {
    /// Builds them. `None`, said why, where there is no C compiler, and in a program that runs over them.
    pub(crate) fn build() -> Option<Self> {
        Self::build_with("-DWITH_GRAPHS")
    }

    /// The same, with a flag for the compiler.
    #[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
    pub(crate) fn build_with(flag: &str) -> Option<Self> {
        if std::env::var_os(INSIDE).is_some() {
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
            if let Err(why) = stubs.compile(library, sources, flag) {
                println!("skipped: no C compiler: {why}");
                return None;
            }
        }
        Some(stubs)
    }

    fn compile(&self, library: &str, sources: Files, flag: &str) -> std::io::Result<()> {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-w", "-shared", "-fPIC", "-pthread"]);
        command.args([flag, "-o"]).arg(self.folder.join(library));
        for (name, text) in sources {
            std::fs::write(self.folder.join(name), text)?;
            command.arg(self.folder.join(name));
        }
        let made = command.arg("-ldl").status()?;
        assert!(made.success(), "{library} was not made");
        Ok(())
    }

    /// Runs those tests of this program that `arguments` pick, with `extra` in their environment, where `cuda:0` is the stub's and
    /// there is no OpenCL.
    ///
    /// # Panics One failed, or none was run, or the driver's stub saw something that a driver must
    /// not be given.
    pub(crate) fn again(&self, arguments: &[&str], extra: &[(&str, &str)]) {
        let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let ended = Command::new(std::env::current_exe().expect("this program"))
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
            .expect("this program again");
        let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|s| String::from_utf8_lossy(s));
        let is_run = ended.status.success() && !stdout.contains(" 0 passed");
        assert!(is_run, "over the stubs, {arguments:?} {extra:?}: {stderr}{stdout}");
        let is_clean = stderr.lines().any(|line| line == CLEAN);
        assert!(is_clean, "over the stubs, {arguments:?} {extra:?}: {stderr}");
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
