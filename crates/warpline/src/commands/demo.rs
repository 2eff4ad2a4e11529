//! `warpline demo`: the demo's files, to try things on.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use warpline_io::{PcapWriter, Sink};
use warpline_nf::config::plain;

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
    let mut capture = PcapWriter::create(&path).map_err(|e| failed(&path, e.to_string()))?;
    let summary = demo::capture::write(&mut capture).map_err(|e| failed(&path, e.to_string()))?;
    Sink::close(&mut capture).map_err(|e| failed(&path, e.to_string()))?;
    say(&path.display().to_string())?;
    let kinds: Vec<String> =
        summary.rows().map(|(kind, count)| format!("{} {}", kind.name(), count.packets)).collect();
    let total = summary.total();
    say(&format!("  {} packets, {} bytes: {}", total.packets, total.bytes, kinds.join(", ")))?;
    Ok(())
}
