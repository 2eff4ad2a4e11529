//! Tables 3 to 5: the profiles of an A100, as `sched` knows them.

use warpline_sched::{Division, Gpu, VgpuProfile};

use super::model::TABLE_5;
use crate::ScenarioError;
use crate::papers::shape::Rule;
use crate::papers::{ItemResult, Series, card_profile, card_profiles};

/// Name, gigabytes, instances.
const TABLE_3: [(&str, f64, f64); 5] = [
    ("A100-1-5C", 5.0, 7.0),
    ("A100-2-10C", 10.0, 3.0),
    ("A100-3-20C", 20.0, 2.0),
    ("A100-4-20C", 20.0, 1.0),
    ("A100-7-40C", 40.0, 1.0),
];

const TABLE_4: [(&str, f64, f64); 6] = [
    ("A100-4C", 4.0, 10.0),
    ("A100-5C", 5.0, 8.0),
    ("A100-8C", 8.0, 5.0),
    ("A100-10C", 10.0, 4.0),
    ("A100-20C", 20.0, 2.0),
    ("A100-40C", 40.0, 1.0),
];

pub(super) fn table_3() -> Result<ItemResult, ScenarioError> {
    Ok(profiles(&TABLE_3, |profile| matches!(profile.division, Division::Instances { .. })))
}

pub(super) fn table_4() -> Result<ItemResult, ScenarioError> {
    Ok(profiles(&TABLE_4, |profile| profile.division == Division::Time))
}

fn profiles(paper: &[(&str, f64, f64)], is_own: fn(&VgpuProfile) -> bool) -> ItemResult {
    let mut memory = Series::new("memory", "profile", "GB");
    let mut slots = Series::new("virtual GPUs", "profile", "");
    for profile in card_profiles(Gpu::A100).into_iter().filter(is_own) {
        let printed = paper.iter().find(|row| row.0 == profile.name);
        memory.add(profile.name, printed.map(|row| row.1), profile.memory_gb as f64);
        slots.add(profile.name, printed.map(|row| row.2), profile.slots_max as f64);
    }
    let is_equal = |series: &Series| {
        series.points.len() == paper.len()
            && series.points.iter().all(|point| point.paper == point.ours)
    };
    let rule = Rule::new(
        "profiles, memory and counts are those of the table",
        is_equal(&memory) && is_equal(&slots),
    );
    ItemResult { series: vec![memory, slots], rules: vec![rule] }
}

pub(super) fn table_5() -> Result<ItemResult, ScenarioError> {
    const PROFILES: [(&str, f64); 3] =
        [("A100-1-5C", 5.0), ("A100-3-20C", 20.0), ("A100-2-10C", 10.0)];
    let mut compute = Series::new("compute", "function", "sevenths");
    let mut memory = Series::new("memory", "function", "GB");
    let mut tenants = Vec::new();
    for (number, (name, gigabytes)) in PROFILES.into_iter().enumerate() {
        let profile = card_profile(Gpu::A100, name)?;
        let function = format!("NF-{}", number + 1);
        if let Division::Instances { compute: own, .. } = profile.division {
            compute.add(&function, Some(f64::from(TABLE_5[number])), own as f64);
        }
        memory.add(&function, Some(gigabytes), profile.memory_gb as f64);
        tenants.push(profile);
    }
    let tenants: Vec<_> = tenants.iter().map(|profile| (profile, 1)).collect();
    let admitted = VgpuProfile::admit_all(&tenants, 40_000_000_000);
    let is_equal = compute.points.iter().chain(&memory.points).all(|one| one.paper == one.ours);
    let rules = vec![
        Rule::new("each function has the table's compute and memory", is_equal),
        Rule::new("an A100 of 40 GB admits the three instances", admitted.is_ok()),
    ];
    Ok(ItemResult { series: vec![compute, memory], rules })
}
