//! Random flow monitors.

use super::{Apart, Config};
use crate::chains::{Naive, Spec};
use crate::digest::OnDuplicate;
use crate::draw::Draw;
use crate::ipcomp::End;

/// The name of the file that the monitor at `place` writes.
pub(crate) fn csv(place: usize) -> String {
    format!("flows-{place}.csv")
}

pub(crate) fn flow_monitor(draw: &mut Draw, place: usize) -> Spec {
    let (active, most) = (draw.of(&[1, 2, 5, 20, 60, 300]), draw.of(&[1, 2, 5, 30]));
    let (idle, room) = (active.min(most), draw.of(&[64, 65_536, 65_536, 65_536]));
    let table = format!(
        "csv = 'KEPT/{}'\nactive_s = {active}\nidle_s = {idle}\nflows = {room}\n",
        csv(place)
    );
    let (active, idle) = (active * 1_000_000, idle * 1_000_000);
    let naive = Naive::Monitor(Config { active, idle, room, apart: Apart::None });
    Spec { function: "flow_monitor", table, files: Vec::new(), naive }
}

/// Says which flows the monitors of a chain may have in several shards.
pub(crate) fn divide(specs: &mut [Spec]) {
    let is_whole = |spec: &Spec| {
        matches!(spec.naive, Naive::Digest(OnDuplicate::Tag(_) | OnDuplicate::Drop, _))
    };
    let is_whole = specs.iter().any(is_whole);
    // Compressed, an ICMP error is a packet like others between its ends, and still where the
    // packet is that it quotes.
    let hides = |spec: &Spec| matches!(spec.naive, Naive::Ipcomp(End::Compress { .. }));
    let is_moved = specs.iter().any(|spec| spec.moves_addresses() || hides(spec));
    for spec in specs {
        let Naive::Monitor(config) = &mut spec.naive else { continue };
        config.apart = match () {
            () if config.room < 1000 => Apart::All,
            () if is_whole => Apart::None,
            () if is_moved => Apart::Portless,
            () => Apart::Messages,
        };
    }
}
