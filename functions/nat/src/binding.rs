//! A binding in one cache line, and what kind of binding it is.
//!
//! The line has the low words of addresses: all of an IPv4 address. The other words of IPv6
//! addresses lie in an [`Upper`]. The first remote that a binding sent to lies in the line too.

use super::key::Key;
use super::remotes::Remote;
use warpline_rewrite::Endpoint;
use warpline_rewrite::Protocol;
use warpline_tables::keyed::HashKey;
use warpline_tables::list::Links;

/// All bindings of a class have the same idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// UDP that was answered, to other than short ports.
    Udp,
    Established,
    Transitory,
    Icmp,
    /// UDP without an answer, to other than short ports.
    UdpOpening,
    /// UDP to short ports only ([`is_short_port`]).
    UdpShort,
    /// A protocol without ports.
    Other,
    /// SCTP, whose ends send heartbeats.
    Sctp,
}

/// Whether a conversation of UDP with this remote port is short: well-known ports without those of
/// HTTP/3 and IKE, whose sessions last. RFC 4787, REQ-5: "For specific destination ports in the
/// well-known port range (ports 0-1023), a NAT MAY have shorter UDP mapping timers".
pub(super) const fn is_short_port(port: u16) -> bool {
    port < 1024 && port != 443 && port != 500
}

impl Class {
    pub(super) const COUNT: usize = 8;

    /// That of a new binding whose first packet goes to `remote_port`.
    pub(super) const fn first(protocol: Protocol, remote_port: u16) -> Self {
        match protocol {
            Protocol::Tcp => Self::Transitory,
            Protocol::Udp if is_short_port(remote_port) => Self::UdpShort,
            Protocol::Udp => Self::UdpOpening,
            Protocol::Icmp => Self::Icmp,
            Protocol::Other => Self::Other,
        }
    }

    const fn protocol(self) -> Protocol {
        match self {
            Self::Established | Self::Transitory => Protocol::Tcp,
            Self::Udp | Self::UdpOpening | Self::UdpShort => Protocol::Udp,
            Self::Icmp => Protocol::Icmp,
            Self::Other | Self::Sctp => Protocol::Other,
        }
    }
}

/// The kinds of bindings that give way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingKind {
    /// TCP whose connections were answered, and are reset or closed, or open anew.
    Closing,
    /// TCP without an answer.
    HalfOpen,
    /// UDP without an answer.
    Udp,
    Icmp,
    /// A protocol without ports, without an answer.
    Other,
}

impl BindingKind {
    /// In the order in which they give way where there are as many, with the counter's name.
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Closing, "evicted-closing"),
        (Self::HalfOpen, "evicted-half-open"),
        (Self::Udp, "evicted-udp"),
        (Self::Icmp, "evicted-icmp"),
        (Self::Other, "evicted-other"),
    ];

    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Closing | Self::HalfOpen => Protocol::Tcp,
            Self::Udp => Protocol::Udp,
            Self::Icmp => Protocol::Icmp,
            Self::Other => Protocol::Other,
        }
    }
}

/// An outside endpoint of a protocol; its address by the number in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) version: u8,
    pub(super) protocol: Protocol,
    pub(super) address: u64,
    pub(super) port: u16,
    /// The remote, if bindings share the endpoint; else zero.
    pub(super) remote: Endpoint,
}

impl Outside {
    /// Where its binding is looked for in a table of this key.
    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let Self { version, protocol, address, port, remote } = *self;
        let endpoint = u128::from(address) << 16 | u128::from(port);
        let kind = (protocol as u64) << 8 | u64::from(version);
        key.of([endpoint, remote.address], u64::from(remote.port) << 16 | kind)
    }
}

/// The upper words of a binding's addresses of IPv6.
#[derive(Clone, Copy, Default)]
pub(super) struct Upper {
    inside: [u32; 3],
    remote: [u32; 3],
    first: [u32; 3],
}

