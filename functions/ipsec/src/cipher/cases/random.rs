//! Random work of many SAs, compared with an oracle packet by packet.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Work, both_ways, oracle, suites};
use crate::cipher::{Job, KeyTable, icv_len};
use crate::sa::Sa;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Bytes of a text: mostly those of packets.
    fn text_len(&mut self) -> usize {
        match self.below(200) {
            0 => 65_000 + self.below(500),
            1..=60 => self.below(100),
            _ => self.below(1600),
        }
    }
}

/// A packet before and after it is sealed.
struct Packet {
    pair: usize,
    sequence: u64,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Packet {
    fn of(pair: usize, sa: &Sa, random: &mut Random) -> Self {
        // Sequence numbers of 32 bits, too, go on as if they had 64.
        let sequence = random.next() >> random.below(64);
        let len = random.text_len().next_multiple_of(sa.cipher.block_len());
        let text = random.bytes(len);
        let sealed = oracle::sealed(sa, sequence, &text);
        // Sealing writes over any bytes.
        let mut plain = random.bytes(sealed.len());
        let start = 8 + sa.cipher.iv_len();
        plain[..8].copy_from_slice(&sealed[..8]);
        plain[start..start + len].copy_from_slice(&text);
        Self { pair, sequence, plain, sealed }
    }
}

/// Sealing gives the oracle's output, and opening it the text again, with jobs of many SAs in any
/// order.
pub(crate) fn random_work(seal: Work<'_>, open: Work<'_>) {
    // A failing case is stored, and tried first the next time.
    let config = Config { source_file: Some(file!()), ..Config::default() };
    let cases = (any::<u64>(), 1..=35usize, prop_oneof![9 => 0..80usize, 1 => 0..700usize]);
    let outcome = TestRunner::new(config).run(&cases, |(seed, pairs, jobs)| {
        let mut random = Random(seed);
        let suites = suites();
        let sas: Vec<Sa> = (0..pairs)
            .flat_map(|_| both_ways(suites[random.below(suites.len())], &mut random))
            .collect();
        let packets: Vec<Packet> = (0..jobs)
            .map(|_| {
                let pair = random.below(pairs);
                Packet::of(pair, &sas[2 * pair], &mut random)
            })
            .collect();
        check(&KeyTable::new(&sas), &packets, seal, open)
    });
    outcome.expect("engine and oracle agree");
}

fn check(
    keys: &KeyTable,
    packets: &[Packet],
    seal: Work<'_>,
    open: Work<'_>,
) -> Result<(), TestCaseError> {
    let mut bytes: Vec<Vec<u8>> = packets.iter().map(|packet| packet.plain.clone()).collect();
    let mut jobs = jobs_of(packets, 0, &mut bytes);
    seal(keys, &mut jobs);
    for (packet, bytes) in packets.iter().zip(&bytes) {
        prop_assert!(*bytes == packet.sealed, "sealed {:?}", keys.rows()[2 * packet.pair].suite());
    }

    let mut jobs = jobs_of(packets, 1, &mut bytes);
    open(keys, &mut jobs);
    prop_assert!(jobs.iter().all(|job| job.is_authentic));
    for (packet, bytes) in packets.iter().zip(&bytes) {
        let row = &keys.rows()[2 * packet.pair + 1];
        let (cipher, auth) = row.suite().expect("usable");
        let text = 8 + cipher.iv_len()..bytes.len() - icv_len(cipher, auth);
        prop_assert!(bytes[text.clone()] == packet.plain[text.clone()], "{:?}", row.suite());
        prop_assert!(bytes[..text.start] == packet.sealed[..text.start]);
        prop_assert!(bytes[text.end..] == packet.sealed[text.end..]);
    }
    Ok(())
}

/// Jobs for the sealing or opening SA of each pair.
fn jobs_of<'a>(packets: &[Packet], direction: u32, bytes: &'a mut [Vec<u8>]) -> Vec<Job<'a>> {
    let jobs = packets.iter().zip(bytes).map(|(packet, esp)| Job {
        row: 2 * packet.pair as u32 + direction,
        sequence: packet.sequence,
        esp,
        is_authentic: false,
    });
    jobs.collect()
}
