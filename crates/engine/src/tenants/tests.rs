//! Tenants on scripted devices, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpline_device::fake::{Fake, Fate};
use warpline_device::{Buffer, Device, Failure, Matmul, Part, Step, Stream, Work};
use warpline_sched::{Policy, Sharing};

use super::{SharedDevice, Tenant};

const MS: u64 = 1_000_000;
/// How far time goes between two looks.
const TICK_NS: u64 = 20_000;
const COPY_NS: u64 = 20_000;
const COPY_LEN: usize = 64;

/// A stream of a tenant on a device of its own, as scripts go by the number of a work.
struct Lane {
    fake: Fake,
    device: Arc<dyn Device>,
    matmul: Matmul,
    buffer: Buffer,
    stream: Box<dyn Stream>,
}

impl Lane {
    fn new(
        shared: &SharedDevice,
        tenant: usize,
        fate: impl FnMut(u64) -> Fate + Send + 'static,
    ) -> Self {
        let fake = Fake::new(fate).with_kernel("matmul", |_, _| {});
        let device = shared.seat(tenant, Arc::new(fake.clone()));
        let matmul = Matmul::new(&*device).expect("a kernel");
        let buffer = device.allocate(COPY_LEN).expect("memory");
        let stream = device.stream().expect("a stream");
        Self { fake, device, matmul, buffer, stream }
    }

    fn work(&self) -> Work {
        let part = || Part { piece: 0, range: 0..COPY_LEN };
        let steps = vec![
            Step::CopyIn { from: part(), to: self.buffer.whole() },
            self.matmul.step(64).expect("a call"),
            Step::CopyOut { from: self.buffer.whole(), to: part() },
        ];
        let piece = self.device.host_memory(COPY_LEN).expect("host memory");
        Work { items: 10, ..Work::new(vec![piece], steps) }
    }
}

struct User {
    lanes: Vec<Lane>,
    /// Whether it submits work.
    is_busy: bool,
    /// Whether it looks for completions.
    looks: bool,
    done: u64,
}

impl User {
    /// Of a tenant that runs kernels of this length on so many streams.
    fn new(shared: &SharedDevice, tenant: usize, kernel_ns: u64, streams: usize) -> Self {
        // A work of a tenant is three on the device: copies, kernels, copies.
        let fate =
            move |number| Fate::done_after([COPY_NS, kernel_ns, COPY_NS][number as usize % 3]);
        Self::of((0..streams).map(|_| Lane::new(shared, tenant, fate)).collect())
    }

    fn of(lanes: Vec<Lane>) -> Self {
        Self { lanes, is_busy: true, looks: true, done: 0 }
    }

    /// Takes what is done, and submits to idle streams.
    fn step(&mut self) {
        for lane in self.lanes.iter_mut().filter(|_| self.looks) {
            while let Some(done) = lane.stream.poll() {
                assert_eq!(done.outcome, Ok(()));
                assert_eq!((done.work.pieces.len(), done.work.steps.len()), (1, 3));
                self.done += 1;
            }
            if self.is_busy && lane.stream.in_flight() == 0 {
                let work = lane.work();
                lane.stream.submit(work).expect("a work");
            }
        }
    }
}

/// A device with these slots, and its time.
fn shared(policy: Policy, slots: &[usize], device_slots: usize) -> (SharedDevice, Arc<AtomicU64>) {
    let sharing = Sharing { policy, slots: device_slots, ..Sharing::default() };
    let tenant = |(number, &slots)| Tenant { name: format!("t{number}"), slots, memory: None };
    let tenants = slots.iter().enumerate().map(tenant).collect();
    let now = Arc::<AtomicU64>::default();
    let clock = Arc::clone(&now);
    let read = move || clock.load(Ordering::Relaxed);
    (SharedDevice::with_clock("fake".into(), sharing, tenants, read).expect("tenants"), now)
}

