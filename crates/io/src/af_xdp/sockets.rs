//! The sockets of an interface, shared by its source and its sink.

use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant as Clock;

use super::{AfXdpConfig, Mode};
use crate::interface::{HEADERS_LEN, NotOpened, ethernet};
use crate::neighbours::LocalAddresses;
use crate::sys::{
    Attached, Binding, Link, PacketSocket, XDP_FRAME_MAX, XdpProgram, XdpReceiver, XdpSender,
    XdpSocket,
};

/// Queues of an interface that one chain reads.
const QUEUES_MAX: u32 = 16;
/// How long the system may take to free a queue after its last socket was closed.
const BIND_WITHIN: Duration = Duration::from_secs(2);
const BIND_EVERY: Duration = Duration::from_millis(20);

/// All interfaces that are open, so that the second of source and sink finds the sockets of the
/// first one.
static OPEN: Mutex<Vec<Weak<Sockets>>> = Mutex::new(Vec::new());

/// The sockets of an interface.
pub(super) struct Sockets {
    config: AfXdpConfig,
    /// Counts each time that the sockets were opened anew.
    generation: AtomicU64,
    halves: Mutex<Halves>,
    /// The sending half of the first queue. It stays here, so that the queue is free as soon as the
    /// sockets are opened anew.
    sender: Mutex<Option<XdpSender>>,
    has_sink: AtomicBool,
}

/// The program of a port that forwards by routes, and what it knows.
struct ForwardingProgram {
    program: XdpProgram,
    own: Option<[u8; 6]>,
    /// Sorted.
    local: Vec<IpAddr>,
}

/// All but the sending half.
#[derive(Default)]
struct Halves {
    /// The number of the interface; 0 if it has to be looked for.
    index: u32,
    /// Whether frames are read. Without that there is no program.
    is_read: bool,
    /// Those that were not taken yet.
    receivers: Vec<XdpReceiver>,
    attached: Option<Attached>,
    /// In a port that forwards by routes, the addresses whose packets are the kernel's.
    local: Option<LocalAddresses>,
    program: Option<ForwardingProgram>,
    /// Makes the interface promiscuous.
    membership: Option<PacketSocket>,
}

impl Sockets {
    /// Those of the interface, opened now unless they are already.
    pub(super) fn of(config: &AfXdpConfig) -> Result<Arc<Self>, NotOpened> {
        let mut all = lock(&OPEN);
        all.retain(|open| open.strong_count() > 0);
        let is_same = |open: &Arc<Self>| {
            let own = &open.config;
            own.interface == config.interface && own.queue == config.queue
        };
        if let Some(open) = all.iter().filter_map(Weak::upgrade).find(is_same) {
            return Ok(open);
        }
        let (halves, sender) = Halves::open(config, Clock::now() + BIND_WITHIN)?;
        let opened = Arc::new(Self {
            config: config.clone(),
            generation: AtomicU64::new(0),
            halves: Mutex::new(halves),
            sender: Mutex::new(sender),
            has_sink: AtomicBool::new(false),
        });
        all.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Differs after the sockets were opened anew.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Attaches the program, and returns the receiving halves. With `local` these get only packets
    /// to forward.
    pub(super) fn receive(
        &self,
        local: Option<LocalAddresses>,
    ) -> Result<Vec<XdpReceiver>, NotOpened> {
        let mut halves = lock(&self.halves);
        halves.local = local;
        halves.attach(&self.config)?;
        Ok(mem::take(&mut halves.receivers))
    }

    /// The receiving halves of the sockets that were opened anew.
    pub(super) fn take_receivers(&self) -> Vec<XdpReceiver> {
        mem::take(&mut lock(&self.halves).receivers)
    }

    /// Brings the addresses that the program of a port with routes knows up to date.
    pub(super) fn update(&self, link: &Link) -> io::Result<()> {
        let halves = &mut *lock(&self.halves);
        match (&mut halves.local, &mut halves.program) {
            (Some(local), Some(program)) => {
                local.refresh();
                program.update(link, local)
            }
            _ => Ok(()),
        }
    }

    /// Whether the caller is the first sink.
    pub(super) fn take_sink(&self) -> bool {
        !self.has_sink.swap(true, Ordering::AcqRel)
    }

    /// The sending half; none while there is no interface. Free it before [`Self::renew`].
    #[inline]
    pub(super) fn sender(&self) -> MutexGuard<'_, Option<XdpSender>> {
        lock(&self.sender)
    }

    /// The sockets have lost their interface, even if one with its number is there.
    pub(super) fn forget(&self) {
        lock(&self.halves).index = 0;
    }

    /// Whether [`Self::renew`] needs all queues of the interface.
    pub(super) fn is_forgotten(&self) -> bool {
        lock(&self.halves).index == 0
    }

