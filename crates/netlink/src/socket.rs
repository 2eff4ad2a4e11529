//! Sockets of rtnetlink.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::message::{Address, Link, Message, Neighbour, read};
use crate::route::{NextHop, Route, RouteKind};

/// Room for a datagram. The kernel's have at most 32 KiB.
const ROOM: usize = 64 << 10;
/// Memory for changes that wait, up to the system's limit.
const BUFFER_LEN: i32 = 4 << 20;
/// How often a table is read again that changed meanwhile.
const TRIES: usize = 5;
/// Bytes of `nlmsghdr`.
const HEADER_LEN: u32 = 16;

/// Reads tables of the kernel.
pub struct Requests {
    socket: Socket,
    room: Vec<u8>,
    number: u32,
}

impl Requests {
    /// Opens a socket.
    ///
    /// # Errors
    /// The system has none.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        Ok(Self { socket, room: vec![0; ROOM], number: 0 })
    }

    /// All links.
    ///
    /// # Errors
    /// The system refused.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        self.table(libc::RTM_GETLINK, &[0; 16], |message| match message {
            Message::Link(link) => Some(link),
            _ => None,
        })
    }

    /// All addresses of this machine.
    ///
    /// # Errors
    /// The system refused.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        self.table(libc::RTM_GETADDR, &[0; 8], |message| match message {
            Message::Address(address) => Some(address),
            _ => None,
        })
    }

    /// All neighbours.
    ///
    /// # Errors
    /// The system refused.
    pub fn neighbours(&mut self) -> io::Result<Vec<Neighbour>> {
        self.table(libc::RTM_GETNEIGH, &[0; 12], |message| match message {
            Message::Neighbour(neighbour) => Some(neighbour),
            _ => None,
        })
    }

    /// The routes of the table `main` that are in use, at most `most` of both families.
    ///
    /// # Errors
    /// The system refused, or there are more.
    pub fn routes(&mut self, most: usize) -> io::Result<Vec<Route>> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut body = [0; 12];
            body[0] = family as u8;
            all.extend(self.table(libc::RTM_GETROUTE, &body, |message| match message {
                Message::Route(route) if route.is_main() && route.is_alive() => Some(route),
                _ => None,
            })?);
            if all.len() > most {
                return Err(io::Error::other(format!("the kernel has more than {most} routes")));
            }
        }
        Ok(all)
    }

    /// The routes of [`Requests::routes`] as lines of `ip route`. Those to the loopback interface
    /// are `blackhole`: the kernel drops what it forwards there.
    ///
    /// # Errors
    /// The system refused, or there are more than `most`.
    pub fn route_lines(
        &mut self,
        most: usize,
        rename: impl Fn(&str) -> String,
    ) -> io::Result<String> {
        let links = self.links()?;
        let names: HashMap<i32, String> =
            links.iter().map(|link| (link.index, rename(&link.name))).collect();
        let name =
            |index: i32| names.get(&index).cloned().unwrap_or_else(|| format!("interface-{index}"));
        let loopbacks: Vec<i32> =
            links.iter().filter(|link| link.is_loopback).map(|link| link.index).collect();
        let is_loopback = |hop: &NextHop| hop.index.is_some_and(|index| loopbacks.contains(&index));
        let mut text = String::new();
        for mut route in self.routes(most)? {
            if route.kind == RouteKind::Unicast
                && !route.hops.is_empty()
                && route.hops.iter().all(is_loopback)
            {
                (route.kind, route.hops) = (RouteKind::Blackhole, Vec::new());
            }
            text += &route.line(name);
            text.push('\n');
        }
        Ok(text)
    }

    /// Asks the kernel to resolve or confirm a neighbour.
    ///
    /// # Errors
    /// The process lacks `CAP_NET_ADMIN`, or the interface is gone.
    pub fn resolve(&mut self, index: i32, address: IpAddr) -> io::Result<()> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let mut body = vec![family as u8, 0, 0, 0];
        body.extend(index.to_ne_bytes());
        body.extend([0, 0, NTF_USE, 0]);
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        body.extend((octets.len() as u16 + 4).to_ne_bytes());
        body.extend(libc::NDA_DST.to_ne_bytes());
        body.extend(octets);
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE;
        self.send(libc::RTM_NEWNEIGH, flags, &body)?;
        let mut outcome = None;
        while outcome.is_none() {
            self.receive(&mut |message| {
                if let Message::Outcome(error) = message {
                    outcome = Some(error);
                }
            })?;
        }
        match outcome {
            Some(error) if error != 0 => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(()),
        }
    }

    /// Whether the process may resolve neighbours: it needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The system refused for another reason.
    pub fn may_resolve(&mut self) -> io::Result<bool> {
        // Rights are checked first, and there is no such interface.
        match self.resolve(i32::MAX, IpAddr::from([192, 0, 2, 1])) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(true),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    fn table<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        take: impl Fn(Message) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let mut all = Vec::new();
        for _ in 0..TRIES {
            all.clear();
            self.send(kind, libc::NLM_F_DUMP, body)?;
            let (mut done, mut failed) = (None, None);
            while done.is_none() && failed.is_none() {
                self.receive(&mut |message| match message {
                    Message::Done(has_changed) => done = Some(has_changed),
                    Message::Outcome(error) => failed = Some(error),
                    message => all.extend(take(message)),
                })?;
            }
            match failed {
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                None if done == Some(false) => return Ok(all),
                None => {}
            }
        }
        // A change is announced, after which the table is read again.
        Ok(all)
    }

    fn send(&mut self, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
        self.number = self.number.wrapping_add(1);
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        let mut message = (HEADER_LEN + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.number.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        self.socket.send_to(&message, &SocketAddr::new(0, 0), 0).map(drop)
    }

    fn receive(&mut self, each: &mut dyn FnMut(Message)) -> io::Result<()> {
        let (len, from) = self.socket.recv_from(&mut &mut self.room[..], 0)?;
        if from.port_number() == 0 {
            read(&self.room[..len.min(ROOM)], each);
        }
        Ok(())
    }
}

