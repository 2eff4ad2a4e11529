//! SAs for kernels: one flat table.
//!
//! It begins with [`HEAD`] bytes; the first four are the number of rows, little-endian. Then comes
//! a row of [`ROW_LEN`] bytes for each SA: its [`KeyRow`] as in memory, with little-endian words,
//! then the shape of its ESP, at the places of [`PLACES`]. There are no pointers, and everything is
//! aligned to 16 bytes.
//!
//! GCM has neither keys for IVs nor states of HMAC. In their place are the multiples of its hash
//! key, 1 to 15 times. Bit 3 of the number stands for the first bit of a block (NIST SP 800-38D,
//! 6.3). Each has 16 bytes, as four little-endian words; the first has the block's first bits.

use core::mem::offset_of;

use aes::Block;
use aes::hazmat::{cipher_round, inv_mix_columns};
use warpline_packet::wire::{ipv6, udp};
use zeroize::Zeroizing;

use super::cipher::{Cipher, KeyRow};
use super::outer::{self, Inner};
use super::sa::{Direction, Sa};
use super::shape::Shape;
use super::tables::Tables;
use super::words::Work;

/// Bytes before the rows.
pub(super) const HEAD: usize = 16;
/// Bytes of a row.
pub(super) const ROW_LEN: usize = OUTER_HEADER + ipv6::HEADER_LEN;
/// In the place of the traffic class of a tunnel: it is the inner packet's. No DSCP gives it.
pub(super) const DSCP_COPY: u8 = 255;

/// Where the work is, that of the SA's direction.
const DIRECTION: usize = size_of::<KeyRow>();
const OUTER_VERSION: usize = DIRECTION + 1;
const OUTER_LEN: usize = DIRECTION + 2;
const UDP_LEN: usize = DIRECTION + 3;
const IV_LEN: usize = DIRECTION + 4;
const ICV_LEN: usize = DIRECTION + 5;
const BLOCK_LEN: usize = DIRECTION + 6;
const DSCP: usize = DIRECTION + 7;
const ECN: usize = DIRECTION + 8;
const DONT_FRAGMENT: usize = DIRECTION + 9;
const CHECKED: usize = DIRECTION + 10;
const SPI: usize = DIRECTION + 12;
const UDP_HEADER: usize = SPI + 4;
const OUTER_HEADER: usize = UDP_HEADER + udp::HEADER_LEN;
const HASH_TABLE: usize = offset_of!(KeyRow, iv_keys);
const HASH_TABLE_LEN: usize = 15 * 16;

const _: () = assert!(HEAD.is_multiple_of(16) && ROW_LEN.is_multiple_of(16));
const _: () = assert!(HASH_TABLE.is_multiple_of(16));
const _: () = assert!(HASH_TABLE + HASH_TABLE_LEN <= size_of::<KeyRow>());

/// Where kernels find what, from a row's first byte.
pub(super) const PLACES: &[(&str, usize)] = &[
    ("SA_CIPHER", offset_of!(KeyRow, cipher)),
    ("SA_AUTH", offset_of!(KeyRow, auth)),
    ("SA_ROUNDS", offset_of!(KeyRow, rounds)),
    ("SA_ESN", offset_of!(KeyRow, esn)),
    ("SA_SALT", offset_of!(KeyRow, salt)),
    ("SA_ROUND_KEYS", offset_of!(KeyRow, round_keys)),
    ("SA_IV_KEYS", offset_of!(KeyRow, iv_keys)),
    ("SA_HMAC_INNER", offset_of!(KeyRow, inner)),
    ("SA_HMAC_OUTER", offset_of!(KeyRow, outer)),
    ("SA_HASH_TABLE", HASH_TABLE),
    ("SA_DIRECTION", DIRECTION),
    ("SA_OUTER_VERSION", OUTER_VERSION),
    ("SA_OUTER_LEN", OUTER_LEN),
    ("SA_UDP_LEN", UDP_LEN),
    ("SA_IV_LEN", IV_LEN),
    ("SA_ICV_LEN", ICV_LEN),
    ("SA_BLOCK_LEN", BLOCK_LEN),
    ("SA_DSCP", DSCP),
    ("SA_ECN", ECN),
    ("SA_DONT_FRAGMENT", DONT_FRAGMENT),
    ("SA_CHECKED", CHECKED),
    ("SA_SPI", SPI),
    ("SA_UDP_HEADER", UDP_HEADER),
    ("SA_OUTER_HEADER", OUTER_HEADER),
];