impl Upper {
    /// Of a new binding with this key.
    pub(super) fn of(key: &Key) -> Self {
        let (inside, remote) = (above(key.inside().address), above(key.remote().address));
        Self { inside, remote, first: [0; 3] }
    }
}

/// A binding.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Binding {
    pub(super) expires: u64,
    /// The number of its outside address in the pool.
    pub(super) outside: u64,
    /// Of the first remote; 0 for none.
    first_expires: u64,
    inside: u32,
    remote: u32,
    first: u32,
    /// In the list of its class. Of free places, `newer` is the next one.
    pub(super) by_class: Links,
    /// In the list of its kind, if that gives way.
    pub(super) by_kind: Links,
    inside_port: u16,
    remote_port: u16,
    first_port: u16,
    /// Its outside port.
    pub(super) port: u16,
    first_seen: u8,
    /// How many other places for remotes were used.
    pub(super) others: u8,
    pub(super) class: Class,
    flags: u8,
}

const _: () = assert!(size_of::<Binding>() == 64);

const IS_V6: u8 = 1;
/// A packet answered its first one: one that came in, or left by a forward.
const IS_ANSWERED: u8 = 2;
/// It stands for one connection to a forwarded port.
const IS_FORWARDED: u8 = 4;
/// Bindings to other remotes may have its outside endpoint, too.
const IS_SHARED: u8 = 8;

impl Binding {
    /// A new one, in no list.
    pub(super) fn new(key: &Key, outside: &Outside, class: Class) -> Self {
        Self {
            expires: 0,
            outside: outside.address,
            first_expires: 0,
            inside: key.inside().address as u32,
            remote: key.remote().address as u32,
            first: 0,
            by_class: Links::UNUSED,
            by_kind: Links::UNUSED,
            inside_port: key.inside().port,
            remote_port: key.remote().port,
            first_port: 0,
            port: outside.port,
            first_seen: 0,
            others: 0,
            class,
            flags: if key.version == 6 { IS_V6 } else { 0 }
                | if outside.remote == Endpoint::default() { 0 } else { IS_SHARED },
        }
    }

    pub(super) fn is_v6(&self) -> bool {
        self.flags & IS_V6 != 0
    }

    fn version(&self) -> u8 {
        if self.is_v6() { 6 } else { 4 }
    }

    /// Whether it stands for one connection to a forwarded port, whose outside address has a number
    /// among those of all forwards.
    pub(super) fn is_forwarded(&self) -> bool {
        self.flags & IS_FORWARDED != 0
    }

    /// The same binding, of a connection to a forwarded port.
    pub(super) fn forwarded(mut self) -> Self {
        self.flags |= IS_FORWARDED;
        self
    }

    pub(super) fn is_answered(&self) -> bool {
        self.flags & IS_ANSWERED != 0
    }

    pub(super) fn answer(&mut self) {
        self.flags |= IS_ANSWERED;
    }

    /// Its class of UDP once it sends to `remote_port`.
    pub(super) fn udp_class(&self, remote_port: u16) -> Class {
        match (self.class, self.is_answered()) {
            (Class::UdpShort, _) if is_short_port(remote_port) => Class::UdpShort,
            (_, true) => Class::Udp,
            (_, false) => Class::UdpOpening,
        }
    }

    /// Its kind, if that gives way.
    pub(super) fn kind(&self) -> Option<BindingKind> {
        match (self.class, self.is_answered()) {
            (Class::Transitory, true) => Some(BindingKind::Closing),
            (Class::Transitory, false) => Some(BindingKind::HalfOpen),
            (Class::Udp | Class::UdpOpening | Class::UdpShort, false) => Some(BindingKind::Udp),
            (Class::Icmp, _) => Some(BindingKind::Icmp),
            (Class::Other | Class::Sctp, false) => Some(BindingKind::Other),
            (Class::Other | Class::Sctp, true)
            | (Class::Established, _)
            | (Class::Udp | Class::UdpOpening | Class::UdpShort, true) => None,
        }
    }

