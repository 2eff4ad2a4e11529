//! I6: once warm, no thread of a lane makes a system call, for any packets and functions. So it
//! never waits for a lock either.
//!
//! A lane's thread puts itself under a filter (seccomp) that reports every call to a watcher on
//! another thread before the call is done. The watcher counts while the source gives the packets
//! after the warm-up, and lets the call continue. Calls of a lane that finds no work are not
//! reported: [`ALLOWED`].
//!
//! A lock that a thread has to wait for, or that another waits for when it is released, is a call
//! (`futex`). This test can't show a lock that is free whenever it is taken. Nor does it cover
//! stages on devices, whose drivers make calls for each launch.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod common;

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::forms::{FORMS, NARROW};
use common::frames::{Input, Traffic};
use common::real::{deploy_forms, monitor_to_files, traffic};
use common::rounds::{Rounds, behind, is_warm};
use common::run::in_time;
use common::talk::Talk;
use common::{all_four, deploy};
use warpline_engine::{Control, Deployment, Ports, Settings, run};
use warpline_io::{Frame, Sink, SinkError};
use warpline_nf::Function;
use warpline_packet::{Access, Batch, ReadWrite};

/// Calls of a thread without work (`idle.rs`): it yields, and sleeps. And the clock: reading it
/// makes a call only where the processor's can't be read.
const ALLOWED: [libc::c_long; 4] = [
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
];

/// Calls by number.
static CALLS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// Batches that lanes worked on while calls were counted.
static BATCHES: AtomicU64 = AtomicU64::new(0);
/// File descriptors that report the calls of lanes' threads, until the watcher has taken them. No
/// lock: releasing one may be a call, which the watcher could not receive while it waits for the
/// lock.
static TELLERS: [AtomicI32; 16] = [const { AtomicI32::new(NONE) }; 16];
const NONE: libc::c_int = -1;
/// For a lane to wait for.
static LOCK: Mutex<()> = Mutex::new(());

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Reports every call of this thread from here on, except those of `ALLOWED`. Returns the file
/// descriptor that reports them.
fn report_calls() -> io::Result<libc::c_int> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (at, number) in ALLOWED.iter().enumerate() {
        let jt = (ALLOWED.len() - at) as u8;
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        filter.push(libc::sock_filter { code, jt, jf: 0, k: *number as u32 });
    }
    let gives = libc::BPF_RET | libc::BPF_K;
    filter.push(statement(gives, libc::SECCOMP_RET_USER_NOTIF));
    filter.push(statement(gives, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: changes this thread alone, which from then on can't gain rights by executing a
    // program.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the program and its filter live during the call, which copies them.
    let teller = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if teller < 0 { Err(io::Error::last_os_error()) } else { Ok(teller as libc::c_int) }
}

/// Puts this thread under the watcher.
fn be_watched() -> io::Result<()> {
    let teller = report_calls()?;
    let is_taken = |slot: &AtomicI32| {
        slot.compare_exchange(NONE, teller, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    assert!(TELLERS.iter().any(is_taken), "fewer lanes than places");
    Ok(())
}

/// Does `work` while a watcher runs, and then ends the watcher.
fn watching<T>(work: impl FnOnce() -> T) -> T {
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&is_over);
    let watcher = std::thread::spawn(move || watch(&watched));
    let done = work();
    is_over.store(true, Ordering::Relaxed);
    watcher.join().expect("a watcher that ends");
    done
}

/// Watches lanes' threads, and lets every call continue, until `is_over` and the last of them has
/// ended.
fn watch(is_over: &AtomicBool) {
    let mut watched = Vec::new();
    while !watched.is_empty() || !is_over.load(Ordering::Relaxed) {
        let new = TELLERS.iter().map(|teller| teller.swap(NONE, Ordering::Relaxed));
        let new = new.filter(|&teller| teller != NONE);
        watched.extend(new.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }));
        // SAFETY: the entries live during the call. It looks for new ones after a millisecond.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, 1) };
        for teller in watched.iter().filter(|teller| teller.revents & libc::POLLIN != 0) {
            let_go_on(teller.fd);
        }
        watched.retain(|teller| teller.revents & libc::POLLHUP == 0 || !close(teller.fd));
    }
}

/// Closes the file descriptor of a thread that has ended.
fn close(teller: libc::c_int) -> bool {
    // SAFETY: no other code has the file descriptor.
    unsafe { libc::close(teller) == 0 }
}

