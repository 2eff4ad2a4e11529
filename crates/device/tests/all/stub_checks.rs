//! The parts of the stub of CUDA's driver by themselves, each by a program in C.

use std::path::Path;
use std::process::Command;

#[rustfmt::skip]
const FLAGS: [&str; 9] = [
    "-std=c11", "-D_GNU_SOURCE", "-O1", "-fwrapv", "-Wall", "-Wextra", "-Wno-parentheses",
    "-Werror", "-pthread",
];

/// A program's sources, and the macros defined for them.
const PROGRAMS: [(&str, &[&str], &[&str]); 2] = [
    (
        "memory",
        &["memory_check.c", "memory.c"],
        // A range small enough to go round in it.
        &["-DMEMORY_BITS=24", "-DCAPACITY_BITS=20"],
    ),
    (
        "ptx",
        &[
            "ptx_check.c",
            "ptx_parse.c",
            "ptx_decode.c",
            "ptx_races.c",
            "ptx_registers.c",
            "ptx_run.c",
            "memory.c",
        ],
        &[],
    ),
];

#[test]
fn parts_of_the_stub_do_what_they_should() {
    let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stub");
    for (name, sources, defines) in PROGRAMS {
        let file = format!("warpline-stub-{name}-{}", std::process::id());
        let program = std::env::temp_dir().join(file);
        let mut compiler = Command::new("cc");
        compiler.args(FLAGS).args(defines).arg("-o").arg(&program);
        match compiler.args(sources.iter().map(|one| stub.join(one))).status() {
            Ok(made) => assert!(made.success(), "{name} was not made"),
            Err(why) => return println!("skipped: no C compiler: {why}"),
        }
        let ended = Command::new(&program).output().expect("it starts");
        let _ = std::fs::remove_file(&program);
        let printed = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{name}: {} {printed}", ended.status);
    }
}
