//! Regions of huge pages for the tables of shards.
//!
//! A function's table is divided into 64 shards, and their blocks are too small for huge pages.
//! While [`gather`] builds them, the allocator lays the blocks one after the other in regions. A
//! region is unmapped once its last block is free. Blocks that don't fit come from the system's
//! allocator.

use std::alloc::Layout;
use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpline_packet::wants_small_pages;

use super::huge_alloc::{HUGE_MIN, HUGE_PAGE};

/// Bytes of a block in a region.
const BLOCK: Range<usize> = 16 << 10..HUGE_MIN;
/// No block needs a wider alignment.
const ALIGN_MAX: usize = 4096;
const CACHE_LINE: usize = 64;
const REGION_LEN: usize = 16 << 20;
const REGIONS_MAX: usize = 4096;

/// Where a region starts, if it is not mapped: [`Region::FREE`] or [`Region::TAKEN`].
struct Region {
    start: AtomicUsize,
    /// Its blocks, and one more while a thread lays blocks in it.
    users: AtomicUsize,
}

impl Region {
    const FREE: usize = 0;
    /// It is about to be mapped or unmapped.
    const TAKEN: usize = 1;

    fn has(&self, block: usize) -> bool {
        let start = self.start.load(Ordering::Relaxed);
        start > Self::TAKEN && (start..start + REGION_LEN).contains(&block)
    }

    /// Maps one that is free, with its first user.
    fn open() -> Option<(&'static Self, usize)> {
        let take = |region: &&Self| {
            let (free, taken, order) = (Self::FREE, Self::TAKEN, Ordering::Acquire);
            region.start.compare_exchange(free, taken, order, Ordering::Relaxed).is_ok()
        };
        let number = REGIONS.iter().position(|region| take(&region))?;
        let region = &REGIONS[number];
        let Some(start) = map() else {
            region.start.store(Self::FREE, Ordering::Release);
            return None;
        };
        region.users.store(1, Ordering::Relaxed);
        region.start.store(start, Ordering::Release);
        USED.fetch_max(number + 1, Ordering::Release);
        Some((region, start))
    }

    /// One user less.
    fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let start = self.start.swap(Self::TAKEN, Ordering::Relaxed);
        // SAFETY: the region was mapped at `start`, and its last block is free.
        let _ = unsafe { libc::munmap(start as *mut libc::c_void, REGION_LEN) };
        self.start.store(Self::FREE, Ordering::Release);
    }
}

static REGIONS: [Region; REGIONS_MAX] =
    [const { Region { start: AtomicUsize::new(0), users: AtomicUsize::new(0) } }; REGIONS_MAX];
/// No region from this on was ever mapped.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The region that a thread lays blocks in.
#[derive(Clone, Copy)]
struct Open {
    region: Option<&'static Region>,
    next: usize,
    end: usize,
    is_gathering: bool,
}

thread_local! {
    static OPEN: Cell<Open> =
        const { Cell::new(Open { region: None, next: 0, end: 0, is_gathering: false }) };
}

/// Builds something whose tables are read at random: its blocks come from regions of huge pages.
/// Calls don't nest. This has no effect unless [`super::HugeAlloc`] is the program's allocator.
pub fn gather<R>(build: impl FnOnce() -> R) -> R {
    struct Gathering;
    impl Drop for Gathering {
        fn drop(&mut self) {
            let open = OPEN.replace(Open { region: None, next: 0, end: 0, is_gathering: false });
            open.region.into_iter().for_each(Region::leave);
        }
    }
    debug_assert!(!OPEN.get().is_gathering, "gathering within gathering");
    OPEN.set(Open { is_gathering: true, ..OPEN.get() });
    let _gathering = Gathering;
    build()
}

fn is_block(layout: Layout) -> bool {
    BLOCK.contains(&layout.size()) && layout.align() <= ALIGN_MAX
}

/// A block of zeros, if this thread gathers such blocks.
#[inline]
pub(super) fn take(layout: Layout) -> Option<*mut u8> {
    let is_own = is_block(layout) && OPEN.get().is_gathering && !wants_small_pages();
    if is_own { lay(layout) } else { None }
}

