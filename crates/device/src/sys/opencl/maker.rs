//! Everything about a device's compiler that its binaries depend on: the key under which they are
//! cached on disk.

use std::{env, fs};

use super::api::{Api, Id, info, platform_info};
use crate::source;

/// Platforms whose programs are not cached.
///
/// PoCL has its own cache in `~/.cache/pocl`. If asked for a binary, it compiles every kernel again
/// for groups of any size. PoCL 3.1 then takes 6 s of a core for the text of `ipsec` instead of 2.
/// Oclgrind, a checker, compiles according to its own variables, one of which names another log
/// each time.
const NOT_KEPT: [&str; 2] = ["Portable Computing Language", "Oclgrind"];

/// Variables with these prefixes change how drivers compile: Intel's for CPUs and for GPUs, AMD's.
const SETTINGS: [&str; 3] = ["CL_CONFIG_", "IGC_", "AMD_OCL_"];

/// The driver, the device, and what else it compiles by.
pub(super) struct Maker(String);

impl Maker {
    /// That of a device; `None` where its programs are not kept.
    pub(super) fn of(api: &Api, platform: Id, device: Id) -> Option<Self> {
        let [name, version] = [platform_info::NAME, platform_info::VERSION]
            .map(|what| api.platform_text(platform, what));
        if NOT_KEPT.contains(&&*name) {
            return None;
        }
        let device_text = |what| api.text(device, what);
        Some(Self(source::key_of(&[
            &name,
            &version,
            &device_text(info::NAME),
            &device_text(info::VERSION),
            &device_text(info::DRIVER_VERSION),
            &format!("{:x?}", api.bytes(device, info::UUID)),
            &processor(),
            &settings(),
        ])))
    }

    /// The name under which the cache keeps the binary of `text` compiled with `options`.
    pub(super) fn name_of(&self, text: &str, options: &str) -> String {
        source::key_of(&[text, options, &self.0]) + ".clbin"
    }
}

/// The instruction set of this machine's processor, for devices on it. Names and versions are the
/// same for processors with other instructions, and for virtual machines that hide some.
fn processor() -> String {
    let said = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_list = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    said.lines().find(is_list).unwrap_or_default().into()
}

fn settings() -> String {
    let is_setting = |name: &str| SETTINGS.iter().any(|prefix| name.starts_with(prefix));
    let mut all: Vec<String> = env::vars_os()
        .filter(|(name, _)| is_setting(&name.to_string_lossy()))
        .map(|setting| format!("{setting:?}"))
        .collect();
    all.sort();
    all.join(" ")
}
