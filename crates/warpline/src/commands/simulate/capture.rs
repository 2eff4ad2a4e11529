//! Times and lengths of a capture, as a load.

use std::path::Path;
use std::sync::Arc;

use warpline_io::{CaptureFile, CaptureReader, Next, Source};
use warpline_sim::{Arrivals, Load, Size, Traffic, Ways};

use super::ways::destination;
use crate::Failure;
use crate::commands::run::print_message;
use crate::ports::reported;

/// Packets that a load may have.
const PACKETS_MAX: usize = 20_000_000;

/// Whether the name is that of a capture.
pub(super) fn is_capture(path: &Path) -> bool {
    path.extension().is_some() && CaptureFile::of_name(path).is_ok()
}

/// Reads a capture. The first packet is at time 0, and none is before an earlier one. Packets are
/// added to the ways of each chain.
pub(super) fn load(path: &Path, ways: &mut [Option<Ways>]) -> Result<Load, Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::Usage(format!("--load {}: {why}", path.display()));
    let mut reader = CaptureReader::open(path).map_err(|why| failed(&reported(&why)))?;
    let mut all: Vec<(u64, u32)> = Vec::new();
    let mut first_ns = None;
    loop {
        match reader.next().map_err(|why| failed(&reported(&why)))? {
            Next::Frame(frame) => {
                let at_ns = frame.timestamp.as_nanos();
                let first_ns = *first_ns.get_or_insert(at_ns);
                let last_ns = all.last().map_or(0, |(at_ns, _)| *at_ns);
                let at_ns = at_ns.saturating_sub(first_ns).max(last_ns);
                all.push((at_ns, frame.wire_len.max(1)));
                let destination = destination(frame.bytes, frame.link, frame.wire_len as usize);
                ways.iter_mut().flatten().for_each(|own| own.add(destination));
            }
            Next::Idle(_) => {}
            Next::End => {
                for why in reader.warnings() {
                    let text = format!("warning: --load {}: {why}\n", path.display());
                    print_message(&text);
                }
                break;
            }
        }
        if all.len() > PACKETS_MAX {
            return Err(failed(&format!("more than {PACKETS_MAX} packets")));
        }
    }
    if all.is_empty() {
        return Err(failed(&"no packets"));
    }
    let arrivals = Arrivals::Replay(Arc::from(all));
    Ok(Load {
        traffic: Traffic { arrivals, size: Size::Fixed(512) },
        waits: false,
        ring: Load::RING,
        batch: None,
    })
}
