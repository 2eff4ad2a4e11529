//! Memory that should stay in small pages: [`in_small_pages`].
//!
//! A program's allocator may request huge pages for large blocks, so look-ups miss no TLB. Memory
//! that is filled from its start mostly stays untouched. There a huge page only costs: the first
//! packet that touches it waits until two MiB are cleared.

use std::cell::Cell;

thread_local! {
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Builds something whose memory is filled from its start on and seldom to its end, or whose
/// look-ups a bench shows to be faster in small pages.
pub fn in_small_pages<R>(build: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_WANTED.set(self.0);
        }
    }
    let _before = Before(IS_WANTED.replace(true));
    build()
}

/// Whether the calling thread builds such a thing: an allocator that asks for huge pages leaves its
/// blocks alone.
#[inline]
pub fn wants_small_pages() -> bool {
    IS_WANTED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_while_something_is_built_and_no_longer() {
        assert!(!wants_small_pages());
        in_small_pages(|| {
            assert!(in_small_pages(wants_small_pages));
            assert!(wants_small_pages());
            assert!(!std::thread::spawn(wants_small_pages).join().expect("no panic"));
        });
        assert!(std::panic::catch_unwind(|| in_small_pages(|| panic!("built halfway"))).is_err());
        assert!(!wants_small_pages());
    }
}
