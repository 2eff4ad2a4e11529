//! I6: once warm, no thread of a run allocates, whatever the packets and functions.
//!
//! A counting allocator counts by kind of thread: the test's source, function and sink set the kind
//! of theirs. It counts while the source gives the packets after the warm-up.

#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::forms::{FORMS, NARROW};
use common::frames::{Input, Traffic};
use common::real::{deploy_forms, forms, monitor_to_files, traffic, try_deploy_on};
use common::rounds::{Rounds, behind, is_warm};
use common::run::in_time;
use common::talk::Talk;
use common::{all_four, deploy};
use warpline_engine::{
    Control, Deployment, LaunchOptions, OnDevice, Ports, Report, Settings, Streams, run,
};
use warpline_io::{Frame, Sink, SinkError};
use warpline_nf::Function;
use warpline_packet::{Access, Batch, ReadWrite};

/// The kind of a thread, if its code has set it.
#[derive(Clone, Copy, Debug)]
enum Role {
    Unknown,
    Reader,
    Lane,
    Sender,
}

static ALLOCATIONS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static BATCHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Unknown) };
}

struct Counting;

#[global_allocator]
static COUNTING_ALLOCATOR: Counting = Counting;

fn count() {
    // The first thread of the test program says after a minute that it still runs.
    if is_warm() && !is_first_thread() {
        let role = ROLE.try_with(Cell::get).unwrap_or(Role::Unknown);
        ALLOCATIONS[role as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn is_first_thread() -> bool {
    // SAFETY: both only return a number.
    unsafe { libc::gettid() == libc::getpid() }
}

// SAFETY: everything is the system allocator's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

struct Counted;

impl Sink for Counted {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        ROLE.set(Role::Sender);
        if frame.bytes.len() % 97 == 3 {
            return Err(SinkError::Unsuitable("a length like this"));
        }
        Ok(())
    }
}

/// Says that its thread is a lane's.
struct Lane(Access);

impl Function for Lane {
    fn access(&self) -> &Access {
        &self.0
    }
    fn run(&self, _: &mut Batch) {
        ROLE.set(Role::Lane);
        BATCHES.fetch_add(u64::from(is_warm()), Ordering::Relaxed);
    }
}

/// Runs `chain` over `inputs` six times, and returns how often each kind of thread allocated when
/// warm.
fn allocations(
    deployment: Deployment,
    settings: Settings,
    inputs: &[Input],
) -> (Report, [(Role, u64); 4]) {
    let source = Rounds::new(inputs, 6, || ROLE.set(Role::Reader));
    let ports = Ports::Shared(Box::new(source), Box::new(Counted));
    let deployment = behind(Lane(Access::run_only(ReadWrite::NONE)), deployment);
    let report =
        in_time(move || run(&deployment, &settings, ports, &Control::default()).expect("a run"));
    assert!(report.part.packets.balanced());
    assert!(BATCHES.swap(0, Ordering::Relaxed) > 50, "lanes worked while it counted");
    let counts = [Role::Unknown, Role::Reader, Role::Lane, Role::Sender]
        .map(|role| (role, ALLOCATIONS[role as usize].swap(0, Ordering::Relaxed)));
    (report, counts)
}

fn all_are_zero(counts: &[(Role, u64); 4]) -> bool {
    counts.iter().all(|&(_, count)| count == 0)
}

/// One test for all: what is counted is counted by the program, not by the test.
#[test]
fn no_thread_allocates_once_it_is_warm() {
    let inputs = Traffic::new(53, 200, 10, 1400).take(10_000);
    let lavish = Settings { lanes: 2, ..Settings::default() };
    let tiny =
        Settings { lanes: 2, batch_packets: 64, queue_batches: 1, slabs: 2, ..Settings::default() };
    for settings in [lavish, tiny] {
        let (report, counts) = allocations(deploy(&all_four(3)), settings, &inputs);
        assert!(report.part.packets.generated > 1000, "it is a chain that makes packets");
        assert!(all_are_zero(&counts), "{settings:?}: {counts:?}");
    }
    let mut failed = Vec::new();
    // Both swallow what is written.
    let [ipfix, csv] = ["/dev/null", "/dev/zero"].map(Path::new);
    for form in FORMS.iter().chain(NARROW).chain(&[monitor_to_files(ipfix, csv)]) {
        let form = std::slice::from_ref(form);
        let inputs = traffic(form, Talk::new(59, 60, 1400).take(2000), 61, 10);
        let (_, counts) = allocations(deploy_forms(form), tiny, &inputs);
        if !all_are_zero(&counts) {
            failed.push((form[0].name, counts));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    allocations_on_a_device();
}

/// Work for a device allocates for each launch, by its number of kernels, never for a packet.
fn allocations_on_a_device() {
    let Ok(host) = warpline_device::open("host") else { return };
    let forms = forms(&["digest-count"]);
    let on = |_| {
        // Few packets are on their way, so that all is warm when it counts.
        let launches = LaunchOptions {
            bytes: 4 << 10,
            streams: Streams::Count(2),
            ..LaunchOptions::default()
        };
        let device = Arc::clone(&host);
        Some(OnDevice { device, launches, is_required: true })
    };
    let deployment = try_deploy_on(&forms, &[], on).expect("a chain");
    let inputs = traffic(&forms, Talk::new(59, 60, 1400).take(2000), 61, 10);
    let settings =
        Settings { lanes: 2, batch_packets: 64, queue_batches: 1, slabs: 2, ..Settings::default() };
    let (report, counts) = allocations(deployment, settings, &inputs);
    let (packets, launches) = (report.part.packets.read, report.part.transfers.launches);
    let [_, (_, reader), (_, lane), (_, sender)] = counts;
    assert_eq!((reader, sender), (0, 0));
    assert!(lane <= 8 * launches, "{lane} in {launches} launches of {packets} packets");
}
