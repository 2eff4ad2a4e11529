//! Capture files, handed out whole and in pieces of the fuzzer's choice. The first two bytes are
//! the seed and the size of the pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::captures::{Pieces, read};

fuzz_target!(|data: &[u8]| {
    let Some((&[seed, size], file)) = data.split_first_chunk::<2>() else { return };
    let whole = read(Pieces::whole(file));
    let mut pieces = read(Pieces::of(file, seed, size));
    // Where compressed data is wrong is known as closely as it was read.
    if whole.error.as_ref().is_some_and(|error| error.contains("corrupt")) {
        assert!(pieces.error.is_some());
        pieces.error.clone_from(&whole.error);
    }
    assert_eq!(whole, pieces, "what is read doesn't depend on the reads");
    if let Some(older) = older(file) {
        let older = read(Pieces::whole(&older));
        assert_eq!((whole.packets, whole.warnings), (older.packets, older.warnings));
        assert_eq!(whole.error.is_some(), older.error.is_some());
    }
});

/// A pcap file of version 2.4 as one of 2.2, in which a record's two lengths are the other way
/// round.
fn older(file: &[u8]) -> Option<Vec<u8>> {
    let (&magic, rest) = file.split_first_chunk::<4>()?;
    let is_big = match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => true,
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => false,
        _ => return None,
    };
    let (version, minor_at) = if is_big { ([0, 2, 0, 4], 7) } else { ([2, 0, 4, 0], 6) };
    if !rest.starts_with(&version) {
        return None;
    }
    let mut older = file.to_vec();
    older[minor_at] = 2;
    let mut record = 24;
    while let Some(lengths) = older.get_mut(record + 8..record + 16) {
        let captured = [lengths[0], lengths[1], lengths[2], lengths[3]];
        lengths.rotate_left(4);
        let len = if is_big { u32::from_be_bytes } else { u32::from_le_bytes }(captured);
        record += 16 + len as usize;
    }
    Some(older)
}