fn pass(users: &mut [User], now: &AtomicU64, ns: u64) {
    for _ in 0..ns / TICK_NS {
        users.iter_mut().for_each(User::step);
        // As many packets come for each tenant.
        users.iter().filter_map(|user| user.lanes.first()).for_each(|lane| lane.device.announce(1));
        users.iter().flat_map(|user| &user.lanes).for_each(|lane| lane.fake.advance(TICK_NS));
        now.fetch_add(TICK_NS, Ordering::Relaxed);
    }
}

/// Shares of the next `ns` in millionths.
fn shares(shared: &SharedDevice, users: &mut [User], now: &AtomicU64, ns: u64) -> Vec<u64> {
    let device_ns = || -> Vec<u64> {
        shared.report().evidence.tenants.iter().map(|tenant| tenant.device_ns).collect()
    };
    let before = device_ns();
    pass(users, now, ns);
    let passed = device_ns().into_iter().zip(before).map(|(after, before)| after - before);
    passed.map(|device_ns| device_ns * 1_000_000 / ns).collect()
}

/// Tenants that always have work get the part of their slots, however long their launches are.
#[test]
fn shares_follow_the_policy_and_not_the_length_of_launches() {
    use Policy::{BestEffort, EqualShare, FixedShare, RateProportional};
    let costs = [100_000, 400_000, 1_100_000];
    for (policy, slots, of_device, expected) in [
        (BestEffort, [1, 1, 1], 3, [333_333, 333_333, 333_333]),
        (EqualShare, [1, 1, 1], 3, [333_333, 333_333, 333_333]),
        (BestEffort, [1, 2, 1], 4, [250_000, 500_000, 250_000]),
        (FixedShare, [1, 2, 1], 8, [125_000, 250_000, 125_000]),
        // All have as many packets, so shares follow the cost of a packet.
        (RateProportional, [1, 1, 1], 3, [62_500, 250_000, 687_500]),
    ] {
        let (shared, now) = shared(policy, &slots, of_device);
        let mut users: Vec<User> =
            (0..3).map(|tenant| User::new(&shared, tenant, costs[tenant], 3)).collect();
        // Costs and rates are measured first.
        pass(&mut users, &now, 150 * MS);
        let shares = shares(&shared, &mut users, &now, 300 * MS);
        for (tenant, (share, expected)) in shares.into_iter().zip(expected).enumerate() {
            let what = format!("{policy:?}, tenant {tenant}: {share} ppm of {expected}");
            // 3 % of the device.
            assert!(share.abs_diff(expected) <= 30_000, "{what}");
        }
    }
}

/// One tenant copies while kernels of another run, so together they do more than one could.
#[test]
fn copies_overlap_with_kernels_of_other_tenants() {
    let (shared, now) = shared(Policy::BestEffort, &[1, 1], 2);
    let mut users: Vec<User> =
        (0..2).map(|tenant| User::new(&shared, tenant, 500_000, 1)).collect();
    pass(&mut users, &now, 200 * MS);
    let alone = 200 * MS / (500_000 + 2 * COPY_NS);
    let [one, other] = [users[0].done, users[1].done];
    assert!(one + other > alone, "{one} + {other} launches, {alone} of one tenant alone");
    assert!(one.abs_diff(other) <= 1, "{one}, {other}");
}

/// Under best effort, slices of a tenant without work go to others. Under equal share it wastes
/// them while it is present.
#[test]
fn slices_of_an_idle_tenant_go_to_others_or_are_wasted() {
    for (policy, expected) in [(Policy::BestEffort, 1_000_000), (Policy::EqualShare, 500_000)] {
        let (shared, now) = shared(policy, &[1, 1], 2);
        let mut users: Vec<User> =
            (0..2).map(|tenant| User::new(&shared, tenant, 300_000, 3)).collect();
        users[1].is_busy = false;
        let share = shares(&shared, &mut users, &now, 200 * MS)[0];
        assert!(share.abs_diff(expected) <= 30_000, "{policy:?}: {share} ppm");
        if policy == Policy::EqualShare {
            users.pop();
            let before = users[0].done;
            pass(&mut users, &now, 200 * MS);
            let done = users[0].done - before;
            assert!(done > 640, "{done} launches after the other left");
        }
    }
}

