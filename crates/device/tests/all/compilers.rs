//! Compilers that hang, fail and flood, in place of the system's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use core::time::Duration;

use crate::common::source;
use warpline_device::host::{Compiler, Host};
use warpline_device::{Device as _, Failure};

/// A compiler that prints its version, and then does `body` in `folder`.
fn compiler(folder: &Path, body: &str) -> Compiler {
    let path = folder.join("cc");
    let version = "[ \"$1\" = --version ] && { echo mock 1; exit; }";
    fs::write(&path, format!("#!/bin/sh\n{version}\ncd '{}'\n{body}\n", folder.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    loop {
        match Compiler::at(&path) {
            Ok(compiler) => return compiler,
            // A child that another test starts still has the file open for writing.
            Err(why) if why.to_string().contains("busy") => thread::yield_now(),
            Err(why) => panic!("{why}"),
        }
    }
}

fn why_not(compiler: Compiler) -> Failure {
    Host::with(compiler).unwrap().compile(&source()).unwrap_err()
}

#[test]
fn a_compiler_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    // It reads none of its input, and a child of it would keep its outputs open.
    let hanging = compiler(folder.path(), "sleep 10000 & echo $! >part; mv part child; wait");
    let mut limit = Duration::from_millis(100);
    let child = loop {
        let why = why_not(hanging.clone().with_limit(limit));
        let Failure::NoCompiler(text) = &why else { panic!("{why:?}") };
        assert!(text.contains("/cc: did not end within") && text.contains("killed"), "{text}");
        if let Ok(child) = fs::read_to_string(folder.path().join("child")) {
            break child.trim().to_string();
        }
        // It was killed before it had a child.
        limit *= 2;
    };
    while is_running(&child) {
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_running(child: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| {
        let state = rest.trim_start().chars().next();
        state.is_some_and(|state| !"ZX".contains(state))
    })
}

#[test]
fn a_compiler_without_a_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cc");
    fs::write(&path, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut why = String::from("busy");
    while why.contains("busy") {
        why = Compiler::at(&path).unwrap_err().to_string();
    }
    assert!(why.contains("cc: --version ended with exit status: 3"), "{why}");
}

#[test]
fn an_outcome_of_a_compiler_is_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (body, is_log, reason) in [
        ("echo no such dialect >&2; exit 1", true, "no such dialect"),
        ("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", true, "xxx"),
        ("kill -SEGV $$", true, ""),
        ("exit 0", false, "No such file"),
        ("for last; do :; done; echo nonsense >\"$last\"", false, "file too short"),
        ("for last; do :; done; : >\"$last\"", false, "file too short"),
        ("for last; do :; done; mkdir \"$last\"", false, "directory"),
    ] {
        let why = why_not(compiler(folder.path(), body));
        let text = match &why {
            Failure::Compile { log } if is_log => log,
            Failure::NoCompiler(text) if !is_log => text,
            _ => panic!("{body}: {why:?}"),
        };
        assert!(text.contains(reason) && text.len() <= 1 << 20, "{body}: {text:.200}");
    }
}

#[test]
fn a_run_leaves_no_file() {
    let cache = tempfile::tempdir().unwrap();
    let here = "compilers::an_outcome_of_a_compiler_is_a_reason";
    let mut again = Command::new(std::env::current_exe().unwrap());
    let again = again.args(["--exact", here]).env("XDG_CACHE_HOME", cache.path());
    assert!(again.status().unwrap().success());
    assert_eq!(fs::read_dir(cache.path().join("warpline")).unwrap().count(), 0);
}
