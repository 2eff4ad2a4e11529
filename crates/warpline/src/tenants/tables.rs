//! The keys of `[arbiter]` and of `[[tenant]]` tables.

use std::ops::Range;
use std::sync::Arc;

use warpline_device::Device;
use warpline_nf::Section;
use warpline_sched::{Policy, Sharing, VgpuProfile};

use crate::{device_keys, keys};

/// The names of the tables: no function can have them.
pub(crate) const ARBITER: &str = "arbiter";
pub(crate) const TENANT: &str = "tenant";

/// Bytes of a tenant's name.
const NAME_LEN_MAX: usize = 128;
const MS: u64 = 1_000_000;

/// `[arbiter]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArbiterTable {
    /// Whether the file has it: then every device is shared, if only between stages.
    pub(crate) is_given: bool,
    /// The policy and the slice.
    pub(crate) sharing: Sharing,
    /// Slots of a device, if stated.
    pub(crate) slots: Option<usize>,
}

impl ArbiterTable {
    /// Reads the table.
    pub(crate) fn read(section: &mut Section<'_>, is_given: bool) -> Self {
        section.refuse_all_but(&keys::names(keys::ARBITER));
        let default = Sharing::default();
        let policies = Policy::ALL.map(|policy| (policy.name(), policy));
        let policy = section.choice("policy", &policies, default.policy);
        let (least, most) = (Sharing::SLICE_NS.start() / MS, Sharing::SLICE_NS.end() / MS);
        let slice_ms = section.integer("slice_ms", least..=most, default.slice_ns / MS);
        let slots = section
            .has("slots")
            .then(|| section.integer("slots", 1..=Sharing::SLOTS_MAX as u64, 1) as usize);
        let sharing = Sharing { policy, slice_ns: slice_ms * MS, ..default };
        Self { is_given, sharing, slots }
    }
}

/// A `[[tenant]]` table.
#[derive(Clone)]
pub(crate) struct TenantTable {
    pub(crate) name: String,
    /// The device that it shares; in a simulation as the file names it.
    pub(crate) id: String,
    /// `None` in a simulation.
    pub(crate) device: Option<Arc<dyn Device>>,
    pub(crate) slots: usize,
    /// Bytes of device memory, if stated.
    pub(crate) memory: Option<u64>,
    pub(crate) profile: Option<&'static VgpuProfile>,
    /// Whether it has synthetic work instead of a chain.
    pub(crate) is_background: bool,
    /// Where its table stands.
    pub(crate) span: Range<usize>,
}

impl TenantTable {
    /// Reads a table; `before` are those above it. Opens its device if `opens`.
    pub(crate) fn read(
        section: &mut Section<'_>,
        (span, opens): (Range<usize>, bool),
        before: &[Self],
    ) -> Option<Self> {
        section.refuse_all_but(&keys::names(keys::TENANT));
        section.require("name", "the tenant's name");
        section.require("device", "the device that it shares");
        let slots = section.integer("slots", 1..=Sharing::SLOTS_MAX as u64, 1) as usize;
        let memory =
            section.has("memory_mib").then(|| section.integer("memory_mib", 1..=1 << 24, 1) << 20);
        let work = [("none", false), ("matmul", true)];
        let is_background = section.choice("background", &work, false);
        let profile = profile(section);
        let name = name(section, before);
        let device_name = section.string("device").map(str::to_owned);
        let device = if opens { Some(device(section)?) } else { None };
        let id = device.as_ref().map(|device| device.description().id.clone());
        let id = id.or(device_name)?;
        Some(Self { name: name?, id, device, slots, memory, profile, is_background, span })
    }

    /// Bytes of device memory that it may have; those of its profile unless stated.
    pub(crate) fn quota(&self) -> Option<u64> {
        let of_profile = |profile: &VgpuProfile| profile.memory_bytes() * self.slots as u64;
        self.memory.or(self.profile.map(of_profile))
    }
}

fn name(section: &mut Section<'_>, before: &[TenantTable]) -> Option<String> {
    let name = section.string("name")?.to_owned();
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let text = format!("`name`: a tenant's name has 1 to {NAME_LEN_MAX} bytes");
        section.mistake("name", text);
        return None;
    }
    if before.iter().any(|other| other.name == name) {
        section.mistake("name", format!("two tenants are called {name:?}"));
        return None;
    }
    Some(name)
}

fn device(section: &mut Section<'_>) -> Option<Arc<dyn Device>> {
    let name = section.string("device")?.to_owned();
    match device_keys::open(&name) {
        Ok(device) => Some(device),
        Err(why) => {
            section.mistake("device", format!("`device`: {why}"));
            None
        }
    }
}

fn profile(section: &mut Section<'_>) -> Option<&'static VgpuProfile> {
    let name = section.string("profile")?.to_owned();
    let found = VgpuProfile::ALL.iter().find(|profile| profile.name == name);
    if found.is_none() {
        let names: Vec<&str> = VgpuProfile::ALL.iter().map(|profile| profile.name).collect();
        let text = format!("`profile`: there is no {name:?}; allowed: {}", names.join(", "));
        section.mistake("profile", text);
    }
    found
}
