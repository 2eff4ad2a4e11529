//! What bindings are found by from inside, and the hashes of that.

use warpline_packet::hash::mix32;

use super::addresses::Endpoint;
use super::config::Dependence;
use crate::keyed::HashKey;

/// What has ports, or identifiers, of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    /// Echoes of ICMP and ICMPv6.
    Icmp,
}

impl Protocol {
    pub(super) const COUNT: usize = 3;
}

/// What a binding is found by from inside. The remote is zero as far as the mapping does not
/// depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    inside: Address,
    remote: Address,
    pub(super) inside_port: u16,
    remote_port: u16,
    pub(super) protocol: Protocol,
    pub(super) version: u8,
}

/// An address that is aligned like a word: a binding has no room for padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(8))]
struct Address(u128);

impl Key {
    /// Of no binding.
    pub(super) const UNUSED: Self = Self {
        inside: Address(0),
        remote: Address(0),
        inside_port: 0,
        remote_port: 0,
        protocol: Protocol::Tcp,
        version: 0,
    };

    pub(super) fn new(
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
        mapping: Dependence,
    ) -> Self {
        let (remote, remote_port) = match mapping {
            Dependence::EndpointIndependent => (0, 0),
            Dependence::AddressDependent => (remote.address, 0),
            Dependence::AddressAndPortDependent => (remote.address, remote.port),
        };
        let Endpoint { address, port } = inside;
        let (inside, remote) = (Address(address), Address(remote));
        Self { inside, remote, inside_port: port, remote_port, protocol, version }
    }

    /// The inside address.
    pub(super) fn inside_address(&self) -> u128 {
        self.inside.0
    }

    /// The inside endpoint.
    pub(super) fn inside(&self) -> Endpoint {
        Endpoint { address: self.inside.0, port: self.inside_port }
    }

    /// Where its binding is looked for in a table of this key, or where its outside port is.
    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let ports = u64::from(self.inside_port) << 16 | u64::from(self.remote_port);
        let kind = u64::from(self.protocol as u8) << 8 | u64::from(self.version);
        key.of([self.inside.0, self.remote.0], ports << 16 ^ kind)
    }

    /// A hash of the inside address alone, without a key: hosts keep their outside address by it, from run to run too.
    pub(super) fn home_hash(&self) -> u64 {
        let inside = self.inside_address();
        let folded = match self.version {
            4 => inside as u32,
            _ => {
                let word = |at: u32| mix32((inside >> (32 * at)) as u32 ^ at);
                word(0) ^ word(1) ^ word(2) ^ word(3)
            }
        };
        let (high, low) = (mix32(folded ^ 0x5bd1_e995), mix32(folded ^ 0x9e37_79b9));
        u64::from(high) << 32 | u64::from(low)
    }
}
