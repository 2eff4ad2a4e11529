//! Databases: compiling, scanning, freeing.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::{NonNull, null, null_mut};

use super::{CompileErrorHead, Library, SCAN_TERMINATED, SUCCESS, scratch};
use crate::hyperscan::{CompileError, LITERAL_LEN_MAX, Literal, NotScanned};

/// `HS_MODE_BLOCK`.
const MODE_BLOCK: c_uint = 1;
/// `HS_FLAG_CASELESS`.
const CASELESS: c_uint = 1;
/// `HS_FLAG_SINGLEMATCH`.
const SINGLE_MATCH: c_uint = 8;

/// Literals, compiled for this machine's processor.
#[derive(Debug)]
pub struct Database {
    pub(super) library: &'static Library,
    pub(super) compiled: NonNull<c_void>,
    /// Scratch must be at least of this one to be long enough.
    generation: u64,
}

// SAFETY: the library does not change a compiled database, and any threads may scan with it at
// once.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Drop for Database {
    fn drop(&mut self) {
        scratch::forget(self.library, self.compiled);
        // SAFETY: it came from the library and is freed once; scans borrow it, and scratch no
        // longer refers to it.
        unsafe { (self.library.free_database)(self.compiled.as_ptr()) };
    }
}

impl Database {
    /// Compiles `literals`, at least one.
    ///
    /// # Errors
    ///
    /// The library does not take them, or there is no memory.
    pub fn compile(
        library: &'static Library,
        literals: &[Literal<'_>],
    ) -> Result<Self, CompileError> {
        let compiled = compile(library, literals)?;
        let without = || CompileError { message: "no memory for scratch".into(), literal: None };
        Self::fitted(library, compiled).ok_or_else(without)
    }

    /// Takes a database that the library made just now and that is not shared yet, with scratch for
    /// it. Without memory it is freed, and the result is `None`.
    pub(super) fn fitted(library: &'static Library, compiled: NonNull<c_void>) -> Option<Self> {
        // SAFETY: the database is whole, and forgotten before it is freed.
        let generation = unsafe { scratch::fit(library, compiled) };
        if generation.is_none() {
            // SAFETY: it came from the library and is not shared: it was not fitted.
            unsafe { (library.free_database)(compiled.as_ptr()) };
        }
        Some(Self { library, compiled, generation: generation? })
    }

    /// Bytes that it takes up.
    pub fn memory_len(&self) -> usize {
        let mut len = 0;
        // SAFETY: the database is whole; the length is written to a place of ours.
        match unsafe { (self.library.database_size)(self.compiled.as_ptr(), &mut len) } {
            SUCCESS => len,
            _ => 0,
        }
    }

    /// Calls `on_hit` with the number of each literal in `text`, in any order, until it returns
    /// `false`. A panic in it ends the process, as the library's frames can't be unwound.
    ///
    /// # Errors
    ///
    /// See [`NotScanned`]; `on_hit` may have been called.
    #[inline]
    pub fn scan<F: FnMut(u32) -> bool>(
        &self,
        text: &[u8],
        mut on_hit: F,
    ) -> Result<(), NotScanned> {
        let len = c_uint::try_from(text.len()).map_err(|_| NotScanned)?;
        let context: *mut F = &mut on_hit;
        let status = scratch::with(self.generation, |scratch| {
            // SAFETY: database and text are borrowed. The scratch is this thread's, in no other
            // scan's use and long enough for the database. `reported` gets the context alone, which
            // is an `F` without other borrows.
            unsafe {
                (self.library.scan)(
                    self.compiled.as_ptr(),
                    text.as_ptr().cast(),
                    len,
                    0,
                    scratch.as_ptr(),
                    reported::<F>,
                    context.cast(),
                )
            }
        });
        match status {
            Some(SUCCESS | SCAN_TERMINATED) => Ok(()),
            _ => Err(NotScanned),
        }
    }
}

/// # Safety
///
/// `context` is an `F` without other borrows.
unsafe extern "C" fn reported<F: FnMut(u32) -> bool>(
    literal: c_uint,
    _start: u64,
    _end: u64,
    _flags: c_uint,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as this function's.
    let on_hit = unsafe { &mut *context.cast::<F>() };
    c_int::from(!on_hit(literal))
}

fn compile(
    library: &'static Library,
    literals: &[Literal<'_>],
) -> Result<NonNull<c_void>, CompileError> {
    let count = check(literals)?;
    let expressions: Vec<*const c_char> =
        literals.iter().map(|literal| literal.bytes.as_ptr().cast()).collect();
    let lens: Vec<usize> = literals.iter().map(|literal| literal.bytes.len()).collect();
    let flags: Vec<c_uint> =
        literals.iter().map(|l| SINGLE_MATCH | if l.is_caseless { CASELESS } else { 0 }).collect();
    let ids: Vec<c_uint> = (0..count).collect();
    let (mut database, mut error) = (null_mut(), null_mut());
    // SAFETY: there are `count` expressions, flags, numbers and lengths, and each expression has
    // its length. The library reads no further. Without a platform it compiles for this one.
    let status = unsafe {
        (library.compile)(
            expressions.as_ptr(),
            flags.as_ptr(),
            ids.as_ptr(),
            lens.as_ptr(),
            count,
            MODE_BLOCK,
            null(),
            &mut database,
            &mut error,
        )
    };
    // SAFETY: an error that the library made, or null.
    let error = unsafe { take(library, error) };
    NonNull::new(database).filter(|_| status == SUCCESS).ok_or(error)
}

/// How many there are. Version 5.4 crashes on empty literals, and an empty list is an error without
/// a text.
fn check(literals: &[Literal<'_>]) -> Result<c_uint, CompileError> {
    let error = |message: &str, literal| CompileError { message: message.into(), literal };
    if let Some(place) =
        literals.iter().position(|l| !(1..=LITERAL_LEN_MAX).contains(&l.bytes.len()))
    {
        return Err(error("the literal is empty or too long", Some(place)));
    }
    match c_uint::try_from(literals.len()) {
        Ok(0) => Err(error("there are no literals", None)),
        Ok(count) => Ok(count),
        Err(_) => Err(error("there are too many literals", None)),
    }
}

/// Copies an error and frees it.
///
/// # Safety
///
/// `error` is null or was made by `library`.
unsafe fn take(library: &Library, error: *mut CompileErrorHead) -> CompileError {
    // SAFETY: as this function's; the message ends with a zero, and it is not used after it is
    // freed.
    unsafe {
        let Some(head) = error.as_ref() else {
            return CompileError { message: "no reason given".into(), literal: None };
        };
        let message = CStr::from_ptr(head.message).to_string_lossy().into_owned();
        let literal = usize::try_from(head.expression).ok();
        (library.free_error)(error);
        CompileError { message, literal }
    }
}
