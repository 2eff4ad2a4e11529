//! The paper's tables I and II as a profile: part of them, 1,500-byte packets.

use super::*;

/// A row: device, function, launch size, Gb/s beside one of the same function with its slow-down,
/// and Gb/s beside three. The slow-down gives the throughput alone.
type Row = (usize, usize, u32, (f64, f64), f64);

const DPI: usize = 0;
const AES: usize = 1;

const ROWS: [Row; 8] = [
    (0, DPI, 1024, (15.0, 0.423), 7.1),
    (0, DPI, 4096, (14.5, 0.429), 7.1),
    (0, AES, 1024, (10.0, 0.435), 4.8),
    (0, AES, 4096, (9.7, 0.467), 4.6),
    (1, DPI, 1024, (13.8, 0.086), 6.9),
    (1, DPI, 4096, (13.1, 0.272), 6.9),
    (1, AES, 1024, (13.8, 0.262), 6.9),
    (1, AES, 4096, (13.2, 0.283), 6.9),
];

#[test]
fn slow_downs_of_the_paper_are_reproduced() {
    let mut profile = WorkProfile::new(&["dpi", "aes"], &["i7-8700K", "GTX1080Ti"]);
    for (device, function, launch, (pair_gbps, slow_down), three_gbps) in ROWS {
        let own = figures(pair_gbps / (1.0 - slow_down), 10.0);
        let alone = Measurement::alone((function, device), launch, 1500, own);
        let with = |gbps, count| {
            Measurement { figures: figures(gbps, 10.0), ..alone }.beside(function, count)
        };
        for one in [alone, with(pair_gbps, 1), with(three_gbps, 3)] {
            profile.merge(&one).expect("sound");
        }
    }
    for (device, function, launch, (pair_gbps, slow_down), three_gbps) in ROWS {
        let of = |count| {
            let others = [Beside { function, count }];
            profile.slow_down((function, device), (launch, 1500), &others)
        };
        assert!((1.0 - 1.0 / of(1).factor - slow_down).abs() < 1e-9);
        let alone = pair_gbps / (1.0 - slow_down);
        assert!((alone / of(3).factor - three_gbps).abs() < 1e-9);
        // Two co-runners were not measured. They cost no less than one, no more than three.
        let two = of(2);
        assert_eq!(two.basis, Basis::Interpolated);
        assert!((of(1).factor..=of(3).factor).contains(&two.factor));
    }
}
