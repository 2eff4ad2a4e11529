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
});
