//! CUDA on a machine without a GPU: stubs of the driver (`cuda.c`, `graphs.c`) and of NVRTC (`nvrtc.c`), built by the system's C compiler,
//! over which a test program runs itself again. Shows that what is built on CUDA's calls works, not what a GPU does.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set in the program that runs over the stubs.
const INSIDE: &str = "WARPLINE_CUDA_STUB";

const SOURCES: [(&str, &str); 2] = [
    ("libcuda.so.1", concat!(include_str!("cuda.c"), include_str!("graphs.c"))),
    ("libnvrtc.so", include_str!("nvrtc.c")),
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
        for (library, source) in SOURCES {
            if let Err(why) = stubs.compile(library, source, flag) {
                println!("skipped: no C compiler: {why}");
                return None;
            }
        }
        Some(stubs)
    }

    fn compile(&self, library: &str, text: &str, flag: &str) -> std::io::Result<()> {
        let source = self.folder.join(library).with_extension("c");
        std::fs::write(&source, text)?;
        let mut command = Command::new("cc");
        command.args(["-D_GNU_SOURCE", flag, "-w", "-shared", "-fPIC", "-o"]);
        let made = command.arg(self.folder.join(library)).arg(source).arg("-ldl").status()?;
        assert!(made.success(), "{library} was not made");
        Ok(())
    }

    /// Runs those tests of this program that `arguments` pick, with `extra` in their environment, where `cuda:0` is the stub's and
    /// there is no OpenCL.
    ///
    /// # Panics
    /// One failed, or none was run.
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
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
