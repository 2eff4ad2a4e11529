//! Each rule alone, in virtual time.

mod explored;
mod oracle;
mod shares;
mod world;

use super::*;

const MS: u64 = 1_000_000;

/// Slices of 1 ms, one launch at once, and as many slots as the tenants have.
fn sharing(policy: Policy, slots: &[usize]) -> Sharing {
    Sharing { policy, slice_ns: MS, in_flight_max: 1, slots: slots.iter().sum() }
}

/// An arbiter with all tenants present.
fn attended(sharing: &Sharing, slots: &[usize]) -> Arbiter {
    let mut arbiter = Arbiter::new(sharing, slots).unwrap();
    (0..slots.len()).for_each(|tenant| arbiter.handle_present(tenant, true, 0));
    arbiter
}

fn request(arbiter: &mut Arbiter, tenants: &[usize], now_ns: u64) {
    tenants.iter().for_each(|&tenant| assert!(arbiter.handle_request(tenant, now_ns)));
}

/// Starts and ends a launch that takes `took_ns`. Returns its tenant.
fn run(arbiter: &mut Arbiter, now_ns: &mut u64, took_ns: u64) -> Option<usize> {
    let grant = arbiter.poll_grant(*now_ns)?;
    *now_ns += took_ns;
    assert!(arbiter.handle_done(grant.id, &Spent::default(), *now_ns));
    Some(grant.tenant)
}

#[test]
fn tenants_with_work_take_turns() {
    let mut arbiter = attended(&sharing(Policy::BestEffort, &[1; 4]), &[1; 4]);
    let mut now_ns = 0;
    for tenant in [0, 2, 3] {
        request(&mut arbiter, &[tenant; 8], now_ns);
    }
    let owners: Vec<_> =
        std::iter::from_fn(|| run(&mut arbiter, &mut now_ns, MS / 2)).take(12).collect();
    assert_eq!(owners, [0, 0, 2, 2, 3, 3, 0, 0, 2, 2, 3, 3]);
    assert_eq!(arbiter.evidence(now_ns).wasted_ppm(), 0);
}

#[test]
fn two_slots_are_two_slices() {
    for policy in [Policy::BestEffort, Policy::EqualShare, Policy::FixedShare] {
        let mut arbiter = attended(&sharing(policy, &[2, 1]), &[2, 1]);
        request(&mut arbiter, &[0, 0, 0, 0, 1, 1], 0);
        let mut now_ns = 0;
        let owners: Vec<_> =
            std::iter::from_fn(|| run(&mut arbiter, &mut now_ns, MS)).take(6).collect();
        assert_eq!(owners, [0, 0, 1, 0, 0, 1], "{policy:?}");
    }
}

#[test]
fn a_tenant_without_work_yields_at_once() {
    let mut arbiter = attended(&sharing(Policy::BestEffort, &[1, 1]), &[1, 1]);
    request(&mut arbiter, &[0, 1], 0);
    let first = arbiter.poll_grant(0).unwrap();
    assert_eq!((first.tenant, arbiter.poll_grant(10)), (0, None));
    assert_eq!(arbiter.poll_timeout(), Some(MS));
    arbiter.handle_done(first.id, &Spent::default(), 20);
    assert_eq!(arbiter.poll_timeout(), Some(0));
    assert_eq!(arbiter.poll_grant(20).map(|grant| grant.tenant), Some(1));
}

#[test]
fn a_tenant_that_is_alone_keeps_launches_in_flight_across_slices() {
    for policy in [Policy::BestEffort, Policy::EqualShare, Policy::RateProportional] {
        let sharing = Sharing { in_flight_max: 2, ..sharing(policy, &[1, 1]) };
        let mut arbiter = Arbiter::new(&sharing, &[1, 1]).unwrap();
        arbiter.handle_present(0, true, 0);
        request(&mut arbiter, &[0; 3], 0);
        let first = arbiter.poll_grant(0).unwrap();
        arbiter.poll_grant(MS / 2).unwrap();
        assert_eq!(arbiter.poll_grant(MS / 2), None);
        // The first ends in a later slice. The second is still in flight, and the third starts.
        arbiter.handle_done(first.id, &Spent::default(), 5 * MS + 1);
        assert!(arbiter.poll_grant(5 * MS + 1).is_some(), "{policy:?}");
        assert_eq!(arbiter.evidence(5 * MS + 1).tenants[0].overrun_ns, 0);
    }
}

