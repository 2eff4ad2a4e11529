//! The digest on a device: one item per packet. It leaves the same scratch words as `run`.

use super::Digest;
use warpline_nf::kernels::{BYTES, KernelStep, Kernels, number_of};

const STEPS: &[KernelStep] =
    &[KernelStep { name: "digest_payloads", group: 128, shared_big: 0, items_per_packet: 1 }];

/// The scratch words, as the text names them.
const WORDS: [&str; 4] = ["WORD_0", "WORD_1", "WORD_2", "WORD_3"];

pub(super) fn kernels(digest: &Digest) -> Kernels {
    let words = WORDS.into_iter().zip(digest.words.map(number_of));
    Kernels::builder("digest.cl", include_str!("kernel.cl"), STEPS)
        .headers(&[BYTES])
        .defines(words.chain([("MIN_LEN", digest.min_len as u64)]))
        .build()
}
