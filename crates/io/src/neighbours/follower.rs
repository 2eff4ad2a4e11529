//! The thread that follows the kernel.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use warpline_netlink::{Changes, Groups, Link, Message, Reach, Requests};

use super::table::{ASK_LEN, NeighbourTable, asked};
use super::view::{Key, LocalAddresses, Mac, NeighbourEntry, Range, Reader, Shared, View};
use crate::rights::{Rights, keep};
use crate::sys::wait_readable;

/// Neighbours that are followed.
const NEIGHBOURS_MAX: usize = 1 << 16;
/// The least time between two views.
const PAUSE: Duration = Duration::from_millis(1);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the kernel's neighbours can't be followed.
#[derive(Debug)]
pub enum NotFollowed {
    /// The process may not resolve neighbours.
    NotPermitted,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for NotFollowed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Follows the neighbours of some interfaces until it is dropped.
pub struct Follower {
    shared: Arc<Shared>,
    asks: UnixDatagram,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Reads the kernel's tables and follows their changes. `interfaces` has the names by port.
    /// `claimed` are addresses whose packets are for the chain, though they may be this machine's.
    ///
    /// # Errors
    /// The process lacks `CAP_NET_ADMIN`, or the system refused.
    pub fn start(
        interfaces: Vec<Option<String>>,
        claimed: Vec<(IpAddr, IpAddr)>,
    ) -> Result<Self, NotFollowed> {
        let mut requests = Requests::open()?;
        if !requests.may_resolve()? {
            return Err(NotFollowed::NotPermitted);
        }
        let changes = Changes::open(Groups::Neighbours)?;
        let (asks, asked) = UnixDatagram::pair()?;
        asks.set_nonblocking(true)?;
        asked.set_nonblocking(true)?;
        let shared = Arc::<Shared>::default();
        let mut state = KernelTables { interfaces, claimed, ..KernelTables::default() };
        state.read_all(&mut requests)?;
        drop(shared.publish(state.view()));
        let ends = Arc::<AtomicBool>::default();
        let work = Work { state, requests, changes, asked, shared: Arc::clone(&shared) };
        let flag = Arc::clone(&ends);
        let thread = thread::Builder::new().name("neighbours".into());
        let thread = Some(thread.spawn(move || work.run(&flag))?);
        Ok(Self { shared, asks, ends, thread })
    }

    /// The neighbours, for a sender.
    ///
    /// # Errors
    /// The system refused.
    pub fn table(&self) -> io::Result<NeighbourTable> {
        Ok(NeighbourTable::new(&self.shared, self.asks.try_clone()?))
    }

    /// Addresses of this machine whose packets are for the chain. The kernel gets them, too.
    pub fn shared_addresses(&self) -> Vec<IpAddr> {
        let View { machine, local, .. } = &*Reader::new(&self.shared).view;
        machine.iter().filter(|address| !local.contains(address)).copied().collect()
    }