#[test]
fn the_next_slice_waits_for_launches_of_the_last() {
    let mut arbiter = attended(&sharing(Policy::EqualShare, &[1, 1]), &[1, 1]);
    request(&mut arbiter, &[0, 1], 0);
    let long = arbiter.poll_grant(0).unwrap();
    assert_eq!(arbiter.poll_grant(MS), None);
    // Only the end of the launch changes anything.
    assert_eq!(arbiter.poll_timeout(), None);
    arbiter.handle_done(long.id, &Spent::default(), 3 * MS);
    assert_eq!(arbiter.poll_grant(3 * MS).map(|grant| grant.tenant), Some(1));
    assert_eq!(arbiter.evidence(3 * MS).tenants[0].overrun_ns, 2 * MS);
}

#[test]
fn a_launch_longer_than_a_slice_takes_later_slices_of_its_tenant() {
    for policy in Policy::ALL {
        let mut arbiter = attended(&sharing(policy, &[1, 1]), &[1, 1]);
        request(&mut arbiter, &[0; 2], 0);
        request(&mut arbiter, &[1; 20], 0);
        let mut now_ns = 0;
        let took = |arbiter: &Arbiter| if arbiter.waiting(0) == 2 { 3 * MS + MS / 2 } else { MS };
        let mut owners = Vec::new();
        for _ in 0..6 {
            let took_ns = took(&arbiter);
            owners.extend(run(&mut arbiter, &mut now_ns, took_ns));
        }
        // Its debt of 2.5 slices takes two and shortens the third.
        assert_eq!(owners, [0, 1, 1, 1, 0, 1], "{policy:?}");
    }
}

#[test]
fn a_debt_of_a_tenant_that_is_alone_is_paid_at_once() {
    for policy in [Policy::BestEffort, Policy::EqualShare, Policy::RateProportional] {
        let mut arbiter = Arbiter::new(&sharing(policy, &[1, 1]), &[1, 1]).unwrap();
        arbiter.handle_present(0, true, 0);
        request(&mut arbiter, &[0; 2], 0);
        let mut now_ns = 0;
        assert_eq!(run(&mut arbiter, &mut now_ns, 1_000_000 * MS), Some(0));
        assert_eq!(arbiter.poll_timeout(), Some(0), "{policy:?}");
        assert!(arbiter.poll_grant(now_ns).is_some(), "{policy:?}");
    }
}

#[test]
fn a_debt_becomes_smaller_while_the_device_has_no_work() {
    for (idle_ns, expected) in [(0, [1, 1, 0, 1]), (MS, [1, 0, 1, 0])] {
        let mut arbiter = attended(&sharing(Policy::BestEffort, &[1, 1]), &[1, 1]);
        request(&mut arbiter, &[0, 1], 0);
        let mut now_ns = 0;
        assert_eq!(run(&mut arbiter, &mut now_ns, 3 * MS), Some(0));
        assert!(arbiter.handle_withdraw(1, now_ns));
        assert_eq!(arbiter.poll_grant(now_ns), None);
        now_ns += idle_ns;
        request(&mut arbiter, &[1, 0, 1, 0, 1, 0], now_ns);
        let owners: Vec<_> =
            std::iter::from_fn(|| run(&mut arbiter, &mut now_ns, MS)).take(4).collect();
        assert_eq!(owners, expected, "idle for {idle_ns} ns");
    }
}

#[test]
fn an_idle_slot_passes_in_time_and_a_late_request_uses_the_rest() {
    let mut arbiter = attended(&sharing(Policy::EqualShare, &[1; 3]), &[1; 3]);
    request(&mut arbiter, &[2], 0);
    assert_eq!((arbiter.poll_grant(0), arbiter.poll_timeout()), (None, Some(MS)));
    assert_eq!((arbiter.poll_grant(MS), arbiter.poll_timeout()), (None, Some(2 * MS)));
    request(&mut arbiter, &[1], MS + 10);
    assert_eq!(arbiter.poll_grant(MS + 10).map(|grant| grant.tenant), Some(1));
    let evidence = arbiter.evidence(MS + 10);
    assert_eq!(evidence.tenants.iter().map(|one| one.slices_wasted).sum::<u64>(), 1);
}

