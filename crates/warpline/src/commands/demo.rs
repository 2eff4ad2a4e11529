//! `warpline demo`: the demo's files, to try things on.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use warpline_io::{Next, PcapWriter, Sink, Source};
use warpline_io_error::plain;

use super::say;
use crate::{Failure, demo};

pub(crate) fn demo(folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, why: String| Failure::Run(format!("{}: {why}", path.display()));
    fs::create_dir_all(folder).map_err(|e| failed(folder, plain(&e)))?;
    for (name, text) in demo::FILES {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|e| failed(&path, plain(&e)))?;
        if *name == demo::KEYS {
            let own = Permissions::from_mode(0o600);
            fs::set_permissions(&path, own).map_err(|e| failed(&path, plain(&e)))?;
        }
        say(&path.display().to_string())?;
    }
    let path = folder.join(demo::CAPTURE);
    write_capture(&path).map_err(|why| failed(&path, why))?;
    say(&path.display().to_string())?;
    say(&format!("  {}", demo::SUMMARY))
}

fn write_capture(path: &Path) -> Result<(), String> {
    let mut capture = PcapWriter::create(path).map_err(|e| e.to_string())?;
    let mut source = demo::source().map_err(|e| e.to_string())?;
    while let Next::Frame(frame) = source.next().map_err(|e| e.to_string())? {
        capture.send(&frame).map_err(|e| e.to_string())?;
    }
    capture.finish().map_err(|e| e.to_string())
}
