//! Runs kernels one after another, whatever their streams, if the ICD can't run them concurrently.
//!
//! PoCL counts the uses of a kernel by its name and group size. Before 7.0 it returns a use to the
//! first matching entry, although entries also differ by the largest number of groups. If a call
//! has more groups than any before while others of that kernel run, the counts become wrong. PoCL
//! then ends the process (`pocl_release_dlhandle_cache: Assertion found->ref_count`).

use std::sync::Mutex;

use super::api::{self, Api, Id};

/// The turns of a device's kernels. Each waits, on the device, for the one before.
pub(super) struct Turns {
    api: &'static Api,
    /// Of the last call; a reference of its own.
    last: Mutex<Option<Id>>,
}

impl Turns {
    /// `None` where kernels may run side by side.
    pub(super) fn of(api: &'static Api, version: &str, driver: &str) -> Option<Self> {
        is_needed(version, driver).then(|| Self { api, last: Mutex::new(None) })
    }

    /// Calls `enqueue` for a kernel that waits for the previous event, if there is one; both are in
    /// the same context. The kernel is done when `event` is.
    pub(super) fn take(
        &self,
        event: &mut Id,
        enqueue: impl FnOnce(Option<&Id>, &mut Id) -> i32,
    ) -> i32 {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A call that failed would have those that wait for it fail.
        let before = last.filter(|&before| matches!(self.api.status(before), Ok(1..)));
        let code = enqueue(before.as_ref(), event);
        if event.is_null() {
            return code;
        }
        // SAFETY: an event that the enqueue gave, kept once for `last`.
        if unsafe { (self.api.retain_event)(*event) } == api::SUCCESS
            && let Some(before) = last.replace(*event)
        {
            // SAFETY: it was kept once for `last`.
            unsafe { (self.api.release_event)(before) };
        }
        code
    }
}

/// Decides by the device's version text and its driver's version.
fn is_needed(version: &str, driver: &str) -> bool {
    let major = driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
    version.to_ascii_lowercase().contains("pocl") && major.is_none_or(|major| major < 7)
}

#[cfg(test)]
mod tests {
    use super::is_needed;

    #[test]
    fn old_versions_of_pocl_need_turns() {
        let pocl = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-skylake-avx512";
        for (version, driver, is) in [
            (pocl, "3.1+debian", true),
            (pocl, "6.0", true),
            ("OpenCL 1.2 pocl HSTR: pthread", "1.8", true),
            (pocl, "unknown", true),
            (pocl, "7.0", false),
            (pocl, "10.2-pre", false),
            ("OpenCL 3.0 CUDA", "580.65.06", false),
            ("OpenCL 3.1 (Build 0)", "2026.22.10.0.01_160000", false),
            ("OpenCL 1.2 (Oclgrind 21.10)", "Oclgrind 21.10", false),
        ] {
            assert_eq!(is_needed(version, driver), is, "{version}, {driver}");
        }
    }
}
