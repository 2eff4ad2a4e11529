//! Known answers of the ciphers, malformed jobs, and panics during calls. The hashes are tested
//! where their midstates are made.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

fn manager() -> Option<Manager> {
    match Library::load() {
        Ok(library) => Some(Manager::new(library).unwrap()),
        Err(missing) => {
            println!("skipped: {missing}");
            None
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4) | pair[1]).collect()
}

#[repr(align(16))]
struct Aligned([[u8; 16]; 15]);

/// FIPS 197, 5.2, of a key of 16 bytes, with the S-box as computed in 5.1.1.
fn expand(key: &[u8]) -> Aligned {
    let mut words: Vec<[u8; 4]> = key.as_chunks().0.to_vec();
    let mut constant = 1;
    for i in 4..44 {
        let mut word = words[i - 1];
        if i % 4 == 0 {
            word.rotate_left(1);
            word = word.map(substitute);
            word[0] ^= constant;
            constant = double(constant);
        }
        words.push(core::array::from_fn(|k| word[k] ^ words[i - 4][k]));
    }
    let mut keys = Aligned([[0; 16]; 15]);
    for (key, words) in keys.0.iter_mut().zip(words.chunks(4)) {
        key.copy_from_slice(words.as_flattened());
    }
    keys
}

fn double(x: u8) -> u8 {
    (x << 1) ^ ((x >> 7) * 0x1b)
}

fn multiply(mut a: u8, b: u8) -> u8 {
    (0..8).fold(0, |sum, bit| {
        let term = ((b >> bit) & 1) * a;
        a = double(a);
        sum ^ term
    })
}

fn substitute(x: u8) -> u8 {
    let inverse = (0..=255).find(|&y| multiply(x, y) == 1).unwrap_or(0);
    (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

fn seal<'a>(cipher: Cipher<'a>, packet: &'a mut [u8], outcome: &'a mut JobOutcome) -> Job<'a> {
    let ciphered = 0..packet.len();
    Job {
        direction: Direction::Seal,
        cipher,
        hash: Hash::None,
        packet,
        ciphered,
        hashed: 0..0,
        tag_at: None,
        outcome,
    }
}

/// RFC 3602, 4, case 2: two blocks.
#[test]
fn cbc_of_rfc_3602() {
    let Some(mut manager) = manager() else { return };
    let keys = expand(&hex("c286696d887c9aa0611bbb3e2025a45a"));
    let iv = hex("562e17996d093d28ddb3ba695a2e6f58").try_into().unwrap();
    let mut packet: Vec<u8> = (0..32).collect();
    let mut outcome = JobOutcome::default();
    let job = seal(Cipher::Cbc { round_keys: &keys.0[..11], iv: &iv }, &mut packet, &mut outcome);
    assert_eq!(manager.run([job].into_iter()), 1);
    let expected = "d296cd94c2cccf8a3a863028b5e1dc0a 7586602d253cfff91b8266bea6d61ab1";
    assert_eq!(packet, hex(expected));
}

