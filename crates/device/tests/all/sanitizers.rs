//! Kernels under the compiler's address and undefined-behaviour sanitizers, where it has them.
//!
//! The address sanitizer must be in the process from its start, so the test starts itself again
//! with it.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{call, source};
use warpline_device::host::{Compiler, Host};
use warpline_device::{Argument, Device, Step, Work, self_test};

use Argument::{Reads, U32, U64, Writes};

/// Set in the process that has the sanitizers; the value names its role.
const ROLE: &str = "WARPLINE_SANITIZED";
const OPTIONS: &[&str] = &[
    "-g",
    "-O1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

#[test]
fn kernels_pass_the_sanitizers_which_see_a_planted_error() {
    if let Ok(role) = std::env::var(ROLE) {
        return sanitized(&role);
    }
    let Some(libraries) = libraries() else {
        println!("skipped: no C compiler with sanitizers");
        return;
    };
    let fine = again("self-test", &libraries);
    assert!(fine.status.success(), "{}", String::from_utf8_lossy(&fine.stderr));
    let planted = again("planted", &libraries);
    let said = String::from_utf8_lossy(&planted.stderr).into_owned();
    assert!(!planted.status.success() && said.contains("heap-buffer-overflow"), "{said}");
    assert!(said.contains("test.cl:5"), "the line of our text: {said}");
}

fn sanitized(role: &str) {
    let host =
        Host::with(Compiler::find().expect("there was one").with(OPTIONS)).expect("a thread");
    match role {
        "self-test" => self_test(&host).expect("right results"),
        _ => read_past_the_end(&host),
    }
}

/// A count greater than the memory has words: what a call's maker vouches against.
fn read_past_the_end(host: &dyn Device) {
    let module = host.compile(&source()).expect("it compiles");
    let (from, to) = (host.allocate(4096).expect("memory"), host.allocate(8192).expect("memory"));
    let arguments = vec![Reads(from.whole()), Writes(to.whole()), U32(1025), U64(1), U32(0)];
    let steps =
        vec![Step::Call(call(&module.kernel("scale").expect("it is there"), 33, arguments))];
    let mut stream = host.stream().expect("a stream");
    crate::common::do_now(&mut *stream, Work::new(Vec::new(), steps));
}

/// The sanitizers' libraries, if the compiler has them.
fn libraries() -> Option<String> {
    let compiler = Compiler::find().ok()?;
    let place = |name: &str| {
        let output =
            Command::new(compiler.path()).arg(format!("-print-file-name={name}")).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().to_string();
        Path::new(&path).is_absolute().then_some(path)
    };
    Some(format!("{} {}", place("libasan.so")?, place("libubsan.so")?))
}

fn again(role: &str, libraries: &str) -> Output {
    // The sanitizer reads line numbers from the library when it reports, so that must lie on disk
    // then.
    let cache = tempfile::tempdir().expect("a folder");
    Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "sanitizers::kernels_pass_the_sanitizers_which_see_a_planted_error",
            "--nocapture",
        ])
        .env(ROLE, role)
        .env("LD_PRELOAD", libraries)
        .env("XDG_CACHE_HOME", cache.path())
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .expect("it starts")
}
