//! CUDA's device on a machine without a GPU: the same table of cases over a stub of the driver (`stub_driver.c`), built by
//! the system's C compiler. Shows that the calls are right, not what a GPU does. Needs NVRTC and a compiler.

use std::path::Path;
use std::process::{Command, Output};

use warpline_device::host::{Compiler, Host};
use warpline_device::{Device, Failure, Step, Work, compile_cuda_for, open, self_test};

use crate::common::source;
use crate::devices::{CASES, part, piece_of};

/// Set in the process that has the stub, to what it is to do.
const ROLE: &str = "WARPLINE_STUB_DRIVER";

#[test]
fn the_table_passes_over_a_stub_of_the_driver() {
    if let Ok(role) = std::env::var(ROLE) {
        return with_stub(&role);
    }
    let compiler = match (Compiler::find(), compile_cuda_for(&source(), 90)) {
        (Ok(compiler), Ok(_)) => compiler,
        (compiler, nvrtc) => {
            return println!("skipped: {:?} {:?}", compiler.err(), nvrtc.err());
        }
    };
    let folder = tempfile::tempdir().unwrap();
    build(&compiler, folder.path());
    for role in ["table", "lost"] {
        let ended = again(role, folder.path());
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success(),
            "{role}: {said}\n{}",
            String::from_utf8_lossy(&ended.stdout)
        );
    }
}

fn with_stub(role: &str) {
    let host = Host::open().unwrap();
    self_test(&host).unwrap();
    host.compile(&source()).unwrap();
    let device = open("cuda:0").unwrap();
    assert_eq!(device.description().name, "stub (sm_90)");
    match role {
        "table" => CASES.iter().for_each(|(name, case)| {
            println!("{name}");
            case(&*device);
        }),
        _ => lost(&*device),
    }
}

fn lost(device: &dyn Device) {
    let buffer = device.allocate(16).unwrap();
    let mut stream = device.stream().unwrap();
    for value in 0..2 {
        let pieces = vec![piece_of(device, &[value; 16])];
        let steps = vec![Step::CopyIn { from: part(0, 0..16), to: buffer.whole() }];
        stream.submit(Work { pieces, steps }).unwrap();
    }
    for value in 0..2 {
        let done = stream.wait().unwrap();
        assert_eq!(done.work.pieces[0][..], [value; 16]);
        let why = "CUDA_ERROR_ILLEGAL_ADDRESS: says the stub".into();
        assert_eq!(done.outcome, Err(Failure::Lost(why)));
    }
}

fn build(compiler: &Compiler, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/stub_driver.c");
    let mut command = Command::new(compiler.path());
    command
        .args(["-D_GNU_SOURCE", "-w", "-shared", "-fPIC", "-o"])
        .arg(folder.join("libcuda.so.1"));
    assert!(command.arg(source).arg("-ldl").status().unwrap().success());
}

fn again(role: &str, folder: &Path) -> Output {
    let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "cuda_calls::the_table_passes_over_a_stub_of_the_driver", "--nocapture"])
        .env(ROLE, role)
        .env("LD_LIBRARY_PATH", format!("{}:{before}", folder.display()))
        // Where there is a GPU, its OpenCL would find the stub too.
        .env("OCL_ICD_VENDORS", folder)
        .env("XDG_CACHE_HOME", folder)
        .env("STUB_LIBRARIES", folder.join("warpline"));
    if role == "lost" {
        command.env("STUB_LOST", "1");
    }
    command.output().unwrap()
}
