//! Network interfaces by either kind of socket: `af_packet:IF` and `af_xdp:IF`.

use std::io;

use crate::af_packet::{AfPacketConfig, AfPacketSink, AfPacketSource, Delivery};
use crate::af_xdp::{AfXdpConfig, AfXdpSink, AfXdpSource};
use crate::neighbours::LocalAddresses;
use crate::port::{Sink, Source};
use crate::sys::Link;

/// The interfaces whose link header is Ethernet's, by `ARPHRD` number.
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
/// Bytes of a frame beyond the MTU: an Ethernet header and two VLAN tags.
pub(crate) const HEADERS_LEN: usize = 22;

/// An interface, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// By packet sockets.
    AfPacket(AfPacketConfig),
    /// By AF_XDP sockets.
    AfXdp(AfXdpConfig),
}

impl Interface {
    /// Whether `text` names one.
    pub fn is_named(text: &str) -> bool {
        [AfPacketConfig::PREFIX, AfXdpConfig::PREFIX].iter().any(|kind| text.starts_with(kind))
    }

    /// Reads `af_packet:IF` or `af_xdp:IF`, with settings.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.starts_with(AfXdpConfig::PREFIX) {
            true => AfXdpConfig::parse(text).map(Self::AfXdp),
            false => AfPacketConfig::parse(text).map(Self::AfPacket),
        }
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        match self {
            Self::AfPacket(config) => &config.interface,
            Self::AfXdp(config) => &config.interface,
        }
    }

    /// Whether there is an interface with this name now.
    pub fn exists(&self) -> bool {
        Link::new(self.name()).and_then(|link| link.index()).is_ok()
    }

    /// Whether it is there and has frames that are not Ethernet's, so that no port can have it.
    pub fn is_unsuitable(&self) -> bool {
        matches!(ethernet(self.name()), Err(NotOpened::NotEthernet))
    }

    /// Opens it to read frames, which packet sockets get by `delivery`. With `local` it gives only
    /// packets to forward ([`AfPacketSource::forwarding`]).
    ///
    /// # Errors
    /// There is no such interface, or the process may not read it.
    pub fn source(
        &self,
        local: Option<&LocalAddresses>,
        delivery: Delivery,
    ) -> Result<Box<dyn Source>, NotOpened> {
        Ok(match (self, local) {
            (Self::AfPacket(config), Some(local)) => {
                Box::new(AfPacketSource::open(config, delivery)?.forwarding(local.clone()))
            }
            (Self::AfPacket(config), None) => Box::new(AfPacketSource::open(config, delivery)?),
            (Self::AfXdp(config), local) => Box::new(AfXdpSource::open(config, local.cloned())?),
        })
    }

    /// Opens it to send frames.
    ///
    /// # Errors
    /// There is no such interface, or the process may not send by it.
    pub fn sink(&self) -> Result<Box<dyn Sink>, NotOpened> {
        Ok(match self {
            Self::AfPacket(config) => Box::new(AfPacketSink::open(config)?),
            Self::AfXdp(config) => Box::new(AfXdpSink::open(config)?),
        })
    }
}

impl core::fmt::Display for Interface {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = match self {
            Self::AfPacket(_) => AfPacketConfig::PREFIX,
            Self::AfXdp(_) => AfXdpConfig::PREFIX,
        };
        write!(f, "{kind}{}", self.name())
    }
}

/// Why an interface cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotOpened {
    /// There is no interface with this name.
    Unknown,
    /// The process lacks these rights.
    NotPermitted(&'static str),
    /// Its frames do not start with an Ethernet header.
    NotEthernet,
    /// It has this many queues only.
    NoQueue(u32),
    /// It has this many queues, too many for one chain.
    ManyQueues(u32),
    /// Another socket reads the queue.
    QueueTaken(u32),
    /// Another XDP program is attached to the interface of this name.
    HasProgram(String),
    /// The driver of this name has no zero-copy mode.
    NoZeroCopy(String),
    /// Frames of this MTU do not fit; the largest one that does.
    Mtu(usize, usize),
    /// The kernel lacks AF_XDP.
    NoAfXdp,
    /// The operating system refused.
    Io(io::Error),
}

impl core::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such interface; `ip link` lists them"),
            Self::NotPermitted(rights) => write!(f, "not permitted: {rights}"),
            Self::NotEthernet => f.write_str("not an Ethernet interface"),
            Self::NoQueue(1) => f.write_str("no such queue: the interface has only queue 0"),
            Self::NoQueue(count) => {
                write!(f, "no such queue: the interface has queues 0 to {}", count - 1)
            }
            Self::ManyQueues(count) => write!(
                f,
                "the interface has {count} queues; name one by `queue`, or set fewer by \
                 `ethtool -L`"
            ),
            Self::QueueTaken(queue) => write!(
                f,
                "another AF_XDP socket has queue {queue}; end that program or name another `queue`"
            ),
            Self::HasProgram(name) => write!(
                f,
                "another XDP program is attached; end its program, or run \
                 `ip link set dev {name} xdp off`"
            ),
            Self::NoZeroCopy(driver) => {
                write!(f, "driver {driver:?} has no zero-copy mode here; write mode = \"copy\"")
            }
            Self::Mtu(mtu, most) => write!(
                f,
                "the MTU {mtu} is above {most}, the limit of af_xdp; use af_packet or a smaller MTU"
            ),
            Self::NoAfXdp => f.write_str("the kernel lacks AF_XDP; use af_packet"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotOpened {}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                Self::NotPermitted("packet sockets need root or CAP_NET_RAW")
            }
            Some(libc::ENODEV | libc::ENXIO) => Self::Unknown,
            _ => Self::Io(error),
        }
    }
}

/// The interface called `name`, if it has Ethernet frames.
pub(crate) fn ethernet(name: &str) -> Result<Link, NotOpened> {
    let link = Link::new(name)?;
    link.index()?;
    match link.hardware()? {
        ETHERNET | LOOPBACK => Ok(link),
        _ => Err(NotOpened::NotEthernet),
    }
}

/// The name of an interface, as the kernel allows it: 15 bytes at most.
pub(crate) fn checked_name(text: &str, kind: &str) -> Result<String, String> {
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
    match (1..=15).contains(&text.len()) && text.chars().all(is_name) {
        true => Ok(text.into()),
        false => Err(format!("an interface has a name of 1 to 15 bytes: {kind}eth0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_refused() {
        assert!(matches!(ethernet("not-there"), Err(NotOpened::Unknown)));
        assert!(!Interface::parse("af_xdp:not-there").expect("a name").exists());
        assert!(Interface::parse("af_packet:lo").expect("a name").exists());
    }
}