    /// Opens the sockets anew if the interface was made anew. Fails while there is none.
    pub(super) fn renew(&self, link: &Link) -> Result<(), NotOpened> {
        let index = link.index().inspect_err(|_| self.forget())? as u32;
        let mut halves = lock(&self.halves);
        if index == halves.index {
            return Ok(());
        }
        let (is_read, local) = (halves.is_read, halves.local.clone());
        // The interface may be one that had another name meanwhile: its queues must be free.
        *lock(&self.sender) = None;
        *halves = Halves { is_read, local: local.clone(), ..Halves::default() };
        let (mut new, sender) = Halves::open(&self.config, Clock::now())?;
        new.local = local;
        if is_read {
            new.attach(&self.config)?;
        }
        *halves = new;
        *lock(&self.sender) = sender;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Detaches the program: frames are no longer read.
    pub(super) fn detach(&self) {
        let mut halves = lock(&self.halves);
        halves.is_read = false;
        halves.attached = None;
        halves.program = None;
        halves.membership = None;
    }
}

impl Halves {
    /// Opens the sockets, and returns one sending half. Retries until `end` while the system has
    /// not freed a queue.
    fn open(config: &AfXdpConfig, end: Clock) -> Result<(Self, Option<XdpSender>), NotOpened> {
        let link = ethernet(&config.interface)?;
        let (index, mtu, count) = (link.index()? as u32, link.mtu()?, link.queues());
        if mtu + HEADERS_LEN > XDP_FRAME_MAX && mtu < usize::from(u16::MAX) {
            return Err(NotOpened::Mtu(mtu, XDP_FRAME_MAX - HEADERS_LEN));
        }
        let queues = match config.queue {
            Some(queue) if queue >= count => return Err(NotOpened::NoQueue(count)),
            Some(queue) => queue..queue + 1,
            None if count > QUEUES_MAX => return Err(NotOpened::ManyQueues(count)),
            None => 0..count,
        };
        let (mut receivers, mut sender) = (Vec::new(), None);
        for queue in queues {
            let frame_len = (mtu + HEADERS_LEN).min(XDP_FRAME_MAX);
            let binding = Binding { interface: index, queue, is_zero_copy: false };
            let socket = bound(config.mode, &link, frame_len, binding, end)?;
            receivers.push(socket.receiver);
            sender.get_or_insert(socket.sender);
        }
        Ok((Self { index, receivers, ..Self::default() }, sender))
    }

    /// Passes frames of the interface to the sockets.
    fn attach(&mut self, config: &AfXdpConfig) -> Result<(), NotOpened> {
        let first = config.queue.unwrap_or(0);
        let count = self.receivers.len() as u32;
        let is_forwarding = self.local.is_some();
        let load = if is_forwarding { XdpProgram::load_forwarding } else { XdpProgram::load };
        let program = load(first + count).map_err(bpf_refused)?;
        for (queue, receiver) in (first..).zip(&self.receivers) {
            program.add(queue, receiver.descriptor()).map_err(bpf_refused)?;
        }
        let mut program = ForwardingProgram { program, own: None, local: Vec::new() };
        if let Some(local) = &mut self.local {
            local.refresh();
            program.update(&Link::new(&config.interface)?, local).map_err(bpf_refused)?;
        }
        let attached =
            program.program.attach(self.index).map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => NotOpened::HasProgram(config.interface.clone()),
                _ => bpf_refused(error),
            })?;
        if config.promiscuous {
            let socket = PacketSocket::open()?;
            socket.receive_all(self.index as i32)?;
            self.membership = Some(socket);
        }
        self.attached = Some(attached);
        self.program = is_forwarding.then_some(program);
        self.is_read = true;
        Ok(())
    }
}

impl ForwardingProgram {
    fn update(&mut self, link: &Link, local: &LocalAddresses) -> io::Result<()> {
        let own = link.address()?;
        if self.own != Some(own) {
            self.program.set_own(own)?;
            self.own = Some(own);
        }
        let all = local.all();
        if self.local == all {
            return Ok(());
        }
        let is_new = |address: &&IpAddr| self.local.binary_search(address).is_err();
        all.iter().filter(is_new).try_for_each(|new| self.program.set_local(*new, true))?;
        let is_old = |address: &&IpAddr| all.binary_search(address).is_err();
        let mut old = self.local.iter().filter(is_old);
        old.try_for_each(|old| self.program.set_local(*old, false))?;
        self.local = all.to_vec();
        Ok(())
    }
}

/// A socket, bound in the configured mode.
fn bound(
    mode: Mode,
    link: &Link,
    frame_len: usize,
    binding: Binding,
    end: Clock,
) -> Result<XdpSocket, NotOpened> {
    let may_fall_back = mode == Mode::Auto;
    let is_zero_copy = match mode {
        Mode::Copy => false,
        Mode::ZeroCopy => true,
        Mode::Auto => Mode::ZERO_COPY_DRIVERS.contains(&link.driver().as_str()),
    };
    let mut binding = Binding { is_zero_copy, ..binding };
    loop {
        let socket = XdpSocket::open(frame_len).map_err(socket_refused)?;
        let Err(error) = socket.bind(binding) else { return Ok(socket) };
        match error.raw_os_error() {
            Some(libc::EBUSY) if Clock::now() < end => thread::sleep(BIND_EVERY),
            Some(libc::EBUSY) => return Err(NotOpened::QueueTaken(binding.queue)),
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTSUP) if binding.is_zero_copy => {
                if !may_fall_back {
                    return Err(NotOpened::NoZeroCopy(link.driver()));
                }
                binding.is_zero_copy = false;
            }
            _ => return Err(socket_refused(error)),
        }
    }
}

fn socket_refused(error: io::Error) -> NotOpened {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            NotOpened::NotPermitted("AF_XDP sockets need root or CAP_NET_RAW")
        }
        Some(libc::ENOBUFS) => {
            NotOpened::NotPermitted("the limit of locked memory is too small; see `ulimit -l`")
        }
        Some(libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => NotOpened::NoAfXdp,
        _ => error.into(),
    }
}

fn bpf_refused(error: io::Error) -> NotOpened {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            NotOpened::NotPermitted("an XDP program needs root, or CAP_BPF and CAP_NET_ADMIN")
        }
        Some(libc::ENOSYS) => NotOpened::NoAfXdp,
        _ => error.into(),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
