//! Divides the memory in the function's table among shards.

use warpline_packet::Shard;

use super::config::{Checksum, Config, Overlap};
use super::waiting;
use warpline_streams::flows;
use warpline_streams::reassembly::{self, Reassembly};

/// Bytes of the longest frame that fragments are put together to.
const FRAME_LEN_MAX: usize = 65_535 + 64;
/// How far ahead of its turn data of a stream may come.
const HOLD_LEN: usize = 256 << 10;
/// Segments that wait at a time, for each MiB of streams' memory.
const HELD_PER_MIB: usize = 256;

/// A shard's flows.
pub(super) fn flows(config: &Config, shard: Shard) -> flows::Limits {
    let stream_memory = shard.share(config.stream_memory);
    flows::Limits {
        flows: shard.share(config.flows).max(1),
        window_len: config.window_len,
        hold_len: HOLD_LEN,
        stream_memory,
        held_segments: ((stream_memory >> 20) * HELD_PER_MIB).max(64),
        overlap: match config.overlap {
            Overlap::First => flows::Overlap::First,
            Overlap::Last => flows::Overlap::Last,
            Overlap::Bsd => flows::Overlap::Bsd,
            Overlap::Linux => flows::Overlap::Linux,
            Overlap::Windows => flows::Overlap::Bsd,
            Overlap::Solaris => flows::Overlap::Solaris,
        },
        urgent: config.urgent,
        urgent_limit: config.urgent_limit,
        midstream: config.midstream,
        checksum: config.checksum != Checksum::Ignore,
        timeouts: flows::Timeouts::default(),
    }
}

/// How many rules may wait in a shard beyond those that each flow keeps by itself: two a flow, and
/// as many as one may have.
pub(super) fn waiting(config: &Config, shard: Shard) -> usize {
    (2 * shard.share(config.flows)).max(waiting::RULES_MAX)
}

/// A shard's fragments.
pub(super) fn reassembly(config: &Config, shard: Shard) -> Reassembly {
    let overlap = match config.overlap {
        Overlap::First => reassembly::Overlap::First,
        Overlap::Last => reassembly::Overlap::Last,
        Overlap::Bsd => reassembly::Overlap::Bsd,
        Overlap::Linux => reassembly::Overlap::Linux,
        Overlap::Windows => reassembly::Overlap::Windows,
        Overlap::Solaris => reassembly::Overlap::Solaris,
    };
    Reassembly::new(shard.share(config.datagrams).max(1), FRAME_LEN_MAX)
        .with_overlap(overlap)
        .listening()
        .by_vlan(config.by_vlan)
}