/// Counts the call that `teller` reports, and lets it continue.
fn let_go_on(teller: libc::c_int) {
    // SAFETY: both are plain integers, for which zeroes are a value.
    let (mut call, mut answer): (libc::seccomp_notif, libc::seccomp_notif_resp) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the kernel writes one such struct.
    if unsafe { libc::ioctl(teller, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } != 0 {
        return;
    }
    if is_warm() {
        CALLS[call.data.nr as usize % CALLS.len()].fetch_add(1, Ordering::Relaxed);
    }
    (answer.id, answer.flags) = (call.id, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    // SAFETY: the kernel reads one such struct. If the thread has ended, no call is left to
    // continue.
    unsafe { libc::ioctl(teller, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}

/// Puts its thread under the watcher from the first batch on. Once warm, it calls `act` with every
/// batch.
struct Watched {
    access: Access,
    act: fn(),
}

impl Watched {
    fn new(act: fn()) -> Self {
        Self { access: Access::run_only(ReadWrite::NONE), act }
    }
}

impl Function for Watched {
    fn access(&self) -> &Access {
        &self.access
    }
    fn run(&self, _: &mut Batch) {
        if !IS_WATCHED.replace(true) {
            be_watched().expect("what was allowed before");
        }
        if is_warm() {
            BATCHES.fetch_add(1, Ordering::Relaxed);
            (self.act)();
        }
    }
}

struct Swallow;

impl Sink for Swallow {
    fn send(&mut self, _: &Frame<'_>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Calls by number, where there were any, of the threads of lanes in a run of `chain` over
/// `inputs`, six times. `act` is done with every batch.
fn calls(
    deployment: Deployment,
    settings: Settings,
    inputs: &[Input],
    act: fn(),
) -> Vec<(usize, u64)> {
    let source = Box::new(Rounds::new(inputs, 6, || ()));
    let ports = match settings.lanes {
        1 => Ports::PerLane(vec![(source, Box::new(Swallow))]),
        _ => Ports::Shared(source, Box::new(Swallow)),
    };
    let deployment = behind(Watched::new(act), deployment);
    let work = move || run(&deployment, &settings, ports, &Control::default()).expect("a run");
    let report = watching(|| in_time(work));
    assert!(report.part.packets.balanced());
    assert!(BATCHES.swap(0, Ordering::Relaxed) > 50, "lanes worked while it counted");
    let counts = CALLS.iter().map(|calls| calls.swap(0, Ordering::Relaxed)).enumerate();
    counts.filter(|&(_, count)| count > 0).collect()
}

fn count_of(calls: &[(usize, u64)], number: libc::c_long) -> u64 {
    calls.iter().find(|&&(own, _)| own == number as usize).map_or(0, |&(_, count)| count)
}

/// Whether threads can be watched here, or why not.
fn try_to_watch() -> io::Result<()> {
    watching(|| std::thread::spawn(be_watched).join().expect("a thread that ends"))
}

/// One test for all: what is counted is counted by the program, not by the test.
#[test]
fn no_lane_asks_the_system_once_it_is_warm() {
    if let Err(why) = try_to_watch() {
        eprintln!(
            "left out: this system lets no thread watch the calls of another (seccomp): {why}"
        );
        return;
    }
    a_call_and_a_lock_would_be_seen();
    let inputs = Traffic::new(53, 200, 10, 1400).take(10_000);
    let lavish = Settings { lanes: 2, ..Settings::default() };
    let tiny =
        Settings { lanes: 2, batch_packets: 64, queue_batches: 1, slabs: 2, ..Settings::default() };
    // Alone, its thread reads and sends, too.
    let alone = Settings { lanes: 1, ..tiny };
    let nothing: fn() = || ();
    for settings in [lavish, tiny, alone] {
        let calls = calls(deploy(&all_four(3)), settings, &inputs, nothing);
        assert_eq!(calls, [], "(number, how often) with {settings:?}");
    }
    let mut failed = Vec::new();
    // Both swallow what is written.
    let [ipfix, csv] = ["/dev/null", "/dev/zero"].map(Path::new);
    for form in FORMS.iter().chain(NARROW).chain(&[monitor_to_files(ipfix, csv)]) {
        let form = std::slice::from_ref(form);
        let inputs = traffic(form, Talk::new(59, 60, 1400).take(2000), 61, 10);
        let calls = calls(deploy_forms(form), tiny, &inputs, nothing);
        if !calls.is_empty() {
            failed.push((form[0].name, calls));
        }
    }
    assert!(failed.is_empty(), "(number, how often): {failed:?}");
}

/// Shows that the watcher counts a call and a lock. Without this, the other tests prove nothing.
fn a_call_and_a_lock_would_be_seen() {
    let inputs = Traffic::new(53, 200, 10, 1400).take(5_000);
    let settings = Settings { lanes: 2, batch_packets: 64, ..Settings::default() };
    let asks: fn() = || drop(std::fs::metadata("/"));
    assert!(!calls(deploy(&all_four(3)), settings, &inputs, asks).is_empty());
    let locks: fn() = || drop(LOCK.lock());
    let is_over = Arc::new(AtomicBool::new(false));
    let others = Arc::clone(&is_over);
    let other = std::thread::spawn(move || {
        while !others.load(Ordering::Relaxed) {
            let kept = LOCK.lock();
            std::thread::sleep(Duration::from_millis(1));
            drop(kept);
        }
    });
    let calls = calls(deploy(&all_four(3)), settings, &inputs, locks);
    is_over.store(true, Ordering::Relaxed);
    other.join().expect("a thread that ends");
    assert!(count_of(&calls, libc::SYS_futex) > 0, "{calls:?}");
}
