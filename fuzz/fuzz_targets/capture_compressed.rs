//! Compressed captures: a capture that is compressed here and then changed, or bytes after a magic
//! number. The first bytes are the seed and the size of the pieces, how to compress, the length of
//! a member, the place of a change (two bytes) and the change.

#![no_main]

use std::io::Write;

use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use warpline_fuzz::captures::{Pieces, read};

fuzz_target!(|data: &[u8]| {
    let Some((&[seed, size, how, member, a, b, change], rest)) = data.split_first_chunk::<7>()
    else {
        return;
    };
    let len = (usize::from(member) + 1) * 16;
    let mut file = match how % 4 {
        0 => [&[0x1f, 0x8b, 8][..], rest].concat(),
        1 => [&[0x28, 0xb5, 0x2f, 0xfd][..], rest].concat(),
        2 => rest.chunks(len).flat_map(gzip).collect(),
        _ => rest.chunks(len).flat_map(|part| zstd(part, how & 4 == 0)).collect(),
    };
    let is_changed = how % 4 < 2 || change != 0;
    if !file.is_empty() {
        let place = usize::from(u16::from_le_bytes([a, b])) % file.len();
        file[place] ^= change;
    }
    let whole = read(Pieces::whole(&file));
    let pieces = read(Pieces::of(&file, seed, size));
    assert_eq!(whole.packets, pieces.packets, "what is read doesn't depend on the reads");
    assert_eq!(whole.warnings, pieces.warnings);
    assert_eq!(whole.error.is_some(), pieces.error.is_some());
    // Captures that are compressed twice are not read.
    let is_compressed =
        rest.starts_with(&[0x1f, 0x8b]) || rest.get(1..4) == Some(&[0x2a, 0x4d, 0x18]);
    if !is_changed && !is_compressed && !rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let plain = read(Pieces::whole(rest));
        assert_eq!(whole.packets, plain.packets);
        assert_eq!(whole.warnings.len(), plain.warnings.len());
        assert_eq!(whole.error.is_some(), plain.error.is_some());
    }
});

fn gzip(part: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(part).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn zstd(part: &[u8], has_checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("a good level");
    encoder.include_checksum(has_checksum).expect("a good setting");
    encoder.write_all(part).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}
