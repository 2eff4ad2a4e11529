//! Counts how much of a run's memory is in huge pages, as Linux reports it for this process.
//!
//! The program requests huge pages for large tables ([`crate::sys::HugeAlloc`]), and the system may
//! grant small ones. `/proc/self/smaps` lists the mappings, and those with a request have the flag
//! `hg`. A mapping that overlaps a lane's arena counts as the arena's, every other one as tables'.
//! Tables are those of the whole process.

use std::ops::Range;

use warpline_launch::LaneMemory;

use crate::launch_stage::lane_memory;
use crate::stage::Stage;
use crate::{Deployment, Settings, StartError};

/// Memory that asked for huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Bytes that were touched, and so have memory.
    pub resident: u64,
    /// Those of them in huge pages.
    pub huge: u64,
}

/// Huge pages of a chain's lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePages {
    /// Tables of functions' state, and other large blocks.
    pub tables: Asked,
    /// The lanes' arenas.
    pub arena: Asked,
}

/// Takes a lane's memory and builds its state for every lane of `deployment`, as a run does.
/// Touches as much of the arenas as full queues would, and counts huge pages. `None` where the
/// system has no `/proc/self/smaps`.
///
/// # Errors
/// A run would not start for lack of memory.
pub fn try_huge_pages(
    deployment: &Deployment,
    settings: &Settings,
) -> Result<Option<HugePages>, StartError> {
    let settings = settings.fit(deployment);
    let need = settings.memory(deployment);
    if !need.fits() {
        return Err(StartError::TooLarge(need));
    }
    let lane = |lane| {
        let bytes = settings.arena(deployment).memory_len();
        let memory = lane_memory(deployment, bytes, settings.spare_len(deployment));
        let mut memory = memory.ok_or(StartError::Memory(bytes))?;
        memory.touch(need.in_use);
        let chain = deployment.chain();
        let (shards, slots) = (chain.shards(lane, settings.lanes), settings.slots(chain));
        let stages = deployment.stages().iter();
        let stages = stages.map(|plan| Stage::new(chain, plan, Some(&shards), slots, Ok(None)));
        Ok((memory, stages.collect()))
    };
    let lanes = (0..settings.lanes).map(lane).collect::<Result<Vec<(_, Vec<Stage>)>, _>>()?;
    let arenas: Vec<LaneMemory> = lanes.iter().map(|(memory, _)| memory.clone()).collect();
    Ok(huge_pages(&arenas))
}

/// Pages that the system gave, with these arenas.
pub(crate) fn huge_pages(arenas: &[LaneMemory]) -> Option<HugePages> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let arenas: Vec<Range<u64>> = arenas.iter().map(LaneMemory::addresses).collect();
    Some(sum(&smaps, &arenas))
}

/// A mapping, as far as its lines were read.
#[derive(Default)]
struct Mapping {
    addresses: Range<u64>,
    own: Asked,
}

/// The sums over the mappings that asked for huge pages. The last line of a mapping is its flags.
fn sum(smaps: &str, arenas: &[Range<u64>]) -> HugePages {
    let mut all = HugePages::default();
    let mut mapping = Mapping::default();
    for line in smaps.lines() {
        let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match key {
            "Rss:" => mapping.own.resident = bytes(rest),
            "AnonHugePages:" => mapping.own.huge = bytes(rest),
            "VmFlags:" if rest.split_whitespace().any(|flag| flag == "hg") => {
                let Range { start, end } = mapping.addresses;
                let is_arena = arenas.iter().any(|own| own.start < end && start < own.end);
                let sum = if is_arena { &mut all.arena } else { &mut all.tables };
                sum.resident = sum.resident.saturating_add(mapping.own.resident);
                sum.huge = sum.huge.saturating_add(mapping.own.huge);
            }
            _ => {
                if let Some(addresses) = range(key) {
                    mapping = Mapping { addresses, ..Mapping::default() };
                }
            }
        }
    }
    all
}

/// Reads `N kB`; 0 where it is anything else.
fn bytes(text: &str) -> u64 {
    let number = text.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok());
    number.map_or(0, |kib| kib.saturating_mul(1024))
}

/// Reads `FIRST-END`, in hexadecimal.
fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0001000000 rw-p 00000000 00:00 0
Size:              16384 kB
Rss:                8192 kB
AnonHugePages:      6144 kB
VmFlags: rd wr mr mw me ac sd hg
7f0002000000-7f0003000000 rw-p 00000000 00:00 0          [anon: arena]
Rss:                4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg sd
7f0004000000-7f0004800000 rw-p 00000000 00:00 0
Rss:                8192 kB
AnonHugePages:      8192 kB
VmFlags: rd wr mr mw me ac sd
7f0005000000-7f0005800000 r-xp 00000000 08:01 17         /usr/bin/with hg in its name
Rss:                 100 kB
VmFlags: rd ex mr mw me
7f0006000000-7f0006200000 rw-p 00000000 00:00 0
Rss:                2048 kB
VmFlags: rd wr hg
";

    #[test]
    fn mappings_that_asked_are_summed_up() {
        let mib = |resident: u64, huge: u64| Asked { resident: resident << 20, huge: huge << 20 };
        let cases = [
            (&[][..], mib(14, 8), mib(0, 0)),
            (&[(0x7f00_0210_0000, 0x7f00_0220_0000)], mib(10, 6), mib(4, 2)),
            (&[(0x7f00_0300_0000, 0x7f00_0400_0000)], mib(14, 8), mib(0, 0)),
            (&[(0, 1), (0x7f00_0000_0000, 0x7f00_0600_0001)], mib(0, 0), mib(14, 8)),
        ];
        for (arenas, tables, arena) in cases {
            let arenas: Vec<Range<u64>> = arenas.iter().map(|&(start, end)| start..end).collect();
            assert_eq!(sum(SMAPS, &arenas), HugePages { tables, arena }, "{arenas:x?}");
        }
    }

    #[test]
    fn lines_of_any_kind_are_read() {
        let none = HugePages::default();
        for text in ["", "\n\n", "Rss:", "Rss: 4", "VmFlags: hg", "x-y z", "-", "1- VmFlags: hg"] {
            assert_eq!(sum(text, &[]), none, "{text:?}");
        }
        let most = "0-1 \nRss: 18446744073709551615 kB\nVmFlags: hg\n".repeat(2);
        assert_eq!(sum(&most, &[]).tables.resident, u64::MAX);
    }
}
