//! Table 3 of the GPU IDS framework from table 2: its rule is the largest buffer whose mean wait is
//! within the delay requirement and that drops no packets.

use super::super::*;

const MBPS: [u64; 7] = [10, 50, 100, 200, 400, 800, 1000];
const KIB: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
/// Speed-ups by buffer and intensity, for the buffers that table 2 shows to drop packets.
const DROPPING: [[f64; 7]; 4] = [
    [0.27, 1.29, 2.60, 0.40, 0.39, 0.43, 0.43],
    [0.14, 1.03, 551.90, 811.14, 0.94, 1.18, 1.09],
    [0.08, 0.62, 375.37, 651.16, 1023.40, 1.88, 2.19],
    [0.08, 0.33, 208.11, 388.74, 687.53, 6.91, 18.11],
];
const DELAYS_MS: [f64; 4] = [50.0, 100.0, 250.0, 500.0];
/// The paper's recommendations in KiB; 0 is the CPU.
const TABLE_3: [[u64; 4]; 7] = [
    [0, 0, 0, 2048],
    [256, 1024, 2048, 4096],
    [1024, 2048, 4096, 8192],
    [2048, 4096, 8192, 16384],
    [4096, 8192, 16384, 32768],
    [8192, 16384, 32768, 32768],
    [8192, 16384, 32768, 32768],
];

/// The highest intensity that a buffer carries: the next one has a small speed-up, because the
/// queue of the GPU version is then as full as that of the CPU version.
fn carried_mbps(buffer: usize) -> u64 {
    /// Speed-ups of configurations without drops are above 60 from 100 Mb/s on.
    const DROPS: f64 = 20.0;
    let Some(row) = DROPPING.get(buffer) else { return 1000 };
    let drops = (2..MBPS.len()).find(|&at| row[at] < DROPS);
    drops.map_or(1000, |at| MBPS[at - 1])
}

#[test]
fn table_3_follows_from_table_2_with_three_differences() {
    let size = |(at, &kib): (usize, &u64)| LaunchSize {
        bytes: kib << 10,
        bits_per_s: carried_mbps(at) as f64 * 1e6,
        latency_ns: 0.0,
    };
    let sizes: Vec<LaunchSize> = KIB.iter().enumerate().map(size).collect();
    let mut differences = Vec::new();
    for (row, mbps) in TABLE_3.iter().zip(MBPS) {
        for (&paper, delay_ms) in row.iter().zip(DELAYS_MS) {
            let mut batch = AutoBatch::new(sizes.clone(), delay_ms * 1e6, Wait::Mean);
            let own = batch.handle_rate(mbps as f64 * 1e6);
            let own = own.map_or(0, |one| sizes[one.size].bytes >> 10);
            if own != paper {
                differences.push((mbps, delay_ms as u64, own, paper));
            }
        }
    }
    // At 10 Mb/s a mean wait of 210 ms fits 250 ms, and one of 839 ms does not fit 500 ms. At 50
    // Mb/s a mean wait of 42 ms fits 50 ms.
    let expected = [(10, 250, 512, 0), (10, 500, 1024, 2048), (50, 50, 512, 256)];
    assert_eq!(differences, expected);
}

#[test]
fn the_oldest_packet_keeps_the_budget_and_size_does_not_flap() {
    let sizes = [256u64, 512, 1024].map(|kib| LaunchSize {
        bytes: kib << 10,
        bits_per_s: 1e10,
        latency_ns: 1e6,
    });
    let mut batch = AutoBatch::new(sizes.to_vec(), 5e6, Wait::Oldest);
    // 512 KiB fill in 4 ms at 1.05 Gb/s.
    let size = |one: Option<BatchDecision>| one.map(|one| one.size);
    let one = batch.handle_rate(1.0e9).expect("256 KiB fit");
    assert_eq!((one.size, one.deadline_ns), (0, 4e6));
    assert_eq!(size(batch.handle_rate(1.06e9)), Some(0), "within the margin");
    assert_eq!(size(batch.handle_rate(1.2e9)), Some(1));
    assert_eq!(size(batch.handle_rate(1.06e9)), Some(1), "it still fits");
    assert_eq!(size(batch.handle_rate(1.04e9)), Some(0), "it does not fit any more");
    assert_eq!(batch.handle_rate(1e8), None, "the CPU does the work");
}
