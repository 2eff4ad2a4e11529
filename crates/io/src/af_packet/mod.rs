//! Network interfaces by packet sockets: `af_packet:IF`.
//!
//! [`AfPacketSource`] reads all frames that arrive at an interface from a ring that the system
//! fills. [`AfPacketSink`] sends frames with a system call for each burst.
//!
//! The ring is `TPACKET_V2`, which hands over every frame at once. `TPACKET_V3` hands over blocks,
//! and an unfilled block only after a timeout of at least a millisecond.

mod offloads;
mod sink;
mod source;

use std::io;

pub use self::sink::AfPacketSink;
pub use self::source::AfPacketSource;
use crate::sys::Link;

/// The interfaces whose link header is Ethernet's, by `ARPHRD` number.
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
/// Bytes of a frame beyond the MTU: an Ethernet header and two VLAN tags.
const HEADERS_LEN: usize = 22;

/// An interface, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Its name.
    pub interface: String,
    /// Whether frames to other hosts are read, too.
    pub promiscuous: bool,
}

impl AfPacketConfig {
    /// The prefix of `af_packet:IF`.
    pub const PREFIX: &str = "af_packet:";

    /// Reads `af_packet:IF` or `af_packet:IF,promiscuous=BOOL`.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let (interface, promiscuous) = match text.split_once(',') {
            None => (text, true),
            Some((interface, "promiscuous=true")) => (interface, true),
            Some((interface, "promiscuous=false")) => (interface, false),
            Some((_, other)) => {
                let allowed = "promiscuous=true, promiscuous=false";
                return Err(format!("{other:?} is not a setting; allowed: {allowed}"));
            }
        };
        let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
        // As the kernel names interfaces: 15 bytes at most.
        if interface.is_empty() || interface.len() > 15 || !interface.chars().all(is_name) {
            return Err("an interface has a name of 1 to 15 bytes: af_packet:eth0".into());
        }
        Ok(Self { interface: interface.into(), promiscuous })
    }
}

/// Why an interface cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotOpened {
    /// There is no interface with this name.
    Unknown,
    /// The process may not open packet sockets.
    NotPermitted,
    /// Its frames do not start with an Ethernet header.
    NotEthernet,
    /// The operating system refused.
    Io(io::Error),
}

impl core::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such interface; `ip link` lists them"),
            Self::NotPermitted => {
                f.write_str("not permitted: packet sockets need root or CAP_NET_RAW")
            }
            Self::NotEthernet => f.write_str("not an Ethernet interface"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotOpened {}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted,
            Some(libc::ENODEV | libc::ENXIO) => Self::Unknown,
            _ => Self::Io(error),
        }
    }
}

/// The interface called `name`, if it has Ethernet frames.
fn ethernet(name: &str) -> Result<Link, NotOpened> {
    let link = Link::new(name)?;
    link.index()?;
    match link.hardware()? {
        ETHERNET | LOOPBACK => Ok(link),
        _ => Err(NotOpened::NotEthernet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings() {
        let parsed = |text: &str| AfPacketConfig::parse(text).map(|c| (c.interface, c.promiscuous));
        assert_eq!(parsed("af_packet:eth0"), Ok(("eth0".into(), true)));
        assert_eq!(parsed("af_packet:a.7,promiscuous=false"), Ok(("a.7".into(), false)));
        for text in ["", "a/b", "sixteen_bytes_xx", "a b", "e,promiscuous", "e,promiscuous=no"] {
            assert!(parsed(&format!("af_packet:{text}")).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_interface_is_refused() {
        assert!(matches!(ethernet("not-there"), Err(NotOpened::Unknown)));
    }
}
