//! Decides which packets are not worth compressing (RFC 3173, 2.2), from a sample of the packet and
//! the samples of earlier packets in its flow.
//!
//! Whether compression failed is known after `run`, when later packets have begun already. Their
//! number depends on batches and lanes, and results must not. So the decision uses an estimate made
//! before `run`: how often two bytes of a sample are equal. In encrypted or compressed data this is
//! one pair in 256. It is more where DEFLATE saves space by coding frequent bytes short.

use warpline_packet::{Batch, ScratchWord};

use super::destinations::Destinations;
use warpline_nf::{Before, Emit, StateHalf};

/// Bytes of the payload that are looked at, at most.
const SAMPLE_MAX: usize = 256;
/// The estimate is useless for fewer bytes: such payloads are tried.
const SAMPLE_MIN: usize = 128;
/// Packets of a flow that look incompressible in a row before some are skipped unseen.
const MISSES: u8 = 4;
/// The first time so many, then twice as many each time, up to the second.
const SKIPS: [u8; 2] = [8, 128];
/// Flows that are remembered in each shard; two that meet in a place forget each other.
const FLOWS: usize = 256;

/// The message from `before` to `run` about a packet.
pub(super) const TRY: u32 = 0;
/// It is not worth a try.
pub(super) const SKIP: u32 = 1;

/// Whether DEFLATE may make `payload` smaller. It is wrong about noise that repeats itself far
/// apart.
fn looks_compressible(payload: &[u8]) -> bool {
    let sample = &payload[..payload.len().min(SAMPLE_MAX)];
    if sample.len() < SAMPLE_MIN {
        return true;
    }
    let mut seen = [0u16; 256];
    let mut equal_pairs = 0;
    for &byte in sample {
        let seen = &mut seen[usize::from(byte)];
        equal_pairs += u64::from(*seen);
        *seen += 1;
    }
    // Half as many again as in noise: for 256 bytes over five standard deviations more.
    let pairs = (sample.len() * (sample.len() - 1) / 2) as u64;
    2 * 256 * equal_pairs >= 3 * pairs
}

#[derive(Clone, Copy, Default)]
struct Flow {
    hash: u32,
    /// Packets in a row that looked incompressible, up to [`MISSES`].
    misses: u8,
    /// Packets that are still skipped unseen.
    skip: u8,
    /// How many were the last time.
    skipped: u8,
}

impl Flow {
    /// Whether to try the next packet. `looks` returns whether it looks compressible, and is called
    /// only when needed.
    fn decide(&mut self, looks: impl FnOnce() -> bool) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if looks() {
            (self.misses, self.skipped) = (0, 0);
            return true;
        }
        self.misses = (self.misses + 1).min(MISSES);
        if self.misses == MISSES {
            self.skipped = self.skipped.saturating_mul(2).clamp(SKIPS[0], SKIPS[1]);
            self.skip = self.skipped;
        }
        false
    }
}

/// A shard's flows.
pub(super) struct Adaptive {
    word: ScratchWord,
    min_len: usize,
    to: Destinations,
    flows: Box<[Flow; FLOWS]>,
}

impl Adaptive {
    pub(super) fn new(word: ScratchWord, min_len: usize, to: Destinations) -> Self {
        Self { word, min_len, to, flows: Box::new([Flow::default(); FLOWS]) }
    }
}

impl Before for Adaptive {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &pick in picks {
            let row = usize::from(pick);
            let packet = batch.packet(row);
            let eligible = self.to.compressible(&packet, self.min_len).is_some();
            let hash = packet.flow_hash();
            let flow = &mut self.flows[hash as usize % FLOWS];
            if eligible && flow.hash != hash {
                *flow = Flow { hash, ..Flow::default() };
            }
            let tried = !eligible || flow.decide(|| looks_compressible(packet.payload()));
            batch.packet_mut(row).set_scratch(self.word, if tried { TRY } else { SKIP });
        }
    }
}

impl StateHalf for Adaptive {}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_packet::hash::mix32;

    fn noise(len: usize, seed: u32) -> Vec<u8> {
        (0..len as u32).map(|i| mix32(seed << 12 ^ i) as u8).collect()
    }

    #[test]
    fn noise_is_distinguished_from_text() {
        let reported = (0..1000).filter(|&seed| looks_compressible(&noise(1400, seed))).count();
        assert_eq!(reported, 0);
        let text = include_str!("manual.md").as_bytes();
        assert!(text.windows(300).all(looks_compressible));
        assert!(looks_compressible(&[0; 1400]) && looks_compressible(&noise(100, 1)));
        let base64: Vec<u8> = noise(300, 2).iter().map(|byte| b'0' + byte % 64).collect();
        assert!(looks_compressible(&base64));
    }

    #[test]
    fn a_flow_of_noise_is_looked_at_less_and_less() {
        let mut flow = Flow::default();
        let mut looked = Vec::new();
        for packet in 0..600 {
            flow.decide(|| {
                looked.push(packet);
                false
            });
        }
        assert_eq!(looked, [0, 1, 2, 3, 12, 29, 62, 127, 256, 385, 514]);
        assert!((0..200).any(|_| flow.decide(|| true)), "text is found in the end");
        assert!(flow.decide(|| true));
        assert!((0..MISSES).all(|_| !flow.decide(|| false)) && flow.skip == SKIPS[0]);
    }
}
