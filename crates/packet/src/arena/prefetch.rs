//! Prefetches memory.
//!
//! Safety: the memory is not read, so any address is allowed.

#![allow(unsafe_code)]

use core::ptr;

/// Asks the processor for the cache line that `value` begins in, and waits for nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at(ptr::from_ref(value).cast());
}

/// Asks the processor for every cache line of `value`, and waits for nothing.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let start: *const u8 = ptr::from_ref(value).cast();
    (0..size_of::<T>()).step_by(64).for_each(|at| prefetch_at(start.wrapping_add(at)));
}

#[inline(always)]
fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that a program can see, of whatever address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