/// `NTF_USE`.
const NTF_USE: u8 = 1;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Of links, addresses and neighbours.
    Neighbours,
    /// Of routes, and of links, addresses and next hops that may change routes.
    Routes,
}

impl Groups {
    /// The groups' bits.
    fn bits(self) -> u32 {
        let all = match self {
            Self::Neighbours => {
                libc::RTMGRP_LINK
                    | libc::RTMGRP_IPV4_IFADDR
                    | libc::RTMGRP_IPV6_IFADDR
                    | libc::RTMGRP_NEIGH
            }
            Self::Routes => {
                libc::RTMGRP_LINK
                    | libc::RTMGRP_IPV4_IFADDR
                    | libc::RTMGRP_IPV6_IFADDR
                    | libc::RTMGRP_IPV4_ROUTE
                    | libc::RTMGRP_IPV6_ROUTE
            }
        };
        // `RTNLGRP_NEXTHOP` is group 32.
        let next_hops = if self == Self::Routes { 1 << 31 } else { 0 };
        all as u32 | next_hops
    }
}

/// Receives changes of the kernel's tables.
pub struct Changes {
    socket: Socket,
    room: Vec<u8>,
}

impl Changes {
    /// Opens a socket. Changes from now on are kept for it.
    ///
    /// # Errors
    /// The system has none.
    pub fn open(groups: Groups) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, groups.bits()))?;
        socket.set_non_blocking(true)?;
        // Less room leads to more reading of whole tables.
        let _ = socket.set_rx_buf_sz(BUFFER_LEN);
        Ok(Self { socket, room: vec![0; ROOM] })
    }

    /// Readable if there are changes.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Gives the changes at hand to `each`. Returns whether some were lost, so that the tables must
    /// be read again.
    ///
    /// # Errors
    /// The system refused.
    pub fn receive(&mut self, each: &mut dyn FnMut(Message)) -> io::Result<bool> {
        let mut has_lost = false;
        // Under a flood others get a turn.
        for _ in 0..1024 {
            match self.socket.recv_from(&mut &mut self.room[..], libc::MSG_DONTWAIT) {
                Ok((len, from)) if from.port_number() == 0 => {
                    read(&self.room[..len.min(ROOM)], each);
                }
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENOBUFS) => has_lost = true,
                    Some(libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(has_lost)
    }
}
