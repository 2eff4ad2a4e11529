//! Zeroes large blocks that a foreign allocator gave, without touching their pages where it can.

use core::ptr::NonNull;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Smaller blocks are written.
const LARGE: usize = 1 << 20;

/// Zeroes a block. Linux takes back its pages if they are private and anonymous, and gives zeroed
/// ones at the first touch (madvise(2), `MADV_DONTNEED`); a lane that uses a tenth of its memory
/// then has a tenth of it resident. Other memory is written.
///
/// # Safety
/// The caller owns `len` bytes at `base`, and no other code uses them.
pub(super) unsafe fn fill(base: NonNull<u8>, len: usize) {
    let start = base.as_ptr() as usize;
    let (from, to) = (start.next_multiple_of(PAGE), (start + len) / PAGE * PAGE);
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let drop_pages = || {
        // SAFETY: whole pages of the caller's block, whose content is not needed.
        unsafe {
            let first = base.as_ptr().add(from - start).cast();
            libc::madvise(first, to - from, libc::MADV_DONTNEED)
        }
    };
    let given_back =
        len >= LARGE && is_private_and_anonymous(&maps(), from, to) && drop_pages() == 0;
    let (head, tail) = if given_back { (from - start, to - start) } else { (len, len) };
    // SAFETY: both ranges are within the caller's block.
    unsafe {
        base.write_bytes(0, head);
        base.add(tail).write_bytes(0, len - tail);
    }
}

/// Whether all of `from..to` is in mappings without a file that no other process shares, by the
/// text of `/proc/self/maps` (proc(5)).
fn is_private_and_anonymous(maps: &str, from: usize, to: usize) -> bool {
    let mut at = from;
    for line in maps.lines() {
        let mut columns = line.split_ascii_whitespace();
        let range = columns.next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
            return false;
        };
        if at >= to || end <= at {
            continue;
        }
        let is_private = columns.next().is_some_and(|rights| rights == "rw-p");
        // The offset and the device; then the inode, 0 without a file.
        if start > at || !is_private || columns.nth(2) != Some("0") {
            return false;
        }
        at = end;
    }
    at >= to
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000400000-7f0000800000 rw-p 00000000 00:00 0                          [heap]
7f0000800000-7f0000900000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7f0000900000-7f0000a00000 rw-p 00000000 08:01 1234                       /tmp/file
7f0000a00000-7f0000b00000 ---p 00000000 00:00 0
7f0000c00000-7f0000d00000 rw-p 00000000 00:00 0
";

    #[test]
    fn only_private_memory_without_a_file_is_given_back() {
        let at = |offset: usize| 0x7f00_0000_0000 + offset;
        for (from, to, expected) in [
            (0, 0x40_0000, true),
            (0x1000, 0x7f_f000, true),
            (0, 0x80_1000, false),
            (0x80_0000, 0x90_0000, false),
            (0x90_0000, 0x90_1000, false),
            (0xa0_0000, 0xa0_1000, false),
            (0xb0_0000, 0xd0_0000, false),
            (0xc0_0000, 0xd0_0000, true),
            (0xc0_0000, 0xd0_1000, false),
            (0xf0_0000, 0xf0_1000, false),
        ] {
            assert_eq!(is_private_and_anonymous(MAPS, at(from), at(to)), expected, "{from:x}");
        }
        assert!(!is_private_and_anonymous("no maps", 0, 1));
    }

    #[test]
    fn blocks_of_any_alignment_become_zero() {
        for (skip, len) in [(0, LARGE), (1, LARGE + 4095), (4097, 3 * LARGE), (3, 100), (0, 1)] {
            let mut block = vec![0xa5_u8; skip + len + 8];
            let base = NonNull::from(&mut block[skip..skip + len]).cast();
            // SAFETY: the block's own bytes.
            unsafe { fill(base, len) };
            assert!(block[skip..skip + len].iter().all(|&byte| byte == 0), "{skip} {len}");
            assert!(block[..skip].iter().chain(&block[skip + len..]).all(|&byte| byte == 0xa5));
        }
    }
}
