//! The tables against the rules they follow, and each refusal.

use super::*;

/// Memory of the two devices, none of it used by drivers.
const P100_BYTES: u64 = 16 * GB;
const A100_BYTES: u64 = 40 * GB;

fn named(name: &str) -> &'static VgpuProfile {
    VgpuProfile::ALL.iter().find(|profile| profile.name == name).unwrap()
}

fn mixed(tenants: &[&str]) -> Result<Admitted, ProfileError> {
    let tenants: Vec<_> = tenants.iter().map(|name| (named(name), 1)).collect();
    VgpuProfile::admit_all(&tenants, A100_BYTES)
}

#[test]
fn slots_follow_from_memory_and_slices() {
    for profile in &VgpuProfile::ALL {
        let device_gb = match profile.gpu {
            Gpu::P100 => 16,
            Gpu::A100 => 40,
        };
        let slots = match profile.division {
            Division::Time => device_gb / profile.memory_gb,
            Division::Instances { compute, memory } => {
                // The name has the compute slices and the memory; a memory slice is 5 GB.
                let name = format!("A100-{compute}-{}C", 5 * memory);
                assert_eq!((profile.name, profile.memory_gb), (&*name, 5 * memory as u64));
                (7 / compute).min(8 / memory) as u64
            }
        };
        assert_eq!(profile.slots_max as u64, slots, "{}", profile.name);
    }
}

#[test]
fn a_full_device_is_admitted_and_one_more_is_not() {
    for profile in &VgpuProfile::ALL {
        let device_bytes = if profile.gpu == Gpu::P100 { P100_BYTES } else { A100_BYTES };
        let full = vec![1; profile.slots_max];
        let admitted = profile.admits(&full, device_bytes).unwrap();
        assert_eq!(admitted.memory_bytes, profile.memory_gb * GB * profile.slots_max as u64);
        let over = vec![1; profile.slots_max + 1];
        let error = profile.admits(&over, device_bytes).unwrap_err();
        let VgpuProfile { name, slots_max, .. } = *profile;
        let expected =
            ProfileError::Tenants { profile: name, allowed: slots_max, tenants: slots_max + 1 };
        assert_eq!(error, expected);
    }
}

#[test]
fn refusals_name_what_is_allowed() {
    let text = |result: Result<Admitted, ProfileError>| result.unwrap_err().to_string();
    let profile = named("4q");
    let tenants = text(profile.admits(&[1; 5], P100_BYTES));
    assert_eq!(tenants, "profile 4q allows at most 4 tenants, found 5");
    let slots = text(profile.admits(&[2, 3], P100_BYTES));
    assert_eq!(slots, "profile 4q allows at most 4 slots, found 5");
    let huge = text(profile.admits(&[usize::MAX, 3], P100_BYTES));
    assert_eq!(huge, format!("profile 4q allows at most 4 slots, found {}", usize::MAX));
    let none = text(profile.admits(&[1, 0], P100_BYTES));
    assert_eq!(none, "tenant 1 has no slot; it needs 1 or more");
    let memory = text(profile.admits(&[1, 1], 7 * GB + 900_000_000));
    assert_eq!(memory, "the tenants need 8.0 GB of device memory, at most 7.9 GB exist");
    let unknown = VgpuProfile::named(Gpu::P100, "3q").unwrap_err().to_string();
    assert_eq!(unknown, "P100 has no vGPU profile \"3q\"; it has 1q, 2q, 4q, 8q, 16q");
    assert!(VgpuProfile::named(Gpu::A100, "4q").is_err());
}

#[test]
fn profiles_of_one_device_are_the_same_if_it_is_shared_in_time() {
    let error = mixed(&["A100-8C", "A100-8C", "A100-10C"]).unwrap_err();
    let text = "profiles A100-8C and A100-10C cannot share a device; \
                all tenants need one profile, except for MIG profiles of one GPU";
    assert_eq!(error.to_string(), text);
    for pair in [["A100-8C", "A100-1-5C"], ["A100-1-5C", "A100-8C"], ["4q", "A100-4C"]] {
        assert!(matches!(mixed(&pair), Err(ProfileError::Mixed { .. })), "{pair:?}");
    }
    let same = mixed(&["A100-8C"; 3]).unwrap();
    assert_eq!(same, Admitted { device_slots: 5, memory_bytes: 24 * GB });
    assert!(matches!(mixed(&["A100-8C"; 6]), Err(ProfileError::Tenants { .. })));
}

#[test]
fn instances_mix_within_compute_and_memory_slices() {
    // Simmer, table 5.
    let simmer = mixed(&["A100-1-5C", "A100-3-20C", "A100-2-10C"]);
    assert_eq!(simmer, Ok(Admitted { device_slots: 7, memory_bytes: 35 * GB }));
    assert!(mixed(&["A100-4-20C", "A100-3-20C"]).is_ok());
    let compute = mixed(&["A100-4-20C", "A100-2-10C", "A100-2-10C"]).unwrap_err();
    assert_eq!(compute.to_string(), "at most 7 compute slices exist, the profiles need 8");
    let memory = mixed(&["A100-3-20C", "A100-3-20C", "A100-1-5C"]).unwrap_err();
    assert_eq!(memory.to_string(), "at most 8 memory slices exist, the profiles need 9");
    let many = mixed(&["A100-4-20C", "A100-4-20C"]).unwrap_err();
    assert!(matches!(many, ProfileError::Tenants { tenants: 2, .. }));
    let none = [(named("A100-1-5C"), 1), (named("A100-2-10C"), 0)];
    let error = VgpuProfile::admit_all(&none, A100_BYTES).unwrap_err();
    assert_eq!(error, ProfileError::NoSlot { tenant: 1 });
    let small = [(named("A100-3-20C"), 1), (named("A100-2-10C"), 1)];
    let error = VgpuProfile::admit_all(&small, 24 * GB).unwrap_err();
    assert_eq!(error, ProfileError::Memory { memory_bytes: 30 * GB, device_bytes: 24 * GB });
}

#[test]
fn the_smallest_profile_with_enough_memory_has_the_most_tenants() {
    let name = |own: Option<&VgpuProfile>| own.map(|own| own.name);
    for (bytes, p100, a100, instance) in [
        (0, Some("1q"), Some("A100-4C"), Some("A100-1-5C")),
        (GB, Some("1q"), Some("A100-4C"), Some("A100-1-5C")),
        (GB + 1, Some("2q"), Some("A100-4C"), Some("A100-1-5C")),
        (9 * GB, Some("16q"), Some("A100-10C"), Some("A100-2-10C")),
        (20 * GB, None, Some("A100-20C"), Some("A100-3-20C")),
        (41 * GB, None, None, None),
    ] {
        assert_eq!(name(VgpuProfile::smallest(Gpu::P100, bytes)), p100, "{bytes}");
        assert_eq!(name(VgpuProfile::smallest(Gpu::A100, bytes)), a100, "{bytes}");
        assert_eq!(name(VgpuProfile::smallest_instance(Gpu::A100, bytes)), instance, "{bytes}");
        assert_eq!(VgpuProfile::smallest_instance(Gpu::P100, bytes), None);
    }
}
