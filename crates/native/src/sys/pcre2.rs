//! PCRE2, as `pcre2-sys` declares it: an expression and its limits, and the memory that a search
//! writes to.
//!
//! The manual pages `pcre2api` and `pcre2jit` state what the C code requires of its callers.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr::{self, NonNull};

use pcre2_sys::*;

use crate::regex::{Flags, Limits, PatternError};

/// An expression with the limits of its searches.
#[derive(Debug)]
pub(crate) struct Code {
    code: NonNull<pcre2_code_8>,
    context: NonNull<pcre2_match_context_8>,
}

// SAFETY: `pcre2api`, "Multithreading": a compiled expression is read-only once machine code was
// made, for which `compile_to_machine_code` takes `&mut self`. A search only reads a match context.
// Both are on the heap and may be freed by any thread.
unsafe impl Send for Code {}
// SAFETY: as above; nothing is written through `&Code`.
unsafe impl Sync for Code {}

/// The outcome of a search.
pub(crate) enum SearchOutcome {
    Match(Range<usize>),
    None,
    GivenUp,
}

impl Code {
    pub(crate) fn compile(
        pattern: &[u8],
        flags: Flags,
        is_uncaptured: bool,
        limits: Limits,
    ) -> Result<Self, PatternError> {
        let mut options = options(flags);
        if is_uncaptured {
            options |= PCRE2_NO_AUTO_CAPTURE;
        }
        let (mut error, mut offset): (c_int, usize) = (0, 0);
        // SAFETY: `pattern` has the stated length and is copied as needed before the call returns.
        // Both places for the error are valid, and a null context means the defaults.
        let code = unsafe {
            pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &mut error,
                &mut offset,
                ptr::null_mut(),
            )
        };
        let code =
            NonNull::new(code).ok_or_else(|| PatternError { offset, message: message(error) })?;
        match context(limits) {
            Some(context) => Ok(Self { code, context }),
            None => {
                // SAFETY: `code` came from `pcre2_compile_8` and nothing else knows of it.
                unsafe { pcre2_code_free_8(code.as_ptr()) };
                Err(PatternError { offset: 0, message: "no memory".into() })
            }
        }
    }

    /// Says whether it could be: PCRE2 may be built without, or the system forbid it.
    pub(crate) fn compile_to_machine_code(&mut self) -> bool {
        // SAFETY: the expression is valid and, as `self` is borrowed mutably, in no use.
        unsafe {
            pcre2_jit_compile_8(self.code.as_ptr(), PCRE2_JIT_COMPLETE) == 0
                && self.has_machine_code()
        }
    }

    fn has_machine_code(&self) -> bool {
        let mut size: usize = 0;
        // SAFETY: the expression is valid; `PCRE2_INFO_JITSIZE` writes one `size_t`.
        let result = unsafe {
            pcre2_pattern_info_8(
                self.code.as_ptr(),
                PCRE2_INFO_JITSIZE,
                ptr::from_mut(&mut size).cast::<c_void>(),
            )
        };
        result == 0 && size > 0
    }

    /// `start` is at most the length of `subject`.
    pub(crate) fn search(&self, data: &mut Data, subject: &[u8], start: usize) -> SearchOutcome {
        debug_assert!(start <= subject.len());
        // SAFETY: expression and context are valid and only read. `subject` has the stated length
        // and outlives the call. `data` is valid and borrowed mutably, so it has no other use. The
        // pointer that it keeps to the subject is never followed: neither
        // `PCRE2_COPY_MATCHED_SUBJECT` nor a substring function is used.
        let result = unsafe {
            pcre2_match_8(
                self.code.as_ptr(),
                subject.as_ptr(),
                subject.len(),
                start,
                0,
                data.0.as_ptr(),
                self.context.as_ptr(),
            )
        };
        match result {
            PCRE2_ERROR_NOMATCH => SearchOutcome::None,
            0.. => SearchOutcome::Match(data.range()),
            // The limits, the stack of machine code, memory. Valid arguments cause no other error.
            _ => SearchOutcome::GivenUp,
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: both came from PCRE2, are owned by `self` and are freed once. No search is
        // running.
        unsafe {
            pcre2_code_free_8(self.code.as_ptr());
            pcre2_match_context_free_8(self.context.as_ptr());
        }
    }
}

fn options(flags: Flags) -> u32 {
    // `\C` matches a byte, which without UTF is harmless; UTF can't be asked for from within.
    let mut options = PCRE2_NEVER_UTF;
    for (is_set, option) in [
        (flags.caseless, PCRE2_CASELESS),
        (flags.dotall, PCRE2_DOTALL),
        (flags.multiline, PCRE2_MULTILINE),
        (flags.extended, PCRE2_EXTENDED),
        (flags.anchored, PCRE2_ANCHORED),
        (flags.dollar_endonly, PCRE2_DOLLAR_ENDONLY),
        (flags.ungreedy, PCRE2_UNGREEDY),
    ] {
        options |= if is_set { option } else { 0 };
    }
    options
}

fn context(limits: Limits) -> Option<NonNull<pcre2_match_context_8>> {
    // SAFETY: a null general context means the default allocator; the context is valid if it is not
    // null.
    unsafe {
        let context = NonNull::new(pcre2_match_context_create_8(ptr::null_mut()))?;
        pcre2_set_match_limit_8(context.as_ptr(), limits.match_limit);
        pcre2_set_depth_limit_8(context.as_ptr(), limits.depth_limit);
        Some(context)
    }
}

/// The meaning of an error number.
fn message(error: c_int) -> String {
    let mut text = [0u8; 256];
    // SAFETY: the buffer has the length that is said; what is written ends with a zero.
    let len = unsafe { pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    String::from_utf8_lossy(&text[..len]).into_owned()
}

/// The memory that a search writes to: the position of the whole match, no captures.
#[derive(Debug)]
pub(crate) struct Data(NonNull<pcre2_match_data_8>);

// SAFETY: it lies on the heap, is bound to no thread, and a search borrows it mutably.
unsafe impl Send for Data {}
// SAFETY: code outside of this file can do nothing with a `&Data`, and code here doesn't write
// through one.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: a null general context asks for the default allocator.
        NonNull::new(unsafe { pcre2_match_data_create_8(1, ptr::null_mut()) }).map(Self)
    }

    /// Behind a search that matched.
    fn range(&self) -> Range<usize> {
        // SAFETY: the data was made for one pair of offsets, and a match writes both.
        unsafe {
            let pair = pcre2_get_ovector_pointer_8(self.0.as_ptr());
            *pair..*pair.add(1)
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // SAFETY: it came from PCRE2, is owned by `self` and is freed once.
        unsafe { pcre2_match_data_free_8(self.0.as_ptr()) };
    }
}