/// RFC 3686, 6, vector 3: 36 bytes, which is no multiple of the block.
#[test]
fn ctr_of_rfc_3686() {
    let Some(mut manager) = manager() else { return };
    let keys = expand(&hex("7691be035e5020a8ac6e618529f9a0dc"));
    let counter = hex("00e0017b 27777f3f4a1786f0 00000001").try_into().unwrap();
    let sealed = "c1cf48a89f2ffdd9cf4652e9efdb72d7 4540a42bde6d7836d59a5ceaaef31053 25b2072f";
    for direction in [Direction::Seal, Direction::Open] {
        let mut packet: Vec<u8> = (0..36).collect();
        let mut outcome = JobOutcome::default();
        let cipher = Cipher::Ctr { round_keys: &keys.0[..11], counter: &counter };
        let job = Job { direction, ..seal(cipher, &mut packet, &mut outcome) };
        assert_eq!(manager.run([job].into_iter()), 1);
        assert_eq!(packet, hex(sealed));
    }
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, cases 4, 10 and 16.
#[test]
fn gcm_of_its_paper() {
    let Some(mut manager) = manager() else { return };
    let raw = hex("feffe9928665731c6d6a8f9467308308 feffe9928665731c6d6a8f9467308308");
    let nonce = hex("cafebabefacedbaddecaf888").try_into().unwrap();
    let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let plain = hex("d9313225f88406e5a55909c5aff5269a 86a7a9531534f7da2e4c303d8a318a72
         1c3c0c95956809532fcf0e2449a6b525 b16aedf5aa0de657ba637b39");
    for (len, tag) in [
        (16, "5bc94fbc3221a5db94fae95ae7121a47"),
        (24, "2519498e80f1478f37ba55bd6d27618c"),
        (32, "76fc6ece0f4e1768cddf8853bb2d551b"),
    ] {
        let key = GcmKey::new(&manager, &raw[..len]).unwrap();
        let mut packet = plain.clone();
        for direction in [Direction::Seal, Direction::Open] {
            let found = manager.gcm(direction, &key, &nonce, &aad, &mut packet);
            assert_eq!(found[..], hex(tag));
            assert_eq!(packet == plain, direction == Direction::Open);
        }
    }
    assert!(GcmKey::new(&manager, &raw[..17]).is_none());
    let key = GcmKey::new(&manager, &raw).unwrap();
    assert_eq!(format!("{key:?}"), "a secret GCM key of 256 bits");
}

#[test]
fn malformed_jobs_are_left_and_said() {
    let Some(mut manager) = manager() else { return };
    let keys = expand(&[7; 16]);
    let shifted = &keys.0.as_flattened()[8..][..176];
    let cbc = Cipher::Cbc { round_keys: &keys.0[..11], iv: &[0; 16] };
    let state = [0; 8];
    let sha = Hash::Sha1(&state, &state);
    let turned = Range { start: 32, end: 16 };
    for (cipher, hash, ciphered, hashed) in [
        (cbc, Hash::None, 0..17, 0..0),
        (cbc, Hash::None, 32..80, 0..0),
        (cbc, Hash::None, turned.clone(), 0..0),
        (cbc, sha, 0..16, 0..65),
        (cbc, sha, 0..16, 0..0),
        (cbc, sha, 0..16, turned),
        (Cipher::Cbc { round_keys: &keys.0[..12], iv: &[0; 16] }, Hash::None, 0..16, 0..0),
        (Cipher::Cbc { round_keys: &[], iv: &[0; 16] }, Hash::None, 0..16, 0..0),
        (
            Cipher::Ctr { round_keys: shifted.as_chunks().0, counter: &[0; 16] },
            Hash::None,
            0..9,
            0..0,
        ),
    ] {
        let mut packet = [5; 64];
        let mut outcome = JobOutcome { is_done: true, ..JobOutcome::default() };
        let parts = format!("{ciphered:?} {hashed:?}");
        let job = Job { hash, ciphered, hashed, ..seal(cipher, &mut packet, &mut outcome) };
        assert_eq!(manager.run([job].into_iter()), 0, "{parts}");
        assert!(outcome.tag().is_none() && packet == [5; 64], "{parts}");
    }
    let mut long = vec![5; PART_LEN_MAX + 1];
    let mut outcome = JobOutcome::default();
    let job =
        Job { hash: sha, hashed: 0..long.len(), ..seal(Cipher::Null, &mut long, &mut outcome) };
    assert_eq!(manager.run([job].into_iter()), 0);
    // Tags of 12 and of 16 bytes that would end after the packet, or exactly with it.
    for (hash, tag_at, done) in [
        (sha, 53, 0),
        (sha, usize::MAX, 0),
        (sha, 52, 1),
        (Hash::Sha256(&state, &state), 49, 0),
        (Hash::Sha256(&state, &state), 48, 1),
    ] {
        let (mut packet, mut outcome) = ([5; 64], JobOutcome::default());
        let sealed = seal(Cipher::Null, &mut packet, &mut outcome);
        let job = Job { hash, hashed: 0..32, tag_at: Some(tag_at), ..sealed };
        assert_eq!(manager.run([job].into_iter()), done, "{tag_at}");
        assert_eq!(packet != [5; 64], done == 1);
        assert_eq!(packet[..tag_at.min(64)], [5; 64][..tag_at.min(64)]);
    }
}

#[test]
fn jobs_before_a_panic_are_finished() {
    let Some(mut manager) = manager() else { return };
    let keys = expand(&[7; 16]);
    let cbc = Cipher::Cbc { round_keys: &keys.0[..11], iv: &[0; 16] };
    for count in [1, 5, 600] {
        let mut packets = vec![([5; 64], JobOutcome::default()); count + 1];
        let mut left = count;
        let run = catch_unwind(AssertUnwindSafe(|| {
            manager.run(packets.iter_mut().map(|(packet, outcome)| {
                assert!(left > 0, "on purpose");
                left -= 1;
                seal(cbc, packet, outcome)
            }))
        }));
        assert!(run.is_err());
        let (last, sealed) = packets.split_last().unwrap();
        assert!(last.1.tag().is_none() && last.0 == [5; 64]);
        assert!(sealed.iter().all(|(packet, outcome)| outcome.is_done && *packet == sealed[0].0));
        assert_ne!(sealed[0].0, [5; 64]);
        let again = packets.iter_mut().map(|(packet, outcome)| seal(cbc, packet, outcome));
        assert_eq!(manager.run(again), count + 1);
    }
}
