//! Kernels on the host under the compiler's address and undefined-behaviour sanitizers, where it
//! has them.
//!
//! The address sanitizer must be in the process from its start, so the test starts itself again
//! with it. It sees what reaches out of the arena or a table; the other one sees words read where
//! they are not aligned, and shifts too far.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use warpline_device::Device;
use warpline_device::host::{Compiler, Host};

use crate::{
    digest, firewall, flow_monitor, load_balancer, nat, nids, nids_grams, packed, rooms, router,
};

/// Set in the process that has the sanitizers.
const ROLE: &str = "WARPLINE_SANITIZED";
const OPTIONS: &[&str] = &[
    "-g",
    "-O1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

#[test]
fn kernels_pass_the_sanitizers() {
    if std::env::var_os(ROLE).is_some() {
        let compiler = Compiler::find().expect("there was one").with(OPTIONS);
        let host = Host::with(compiler).expect("a thread");
        digest::edges_on(&host);
        nids::edges_on(&host);
        nids_grams::edges_on(&host);
        packed::edges_on(&host);
        rooms::edges_on(&host);
        let host: Arc<dyn Device> = Arc::new(host);
        firewall::edges_on(Arc::clone(&host));
        flow_monitor::edges_on(&host);
        load_balancer::edges_on(&host);
        nat::edges_on(&host);
        router::edges_on(host);
        return;
    }
    let Some(libraries) = libraries() else {
        println!("skipped: no C compiler with sanitizers");
        return;
    };
    // The sanitizer reads line numbers from the library when it reports, so that must lie on disk
    // then.
    let cache = std::env::temp_dir().join(format!("warpline-sanitized-{}", std::process::id()));
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "sanitizers::kernels_pass_the_sanitizers", "--nocapture"])
        .env(ROLE, "1")
        .env("LD_PRELOAD", libraries)
        .env("XDG_CACHE_HOME", &cache)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .expect("it starts");
    let _ = std::fs::remove_dir_all(cache);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The sanitizers' libraries, if the compiler has them.
fn libraries() -> Option<String> {
    let compiler = Compiler::find().ok()?;
    let place = |name: &str| {
        let named = format!("-print-file-name={name}");
        let output = Command::new(compiler.path()).arg(named).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().to_string();
        Path::new(&path).is_absolute().then_some(path)
    };
    Some(format!("{} {}", place("libasan.so")?, place("libubsan.so")?))
}
