//! Table I, and the limits of virtual GPUs.

use warpline_sched::{Gpu, ProfileError, VgpuProfile};

use crate::ScenarioError;
use crate::papers::shape::Rule;
use crate::papers::{ItemResult, Series, card_profile, card_profiles};

type Result = std::result::Result<ItemResult, ScenarioError>;

/// Table I: profile, gigabytes, vGPUs.
const TABLE_1: [(&str, f64, f64); 5] =
    [("1q", 1.0, 16.0), ("2q", 2.0, 8.0), ("4q", 4.0, 4.0), ("8q", 8.0, 2.0), ("16q", 16.0, 1.0)];

pub(super) fn table_1() -> Result {
    let mut memory = Series::new("memory", "profile", "GB");
    let mut slots = Series::new("vGPUs", "profile", "");
    for profile in card_profiles(Gpu::P100) {
        let printed = TABLE_1.iter().find(|row| row.0 == profile.name);
        memory.add(profile.name, printed.map(|row| row.1), profile.memory_gb as f64);
        slots.add(profile.name, printed.map(|row| row.2), profile.slots_max as f64);
    }
    let points = memory.points.iter().chain(&slots.points);
    let is_equal =
        memory.points.len() == TABLE_1.len() && points.clone().all(|one| one.paper == one.ours);
    let rules = vec![Rule::new("profiles, memory and counts are those of the table", is_equal)];
    Ok(ItemResult { series: vec![memory, slots], rules })
}

/// 1 where a limit also holds for tenants of Warpline.
pub(super) fn limits() -> Result {
    let four = card_profile(Gpu::P100, "4q")?;
    let eight = card_profile(Gpu::P100, "8q")?;
    const MEMORY: u64 = 16_000_000_000;
    let too_many = four.admits(&[1; 5], MEMORY);
    let mixed = VgpuProfile::admit_all(&[(&four, 1), (&eight, 1)], MEMORY);
    let mut holds = Series::new("limit holds here", "limit", "");
    let cases = [
        ("1: a profile is chosen while the machine is off", 1.0),
        ("2: another scheduler needs a restart of the host", 0.0),
        ("3: no more machines than the profile has vGPUs", f64::from(u8::from(too_many.is_err()))),
        ("4: one profile for all machines", f64::from(u8::from(mixed.is_err()))),
        ("5: no unified memory and no profiler", 0.0),
    ];
    for (limit, ours) in cases {
        holds.add(limit, Some(1.0), ours);
    }
    let is_named = matches!(mixed, Err(ProfileError::Mixed { .. }));
    let rules = vec![
        Rule::new("a fifth tenant of profile 4q is refused", too_many.is_err()),
        Rule::new("two profiles on one P100 are refused by name", is_named),
        Rule::new("another policy needs a restart of the host", false).because(
            "Warpline's arbiter belongs to the program: another policy needs a new start of that.",
        ),
        Rule::new("tenants have no memory that they share with the host, and no profiler", false)
            .because("Kernels may use the host's memory, and `warpline profile` measures them."),
    ];
    Ok(ItemResult { series: vec![holds], rules })
}
