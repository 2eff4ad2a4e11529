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
    /// Where the last signal came from.
    from: Option<IpAddr>,
    /// Whether an operator knows of a wrong key, another version, and no answer.
    is_reported: [bool; 3],
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
        let machine = machine(about.side, 0);
        Ok(Self { about: about.clone(), socket, machine, from: None, is_reported: [false; 3] })
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
                self.from = Some(from.ip().to_canonical());
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

    /// Whether this end does not pause the other while that one pauses it, by the link `held`. Two
    /// instances that send to each other through one port would block each other indefinitely. So
    /// one of them gives way, by the random numbers of their starts.
    pub(super) fn gives_way(&self, held: &Self) -> bool {
        let (Machine::Sender(sender), Machine::Receiver(receiver)) = (&self.machine, &held.machine)
        else {
            return false;
        };
        let is_same = self.about.port.is_some()
            && self.about.port == held.about.port
            && held.from == Some(self.about.address.ip().to_canonical());
        is_same && receiver.is_held() && receiver.session() < sender.peer_session()
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

    /// Why the link has never worked, each reason once.
    pub(super) fn take_warning(&mut self, now: u64) -> Option<String> {
        let (is_paused, counts) = self.state(now);
        if counts.received > 0 {
            return None;
        }
        let PeerLink { name, side, address, .. } = &self.about;
        let refused = |why: SignalRefusal| counts.refused[why as usize] > 0;
        let is_unanswered =
            *side == PeerSide::Upstream && is_paused && counts.paused_ns > UNANSWERED_NS;
        let reasons = [
            (refused(SignalRefusal::Forged), "a signal has a wrong key; both ends need one file"),
            (refused(SignalRefusal::Version), "the other end has another version of signals"),
            (
                is_unanswered,
                "the instance upstream answers no signal, so it is not paused; see its `listen` \
                 and its key",
            ),
        ];
        let new = reasons
            .iter()
            .zip(&mut self.is_reported)
            .find(|((is_so, _), known)| *is_so && !**known);
        let ((_, why), known) = new?;
        *known = true;
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
