//! Writes the demo capture to the file named by the only argument.

mod demo;

use std::process::ExitCode;

use warpline_io::{PcapWriter, SinkError};

fn main() -> ExitCode {
    let written = match std::env::args_os().nth(1) {
        Some(path) => write(path.as_ref()),
        None => return ExitCode::from(2),
    };
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(path: &std::path::Path) -> Result<(), SinkError> {
    let mut writer = PcapWriter::create(path)?;
    let summary = demo::capture::write(&mut writer)?;
    writer.finish()?;
    let mut table = String::new();
    for (kind, count) in summary.rows() {
        table +=
            &format!("{:<12} {:>6} packets {:>9} bytes\n", kind.name(), count.packets, count.bytes);
    }
    let total = summary.total();
    table += &format!("{:<12} {:>6} packets {:>9} bytes\n", "total", total.packets, total.bytes);
    std::io::Write::write_all(&mut std::io::stderr(), table.as_bytes())?;
    Ok(())
}