/// A tenant that asks for its turn and never takes it wastes its own slices only.
#[test]
fn a_tenant_that_does_not_take_its_turn_stops_no_other() {
    let (shared, now) = shared(Policy::BestEffort, &[1, 1], 2);
    let mut users: Vec<User> =
        (0..2).map(|tenant| User::new(&shared, tenant, 500_000, 3)).collect();
    while !users[1].lanes.iter().all(|lane| lane.stream.is_waiting()) {
        pass(&mut users, &now, TICK_NS);
    }
    users[1].looks = false;
    let before = users[0].done;
    pass(&mut users, &now, 200 * MS);
    let done = users[0].done - before;
    assert!(done > 180, "{done} launches in a tenth of a second");
}

/// A launch that never ends holds the device until its stream is given up.
#[test]
fn a_launch_that_hangs_is_lost_and_others_continue() {
    let (shared, now) = shared(Policy::BestEffort, &[1, 1], 2);
    let fate = |number| if number % 3 == 1 { Fate::hangs() } else { Fate::done_after(COPY_NS) };
    let hung = User::of(vec![Lane::new(&shared, 1, fate)]);
    let mut users = [User::new(&shared, 0, 500_000, 3), hung];
    pass(&mut users, &now, 100 * MS);
    assert!(users[0].done < 10, "{}", users[0].done);
    users[1].lanes.clear();
    let before = users[0].done;
    pass(&mut users, &now, 100 * MS);
    let done = users[0].done - before;
    assert!(done > 190, "{done} launches in a tenth of a second");
    assert_eq!(shared.report().evidence.tenants[1].lost, 1);
}

/// Whatever part of a work fails, the whole work comes back, and the next one is done.
#[test]
fn work_that_fails_comes_back_whole() {
    for part in 0..3 {
        let (shared, now) = shared(Policy::BestEffort, &[1], 1);
        let fate = move |number| match number == part {
            true => Fate::fails_after(COPY_NS, Failure::Work("no".into())),
            false => Fate::done_after(COPY_NS),
        };
        let mut lane = Lane::new(&shared, 0, fate);
        for _ in 0..2 {
            let work = lane.work();
            lane.stream.submit(work).expect("taken");
        }
        let mut done = Vec::new();
        for _ in 0..100 {
            lane.fake.advance(TICK_NS);
            now.fetch_add(TICK_NS, Ordering::Relaxed);
            done.extend(std::iter::from_fn(|| lane.stream.poll()));
        }
        let outcomes: Vec<_> = done.iter().map(|done| done.outcome.clone()).collect();
        assert_eq!(outcomes, [Err(Failure::Work("no".into())), Ok(())], "part {part}");
        for done in done {
            let is_call: Vec<bool> = done.work.steps.iter().map(Step::is_call).collect();
            assert_eq!((done.work.pieces.len(), is_call), (1, vec![false, true, false]));
        }
    }
}

#[test]
fn memory_counts_against_the_quota_until_it_is_free() {
    let tenants = vec![
        Tenant { name: "a".into(), slots: 1, memory: Some(1000) },
        Tenant { name: "b".into(), slots: 1, memory: None },
    ];
    let shared = SharedDevice::new("fake".into(), Sharing::default(), tenants).expect("tenants");
    let fake: Arc<dyn Device> = Arc::new(Fake::new(|_| Fate::done_after(1)));
    let [a, b] = [0, 1].map(|tenant| shared.seat(tenant, Arc::clone(&fake)));
    let first = a.allocate(600).expect("600 of 1000");
    let refused = a.allocate_zeroed(600).expect_err("400 are free");
    assert_eq!(refused, Failure::OutOfMemory { wanted: 600, free: Some(400) });
    b.allocate(100_000).expect("no quota");
    let copy = first.clone();
    drop(first);
    a.allocate(600).expect_err("a copy keeps it");
    drop(copy);
    a.allocate(1000).expect("all of it");
    assert_eq!(shared.report().memory_peaks, [1000, 100_000]);
}