#[test]
fn a_tenant_that_polls_late_keeps_its_slice() {
    let mut arbiter = attended(&sharing(Policy::EqualShare, &[1, 1]), &[1, 1]);
    request(&mut arbiter, &[1], 0);
    assert_eq!(arbiter.poll_grant(0), None);
    // By the clock it is a slice of the other tenant.
    assert_eq!(arbiter.poll_grant(6 * MS + MS / 2).map(|grant| grant.tenant), Some(1));
}

#[test]
fn years_without_work_pass_in_one_step() {
    const YEARS: u64 = 20 * 365 * 24 * 3_600 * 1_000 * MS;
    let slots = [1, 2];
    for policy in Policy::ALL {
        let sharing = Sharing { slots: 4, ..sharing(policy, &slots) };
        let mut arbiter = attended(&sharing, &slots);
        request(&mut arbiter, &[0, 0], 0);
        let mut now_ns = 0;
        // The first slot is owned at once; a launch of a year leaves a debt.
        assert_eq!(run(&mut arbiter, &mut now_ns, YEARS / 20), Some(0));
        while arbiter.poll_grant(now_ns).is_none() {
            now_ns = arbiter.poll_timeout().unwrap().max(now_ns + YEARS / 40);
        }
        let evidence = arbiter.evidence(now_ns + YEARS);
        assert_eq!(evidence.elapsed_ns, now_ns + YEARS, "{policy:?}");
    }
}

#[test]
fn no_grant_for_a_tenant_that_is_absent() {
    for policy in Policy::ALL {
        let mut arbiter = Arbiter::new(&sharing(policy, &[1, 1]), &[1, 1]).unwrap();
        assert!(!arbiter.handle_request(0, 0) && !arbiter.handle_request(2, 0));
        arbiter.handle_present(0, true, 0);
        request(&mut arbiter, &[0, 0], 0);
        let grant = arbiter.poll_grant(0).unwrap();
        arbiter.handle_present(0, false, 1);
        assert_eq!((arbiter.waiting(0), arbiter.in_flight()), (0, 1));
        assert!(arbiter.handle_done(grant.id, &Spent::default(), 2));
        assert_eq!((arbiter.poll_grant(3), arbiter.poll_timeout()), (None, None));
        // It comes again without its old requests.
        arbiter.handle_present(0, true, 4);
        assert_eq!(arbiter.poll_grant(20 * MS), None, "{policy:?}");
    }
}

#[test]
fn requests_are_withdrawn_one_by_one() {
    let mut arbiter = attended(&sharing(Policy::BestEffort, &[1, 1]), &[1, 1]);
    assert!(!arbiter.handle_withdraw(0, 0) && !arbiter.handle_withdraw(9, 0));
    request(&mut arbiter, &[0, 0], 0);
    assert!(arbiter.handle_withdraw(0, 5));
    assert!(arbiter.poll_grant(5).is_some());
    assert!(!arbiter.handle_withdraw(0, 6));
    assert_eq!(arbiter.evidence(6).tenants[0].waiting_ns, 10);
}

#[test]
fn a_lost_launch_frees_the_device_once() {
    let mut arbiter = attended(&sharing(Policy::BestEffort, &[1, 1]), &[1, 1]);
    request(&mut arbiter, &[0, 1, 0], 0);
    let hung = arbiter.poll_grant(0).unwrap();
    assert_eq!(arbiter.poll_grant(9 * MS), None);
    assert!(arbiter.handle_lost(hung.id, 10 * MS));
    assert!(!arbiter.handle_lost(hung.id, 10 * MS));
    assert!(!arbiter.handle_done(hung.id, &Spent::default(), 10 * MS));
    assert_eq!(arbiter.poll_grant(10 * MS).map(|grant| grant.tenant), Some(1));
    let TenantEvidence { device_ns, lost, grants, .. } = arbiter.evidence(10 * MS).tenants[0];
    assert_eq!((device_ns, lost, grants), (10 * MS, 1, 1));
}

#[test]
fn device_time_is_measured_or_the_time_since_the_launch_before() {
    let sharing = Sharing { in_flight_max: 3, ..sharing(Policy::BestEffort, &[1]) };
    let mut arbiter = attended(&sharing, &[1]);
    request(&mut arbiter, &[0; 3], 0);
    let grants = [0; 3].map(|_| arbiter.poll_grant(0).unwrap());
    let device_ns = |arbiter: &mut Arbiter, now_ns| arbiter.evidence(now_ns).tenants[0].device_ns;
    arbiter.handle_done(grants[0].id, &Spent::default(), 100);
    assert_eq!(device_ns(&mut arbiter, 100), 100);
    arbiter.handle_done(grants[1].id, &Spent::default(), 150);
    assert_eq!(device_ns(&mut arbiter, 150), 150);
    // No launch used the device for longer than since its grant.
    let absurd = Spent { packets: 1, device_ns: Some(u64::MAX) };
    arbiter.handle_done(grants[2].id, &absurd, 200);
    assert_eq!(device_ns(&mut arbiter, 200), 350);
}