    /// This machine's addresses, for a source.
    pub fn local(&self) -> LocalAddresses {
        LocalAddresses::new(&self.shared)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes it; if there is no room it is awake.
        let _ = self.asks.send(&[]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    state: KernelTables,
    requests: Requests,
    changes: Changes,
    asked: UnixDatagram,
    shared: Arc<Shared>,
}

impl Work {
    fn run(mut self, ends: &AtomicBool) {
        // A refusal leaves it with more than it needs.
        let _ = keep(Rights::ResolveNeighbours);
        let descriptors = [self.changes.descriptor(), self.asked.as_raw_fd()];
        // Views that readers still have: this thread frees them.
        let mut old = Vec::new();
        let mut needs_all = false;
        while !ends.load(Ordering::Acquire) {
            wait_readable(&descriptors, LOOK_EVERY);
            let state = &mut self.state;
            let answered = self.changes.receive(&mut |message| state.take(message));
            needs_all |= answered.unwrap_or(true);
            // Its neighbours were set under another name.
            needs_all |= core::mem::take(&mut state.has_new_port);
            // If that fails it is tried again in the next round.
            needs_all = needs_all && state.read_all(&mut self.requests).is_err();
            let mut message = [0; ASK_LEN];
            while let Ok(ASK_LEN) = self.asked.recv(&mut message) {
                if let Some(key) = asked(&message) {
                    state.resolve(&mut self.requests, key);
                }
            }
            if let Some(claimed) = self.shared.take_claimed() {
                (state.claimed, state.has_changed) = (claimed, true);
            }
            if core::mem::take(&mut state.has_changed) {
                old.push(self.shared.publish(state.view()));
                old.retain(|view| Arc::strong_count(view) > 1);
                thread::sleep(PAUSE);
            }
        }
    }
}

/// The kernel's tables.
#[derive(Default)]
struct KernelTables {
    /// By port, its interface's name.
    interfaces: Vec<Option<String>>,
    /// Ranges of the chain's own addresses.
    claimed: Vec<Range>,
    /// By interface, its port and Ethernet address.
    ports: HashMap<i32, (u16, Option<Mac>)>,
    addresses: HashSet<(i32, IpAddr)>,
    /// By neighbour, how it is reached and the number of its last failure.
    neighbours: HashMap<Key, (Reach, u64)>,
    failures: u64,
    has_changed: bool,
    /// Whether an interface became a port's.
    has_new_port: bool,
}

impl KernelTables {
    /// Reads all tables anew.
    fn read_all(&mut self, requests: &mut Requests) -> io::Result<()> {
        let (links, addresses) = (requests.links()?, requests.addresses()?);
        let neighbours = requests.neighbours()?;
        self.ports.clear();
        self.addresses.clear();
        self.neighbours.clear();
        links.into_iter().map(Message::Link).for_each(|message| self.take(message));
        addresses.into_iter().map(Message::Address).for_each(|message| self.take(message));
        neighbours.into_iter().map(Message::Neighbour).for_each(|message| self.take(message));
        (self.has_changed, self.has_new_port) = (true, false);
        Ok(())
    }

    fn take(&mut self, message: Message) {
        self.has_changed |= match message {
            Message::Link(link) => self.take_link(&link),
            Message::Address(address) => {
                let key = (address.index, address.address);
                if address.is_gone {
                    self.addresses.remove(&key)
                } else {
                    self.addresses.insert(key)
                }
            }
            Message::Neighbour(neighbour) => {
                let port = self.ports.get(&neighbour.index).map(|(port, _)| *port);
                port.is_some_and(|port| {
                    self.take_neighbour((port, neighbour.address), neighbour.reach)
                })
            }
            _ => false,
        };
    }

    fn take_link(&mut self, link: &Link) -> bool {
        let own = |name: &Option<String>| name.as_deref() == Some(link.name.as_str());
        let port = self.interfaces.iter().position(own);
        let Some(port) = port.filter(|_| !link.is_gone) else {
            return match self.ports.remove(&link.index) {
                Some((port, _)) => {
                    self.neighbours.retain(|key, _| key.0 != port);
                    true
                }
                None => false,
            };
        };
        let now = (port as u16, link.mac);
        let before = self.ports.insert(link.index, now);
        self.has_new_port |= before.is_none_or(|(before, _)| before != now.0);
        before != Some(now)
    }

    fn take_neighbour(&mut self, key: Key, reach: Reach) -> bool {
        let is_new = !self.neighbours.contains_key(&key);
        if reach == Reach::Unknown {
            return self.neighbours.remove(&key).is_some();
        }
        if is_new && self.neighbours.len() >= NEIGHBOURS_MAX {
            self.neighbours.retain(|_, (reach, _)| *reach != Reach::Failed);
            if self.neighbours.len() >= NEIGHBOURS_MAX {
                return false;
            }
        }
        self.failures += u64::from(reach == Reach::Failed);
        let before = self.neighbours.insert(key, (reach, self.failures));
        reach == Reach::Failed || before.is_none_or(|(before, _)| before != reach)
    }

    /// Makes the kernel ask for a neighbour or confirm it. A request would end an entry that the
    /// operator made.
    fn resolve(&mut self, requests: &mut Requests, key: Key) {
        if matches!(self.neighbours.get(&key), Some((Reach::Known(_), _))) {
            return;
        }
        let index = self.ports.iter().find(|(_, own)| own.0 == key.0).map(|(index, _)| *index);
        let Some(index) = index else { return };
        // If it fails, the packets that wait are lost as those of a neighbour that is silent.
        let asked = requests.resolve(index, key.1);
        if asked.is_ok()
            && let Some((reach, _)) = self.neighbours.get_mut(&key)
            && let Reach::Stale(mac) = *reach
        {
            *reach = Reach::Known(mac);
        }
    }

    fn view(&self) -> View {
        let mut view = View { own: vec![None; self.interfaces.len()], ..View::default() };
        for (port, mac) in self.ports.values() {
            view.own[usize::from(*port)] = *mac;
        }
        for (key, (reach, failure)) in &self.neighbours {
            match *reach {
                Reach::Known(mac) => view.insert(*key, mac, false),
                Reach::Stale(mac) => view.insert(*key, mac, true),
                Reach::Failed => drop(view.failed.insert(*key, *failure)),
                Reach::Unknown => {}
            }
        }
        let is_free = |address: &IpAddr| {
            !self.claimed.iter().any(|(first, last)| first <= address && address <= last)
        };
        view.machine = self.addresses.iter().map(|(_, address)| *address).collect();
        view.machine.sort_unstable();
        view.machine.dedup();
        view.local = view.machine.iter().copied().filter(is_free).collect();
        view
    }
}

impl View {
    fn insert(&mut self, key: Key, mac: Mac, is_stale: bool) {
        self.known.insert(key, NeighbourEntry { mac, is_stale: is_stale.into() });
    }
}
