//! The messages of rtnetlink, as far as they are needed.

use std::net::IpAddr;

use netlink_packet_core::{NetlinkBuffer, NlasIterator};

use crate::route::{self, Route};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A link, or its change.
    Link(Link),
    /// An address of this machine.
    Address(Address),
    /// A neighbour.
    Neighbour(Neighbour),
    /// A route. A changed one comes like a new one.
    Route(Route),
    /// Something that may change routes without a message about each.
    NextHops,
    /// The end of a table. The table changed meanwhile if the flag is set.
    Done(bool),
    /// The outcome of a request: 0, or the number of an error.
    Outcome(i32),
    /// An invalid message, or one of no use here.
    Other,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: i32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
    /// Whether it was removed.
    pub is_gone: bool,
}

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The number of its interface.
    pub index: i32,
    /// The address.
    pub address: IpAddr,
    /// Whether it was removed.
    pub is_gone: bool,
}

/// A neighbour on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of the interface.
    pub index: i32,
    /// Its address.
    pub address: IpAddr,
    /// How it is reached.
    pub reach: Reach,
}

/// How a neighbour is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By this Ethernet address.
    Known([u8; 6]),
    /// By this one, which should be confirmed once it is used.
    Stale([u8; 6]),
    /// It does not answer.
    Failed,
    /// Unknown: it is being asked, or its entry was removed.
    Unknown,
}

/// `NLM_F_DUMP_INTR`.
const INTERRUPTED: u16 = 0x10;
const ALIGNMENT: usize = 4;

/// Reads the messages of a datagram.
pub fn read(datagram: &[u8], each: &mut dyn FnMut(Message)) {
    let mut rest = datagram;
    while let Ok(message) = NetlinkBuffer::new_checked(rest) {
        let (len, flags) = (message.length() as usize, message.flags());
        each(one(message.message_type(), flags, message.payload()));
        rest = rest.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
}

fn one(kind: u16, flags: u16, body: &[u8]) -> Message {
    let number = |at: usize| word(body, at).map(u32::cast_signed);
    let found = match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => link(kind, body).map(Message::Link),
        libc::RTM_NEWADDR | libc::RTM_DELADDR => address(kind, body).map(Message::Address),
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => neighbour(kind, body).map(Message::Neighbour),
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => route::parse(body).map(Message::Route),
        NEW_NEXT_HOP | DELETED_NEXT_HOP => Some(Message::NextHops),
        DONE => Some(Message::Done(flags & INTERRUPTED != 0)),
        ERROR => number(0).map(|error| Message::Outcome(error.saturating_neg())),
        _ => None,
    };
    found.unwrap_or(Message::Other)
}

/// Message types that `libc` lacks or has as another type.
const ERROR: u16 = libc::NLMSG_ERROR as u16;
const DONE: u16 = libc::NLMSG_DONE as u16;
const NEW_NEXT_HOP: u16 = 104;
const DELETED_NEXT_HOP: u16 = 105;

/// `ifinfomsg` and its attributes. A bridge's messages are about its port, not about the link.
fn link(kind: u16, body: &[u8]) -> Option<Link> {
    if family(body)? != libc::AF_UNSPEC {
        return None;
    }
    let is_loopback = body.get(2..4)? == libc::ARPHRD_LOOPBACK.to_ne_bytes();
    let (index, mut name, mut mac) = (word(body, 4)?.cast_signed(), None, None);
    attributes(body.get(16..)?, |attribute, value| match attribute {
        libc::IFLA_IFNAME => name = text(value),
        libc::IFLA_ADDRESS => mac = value.try_into().ok(),
        _ => {}
    })?;
    Some(Link { index, name: name?, mac, is_loopback, is_gone: kind == libc::RTM_DELLINK })
}

/// `ifaddrmsg` and its attributes.
fn address(kind: u16, body: &[u8]) -> Option<Address> {
    let (index, mut own, mut peer) = (word(body, 4)?.cast_signed(), None, None);
    attributes(body.get(8..)?, |attribute, value| match attribute {
        libc::IFA_LOCAL => own = ip_address(value),
        // That of the other end, if there is another of this one.
        libc::IFA_ADDRESS => peer = ip_address(value),
        _ => {}
    })?;
    Some(Address { index, address: own.or(peer)?, is_gone: kind == libc::RTM_DELADDR })
}

/// `ndmsg` and its attributes. A bridge's entries are no neighbours.
fn neighbour(kind: u16, body: &[u8]) -> Option<Neighbour> {
    if !matches!(family(body)?, libc::AF_INET | libc::AF_INET6) {
        return None;
    }
    let (index, state) = (word(body, 4)?.cast_signed(), half(body, 8)?);
    let (mut address, mut mac) = (None, None);
    attributes(body.get(12..)?, |attribute, value| match attribute {
        libc::NDA_DST => address = ip_address(value),
        libc::NDA_LLADDR => mac = <[u8; 6]>::try_from(value).ok(),
        _ => {}
    })?;
    let known = libc::NUD_REACHABLE
        | libc::NUD_DELAY
        | libc::NUD_PROBE
        | libc::NUD_NOARP
        | libc::NUD_PERMANENT;
    let reach = match mac {
        _ if kind == libc::RTM_DELNEIGH => Reach::Unknown,
        Some(mac) if state & known != 0 => Reach::Known(mac),
        Some(mac) if state & libc::NUD_STALE != 0 => Reach::Stale(mac),
        _ if state & libc::NUD_FAILED != 0 => Reach::Failed,
        _ => Reach::Unknown,
    };
    Some(Neighbour { index, address: address?, reach })
}

/// The address family that a message's body begins with.
fn family(body: &[u8]) -> Option<i32> {
    body.first().map(|family| i32::from(*family))
}

/// Gives the attributes of a message to `each`; `None` if one does not fit.
pub(crate) fn attributes(bytes: &[u8], mut each: impl FnMut(u16, &[u8])) -> Option<()> {
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute.ok()?;
        each(attribute.kind(), attribute.value());
    }
    Some(())
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

pub(crate) fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Text that ends with a zero byte.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]).ok().filter(|text| !text.is_empty())?;
    Some(text.to_owned())
}
