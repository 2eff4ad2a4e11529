//! Questions to the stub of CUDA's driver, and orders, for a program that runs over it.

use std::ffi::{CStr, CString, c_char};

use libloading::os::unix::{Library, Symbol};

/// How often the stub's `function` was called and did not fail.
pub(crate) fn times(function: &str) -> i32 {
    let name = CString::new(function).unwrap();
    // SAFETY: the type is the stub's; the name ends with a zero, and the stub keeps none.
    unsafe { stub::<unsafe extern "C" fn(*const c_char) -> i32>(c"stub_times")(name.as_ptr()) }
}

/// The next call of the stub's `function` does nothing and gives `code`.
pub(crate) fn fail(function: &str, code: i32) {
    fail_at(function, 1, code);
}

/// The call of this number from now on does nothing and gives `code`; none if it is zero.
pub(crate) fn fail_at(function: &str, number: i32, code: i32) {
    type Fail = unsafe extern "C" fn(*const c_char, i32, i32);
    let name = CString::new(function).unwrap();
    // SAFETY: as above.
    unsafe { stub::<Fail>(c"stub_fail_at")(name.as_ptr(), number, code) }
}

/// The functions that were called so far.
pub(crate) fn called() -> Vec<String> {
    type Name = unsafe extern "C" fn(i32) -> *const c_char;
    let name = |number| {
        // SAFETY: the type is the stub's; it gives null or a text that stays.
        let name = unsafe { stub::<Name>(c"stub_name")(number) };
        // SAFETY: as above.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_string())
    };
    (0..).map_while(name).collect()
}

/// A number that the stub counts: `stub_allocations`, for one.
pub(crate) fn count(what: &CStr) -> i32 {
    // SAFETY: all such functions of the stub have this type.
    unsafe { stub::<unsafe extern "C" fn() -> i32>(what)() }
}

/// Objects of the stub that are not destroyed, allocations and registered ranges.
pub(crate) fn live() -> [i32; 8] {
    type Live = unsafe extern "C" fn(i32) -> i32;
    // SAFETY: the type is the stub's.
    let of_kind = |kind| unsafe { stub::<Live>(c"stub_live")(kind) };
    let mut all = [0; 8];
    (0..6).for_each(|kind| all[kind as usize] = of_kind(kind));
    all[6] = count(c"stub_allocations");
    all[7] = count(c"stub_registrations");
    all
}

/// Holds the work of all streams, or lets it be done.
pub(crate) fn hold(is: bool) {
    // SAFETY: the type is the stub's.
    unsafe { stub::<unsafe extern "C" fn(i32)>(c"stub_hold")(is.into()) }
}

/// From now on all calls in a context give `code`.
pub(crate) fn lose(code: i32) {
    // SAFETY: the type is the stub's.
    unsafe { stub::<unsafe extern "C" fn(i32)>(c"stub_lose")(code) }
}

/// A function of the stub, which is loaded as long as this program runs.
fn stub<F>(name: &CStr) -> Symbol<F> {
    // SAFETY: it is the library that the device has loaded already; callers vouch for the type.
    unsafe { Library::new("libcuda.so.1").unwrap().get(name.to_bytes()).unwrap() }
}
