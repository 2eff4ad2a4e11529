//! Cases for every cipher engine, which is passed as its two functions: vectors of the RFCs, random
//! work against an oracle, and packets that must be refused.

mod oracle;
mod random;
mod refused;
mod vectors;

pub(crate) use random::{Random, random_work};
pub(crate) use refused::{changed_bits, wrong_lengths, wrong_rows};
pub(crate) use vectors::{CBC, HMAC};
pub(crate) use vectors::{opens_vectors, seals_vectors};

use core::net::{IpAddr, Ipv4Addr};

use zeroize::Zeroizing;

use super::{Auth, Cipher, Job, KeyTable};
use crate::sa::{Direction, Lifetime, Mode, Outer, Sa, Secret};

/// An engine's way to seal or to open.
pub(crate) type Work<'w> = &'w dyn Fn(&KeyTable, &mut [Job<'_>]);

/// The algorithms of an SA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite {
    pub(crate) cipher: Cipher,
    /// Bytes of its key, the salt not among them; 0 for NULL.
    pub(crate) key_len: usize,
    pub(crate) auth: Auth,
    pub(crate) esn: bool,
}

/// Every one there is.
pub(crate) fn suites() -> Vec<Suite> {
    let mut suites = Vec::new();
    for esn in [false, true] {
        for auth in [Auth::None, Auth::Sha1, Auth::Sha256] {
            suites.push(Suite { cipher: Cipher::Null, key_len: 0, auth, esn });
            for key_len in [16, 24, 32] {
                suites.push(Suite { cipher: Cipher::Cbc, key_len, auth, esn });
                suites.push(Suite { cipher: Cipher::Ctr, key_len, auth, esn });
                if auth == Auth::None {
                    suites.push(Suite { cipher: Cipher::Gcm, key_len, auth, esn });
                }
            }
        }
    }
    suites
}

/// An SA with the fields that the cipher work reads.
pub(crate) fn sa(suite: Suite, direction: Direction, enc_key: &[u8], auth_key: &[u8]) -> Sa {
    let secret = |key: &[u8]| Secret(Zeroizing::new(key.to_vec()));
    Sa {
        name: "test".to_owned(),
        direction,
        spi: 0x4321,
        src: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
        mode: Mode::Tunnel,
        cipher: suite.cipher,
        enc_key: secret(enc_key),
        auth: suite.auth,
        auth_key: secret(auth_key),
        esn: suite.esn,
        replay_window: 0,
        encap: None,
        selectors: Vec::new(),
        lifetime: Lifetime::default(),
        sequence: 0,
        outer: Outer::default(),
    }
}

/// The same keys for sealing and for opening, at `2 * i` and `2 * i + 1` of a database.
pub(crate) fn both_ways(suite: Suite, random: &mut Random) -> [Sa; 2] {
    let salt_len = if suite.cipher.is_counter() { 4 } else { 0 };
    let enc_key = random.bytes(suite.key_len + salt_len);
    let auth_key = random.bytes(match suite.auth {
        Auth::None => 0,
        Auth::Sha1 => 20,
        Auth::Sha256 => 32,
    });
    [Direction::Out, Direction::In].map(|direction| sa(suite, direction, &enc_key, &auth_key))
}

/// Works on one packet and returns the result, and whether it was authentic.
pub(crate) fn one(work: Work<'_>, sa: &Sa, sequence: u64, esp: &[u8]) -> (Vec<u8>, bool) {
    let mut esp = esp.to_vec();
    let mut jobs = [Job { row: 0, sequence, esp: &mut esp, is_authentic: false }];
    work(&KeyTable::new(core::slice::from_ref(sa)), &mut jobs);
    let is_authentic = jobs[0].is_authentic;
    (esp, is_authentic)
}

/// The bytes of hexadecimal digits, between which there may be white space.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