/// The table of all SAs. Filled where it stays, so that no copies of keys are left behind.
pub(super) fn build(tables: &Tables) -> Vec<u8> {
    let mut all = vec![0; HEAD + ROW_LEN * tables.sas.len()];
    let (head, rows) = all.split_at_mut(HEAD);
    put(head, 0, &(tables.sas.len() as u32).to_le_bytes());
    let sas = tables.sas.iter().zip(&tables.shapes).zip(tables.keys.rows());
    for (row, ((sa, shape), keys)) in rows.chunks_exact_mut(ROW_LEN).zip(sas) {
        put_keys(row, keys);
        put_form(row, sa, shape);
    }
    all
}

fn put(row: &mut [u8], at: usize, bytes: &[u8]) {
    row[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_keys(row: &mut [u8], keys: &KeyRow) {
    let KeyRow { cipher, auth, rounds, esn, salt, reserved: _, .. } = keys;
    put(row, offset_of!(KeyRow, cipher), &[*cipher]);
    put(row, offset_of!(KeyRow, auth), &[*auth]);
    put(row, offset_of!(KeyRow, rounds), &[*rounds]);
    put(row, offset_of!(KeyRow, esn), &[*esn]);
    put(row, offset_of!(KeyRow, salt), salt);
    put(row, offset_of!(KeyRow, round_keys), keys.round_keys.as_flattened());
    if *cipher == Cipher::Gcm as u8 {
        return put_hash_table(&mut row[HASH_TABLE..][..HASH_TABLE_LEN], keys);
    }
    put(row, offset_of!(KeyRow, iv_keys), keys.iv_keys.as_flattened());
    let states =
        [(offset_of!(KeyRow, inner), &keys.inner), (offset_of!(KeyRow, outer), &keys.outer)];
    for (at, state) in states {
        for (word, bytes) in state.iter().zip(row[at..].as_chunks_mut::<4>().0) {
            *bytes = word.to_le_bytes();
        }
    }
}

fn put_hash_table(table: &mut [u8], keys: &KeyRow) {
    // 8, 4, 2 and 1 times the key: each the one before times x.
    let mut powers = Zeroizing::new([0; 4]);
    let mut power = Zeroizing::new(hash_key(keys));
    for bit in (0..4).rev() {
        powers[bit] = *power;
        *power = (*power >> 1) ^ ((0xe1 << 120) * (*power & 1));
    }
    for (number, product) in (1..16).zip(table.chunks_exact_mut(16)) {
        let parts = powers.iter().enumerate().filter(|(bit, _)| (number >> bit) & 1 == 1);
        let sum: u128 = parts.fold(0, |sum, (_, power)| sum ^ power);
        for (word, bytes) in (0..4).zip(product.as_chunks_mut::<4>().0) {
            *bytes = ((sum >> (96 - 32 * word)) as u32).to_le_bytes();
        }
    }
}

/// NIST SP 800-38D, 6.4: the block of zeroes, encrypted.
fn hash_key(keys: &KeyRow) -> u128 {
    let rounds = usize::from(keys.rounds);
    let mut block = Zeroizing::new(keys.round_keys[0]);
    let block: &mut Block = (&mut *block).into();
    for round_key in &keys.round_keys[1..rounds] {
        cipher_round(block, round_key.into());
    }
    // The last round mixes no columns.
    cipher_round(block, &Block::default());
    inv_mix_columns(block);
    let last = u128::from_be_bytes(keys.round_keys[rounds]);
    u128::from_be_bytes(block.0) ^ last
}

fn put_form(row: &mut [u8], sa: &Sa, shape: &Shape) {
    let work = match sa.direction {
        Direction::In => Work::Open,
        Direction::Out => Work::Seal,
    };
    let bytes = [
        (DIRECTION, work as u8),
        (OUTER_VERSION, if sa.src.is_ipv4() { 4 } else { 6 }),
        (OUTER_LEN, shape.outer_len() as u8),
        (UDP_LEN, shape.udp_len() as u8),
        (IV_LEN, shape.iv_len() as u8),
        (ICV_LEN, shape.icv_len() as u8),
        (BLOCK_LEN, shape.block_len() as u8),
        (DSCP, sa.outer.dscp.map_or(DSCP_COPY, |dscp| dscp << 2)),
        (ECN, sa.outer.ecn.into()),
        (DONT_FRAGMENT, sa.outer.dont_fragment as u8),
        (CHECKED, shape.is_checked.into()),
    ];
    bytes.into_iter().for_each(|(at, byte)| row[at] = byte);
    put(row, SPI, &sa.spi.to_be_bytes());
    if shape.udp_len() > 0 {
        outer::write_udp(&mut row[UDP_HEADER..OUTER_HEADER], shape.udp_ports, 0);
    }
    if shape.outer_len() > 0 {
        let inner = Inner { traffic_class: 0, dont_fragment: false };
        let out = &mut row[OUTER_HEADER..OUTER_HEADER + shape.outer_len()];
        outer::write(out, shape, inner, shape.outer_len(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::cases::{self, Suite, hex};
    use crate::cipher::{Auth, KeyTable};
    use crate::sa::Database;

    fn table(cipher: Cipher, key: &[u8]) -> Vec<u8> {
        let suite = Suite { cipher, key_len: 0, auth: Auth::None, esn: true };
        let sas = vec![cases::sa(suite, Direction::In, key, &[])];
        build(
            &Tables::build(
                Database { sas, ..Database::default() },
                warpline_packet::Seed::default(),
            )
            .unwrap(),
        )
    }

    /// The hash key of test case 1 of "The Galois/Counter Mode of Operation (GCM)" by McGrew and
    /// Viega, appendix B.
    #[test]
    fn multiples_of_a_hash_key_begin_with_the_published_one() {
        let table = table(Cipher::Gcm, &[0; 20]);
        let product = |number: usize| {
            let words = table[HEAD + HASH_TABLE + 16 * (number - 1)..].as_chunks::<4>().0;
            let word = |i: usize| u32::from_le_bytes(words[i]).to_be_bytes();
            u128::from_be_bytes([0, 1, 2, 3].map(word).as_flattened().try_into().unwrap())
        };
        let key: [u8; 16] = hex("66e94bd4ef8a2c3b884cfa59ca342b2e").try_into().unwrap();
        let key = u128::from_be_bytes(key);
        assert_eq!(product(8), key);
        assert_eq!(product(4), key >> 1, "no bit falls out");
        assert_eq!(product(2), (key >> 2) ^ (0xe1 << 120));
        for number in 1..16 {
            let parts = [8, 4, 2, 1].into_iter().filter(|part| number & part != 0);
            assert_eq!(product(number), parts.fold(0, |sum, part| sum ^ product(part)));
        }
    }

    #[test]
    fn rows_lie_where_the_places_say() {
        let table = table(Cipher::Cbc, &[7; 24]);
        assert_eq!((table.len(), &table[..4]), (HEAD + ROW_LEN, &[1, 0, 0, 0][..]));
        let suite = Suite { cipher: Cipher::Cbc, key_len: 24, auth: Auth::None, esn: true };
        let keys = KeyTable::new(&[cases::sa(suite, Direction::In, &[7; 24], &[])]);
        let at = |name: &str| {
            let place = PLACES.iter().find(|(known, _)| *known == name).unwrap().1;
            &table[HEAD + place..]
        };
        assert_eq!(at("SA_ROUND_KEYS")[..240], *keys.rows()[0].round_keys.as_flattened());
        assert_eq!((at("SA_ROUNDS")[0], at("SA_ESN")[0], at("SA_CIPHER")[0]), (12, 1, 1));
        assert_eq!(
            (at("SA_OUTER_LEN")[0], at("SA_IV_LEN")[0], at("SA_BLOCK_LEN")[0]),
            (20, 16, 16)
        );
        assert_eq!(at("SA_SPI")[..4], 0x4321_u32.to_be_bytes());
        assert_eq!(at("SA_OUTER_HEADER")[..20][12..16], [192, 0, 2, 1]);
    }

    #[test]
    fn rows_that_are_unusable_have_no_keys() {
        let table = table(Cipher::Cbc, &[7; 5]);
        assert_eq!(table[HEAD], KeyRow::UNUSABLE);
        assert!(table[HEAD + 1..HEAD + DIRECTION].iter().all(|byte| [0, 1].contains(byte)));
    }
}
