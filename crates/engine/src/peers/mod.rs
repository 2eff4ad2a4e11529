//! Pauses between this instance and those that its ports are linked to
//! ([`warpline_sched::PauseSender`]).
//!
//! A thread of its own owns the sockets. Ingress rings it when the chain fills or empties, and
//! lanes read which instances downstream pause them, so neither of them makes a system call for a
//! packet. The queue between two instances is that of the interface: a chain that cannot take a
//! frame pauses the instances upstream. One that is linked to a port is paused until all frames of
//! that port were read, so it does not starve beside a port that is never empty.

mod key;
mod link;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpline_io::wait_readable;
use warpline_sched::SignalCounts;

use warpline_launch::Clock;

use self::link::Link;
use crate::Control;

pub use self::key::PeerKey;

/// The place of an instance that is linked to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSide {
    /// It sends packets to this one, which pauses it.
    Upstream,
    /// It gets packets of this one, and pauses it.
    Downstream,
}

impl PeerSide {
    /// As statistics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Downstream => "downstream",
        }
    }
}

/// An instance that is linked to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLink {
    /// The port that it is linked to, or the chain.
    pub name: String,
    /// Where it is.
    pub side: PeerSide,
    /// The address that signals are sent to, or received at.
    pub address: SocketAddr,
    /// Authenticates signals.
    pub key: Arc<PeerKey>,
    /// The port that it is linked to, by its number.
    pub port: Option<u16>,
}

/// The signals of a link so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The port that the peer is linked to, or the chain.
    pub name: String,
    /// Where it is.
    pub side: PeerSide,
    /// The address that signals are sent to, or received at.
    pub address: SocketAddr,
    /// Whether it is paused, or pauses this instance.
    pub is_paused: bool,
    /// Its signals.
    pub counts: SignalCounts,
}

/// Most instances downstream of a chain.
pub const DOWNSTREAM_MAX: usize = 32;

/// The longest wait for signals, after which an operator's pause is seen.
const WAIT_MAX: Duration = Duration::from_millis(25);

/// The links of a chain, with open sockets.
#[derive(Default)]
pub struct Peers {
    links: Vec<Link>,
}

impl Peers {
    /// Opens the sockets of these links.
    ///
    /// # Errors
    /// The link that cannot be opened, and why.
    pub fn open(links: &[PeerLink]) -> Result<Self, (&PeerLink, io::Error)> {
        let open = |link| Link::open(link).map_err(|why| (link, why));
        Ok(Self { links: links.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Whether there is no link.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Exchanges signals for the chain of `control` until that has ended.
    pub fn serve(mut self, control: &Control) {
        let Ok(bell) = control.peers.bell() else { return };
        let clock = Clock::start();
        self.links.iter_mut().for_each(|link| link.start(clock.now()));
        let sockets = self.links.iter().map(Link::descriptor);
        let descriptors: Vec<RawFd> = sockets.chain([bell.as_raw_fd()]).collect();
        while !control.has_ended() {
            let now = clock.now();
            let is_full = control.peers.is_full() || control.is_paused();
            // An operator pauses all instances.
            let emptied = if control.is_paused() { 0 } else { control.peers.emptied() };
            let may_give_way = !control.is_paused();
            self.advance(is_full && !control.is_stopped(), (emptied, may_give_way), now);
            control.peers.publish(&self.links, now);
            let next = self.links.iter().map(Link::next_ns).min().unwrap_or(u64::MAX);
            let wait = Duration::from_nanos(next.saturating_sub(clock.now()));
            wait_readable(&descriptors, wait.min(WAIT_MAX));
            // Read before the state that it announces.
            let _ = (&bell).read(&mut [0; 64]);
            for link in &mut self.links {
                link.receive(clock.now());
                link.take_warning(clock.now()).into_iter().for_each(|why| control.report(why));
            }
        }
        // The last signal ends pauses, so that no instance waits for the end of a lease.
        self.advance(false, (0, true), clock.now());
        control.peers.publish(&self.links, clock.now());
    }

    /// `emptied` has a bit for each port whose frames were all read.
    fn advance(&mut self, is_full: bool, (emptied, may_give_way): (u64, bool), now: u64) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let is_emptied = link.port().is_some_and(|port| {
                emptied.checked_shr(port.into()).is_some_and(|bits| bits & 1 == 1)
            });
            let gives_way = may_give_way && self.links.iter().any(|held| link.gives_way(held));
            self.links[at].advance(is_full && !is_emptied && !gives_way, now);
        }
    }
}

/// The state that lanes and ingress share with the thread of signals.
#[derive(Default)]
pub(crate) struct PeerState {
    /// Whether ingress found no room and has not read all since.
    is_full: AtomicBool,
    /// Meanwhile, by port, a bit if all its frames were read.
    emptied: AtomicU64,
    /// By link downstream, a bit if it pauses this instance.
    held: AtomicU64,
    /// Wakes the thread.
    bell: OnceLock<UnixStream>,
    reports: Mutex<Vec<PeerReport>>,
}

impl PeerState {
    /// Ingress finds no room, or nothing more to read. Ports of `emptied`, a bit each, have nothing
    /// more while others have. Call it for changes only.
    pub(crate) fn set_full(&self, is_full: bool, emptied: u64) {
        self.emptied.store(emptied, Ordering::Release);
        self.is_full.store(is_full, Ordering::Release);
        if let Some(mut bell) = self.bell.get() {
            // A full pipe wakes the thread just as well.
            let _ = bell.write(&[0]);
        }
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    fn emptied(&self) -> u64 {
        self.emptied.load(Ordering::Acquire)
    }

    /// Whether there are links.
    pub(crate) fn is_linked(&self) -> bool {
        self.bell.get().is_some()
    }

    /// By link downstream, a bit if it pauses this instance.
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The links so far.
    pub(crate) fn reports(&self) -> Vec<PeerReport> {
        self.lock().clone()
    }

    /// The end that the thread waits at.
    fn bell(&self) -> io::Result<UnixStream> {
        let (own, other) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let _ = self.bell.set(other);
        Ok(own)
    }

    fn publish(&self, links: &[Link], now: u64) {
        let downstream = links.iter().filter_map(Link::holds);
        let bits = downstream.enumerate().map(|(bit, holds)| u64::from(holds) << bit);
        self.held.store(bits.fold(0, |all, bit| all | bit), Ordering::Relaxed);
        let mut reports = self.lock();
        reports.clear();
        reports.extend(links.iter().map(|link| link.report(now)));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PeerReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
