//! The table of cases, and batches of intact and forged packets against the software engine.
//! Skipped with a message if the library is missing.

use super::*;
use crate::cipher::cases::{self, Random, both_ways, suites};
use crate::cipher::icv_len;

/// Both ways of an engine that is made of each key table anew; `None` without the library.
fn engine() -> Option<[impl Fn(&KeyTable, &mut [Job<'_>]); 2]> {
    if let Err(missing) = Library::load() {
        println!("skipped: {missing}");
        return None;
    }
    Some([true, false].map(|is_seal| {
        move |keys: &KeyTable, jobs: &mut [Job<'_>]| {
            let engine = IpsecMb::new(keys).unwrap();
            match is_seal {
                true => engine.seal(keys, jobs),
                false => engine.open(keys, jobs),
            }
        }
    }))
}

#[test]
fn seals_the_vectors_of_the_rfcs() {
    let Some([seal, _]) = engine() else { return };
    cases::seals_vectors(&seal);
}

#[test]
fn opens_the_vectors_of_the_rfcs() {
    let Some([_, open]) = engine() else { return };
    cases::opens_vectors(&open);
}

#[test]
fn does_random_work_as_the_oracle() {
    let Some([seal, open]) = engine() else { return };
    cases::random_work(&seal, &open);
}

#[test]
fn refuses_what_a_bit_is_changed_of() {
    let Some([_, open]) = engine() else { return };
    cases::changed_bits(&open);
}

#[test]
fn leaves_packets_of_wrong_lengths_alone() {
    let Some([seal, open]) = engine() else { return };
    cases::wrong_lengths(&seal, &open);
}

#[test]
fn leaves_packets_of_wrong_rows_alone() {
    let Some([seal, open]) = engine() else { return };
    cases::wrong_rows(&seal, &open);
}

/// Every suite in one batch, sealed, then opened with a third of the packets forged, cut or of
/// another SA.
#[test]
fn does_mixed_batches_as_the_software() {
    let Some([seal, open]) = engine() else { return };
    let mut random = Random(4);
    let sas: Vec<_> =
        suites().into_iter().flat_map(|suite| both_ways(suite, &mut random)).collect();
    let keys = KeyTable::new(&sas);
    for count in [1, 7, 255, 256, 257, 300] {
        let mut packets: Vec<(u32, u64, Vec<u8>)> = (0..count)
            .map(|_| {
                let pair = random.below(sas.len() / 2) as u32;
                let len = random.below(9000);
                (2 * pair, random.next() >> random.below(64), random.bytes(len))
            })
            .collect();
        same(&keys, &mut packets, &seal, software::seal);
        for (row, _, esp) in &mut packets {
            *row += 1;
            match (random.below(9), esp.len()) {
                (_, 0) => {}
                (0, len) => esp[random.below(len)] ^= 1 << random.below(8),
                (1, len) => esp.truncate(random.below(len)),
                (2, _) => *row = 2 * random.below(sas.len() / 2) as u32 + 1,
                _ => {}
            }
        }
        let [whole, forged] = same(&keys, &mut packets, &open, software::open);
        assert!(count < 255 || (whole > 20 && forged > 40), "{whole} {forged}");
    }
}

#[test]
fn leaves_forged_packets_as_they_came() {
    let Some([seal, open]) = engine() else { return };
    let mut random = Random(5);
    for suite in suites().into_iter().filter(|suite| icv_len(suite.cipher, suite.auth) > 0) {
        let keys = KeyTable::new(&both_ways(suite, &mut random));
        let around = HEADER_LEN + suite.cipher.iv_len() + icv_len(suite.cipher, suite.auth);
        let mut packets: Vec<(u32, u64, Vec<u8>)> =
            (1..10).map(|number| (0, number << 30, random.bytes(around + 48))).collect();
        same(&keys, &mut packets, &seal, software::seal);
        packets.iter_mut().for_each(|(row, ..)| *row = 1);
        assert_eq!(same(&keys, &mut packets.clone(), &open, software::open), [9, 0]);
        packets.iter_mut().step_by(2).for_each(|(_, _, esp)| esp[around] ^= 1);
        for _ in 0..2 {
            assert_eq!(same(&keys, &mut packets.clone(), &open, software::open), [4, 5]);
        }
    }
}

/// Works with both engines, leaves what they did, and counts what was authentic and what was not.
fn same(
    keys: &KeyTable,
    packets: &mut [(u32, u64, Vec<u8>)],
    engine: &dyn Fn(&KeyTable, &mut [Job<'_>]),
    software: fn(&KeyTable, &mut [Job<'_>]),
) -> [usize; 2] {
    let mut others = packets.to_vec();
    let authentic = |packets: &mut [(u32, u64, Vec<u8>)],
                     work: &dyn Fn(&KeyTable, &mut [Job<'_>])| {
        let mut jobs: Vec<Job<'_>> = packets
            .iter_mut()
            .map(|(row, sequence, esp)| Job {
                row: *row,
                sequence: *sequence,
                esp,
                is_authentic: false,
            })
            .collect();
        work(keys, &mut jobs);
        jobs.iter().map(|job| job.is_authentic).collect::<Vec<bool>>()
    };
    let ours = authentic(packets, engine);
    assert!(ours == authentic(&mut others, &software));
    for (ours, theirs) in packets.iter().zip(&others) {
        assert!(ours == theirs, "{:?}", keys.rows()[ours.0 as usize].suite());
    }
    let whole = ours.iter().filter(|is_authentic| **is_authentic).count();
    [whole, ours.len() - whole]
}
