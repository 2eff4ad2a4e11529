//! Security associations and policies as their files give them (RFC 4301, 4.4).

use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::sync::Arc;

use warpline_packet::Prefix;
use zeroize::Zeroizing;

use super::cipher::{Auth, Cipher};

/// The contents of the two files: every SA, and the policies in the order of evaluation.
#[derive(Debug, Default)]
pub struct Database {
    /// In the order of their file.
    pub sas: Vec<Sa>,
    /// The first that matches decides.
    pub policies: Vec<Policy>,
    /// The policies for packets that an SA opened, if they are others.
    pub policies_of_opened: Option<Vec<Policy>>,
    /// The first that matches an opened packet decides whether its SA may carry it.
    pub inbound: Vec<Inbound>,
}

/// An inbound policy (RFC 4301, 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The packets.
    pub selector: Selector,
    /// The SAs that may carry them.
    pub carriers: Carriers,
}

/// SAs of an inbound policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carriers {
    /// Any, as the packets may also come in the clear.
    Any,
    /// These places in [`Database::sas`], ascending. Equal lists are one.
    These(Arc<[usize]>),
}

/// Whether an SA protects packets or takes the protection off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It opens packets that come from the other end.
    In,
    /// It seals packets that go there.
    Out,
}

/// RFC 4301, 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The whole IP packet is carried in another one.
    Tunnel,
    /// The payload of the IP packet is protected.
    Transport,
}

/// A key, wiped from memory when it is dropped, and never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secret bytes", self.0.len())
    }
}

/// A security association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sa {
    /// How counters and messages call it; unique.
    pub name: String,
    /// Its direction.
    pub direction: Direction,
    /// Security parameters index, at least 256 (RFC 4303, 2.1).
    pub spi: u32,
    /// The tunnel's or host's address at this packet's sender.
    pub src: IpAddr,
    /// The same at its receiver; of the same family.
    pub dst: IpAddr,
    /// Tunnel or transport.
    pub mode: Mode,
    /// With `enc_key` of its length; for CTR and GCM the salt is its last 4 bytes, as in RFC 3686,
    /// 4 and RFC 4106, 8.1.
    pub cipher: Cipher,
    /// The key and salt of the cipher.
    pub enc_key: Secret,
    /// With `auth_key` of its length. [`Auth::None`] with GCM, which authenticates itself, and in a
    /// chain that allows insecure SAs.
    pub auth: Auth,
    /// The key of the authentication.
    pub auth_key: Secret,
    /// 64-bit sequence numbers; a packet carries the low half (RFC 4303, 2.2.1).
    pub esn: bool,
    /// Packets that may come late: 0 (replays are not detected) or 32 to 4096. `Direction::In`
    /// only.
    pub replay_window: u32,
    /// In UDP (RFC 3948).
    pub encap: Option<Encap>,
    /// The packets that it may carry, as seen inside: source is the sender's side. Empty: any.
    pub selectors: Vec<Selector>,
    /// When it ends.
    pub lifetime: Lifetime,
    /// Out: the last number that was used. In: the highest that was received.
    pub sequence: u64,
    /// How the outer header of a tunnel is made.
    pub outer: Outer,
}

/// Ports of ESP in UDP (RFC 3948).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    /// The sender's.
    pub src_port: u16,
    /// The receiver's.
    pub dst_port: u16,
}

/// Limits of an SA's traffic; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// From here on the operator is warned that the SA must be replaced.
    pub soft: Limits,
    /// From here on it carries nothing.
    pub hard: Limits,
}

/// See [`Lifetime`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the packets it carries, as they are without ESP.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Seconds since its first packet.
    pub seconds: Option<u64>,
}

/// The treatment of a tunnel packet's header (RFC 4301, 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// `None`: the inner packet's.
    pub dscp: Option<u8>,
    /// Whether congestion marks are carried over, both ways (RFC 6040); otherwise the outer header
    /// has none.
    pub ecn: bool,
    /// The don't-fragment bit of an IPv4 header.
    pub dont_fragment: DontFragment,
    /// TTL or hop limit.
    pub hops: u8,
    /// Bytes that the longest packet on the way may have, IP header included.
    pub mtu: u16,
}

impl Default for Outer {
    fn default() -> Self {
        Self { dscp: None, ecn: true, dont_fragment: DontFragment::Copy, hops: 64, mtu: 65_535 }
    }
}

/// RFC 4301, 8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DontFragment {
    /// As in the inner packet; set where that is IPv6.
    Copy,
    /// Always.
    Set,
    /// Never.
    Clear,
}

/// The packets of a policy or an SA (RFC 4301, 4.4.1.1). Addresses and ports are those of the
/// protected packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Where it comes from; of the same family as `dst`.
    pub src: Prefix,
    /// Where it goes.
    pub dst: Prefix,
    /// `None`: any.
    pub protocol: Option<u8>,
    /// Of TCP, UDP and SCTP; 0 to 65535 matches any, also packets without ports. Of ICMP and ICMPv6
    /// the type.
    pub src_ports: RangeInclusive<u16>,
    /// The same. Of ICMP and ICMPv6 the code.
    pub dst_ports: RangeInclusive<u16>,
}

/// The action for matching packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which.
    pub selector: Selector,
    /// What.
    pub action: Action,
}

/// RFC 4301, 4.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sent by the SA of this place in [`Database::sas`], whose direction is out.
    Protect(usize),
    /// Sent as it is.
    Bypass,
    /// Dropped.
    Discard,
}
