//! Instances in one process, linked over the loopback interface.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use warpline_io::NullSink;
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_sched::SignalRefusal;

use super::*;
use crate::{Chain, Deployment, Ports, PressureOptions, Report, Settings, run};

const PATIENCE: Duration = Duration::from_secs(20);

fn free_address() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("its address")
}

fn peers(side: PeerSide, address: SocketAddr, key: u8) -> Peers {
    let key = Arc::new(PeerKey::new(&[key; PeerKey::LEN_MIN]));
    let link = PeerLink { name: "chain".into(), side, address, key, port: Some(3) };
    Peers::open(&[link]).unwrap_or_else(|(_, why)| panic!("{why}"))
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends instances, after a failed assertion too: their threads would wait for each other.
struct Ends<'a, const N: usize>([&'a Control; N]);

impl<const N: usize> Drop for Ends<'_, N> {
    fn drop(&mut self) {
        self.0.into_iter().for_each(Control::end);
    }
}

#[test]
fn a_full_instance_pauses_the_one_upstream() {
    let [upstream, downstream, stranger] = [(); 3].map(|()| Control::default());
    let address = free_address();
    let listening = peers(PeerSide::Downstream, address, 1);
    thread::scope(|scope| {
        let _ends = Ends([&upstream, &downstream, &stranger]);
        let serve = |peers: Peers, control| scope.spawn(move || peers.serve(control));
        serve(listening, &upstream);
        let sender = serve(peers(PeerSide::Upstream, address, 1), &downstream);
        for _ in 0..3 {
            downstream.peers.set_full(true, 0);
            soon("a pause", || upstream.peers.held() == 1);
            downstream.peers.set_full(false, 0);
            soon("a resume", || upstream.peers.held() == 0);
        }
        // All frames of its port were read, while other ports have some.
        downstream.peers.set_full(true, 1 << 2);
        soon("a pause", || upstream.peers.held() == 1);
        downstream.peers.set_full(true, 1 << 3);
        soon("a resume", || upstream.peers.held() == 0);
        serve(peers(PeerSide::Upstream, address, 2), &stranger);
        stranger.peers.set_full(true, 0);
        let report = || upstream.peers().remove(0);
        let forged = SignalRefusal::Forged as usize;
        soon("a forged signal", || report().counts.refused[forged] > 3);
        assert_eq!((upstream.peers.held(), stranger.peers().remove(0).counts.received), (0, 0));
        soon("a warning of the stranger", || reports(&stranger, "answers no signal"));
        assert_eq!(upstream.take_messages(), [""; 0], "its link works");
        // An instance that ends resumes the other, long before the lease ends.
        downstream.peers.set_full(true, 0);
        soon("a pause", || upstream.peers.held() == 1);
        downstream.end();
        sender.join().expect("it ends");
        soon("a resume", || upstream.peers.held() == 0);
        let counts = report().counts;
        // A busy machine may let a lease end.
        assert!(counts.expired > 0 || counts.pauses == 5, "{counts:?}");
    });
}

fn reports(control: &Control, what: &str) -> bool {
    control.take_messages().iter().any(|message| message.contains(what))
}

#[test]
fn a_link_whose_ends_have_two_keys_is_reported() {
    let controls = [Control::default(), Control::default()];
    let address = free_address();
    let ends = [(PeerSide::Downstream, 1), (PeerSide::Upstream, 2)];
    let ends = ends.map(|(side, key)| peers(side, address, key));
    thread::scope(|scope| {
        let _ends = Ends([&controls[0], &controls[1]]);
        for (end, control) in ends.into_iter().zip(&controls) {
            scope.spawn(move || end.serve(control));
        }
        soon("a warning", || reports(&controls[0], "a wrong key"));
    });
}

/// Both ends of a link that carries packets in both directions are full.
#[test]
fn instances_that_pause_each_other_are_not_stuck() {
    let addresses = [free_address(), free_address()];
    let controls = [Control::default(), Control::default()];
    let both = |[listen, upstream]: [SocketAddr; 2]| {
        let key = Arc::new(PeerKey::new(&[1; PeerKey::LEN_MIN]));
        let link = |side, address| PeerLink {
            name: "link".into(),
            side,
            address,
            key: Arc::clone(&key),
            port: Some(1),
        };
        let links = [link(PeerSide::Downstream, listen), link(PeerSide::Upstream, upstream)];
        Peers::open(&links).unwrap_or_else(|(_, why)| panic!("{why}"))
    };
    let [one, other] = [both(addresses), both([addresses[1], addresses[0]])];
    let mut steady = 0;
    thread::scope(|scope| {
        let _ends = Ends([&controls[0], &controls[1]]);
        scope.spawn(|| one.serve(&controls[0]));
        scope.spawn(|| other.serve(&controls[1]));
        controls.iter().for_each(|control| control.peers.set_full(true, 0));
        let held = || controls.iter().filter(|one| one.peers.held() == 1).count();
        soon("a pause of one", || held() == 1);
        thread::sleep(Duration::from_millis(20));
        let looks = (0..100).map(|_| {
            thread::sleep(Duration::from_millis(1));
            held()
        });
        steady = looks.filter(|held| *held == 1).count();
        // The one that may send has read all.
        let free = |control: &&Control| control.peers.held() == 0;
        soon("no pause", || {
            controls.iter().filter(free).for_each(|control| control.peers.set_full(false, 0));
            held() == 0
        });
    });
    assert!(steady > 80, "one gives way, and stays so: {steady} of 100 looks");
}

const PACKETS: u64 = 100_000;

/// Ends a chain after a failed assertion.
struct AbortAtDrop<'a>(&'a Control);

impl Drop for AbortAtDrop<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort();
        }
    }
}

/// Runs a chain that an instance downstream pauses from the start on, and does `work` meanwhile.
fn run_paused(work: impl FnOnce(&Control)) -> Report {
    let chain = Chain::new("none", Vec::new(), 0).expect("a chain");
    let deployment = Deployment::new(Arc::new(chain), Vec::new());
    let pressure = PressureOptions { downstream: 2, ..PressureOptions::default() };
    let settings = Settings { lanes: 2, pressure, ..Settings::default() };
    let config = GeneratorConfig::parse(&format!("generate:packets={PACKETS},size=64"));
    let source = Box::new(Generator::new(config.expect("settings")));
    let control = Control::default();
    control.peers.held.store(0b10, Relaxed);
    thread::scope(|scope| {
        let _aborts = AbortAtDrop(&control);
        let ports = Ports::Shared(source, Box::new(NullSink));
        let chain = scope.spawn(|| run(&deployment, &settings, ports, &control).expect("it runs"));
        soon("packets wait", || control.read() > 0 && control.peers.is_full());
        thread::sleep(Duration::from_millis(50));
        assert_eq!(control.ended(), 0, "no packet leaves");
        work(&control);
        chain.join().expect("it ends")
    })
}

#[test]
fn a_paused_chain_loses_nothing() {
    let report = run_paused(|control| control.peers.held.store(0, Relaxed));
    let packets = &report.part.packets;
    assert_eq!((packets.absorbed, packets.overload), (PACKETS, 0));
    let evidence = report.part.pressure.expect("evidence");
    let held: Vec<bool> = evidence.edges.iter().map(|edge| edge.held_ns > 0).collect();
    assert_eq!(held, [true, false, true]);
}

#[test]
fn a_paused_chain_stops_when_it_is_asked_to() {
    let report = run_paused(Control::stop);
    let packets = &report.part.packets;
    assert!((1..PACKETS).contains(&packets.absorbed) && packets.balanced(), "{packets:?}");
}
