//! Keys of AES-GCM.

use core::fmt;

use zeroize::Zeroize;

use super::Manager;
use super::layout::GCM_KEY_LEN;

/// A key of AES-GCM as the library wants it. Wiped when it is dropped.
pub struct GcmKey {
    pub(super) data: Box<GcmKeyData>,
    /// 0, 1 and 2 for 128, 192 and 256 bits. It lies here, as it is wanted before the data.
    pub(super) size: usize,
}

/// Round keys, and powers of the hash key.
#[repr(C, align(64))]
pub(super) struct GcmKeyData([u8; GCM_KEY_LEN]);

impl GcmKey {
    /// Of an AES key of 16, 24 or 32 bytes; `None` of another length.
    pub fn new(manager: &Manager, raw: &[u8]) -> Option<Self> {
        let size = [16, 24, 32].iter().position(|len| *len == raw.len())?;
        let mut data = Box::new(GcmKeyData([0; GCM_KEY_LEN]));
        // SAFETY: the raw key has the length that the function reads. The data is aligned to 64
        // bytes and as long as the longest in `VERSIONS`.
        unsafe { manager.functions.gcm_pre[size](raw.as_ptr().cast(), &mut *data) };
        Some(Self { data, size })
    }

    /// Prefetches the parts that a text of `len` bytes needs, without waiting: the round keys at
    /// the front, and powers of the hash key, the first ones last.
    #[inline]
    pub fn fetch(&self, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in (0..3).chain(15 - (len / LINE_LEN + 1).min(12)..16) {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.data.0.as_ptr().wrapping_add(LINE_LEN * line);
            // SAFETY: a prefetch reads nothing that a program can see; the line lies in the data.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = len;
    }
}

const LINE_LEN: usize = 64;
const _: () = assert!(16 * LINE_LEN <= GCM_KEY_LEN);

impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret GCM key of {} bits", 128 + 64 * self.size)
    }
}

impl Drop for GcmKey {
    fn drop(&mut self) {
        self.data.0.zeroize();
    }
}