#[cold]
fn lay(layout: Layout) -> Option<*mut u8> {
    let mut open = OPEN.get();
    let place = |open: &Open| {
        let start = open.next.next_multiple_of(layout.align().max(CACHE_LINE));
        Some(start).filter(|start| start + layout.size() <= open.end)
    };
    let start = match (open.region, place(&open)) {
        (Some(_), Some(start)) => start,
        (before, _) => {
            let (region, start) = Region::open()?;
            before.into_iter().for_each(Region::leave);
            open = Open { region: Some(region), next: start, end: start + REGION_LEN, ..open };
            place(&open)?
        }
    };
    open.region?.users.fetch_add(1, Ordering::Relaxed);
    OPEN.set(Open { next: start + layout.size(), ..open });
    Some(start as *mut u8)
}

/// Takes a block back; false where it is none of a region's.
#[inline]
pub(super) fn give(block: *mut u8, layout: Layout) -> bool {
    is_block(layout) && give_back(block as usize)
}

#[cold]
fn give_back(block: usize) -> bool {
    let used = &REGIONS[..USED.load(Ordering::Acquire)];
    let region = used.iter().find(|region| region.has(block));
    region.into_iter().for_each(Region::leave);
    region.is_some()
}

/// The start of a region that begins at a huge page's border and asks for huge pages.
fn map() -> Option<usize> {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new. The unmapped parts are within it and outside the region, which is
    // unused so far.
    unsafe {
        let all = libc::mmap(ptr::null_mut(), REGION_LEN + HUGE_PAGE, access, kind, -1, 0);
        if all == libc::MAP_FAILED {
            return None;
        }
        let start = (all as usize).next_multiple_of(HUGE_PAGE);
        let (before, after) = (start - all as usize, HUGE_PAGE - (start - all as usize));
        if before > 0 {
            let _ = libc::munmap(all, before);
        }
        if after > 0 {
            let _ = libc::munmap((start + REGION_LEN) as *mut libc::c_void, after);
        }
        // A refusal costs speed only.
        let _ = libc::madvise(start as *mut libc::c_void, REGION_LEN, libc::MADV_HUGEPAGE);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use warpline_packet::in_small_pages;

    use super::*;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 8).expect("a layout")
    }

    /// Blocks of these lengths, each filled with its number.
    fn lay_all(lens: &[usize]) -> Vec<(*mut u8, Layout)> {
        gather(|| {
            let lay = |(number, &len): (usize, &usize)| {
                let block = take(layout(len)).expect("a block");
                // SAFETY: the block has that many bytes and nothing else uses it.
                unsafe {
                    assert!((0..len).all(|at| block.add(at).read() == 0), "zeros");
                    block.write_bytes(number as u8, len);
                }
                (block, layout(len))
            };
            lens.iter().enumerate().map(lay).collect()
        })
    }

    fn check_and_free(blocks: Vec<(*mut u8, Layout)>) {
        for (number, &(block, layout)) in blocks.iter().enumerate() {
            // SAFETY: the block was laid with that length, and filled.
            let all = unsafe { std::slice::from_raw_parts(block, layout.size()) };
            assert!(all.iter().all(|&byte| byte == number as u8), "no other block wrote here");
        }
        for (block, layout) in blocks {
            assert!(give(block, layout));
        }
    }

    #[test]
    fn blocks_lie_in_few_regions_and_go_back() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let lens = [2_500_000, 16 << 10, 100_001, 3 << 20, 4_000_000, 2_500_000];
                    let blocks = lay_all(&lens.repeat(3));
                    let mut regions: Vec<usize> =
                        blocks.iter().map(|(block, _)| *block as usize / HUGE_PAGE).collect();
                    regions.dedup();
                    assert!(regions.len() < blocks.len(), "small blocks share huge pages");
                    let own = |block: &(*mut u8, Layout)| {
                        REGIONS.iter().position(|region| region.has(block.0 as usize))
                    };
                    let mut own: Vec<usize> = blocks.iter().filter_map(own).collect();
                    own.dedup();
                    assert_eq!(own.len(), 3, "36 MB in regions of 16 MiB");
                    check_and_free(blocks);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(REGIONS.iter().all(|region| region.start.load(Ordering::Relaxed) == Region::FREE));
    }

    #[test]
    fn other_blocks_are_the_system_s() {
        assert!(take(layout(1 << 20)).is_none(), "without gathering");
        gather(|| {
            for len in [8, BLOCK.start - 1, BLOCK.end] {
                assert!(take(layout(len)).is_none(), "{len}");
            }
            assert!(take(Layout::from_size_align(1 << 20, 8192).expect("a layout")).is_none());
            let small = in_small_pages(|| take(layout(1 << 20)));
            assert!(small.is_none(), "in small pages");
        });
        let mut own = [0_u8; 64];
        assert!(!give(own.as_mut_ptr(), layout(1 << 20)));
    }
}