#[test]
fn waiting_time_is_that_of_all_requests() {
    let mut arbiter = attended(&sharing(Policy::BestEffort, &[1]), &[1]);
    request(&mut arbiter, &[0], 100);
    request(&mut arbiter, &[0], 150);
    arbiter.poll_grant(200).unwrap();
    assert_eq!(arbiter.evidence(260).tenants[0].waiting_ns, 100 + 110);
}

#[test]
fn time_never_runs_backwards() {
    for policy in Policy::ALL {
        let mut arbiter = attended(&sharing(policy, &[1, 1]), &[1, 1]);
        request(&mut arbiter, &[0], 5 * MS);
        let grant = arbiter.poll_grant(5 * MS).or_else(|| arbiter.poll_grant(6 * MS)).unwrap();
        assert!(arbiter.handle_done(grant.id, &Spent::default(), 0));
        assert_eq!(arbiter.evidence(0).tenants[0].device_ns, 0);
    }
}

#[test]
fn the_end_of_time_is_like_any_moment() {
    for policy in Policy::ALL {
        for slots in [[1, 1], [2, 1]] {
            let mut arbiter = attended(&sharing(policy, &slots), &slots);
            request(&mut arbiter, &[0, 0], u64::MAX - MS);
            let grant = arbiter.poll_grant(u64::MAX - MS).unwrap();
            arbiter.handle_arrivals(0, u64::MAX, u64::MAX);
            let spent = Spent { packets: u64::MAX, device_ns: Some(u64::MAX) };
            assert!(arbiter.handle_done(grant.id, &spent, u64::MAX));
            assert!(arbiter.poll_grant(u64::MAX).is_some(), "{policy:?}");
            let evidence = arbiter.evidence(u64::MAX);
            assert!(evidence.elapsed_ns <= u64::MAX / 2 && evidence.share_ppm(0) == 0);
        }
    }
}

#[test]
fn limits_are_checked_and_errors_name_what_is_allowed() {
    let fit = Sharing { slots: 4, ..sharing(Policy::FixedShare, &[4]) };
    let error = |sharing: Sharing, slots: &[usize]| {
        Arbiter::new(&sharing, slots).map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        error(Sharing { slice_ns: 1, ..fit }, &[1]),
        "a slice must be 1 to 30 ms, found 1 ns"
    );
    let in_flight = error(Sharing { in_flight_max: 65, ..fit }, &[1]);
    assert_eq!(in_flight, "1 to 64 launches may be in flight, found 65");
    assert_eq!(
        error(Sharing { slots: 0, ..fit }, &[]),
        "a device must have 1 to 256 slots, found 0"
    );
    assert_eq!(error(fit, &[]), "a device must have 1 to 64 tenants, found 0");
    assert_eq!(error(fit, &[1, 0]), "tenant 1 has no slot; it needs 1 or more");
    assert_eq!(error(fit, &[3, 2]), "tenants have 5 slots of a device that has 4");
    assert!(Arbiter::new(&fit, &[1, 3]).is_ok());
}

#[test]
fn policies_have_the_names_of_chain_files() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_name(policy.name()), Some(policy));
    }
    assert_eq!(Policy::from_name("fair"), None);
}

#[test]
fn memory_is_taken_whole_or_not_at_all() {
    let mut quota = MemoryQuota::new(100);
    assert_eq!(quota.take(60), Ok(()));
    let error = quota.take(41).unwrap_err();
    assert_eq!(error, QuotaExceeded { bytes: 41, free: 40, allowed: 100 });
    let text = "41 bytes of device memory exceed the quota: 40 of 100 are free";
    assert_eq!((error.to_string().as_str(), quota.used()), (text, 60));
    assert!(quota.take(40).is_ok() && quota.take(u64::MAX).is_err());
    quota.give(100);
    assert_eq!((quota.free(), quota.allowed(), quota.take(0)), (100, 100, Ok(())));
}
