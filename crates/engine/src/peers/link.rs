//! A link: its socket, and its side of the signals.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{SystemTime, UNIX_EPOCH};

use warpline_sched::{
    Lease, Message, PauseReceiver, PauseSender, SIGNAL_LEN, SignalCounts, SignalRefusal,
    signal_body,
};

use super::{PeerKey, PeerLink, PeerReport, PeerSide};

/// Datagrams read before the rest of the thread's work gets its turn.
const DATAGRAMS: usize = 64;
/// How long an instance is paused without an answer before that is reported, in nanoseconds.
const UNANSWERED_NS: u64 = 2_000_000_000;
/// Bytes of a datagram; one more would be a longer one.
const DATAGRAM_LEN: usize = SIGNAL_LEN + PeerKey::CODE_LEN;

/// See the module.
pub(super) struct Link {
    about: PeerLink,
    socket: UdpSocket,
    machine: Machine,
    /// Whether an operator knows of its trouble.
    is_reported: bool,
}

enum Machine {
    Sender(PauseSender),
    Receiver(PauseReceiver),
}

impl Link {
    pub(super) fn open(about: &PeerLink) -> io::Result<Self> {
        let own = match about.side {
            PeerSide::Downstream => about.address,
            PeerSide::Upstream if about.address.is_ipv4() => any(Ipv4Addr::UNSPECIFIED.into()),
            PeerSide::Upstream => any(Ipv6Addr::UNSPECIFIED.into()),
        };
        let socket = UdpSocket::bind(own)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            about: about.clone(),
            socket,
            machine: machine(about.side, 0),
            is_reported: false,
        })
    }

    /// A new life begins.
    pub(super) fn start(&mut self, now: u64) {
        self.machine = machine(self.about.side, now);
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The number of the port that it is linked to.
    pub(super) fn port(&self) -> Option<u16> {
        self.about.port
    }

    /// Sends what is due. `is_full` is the state of this instance.
    pub(super) fn advance(&mut self, is_full: bool, now: u64) {
        match &mut self.machine {
            Machine::Receiver(receiver) => receiver.handle_timeout(now),
            Machine::Sender(sender) => {
                sender.handle_pressure(is_full, now);
                if let Some(signal) = sender.poll_signal(now) {
                    self.send(Message::Signal(signal), self.about.address);
                }
            }
        }
    }

    /// Reads what arrived.
    pub(super) fn receive(&mut self, now: u64) {
        let mut datagram = [0; DATAGRAM_LEN + 1];
        for _ in 0..DATAGRAMS {
            match self.socket.recv_from(&mut datagram) {
                Ok((len, from)) => self.handle(&datagram[..len], from, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Of an earlier datagram, perhaps: the next call has the next one.
                Err(_) => {}
            }
        }
    }

    fn handle(&mut self, datagram: &[u8], from: SocketAddr, now: u64) {
        let message = self.authentic(datagram);
        match (&mut self.machine, message) {
            (Machine::Receiver(receiver), Ok(Message::Signal(signal))) => {
                let answer = receiver.handle_signal(&signal, now).answer;
                self.send(Message::Answer(answer), from);
            }
            (Machine::Sender(sender), Ok(Message::Answer(answer))) => {
                // Counted there.
                let _ = sender.handle_answer(&answer, now);
            }
            (machine, refused) => {
                let why = refused.err().unwrap_or(SignalRefusal::Malformed);
                match machine {
                    Machine::Sender(sender) => sender.refuse(why),
                    Machine::Receiver(receiver) => receiver.refuse(why),
                }
            }
        }
    }

    fn authentic(&self, datagram: &[u8]) -> Result<Message, SignalRefusal> {
        let (body, code) = signal_body(datagram, PeerKey::CODE_LEN)?;
        match self.about.key.is_code(body, code) {
            true => Message::decode(body),
            false => Err(SignalRefusal::Forged),
        }
    }

    /// A datagram that is not sent is one that is lost.
    fn send(&self, message: Message, to: SocketAddr) {
        let body = message.encode();
        let mut datagram = [0; DATAGRAM_LEN];
        let (head, code) = datagram.split_at_mut(SIGNAL_LEN);
        head.copy_from_slice(&body);
        code.copy_from_slice(&self.about.key.code(&body));
        let _ = self.socket.send_to(&datagram, to);
    }

    /// When it has something to do without a datagram.
    pub(super) fn next_ns(&self) -> u64 {
        match &self.machine {
            Machine::Sender(sender) => sender.poll_timeout(),
            Machine::Receiver(receiver) => receiver.poll_timeout().unwrap_or(u64::MAX),
        }
    }

    /// The port whose packets go to an instance that pauses this one.
    pub(super) fn held_port(&self) -> Option<u16> {
        self.about.port.filter(|_| self.holds() == Some(true))
    }

    /// Of a link downstream: whether it pauses this instance.
    pub(super) fn holds(&self) -> Option<bool> {
        match &self.machine {
            Machine::Sender(_) => None,
            Machine::Receiver(receiver) => Some(receiver.is_held()),
        }
    }

    fn state(&self, now: u64) -> (bool, SignalCounts) {
        match &self.machine {
            Machine::Sender(sender) => (sender.is_paused(), sender.counts(now)),
            Machine::Receiver(receiver) => (receiver.is_held(), receiver.counts(now)),
        }
    }

    /// The first trouble of the link, once.
    pub(super) fn take_warning(&mut self, now: u64) -> Option<String> {
        if self.is_reported {
            return None;
        }
        let (is_paused, counts) = self.state(now);
        let PeerLink { name, side, address, .. } = &self.about;
        let refused = |why: SignalRefusal| counts.refused[why as usize] > 0;
        let is_unanswered = *side == PeerSide::Upstream
            && is_paused
            && counts.received == 0
            && counts.paused_ns > UNANSWERED_NS;
        let why = match () {
            () if refused(SignalRefusal::Forged) => {
                "signals have a wrong key; both ends need the same file"
            }
            () if refused(SignalRefusal::Version) => "the other end has another version of signals",
            () if is_unanswered => {
                "the instance upstream answers no signal, so it is not paused; \
                 see its `listen` and its key"
            }
            () => return None,
        };
        self.is_reported = true;
        Some(format!("link of {name:?}, {} {address}: {why}", side.name()))
    }

    pub(super) fn report(&self, now: u64) -> PeerReport {
        let (is_paused, counts) = self.state(now);
        let PeerLink { name, side, address, .. } = self.about.clone();
        PeerReport { name, side, address, is_paused, counts }
    }
}

fn any(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 0)
}

fn machine(side: PeerSide, now: u64) -> Machine {
    match side {
        PeerSide::Upstream => Machine::Sender(PauseSender::new(Lease::DEFAULT, time_of_day(), now)),
        PeerSide::Downstream => {
            // The keys of a hasher are random numbers of the system.
            let session = RandomState::new().build_hasher().finish();
            Machine::Receiver(PauseReceiver::new(Lease::DEFAULT, session, now))
        }
    }
}

fn time_of_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
