//! Packets that must be left untouched.

use super::{Random, Suite, Work, both_ways, oracle, sa, suites};
use crate::cipher::{Auth, Cipher, Job, KeyTable, icv_len};
use crate::sa::{Direction, Sa};

/// A packet of which any bit is changed is not authentic and stays as it is.
pub(crate) fn changed_bits(open: Work<'_>) {
    let mut random = Random(1);
    for suite in suites() {
        if icv_len(suite.cipher, suite.auth) == 0 {
            continue;
        }
        let sas = both_ways(suite, &mut random);
        let keys = KeyTable::new(&sas);
        for blocks in [0, 1, 5, 9] {
            let sequence = random.next();
            let text = random.bytes(blocks * suite.cipher.block_len());
            let sealed = oracle::sealed(&sas[0], sequence, &text);
            let mut changed: Vec<(u64, Vec<u8>)> = (0..8 * sealed.len())
                .map(|bit| {
                    let mut changed = sealed.clone();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    (sequence, changed)
                })
                .collect();
            if suite.esn {
                // The half that is not in the packet.
                changed.extend((32..64).map(|bit| (sequence ^ 1 << bit, sealed.clone())));
            }
            // One that is as it was, to know that the others are refused for their bit.
            changed.push((sequence, sealed));
            let mut bytes: Vec<Vec<u8>> = changed.iter().map(|(_, bytes)| bytes.clone()).collect();
            let mut jobs: Vec<Job<'_>> = changed
                .iter()
                .zip(&mut bytes)
                .map(|((sequence, _), esp)| Job {
                    row: 1,
                    sequence: *sequence,
                    esp,
                    is_authentic: true,
                })
                .collect();
            open(&keys, &mut jobs);
            let good = jobs.pop().expect("the last one");
            assert!(good.is_authentic, "{suite:?}");
            assert!(jobs.iter().all(|job| !job.is_authentic), "{suite:?}");
            changed.pop();
            for ((_, changed), bytes) in changed.iter().zip(&bytes) {
                assert_eq!(bytes, changed, "{suite:?}");
            }
        }
    }
}

/// Packets with a length that their algorithms never make are left alone, those of every other
/// length are not.
pub(crate) fn wrong_lengths(seal: Work<'_>, open: Work<'_>) {
    let mut random = Random(2);
    for suite in suites() {
        let sas = both_ways(suite, &mut random);
        let keys = KeyTable::new(&sas);
        let around = 8 + suite.cipher.iv_len() + icv_len(suite.cipher, suite.auth);
        for len in 0..150 {
            let before = random.bytes(len);
            let fits = len >= around && (len - around).is_multiple_of(suite.cipher.block_len());
            let (sealed, _) = work_with(seal, &keys, 0, &before);
            // Without cipher and authentication there is nothing to write.
            let has_fields = around > 8;
            assert_eq!(sealed != before, fits && has_fields, "{suite:?} {len}");
            let (opened, is_authentic) = work_with(open, &keys, 1, &before);
            let is_open = fits && icv_len(suite.cipher, suite.auth) == 0;
            assert_eq!(is_authentic, is_open, "{suite:?} {len}");
            assert!(is_open || opened == before, "{suite:?} {len}");
        }
    }
}

/// Rows that aren't there, have wrong keys, or are for the other direction.
pub(crate) fn wrong_rows(seal: Work<'_>, open: Work<'_>) {
    let mut random = Random(3);
    let cbc = Suite { cipher: Cipher::Cbc, key_len: 16, auth: Auth::None, esn: false };
    let mut sas = both_ways(cbc, &mut random).to_vec();
    let packet = random.bytes(8 + 16 + 64);
    let keys = KeyTable::new(&sas);
    for row in [1, 2, u32::MAX] {
        assert_eq!(work_with(seal, &keys, row, &packet).0, packet);
    }
    for row in [0, 2, u32::MAX] {
        assert_eq!(work_with(open, &keys, row, &packet), (packet.clone(), false));
    }

    sas.clear();
    let both = |suite: Suite, enc_len: usize, auth_len: usize| -> [Sa; 2] {
        [Direction::Out, Direction::In]
            .map(|direction| sa(suite, direction, &vec![1; enc_len], &vec![1; auth_len]))
    };
    for (cipher, enc_len, auth, auth_len) in [
        (Cipher::Null, 16, Auth::Sha1, 20),
        (Cipher::Null, 0, Auth::Sha1, 19),
        (Cipher::Null, 0, Auth::Sha1, 0),
        (Cipher::Null, 0, Auth::Sha256, 33),
        (Cipher::Cbc, 0, Auth::None, 0),
        (Cipher::Cbc, 20, Auth::None, 0),
        (Cipher::Ctr, 3, Auth::None, 0),
        (Cipher::Ctr, 16, Auth::None, 0),
        (Cipher::Gcm, 32, Auth::None, 0),
        (Cipher::Gcm, 20, Auth::Sha1, 20),
    ] {
        sas.extend(both(Suite { cipher, key_len: 0, auth, esn: false }, enc_len, auth_len));
    }
    let keys = KeyTable::new(&sas);
    for (row, sa) in sas.iter().enumerate() {
        let packet = random.bytes(8 + sa.cipher.iv_len() + icv_len(sa.cipher, sa.auth) + 64);
        assert_eq!(keys.rows()[row].suite(), None, "{sa:?}");
        assert_eq!(work_with(seal, &keys, row as u32, &packet).0, packet, "{sa:?}");
        assert_eq!(work_with(open, &keys, row as u32, &packet), (packet, false), "{sa:?}");
    }
}

fn work_with(work: Work<'_>, keys: &KeyTable, row: u32, esp: &[u8]) -> (Vec<u8>, bool) {
    let mut esp = esp.to_vec();
    let mut jobs = [Job { row, sequence: 7, esp: &mut esp, is_authentic: false }];
    work(keys, &mut jobs);
    let is_authentic = jobs[0].is_authentic;
    (esp, is_authentic)
}
