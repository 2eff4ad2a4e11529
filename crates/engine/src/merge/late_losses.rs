//! Frames that the sink took and lost later, in the counts of a running chain.
//!
//! At the end they are taken back from those that were sent. Before, counts of sent packets never
//! fall, since monitoring takes that for a restart. A loss that is larger than the growth of a
//! count is shown in parts.

use warpline_io::{FrameCount, Unwritten};

use crate::stats::ThreadStats;

/// The packets that were shown as sent, by port, or of the chain if it has no ports.
#[derive(Default)]
pub(super) struct LateLosses {
    shown: Vec<FrameCount>,
}

impl LateLosses {
    /// Takes `lost` back from the counts in `part`, as far as no count falls.
    pub(super) fn take_back(&mut self, part: &mut ThreadStats, lost: &Unwritten, has_ports: bool) {
        let mut own: Vec<FrameCount> = lost.by_port().map(|(_, lost)| lost).collect();
        if !has_ports {
            let bytes = own.iter().map(|lost| lost.bytes).sum();
            own = vec![FrameCount { frames: lost.frames(), bytes }];
        }
        let count = if has_ports { part.ports.len() } else { 1 };
        own.resize(count, FrameCount::default());
        self.shown.resize(count.max(self.shown.len()), FrameCount::default());
        let mut all = FrameCount::default();
        for ((at, lost), shown) in own.into_iter().enumerate().zip(&mut self.shown) {
            let sent = match part.ports.get(at).filter(|_| has_ports) {
                Some(port) => FrameCount { frames: port.sent, bytes: port.bytes_sent },
                None => FrameCount { frames: part.packets.sent, bytes: part.bytes_sent },
            };
            let left = |sent: u64, lost, shown: u64| sent.saturating_sub(lost).max(shown).min(sent);
            shown.frames = left(sent.frames, lost.frames, shown.frames);
            shown.bytes = left(sent.bytes, lost.bytes, shown.bytes);
            let (frames, bytes) = (sent.frames - shown.frames, sent.bytes - shown.bytes);
            all.frames += frames;
            all.bytes += bytes;
            if has_ports {
                part.ports[at].lose_sent(FrameCount { frames, bytes });
            }
        }
        part.lose_sent(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::PortStats;

    /// Counts of packets that were sent by each port, ten bytes each.
    fn sent(by_port: &[u64]) -> ThreadStats {
        let mut part = ThreadStats::new(0);
        part.packets.sent = by_port.iter().sum();
        part.bytes_sent = part.packets.sent * 10;
        let port = |sent: &u64| PortStats { sent: *sent, bytes_sent: sent * 10, ..<_>::default() };
        part.ports = by_port.iter().map(port).collect();
        part
    }

    /// `(sent, lost)` so far by port, and what is shown of both in all.
    #[test]
    fn losses_are_shown_and_no_count_falls() {
        for (has_ports, expected) in [
            (true, [(14, 6), (14, 6), (17, 6), (40, 10)]),
            (false, [(14, 6), (14, 6), (14, 9), (40, 10)]),
        ] {
            let (mut losses, mut before) = (LateLosses::default(), [0, 0]);
            let steps: [([u64; 2], [u64; 2]); 4] =
                [([10, 10], [6, 0]), ([10, 10], [6, 4]), ([13, 10], [6, 4]), ([30, 20], [6, 4])];
            for ((by_port, lost), expected) in steps.into_iter().zip(expected) {
                let mut unwritten = Unwritten::default();
                for (port, count) in (0..).zip(lost) {
                    (0..count).for_each(|_| unwritten.add(port, 10));
                }
                let mut part = sent(&by_port);
                losses.take_back(&mut part, &unwritten, has_ports);
                let all: u64 = by_port.iter().sum();
                let packets = &part.packets;
                assert_eq!((packets.sent, packets.unwritten), expected, "{by_port:?}");
                assert_eq!(packets.sent + packets.unwritten, all);
                assert_eq!(part.bytes_sent, packets.sent * 10);
                if has_ports {
                    let now = [0, 1].map(|port| part.ports[port].sent);
                    assert_eq!(now.iter().sum::<u64>(), packets.sent);
                    assert!(now >= before, "{now:?} after {before:?}");
                    before = now;
                }
            }
        }
    }
}
