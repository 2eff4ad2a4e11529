//! An allocator that requests huge pages for large allocations.
//!
//! Large tables with random reads (a FIB, a rule index, an arena) miss the TLB at every look-up on
//! 4 KiB pages. Linux backs memory with 2 MiB pages on request (`madvise`). This allocator requests
//! them for every allocation of at least `HUGE_MIN` bytes, unless its thread [wants small
//! pages](wants_small_pages). Blocks of shards' tables come from [`shard_regions`], everything else
//! from the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Once;

use warpline_packet::wants_small_pages;

use super::{out_of_memory, shard_regions};

/// Allocations of at least this many bytes ask for huge pages.
pub(super) const HUGE_MIN: usize = 4 << 20;
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// The allocator; a program makes it its own with `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugeAlloc;

// SAFETY: every block comes from `System` or from a region, as long and aligned as the caller's
// layout, and goes back there; `madvise` changes no content.
unsafe impl GlobalAlloc for HugeAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(block) = shard_regions::take(layout) {
            return block;
        }
        map_large_blocks(layout.size());
        // SAFETY: as the caller promises.
        unsafe { advise(System.alloc(layout), layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(zeros) = shard_regions::take(layout) {
            return zeros;
        }
        map_large_blocks(layout.size());
        // SAFETY: as the caller promises. Large blocks come zero from the system, untouched yet.
        unsafe { advise(System.alloc_zeroed(layout), layout.size()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if shard_regions::give(block, layout) {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Lets glibc map each large block by itself, from the first on. By default it serves blocks of up
/// to 32 MiB from its heap once one was freed: it then clears them by hand, and keeps the memory of
/// tables that a reload replaced.
fn map_large_blocks(size: usize) {
    static ONCE: Once = Once::new();
    #[cfg(target_env = "gnu")]
    if size >= HUGE_MIN {
        ONCE.call_once(|| {
            // SAFETY: sets a parameter of the allocator, under its own lock.
            unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, HUGE_MIN as i32) };
        });
    }
}

/// Whether an allocation of so many bytes asks for huge pages.
fn is_huge(size: usize) -> bool {
    size >= HUGE_MIN && !wants_small_pages()
}

/// Asks for huge pages within `block` where it is large; a refusal costs speed only. Notes where
/// there is no block.
///
/// # Safety
/// `block` is null or the start of `size` allocated bytes.
unsafe fn advise(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        out_of_memory::note();
    }
    if is_huge(size) && !block.is_null() {
        let skip = block.align_offset(HUGE_PAGE);
        let pages = size.saturating_sub(skip) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range is allocated and page-aligned; the advice leaves its content alone.
        let _ =
            unsafe { libc::madvise(block.wrapping_add(skip).cast(), pages, libc::MADV_HUGEPAGE) };
    }
    block
}

#[cfg(test)]
mod tests {
    use warpline_packet::in_small_pages;

    use super::*;

    #[test]
    fn small_pages_are_left_alone() {
        let is_asked = || [HUGE_MIN - 1, HUGE_MIN].map(is_huge);
        assert_eq!((is_asked(), in_small_pages(is_asked)), ([false, true], [false; 2]));
    }

    #[test]
    fn blocks_of_any_size_are_usable_and_zeroed() {
        for size in [1, 4096, HUGE_MIN - 1, HUGE_MIN, HUGE_MIN + 12_345] {
            let layout = Layout::from_size_align(size, 8).unwrap();
            // SAFETY: the layout has a size; the block is freed with the same layout.
            unsafe {
                let block = HugeAlloc.alloc_zeroed(layout);
                assert!(!block.is_null());
                assert_eq!((block.read(), block.add(size - 1).read()), (0, 0));
                block.add(size - 1).write(1);
                HugeAlloc.dealloc(block, layout);
            }
        }
    }
}