    /// Whether it is of this key; `upper` is its own where it is of IPv6.
    #[inline]
    pub(super) fn is_of(&self, key: &Key, upper: Option<&Upper>) -> bool {
        let (inside, remote) = (key.inside(), key.remote());
        (self.inside, self.inside_port) == (inside.address as u32, inside.port)
            && (self.remote, self.remote_port) == (remote.address as u32, remote.port)
            && (self.class.protocol(), self.version()) == (key.protocol, key.version)
            && self.is_forwarded() == key.is_forwarded
            && upper.is_none_or(|upper| {
                (upper.inside, upper.remote) == (above(inside.address), above(remote.address))
            })
    }

    /// Its inside endpoint.
    pub(super) fn inside(&self, upper: Option<&Upper>) -> Endpoint {
        Endpoint {
            address: whole(upper.map(|own| own.inside), self.inside),
            port: self.inside_port,
        }
    }

    /// Its key.
    pub(super) fn key(&self, upper: Option<&Upper>) -> Key {
        let (protocol, inside, remote) =
            (self.class.protocol(), self.inside(upper), self.remote(upper));
        let key = Key::of(self.version(), protocol, inside, remote);
        if self.is_forwarded() { key.forwarded() } else { key }
    }

    /// Its outside endpoint.
    pub(super) fn outside_endpoint(&self, upper: Option<&Upper>) -> Outside {
        let (version, protocol) = (self.version(), self.class.protocol());
        let remote = match self.is_shared() {
            true => self.remote(upper),
            false => Endpoint::default(),
        };
        Outside { version, protocol, address: self.outside, port: self.port, remote }
    }

    /// Whether it has this outside endpoint.
    #[inline]
    pub(super) fn has_outside(&self, outside: &Outside, upper: Option<&Upper>) -> bool {
        (self.outside, self.port) == (outside.address, outside.port)
            && (self.class.protocol(), self.version()) == (outside.protocol, outside.version)
            && (!self.is_shared() || self.remote(upper) == outside.remote)
    }

    /// Whether bindings to other remotes may have its outside endpoint, too.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.flags & IS_SHARED != 0
    }

    /// So much of the remote as the mapping depends on.
    fn remote(&self, upper: Option<&Upper>) -> Endpoint {
        let address = whole(upper.map(|own| own.remote), self.remote);
        Endpoint { address, port: self.remote_port }
    }

    /// The first remote.
    #[inline]
    pub(super) fn first(&self, upper: Option<&Upper>) -> Remote {
        Remote {
            address: whole(upper.map(|own| own.first), self.first),
            expires: self.first_expires,
            port: self.first_port,
            seen: self.first_seen,
        }
    }

    /// Whether the first remote is `remote` and remembered longer than `now`; in the words that lie
    /// here.
    #[inline]
    pub(super) fn sends_first_to(&self, upper: Option<&Upper>, remote: Endpoint, now: u64) -> bool {
        (self.first, self.first_port) == (remote.address as u32, remote.port)
            && self.first_expires > now
            && upper.is_none_or(|own| own.first == above(remote.address))
    }

    /// The first remote is remembered until `expires`.
    #[inline]
    pub(super) fn keep_first(&mut self, expires: u64) {
        self.first_expires = expires;
    }

    #[inline]
    pub(super) fn set_first(&mut self, upper: Option<&mut Upper>, remote: &Remote) {
        (self.first, self.first_port) = (remote.address as u32, remote.port);
        (self.first_expires, self.first_seen) = (remote.expires, remote.seen);
        if let Some(upper) = upper {
            upper.first = above(remote.address);
        }
    }
}

fn above(address: u128) -> [u32; 3] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32]
}

fn whole(above: Option<[u32; 3]>, low: u32) -> u128 {
    let [a, b, c] = above.unwrap_or_default();
    [a, b, c, low].iter().fold(0, |bits, &word| bits << 32 | u128::from(word))
}
